//! Who does which piece of a common work: each has pieces of its own, and who is done helps the others.

use std::ops::Range;

use crate::sync::{AtomicU64, Ordering};

/// Pieces of one replica that nobody has taken yet. The last are the first that can be done, so it takes those, and others
/// take the first if they can.
#[derive(Debug, Default)]
pub(super) struct Claims(AtomicU64);

impl Claims {
    /// Lays out new pieces; nobody may be taking any.
    pub(super) fn lay_out(&self, pieces: Range<u32>) {
        // What keeps takers away until now also shows them what was laid out.
        self.0.store(join(pieces), Ordering::Relaxed);
    }

    /// The first piece that is left, if it is not before `ready`.
    pub(super) fn take_first(&self, ready: u32) -> Option<u32> {
        self.take(|left| (left.start >= ready).then_some(left.start + 1..left.end)).map(|left| left.start)
    }

    /// The last piece that is left, if it is not before `ready`.
    pub(super) fn take_last(&self, ready: u32) -> Option<u32> {
        self.take(|left| (left.end > ready).then_some(left.start..left.end - 1)).map(|left| left.end - 1)
    }

    /// Whether nothing is left.
    pub(super) fn is_empty(&self) -> bool {
        split(self.0.load(Ordering::Relaxed)).is_empty()
    }

    /// Changes what is left, and says what it was; none if nothing was, or nothing changes.
    fn take(&self, rest: impl Fn(Range<u32>) -> Option<Range<u32>>) -> Option<Range<u32>> {
        let change = |left| Some(split(left)).filter(|left| !left.is_empty()).and_then(&rest).map(join);
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, change).ok().map(split)
    }
}

fn join(pieces: Range<u32>) -> u64 {
    u64::from(pieces.start) << 32 | u64::from(pieces.end)
}

fn split(pieces: u64) -> Range<u32> {
    (pieces >> 32) as u32..pieces as u32
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::Claims;

    #[test]
    fn every_piece_is_taken_once_whoever_is_first() {
        let claims = Claims::default();
        assert_eq!((claims.take_first(0), claims.take_last(0)), (None, None), "nothing is there before it is laid out");
        for round in 1..200 {
            claims.lay_out(7..7 + round);
            let taken = Mutex::new(Vec::new());
            std::thread::scope(|scope| {
                for owns in [true, false, false] {
                    let (claims, taken) = (&claims, &taken);
                    scope.spawn(move || {
                        let next = || if owns { claims.take_last(0) } else { claims.take_first(0) };
                        while let Some(piece) = next() {
                            taken.lock().expect("nobody panics").push(piece);
                        }
                    });
                }
            });
            let mut taken = taken.into_inner().expect("nobody panics");
            taken.sort_unstable();
            assert!(taken.iter().copied().eq(7..7 + round), "{taken:?} of {round}");
        }
    }

    #[test]
    fn no_piece_is_taken_before_it_is_ready() {
        let claims = Claims::default();
        claims.lay_out(3..6);
        assert_eq!((claims.take_first(5), claims.take_last(6)), (None, None));
        assert_eq!((claims.take_last(5), claims.take_last(5)), (Some(5), None));
        assert_eq!((claims.take_first(3), claims.is_empty()), (Some(3), false));
        assert_eq!((claims.take_first(4), claims.is_empty()), (Some(4), true));
    }
}
