//! Work that replicas do together at the end of a step: pieces, each done by one of them as soon as all have passed it.

use std::ops::Range;
use std::sync::Arc;

use super::claims::Claims;
use super::gate::{Broken, Gate};
use super::passage::{NONE, Passage};

/// One replica's side of the common work. It does pieces of its own first, and then what others have not begun: who is
/// early does not wait for who is late, as long as there is something to do that the late one has passed.
pub(super) struct CommonWork {
    me: usize,
    /// Counts steps, to tell one from the next; all replicas are in the same or about to be.
    step: u32,
    /// The first piece that this replica has said to have passed in this step.
    told: u32,
    team: Arc<Common>,
}

struct Common {
    gate: Arc<Gate>,
    /// The pieces of each replica.
    shares: Vec<Range<u32>>,
    /// By replica: those that are left in this step.
    claims: Vec<Claims>,
    passage: Passage,
}

impl CommonWork {
    /// For as many replicas, pieces of these lengths in the order in which they can be done last to first.
    pub(super) fn team(replicas: usize, lengths: impl Iterator<Item = usize>, gate: &Arc<Gate>) -> Vec<CommonWork> {
        let team = Arc::new(Common {
            gate: gate.clone(),
            shares: shares(lengths, replicas),
            claims: (0..replicas).map(|_| Claims::default()).collect(),
            passage: Passage::new(replicas),
        });
        let member = |me| {
            let mut member = CommonWork { me, step: 0, told: NONE, team: team.clone() };
            member.enter_next_step();
            member
        };
        (0..replicas).map(member).collect()
    }

    /// This replica has passed all pieces from `first` on: it will neither read nor write what they are about until the
    /// step is over, but for those that it does itself. Others see what it has written before.
    pub(super) fn pass(&mut self, first: u32) {
        if first < self.told {
            self.told = first;
            self.team.passage.tell(self.me, self.step, first);
            self.team.gate.nudge();
        }
    }

    /// Waits until every replica has passed something.
    pub(super) fn begin(&self) -> Result<(), Broken> {
        self.wait_beyond(NONE)
    }

    /// The next piece for this replica, which has passed all of them; waits until one can be done. None if all are taken.
    pub(super) fn next(&self) -> Result<Option<u32>, Broken> {
        loop {
            let ready = self.passed_by_all();
            let taken = self.take(ready);
            if taken.is_some() || self.is_all_taken() {
                return Ok(taken);
            }
            self.wait_beyond(ready)?;
        }
    }

    /// A piece that nobody has taken, if there is one from `ready` on: one of its own if it can be.
    fn take(&self, ready: u32) -> Option<u32> {
        let claims = &self.team.claims;
        let mut others = (1..claims.len()).map(|away| &claims[(self.me + away) % claims.len()]);
        let of_other = |other: &Claims| other.take_first(ready).or_else(|| other.take_last(ready));
        claims[self.me].take_last(ready).or_else(|| others.find_map(of_other))
    }

    fn is_all_taken(&self) -> bool {
        self.team.claims.iter().all(Claims::is_empty)
    }

    /// The first of the pieces that all have passed, or [`NONE`].
    fn passed_by_all(&self) -> u32 {
        self.team.passage.of_all(self.step)
    }

    /// Waits until all have passed more than the pieces from `ready` on. Whoever is late tells how far it is, and at last that
    /// it has passed everything.
    fn wait_beyond(&self, ready: u32) -> Result<(), Broken> {
        self.team.gate.wait_until(|| self.passed_by_all() < ready)
    }

    /// Waits until every replica has done what it has taken.
    pub(super) fn end(&mut self) -> Result<(), Broken> {
        self.team.gate.wait()?;
        self.enter_next_step();
        Ok(())
    }

    fn enter_next_step(&mut self) {
        self.step = self.step.wrapping_add(1);
        self.told = NONE;
        // Nobody takes any of the last step: all have said that it is over.
        self.team.claims[self.me].lay_out(self.team.shares[self.me].clone());
    }
}

/// Gives each replica pieces that lie in a row, together about as long as those of each other.
fn shares(lengths: impl Iterator<Item = usize>, replicas: usize) -> Vec<Range<u32>> {
    let mut whole = 0;
    let start = |length| {
        whole += length;
        whole - length
    };
    let starts: Vec<usize> = lengths.map(start).collect();
    let first = |replica: usize| starts.partition_point(|start| *start < whole * replica / replicas) as u32;
    (0..replicas).map(|replica| first(replica)..first(replica + 1)).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::super::gate::{Broken, Gate};
    use super::{CommonWork, shares};

    #[test]
    fn shares_hold_every_piece_once_and_are_about_as_long_as_each_other() {
        let shares = |lengths: &[usize], replicas| shares(lengths.iter().copied(), replicas);
        assert_eq!(shares(&[10; 10], 2), [0..5, 5..10]);
        assert_eq!(shares(&[60, 30, 10], 3), [0..1, 1..2, 2..3]);
        assert_eq!(shares(&[1000], 3), [0..1, 1..1, 1..1]);
        assert_eq!(shares(&[], 2), [0..0, 0..0]);
    }

    #[test]
    fn every_piece_is_done_once_a_step_and_never_before_all_have_passed_it() {
        const PIECES: u32 = 40;
        let gate = Arc::new(Gate::new(3));
        let members = CommonWork::team(3, (0..PIECES as usize).map(|piece| 1 + piece % 3), &gate);
        // By replica and piece: the steps in which it was passed; by piece: the steps in which it was done.
        let passed: Vec<Vec<AtomicU64>> = (0..3).map(|_| (0..PIECES).map(|_| AtomicU64::new(0)).collect()).collect();
        let done: Vec<AtomicU64> = (0..PIECES).map(|_| AtomicU64::new(0)).collect();
        std::thread::scope(|scope| {
            for (me, mut work) in members.into_iter().enumerate() {
                let (passed, done) = (&passed, &done);
                scope.spawn(move || {
                    for step in 1..=200 {
                        // One replica comes in strides, one piece by piece, and one all at once.
                        let strides = [7, 1, PIECES][(me + step as usize) % 3];
                        let mut first = PIECES;
                        while first > 0 {
                            let next = first.saturating_sub(strides);
                            (next..first).for_each(|piece| passed[me][piece as usize].store(step, Ordering::Relaxed));
                            first = next;
                            work.pass(first);
                        }
                        work.begin().expect("a whole gate");
                        while let Some(piece) = work.next().expect("a whole gate") {
                            let piece = piece as usize;
                            assert!(passed.iter().all(|of| of[piece].load(Ordering::Relaxed) == step), "{piece}");
                            assert_eq!(done[piece].fetch_add(1, Ordering::Relaxed), step - 1, "{piece}");
                        }
                        work.end().expect("a whole gate");
                        assert!(done.iter().all(|done| done.load(Ordering::Relaxed) >= step));
                    }
                });
            }
        });
    }

    #[test]
    fn who_waits_for_one_that_has_failed_is_told() {
        let gate = Arc::new(Gate::new(2));
        let mut members = CommonWork::team(2, [1, 1].into_iter(), &gate);
        let mut late = members.pop().expect("two of them");
        members[0].pass(0);
        let early = &members[0];
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| {
                early.begin().expect("a whole gate");
                (early.next(), early.next())
            });
            late.pass(1);
            while !late.team.claims[1].is_empty() {
                std::thread::yield_now();
            }
            gate.break_up();
            assert_eq!(waits.join().expect("no panic"), (Ok(Some(1)), Err(Broken)), "one piece was passed by both");
            assert_eq!(early.begin(), Err(Broken));
        });
    }
}
