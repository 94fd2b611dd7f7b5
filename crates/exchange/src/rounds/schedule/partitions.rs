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
