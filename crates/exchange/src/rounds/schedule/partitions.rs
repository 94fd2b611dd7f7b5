//! Data that lives with workers: all of an epoch lies in holes, and who holds a partition takes from those of that partition.

use paceline_model::{PartitionId, within_partition};

use super::{Schedule, Span, StepSize};
use crate::rounds::capacity::{Brings, Brought, Capacity, Held, places_of};
use crate::rounds::message::DataProof;

impl Schedule {
    /// All epochs of data that lives with workers, in partitions that are these.
    pub fn of_partitions(partitions: Vec<DataProof>, epochs: u64, share: StepSize) -> Self {
        let mut schedule = Self { partitions, ..Self::new(0, epochs, share) };
        schedule.open_partitions();
        schedule
    }

    /// Whether data lives in partitions.
    pub fn is_partitioned(&self) -> bool {
        !self.partitions.is_empty()
    }

    /// What a partition is.
    pub fn proof(&self, partition: PartitionId) -> Option<&DataProof> {
        self.partitions.get(partition as usize)
    }

    /// An epoch begins: nobody has taken anything of any partition.
    pub(super) fn open_partitions(&mut self) {
        let whole = self.partitions.iter().zip(0..).map(|(proof, partition)| places_of(partition, proof.examples));
        self.holes.extend(whole.filter(|span| !span.is_empty()));
        if self.is_partitioned() {
            let lost = self.marks.iter().filter(|(epoch, _)| *epoch == self.epoch).map(|(_, mark)| *mark);
            lost.collect::<Vec<Span>>().into_iter().for_each(|mark| self.mark_holes(mark));
        }
    }

    /// Why the data that a worker brings cannot be; it must be `whole` where everybody sees everything.
    pub(crate) fn refuses(&self, brings: &Brings, whole: Option<&DataProof>) -> Option<String> {
        match (brings, whole) {
            (Brings::Whole(found), Some(expected)) => expected.differs(found),
            (Brings::Partitions(brought), None) => brought.iter().find_map(|brought| self.refuses_partition(brought)),
            (Brings::Whole(_), None) => Some("expected partitions of the data, found a worker that brings none".into()),
            (Brings::Partitions(_), Some(_)) => {
                Some("expected all data at every worker, found one that brings partitions of it".into())
            }
        }
    }

    fn refuses_partition(&self, Brought { held: Held { partition, .. }, proof: found }: &Brought) -> Option<String> {
        let Some(expected) = self.partitions.get(*partition as usize) else {
            return Some(format!("expected a partition from 0 to {}, found {partition}", self.partitions.len() - 1));
        };
        (expected != found).then(|| {
            format!(
                "expected partition {partition} as it was described, with {} examples and fingerprint {:016x}, found {} with {:016x}; whoever brings it must read the same examples in the same order",
                expected.examples, expected.fingerprint, found.examples, found.fingerprint
            )
        })
    }

    /// Partitions of which something is left to take, and in which epoch: if nothing is left of this one, in the next.
    pub fn partitions_left(&self) -> (u64, Vec<PartitionId>) {
        let mut next = self.clone();
        next.next_epoch();
        let of_holes = next.holes.iter().filter(|_| self.is_partitioned()).map(|span| within_partition(span.start).0);
        let mut left: Vec<PartitionId> = of_holes.collect();
        left.sort_unstable();
        left.dedup();
        (next.epoch, left)
    }

    /// Examples of the epoch that one member could take.
    pub fn left_for(&self, capacity: &Capacity) -> u64 {
        match self.is_partitioned() {
            true => self.holes.iter().filter(|span| capacity.holds(self.epoch, span)).map(Span::len).sum(),
            false => self.left(),
        }
    }

    /// Whether a member that came with partitions for an epoch has nothing to do here any more: they are done, or what is taken now
    /// is of another epoch, perhaps of an earlier one that a later master has gone back to.
    pub(crate) fn is_done_for(&self, capacity: &Capacity) -> bool {
        capacity.is_passing() && {
            let mut next = self.clone();
            next.next_epoch();
            next.left_for(capacity) == 0
        }
    }

