//! What a member can take: how much of a step, and of which data.

use paceline_model::{PartitionId, place_of, within_partition};
use serde::{Deserialize, Serialize};

use super::message::DataProof;
use super::{Slots, Span};

/// A partition that somebody holds: for good, or for one epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Held {
    /// Which.
    pub partition: PartitionId,
    /// The only epoch in which it is held, from 0: its holder goes when nothing of the partition is left in it.
    pub epoch: Option<u64>,
}

impl Held {
    fn is_in(&self, epoch: u64) -> bool {
        self.epoch.is_none_or(|only| only == epoch)
    }
}

/// What one member can take.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Capacity {
    /// Workers that it stands for.
    pub slots: Slots,
    /// The partitions that it holds, where data lives with workers.
    pub held: Vec<Held>,
}

impl Capacity {
    /// Of one that sees all data.
    pub fn of(slots: Slots) -> Self {
        Self { slots, held: Vec::new() }
    }

    /// Whether a span of an epoch lies in what it holds.
    pub fn holds(&self, epoch: u64, span: &Span) -> bool {
        self.held.iter().any(|held| held.is_in(epoch) && held.partition == within_partition(span.start).0)
    }

    /// Whether it holds something for one epoch only.
    pub fn is_passing(&self) -> bool {
        self.held.iter().any(|held| held.epoch.is_some())
    }
}

/// All places of a partition.
pub(super) fn places_of(partition: PartitionId, examples: u64) -> Span {
    let start = place_of(partition, 0);
    Span { start, end: start + examples, losses: 0 }
}

/// A partition that a worker brings, with what proves that it is the same whoever brings it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Brought {
    /// Which, and for which epoch.
    pub held: Held,
    /// What it is.
    pub proof: DataProof,
}

/// The data of a worker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Brings {
    /// All that there is, which everybody sees.
    Whole(DataProof),
    /// Some of the partitions.
    Partitions(Vec<Brought>),
}

impl Brings {
    /// What it holds.
    pub(crate) fn held(&self) -> Vec<Held> {
        match self {
            Self::Whole(_) => Vec::new(),
            Self::Partitions(brought) => brought.iter().map(|brought| brought.held).collect(),
        }
    }
}
