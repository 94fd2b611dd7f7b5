//! How far all replicas have come on their way back through the parts of a step.

use crate::sync::{AtomicU64, Ordering};

/// By replica: the step that it is in, and the first of the parts that it has passed, which are the last ones.
#[derive(Debug)]
pub(super) struct Passage {
    places: Vec<Position>,
}

/// On a cache line of its own: others look at it while its replica computes.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Position(AtomicU64);

/// Not even the last part is passed by all.
pub(super) const NONE: u32 = u32::MAX;

impl Passage {
    /// Nobody has passed anything; 0 is no step.
    pub(super) fn new(replicas: usize) -> Self {
        Self { places: (0..replicas).map(|_| Position::default()).collect() }
    }

    /// In this step the replica has passed all parts from `first` on, and whatever it wrote before can be seen by those who
    /// see this.
    pub(super) fn tell(&self, replica: usize, step: u32, first: u32) {
        self.places[replica].0.store(u64::from(step) << 32 | u64::from(first), Ordering::Release);
    }

    /// The first of the parts that all replicas have passed in this step, or [`NONE`].
    pub(super) fn of_all(&self, step: u32) -> u32 {
        let of_one = |Position(place): &Position| {
            let place = place.load(Ordering::Acquire);
            if (place >> 32) as u32 == step { place as u32 } else { NONE }
        };
        self.places.iter().map(of_one).max().unwrap_or(NONE)
    }
}

#[cfg(test)]
mod tests {
    use super::{NONE, Passage};

    #[test]
    fn a_part_is_passed_when_the_last_replica_has_passed_it() {
        let passage = Passage::new(2);
        passage.tell(0, 1, 7);
        assert_eq!(passage.of_all(1), NONE, "the other has not begun");
        passage.tell(1, 1, 9);
        assert_eq!(passage.of_all(1), 9);
        passage.tell(1, 1, 0);
        assert_eq!(passage.of_all(1), 7);
        passage.tell(0, 2, 0);
        assert_eq!((passage.of_all(1), passage.of_all(2)), (NONE, NONE), "they are in different steps");
    }
}