    /// One that could take all that is left.
    pub fn everything(&self) -> Capacity {
        let held = (0..self.partitions.len() as PartitionId).map(|partition| Held { partition, epoch: None });
        Capacity { slots: 1, held: held.collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three partitions, of which one is empty.
    fn schedule(epochs: u64) -> Schedule {
        let proof = |examples| DataProof { examples, fingerprint: examples };
        Schedule::of_partitions(vec![proof(5), proof(0), proof(8)], epochs, StepSize::Each(2))
    }

    fn holds(partitions: &[PartitionId], epoch: Option<u64>) -> Capacity {
        let held = partitions.iter().map(|partition| Held { partition: *partition, epoch }).collect();
        Capacity { slots: 1, held }
    }

    #[test]
    fn everybody_takes_what_it_holds_and_each_example_of_each_epoch_once() {
        let (mut schedule, crew) = (schedule(2), [holds(&[0, 1], None), holds(&[2], None)]);
        let mut seen = std::collections::BTreeMap::new();
        while let Some(round) = schedule.take(&crew) {
            for (slice, capacity) in round.slices.iter().zip(&crew) {
                for span in slice.iter().flatten() {
                    assert!(capacity.holds(round.epoch, span), "{span:?}");
                    (span.start..span.end).for_each(|place| *seen.entry((round.epoch, place)).or_insert(0) += 1);
                }
            }
        }
        assert!(schedule.is_done());
        assert_eq!((seen.len(), seen.values().max()), (2 * 13, Some(&1)));
    }

    #[test]
    fn what_nobody_holds_waits_and_ends_no_epoch() {
        let mut schedule = schedule(1);
        let one = [holds(&[0], None)];
        while schedule.take(&one).is_some() {}
        assert_eq!((schedule.left(), schedule.is_done(), schedule.partitions_left()), (8, false, (0, vec![2])));
        let two = [holds(&[0], None), holds(&[2], None)];
        assert_eq!(schedule.take(&two).map(|round| round.examples()), Some(2));
    }

    #[test]
    fn two_who_hold_the_same_share_what_is_left_of_it() {
        let mut schedule = schedule(1);
        let crew = [holds(&[0], None), holds(&[0], None)];
        let taken: Vec<u64> = std::iter::from_fn(|| schedule.take(&crew)).map(|round| round.examples()).collect();
        assert_eq!(taken, [4, 1]);
    }

    #[test]
    fn who_came_for_an_epoch_is_done_when_its_partition_is_or_another_epoch_is_taken() {
        let mut schedule = schedule(2);
        let (first, second) = (holds(&[0], Some(0)), holds(&[0], Some(1)));
        assert_eq!((schedule.is_done_for(&first), schedule.is_done_for(&second)), (false, true));
        while schedule.take(std::slice::from_ref(&first)).is_some() {}
        assert!(schedule.is_done_for(&first) && !schedule.is_done_for(&holds(&[2], Some(0))));
        while schedule.take(&[holds(&[2], None)]).is_some_and(|round| round.epoch == 0 && !round.ends_epoch) {}
        assert_eq!((schedule.is_done_for(&first), schedule.is_done_for(&second)), (true, false), "the next is taken");
        assert!(!schedule.is_done_for(&holds(&[0], None)), "who stays is never sent away");
    }

    #[test]
    fn what_was_lost_comes_back_to_who_holds_it() {
        let mut schedule = schedule(1);
        let crew = [holds(&[0], None), holds(&[2], None)];
        let round = schedule.take(&crew).expect("a round");
        schedule.give_back(&round.slices[0].concat(), true);
        let again = schedule.take(&crew[..1]).expect("a round");
        assert_eq!(again.examples(), 2);
        while schedule.take(&crew[..1]).is_some() {}
        assert_eq!(schedule.partitions_left(), (0, vec![2]));
    }

    #[test]
    fn data_that_is_not_what_was_described_is_refused() {
        let schedule = schedule(1);
        let brings = |partition, examples| {
            let (held, proof) = (Held { partition, epoch: None }, DataProof { examples, fingerprint: examples });
            Brings::Partitions(vec![Brought { held, proof }])
        };
        assert_eq!(schedule.refuses(&brings(2, 8), None), None);
        let refused = |brings| schedule.refuses(&brings, None).expect("it is refused");
        assert!(refused(brings(2, 7)).contains("partition 2 as it was described, with 8 examples"));
        assert!(refused(brings(3, 8)).contains("from 0 to 2, found 3"));
        assert!(refused(Brings::Whole(DataProof { examples: 13, fingerprint: 0 })).contains("expected partitions"));
    }
}
