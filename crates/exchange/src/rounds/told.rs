//! What a run on many machines tells people and logs.

use paceline_model::PartitionId;
use serde::{Deserialize, Serialize};

use super::{Assignment, Incarnation, MasterOptions, Round, Schedule, Span, ViewNumber};

/// What a run tells.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Told {
    /// A member can be counted on.
    WorkerJoined(Incarnation),
    /// A member is gone.
    WorkerLost {
        /// Who.
        member: Incarnation,
        /// Why it is believed so.
        reason: String,
    },
    /// A view begins.
    View {
        /// Its number.
        view: ViewNumber,
        /// Who is in it.
        members: Vec<Incarnation>,
        /// Its first round.
        first: Round,
        /// Why it was needed.
        reason: String,
    },
    /// A round was taken again without a member that was lost; its examples come later.
    RoundAgain {
        /// The round.
        round: Round,
    },
    /// Everybody has completed a round: its examples are counted.
    Counted {
        /// The round.
        round: Round,
        /// Who took what.
        assignment: Assignment,
    },
    /// In `shared`: another member holds what was done with these examples, so they are counted.
    Shared {
        /// Who took them.
        member: Incarnation,
        /// The epoch, from 0.
        epoch: u64,
        /// Their places in its order.
        spans: Vec<Span>,
        /// Examples that count, of all epochs.
        counted: Round,
        /// Their steps, where one that was short is one, too.
        steps: u64,
    },
    /// In `shared`: a member was lost, and all who held what it had done with these: they come again.
    TakenBack {
        /// Who took them.
        member: Incarnation,
        /// The epoch, from 0.
        epoch: u64,
        /// Their places in its order.
        spans: Vec<Span>,
        /// Examples that count, of all epochs.
        counted: Round,
    },
    /// Examples that a lost member had been given and that nobody knows to be done, or that a straggler did not get done in
    /// time, come again.
    LeaseAgain {
        /// Who had them.
        member: Incarnation,
        /// How many.
        examples: u64,
    },
    /// All examples of an epoch are counted or set aside.
    EpochDone {
        /// The epoch, from 0.
        epoch: u64,
        /// Its last round.
        round: Round,
    },
    /// Examples that were lost with two members.
    SetAside {
        /// The epoch, from 0.
        epoch: u64,
        /// Their places in its order.
        spans: Vec<Span>,
    },
    /// Nobody is left who holds what came after a checkpoint: it is done again.
    RolledBack {
        /// Rounds up to here stay.
        to: Round,
        /// Rounds up to here had been counted.
        from: Round,
        /// What was set aside since the checkpoint and stays so, with its epoch.
        aside: Vec<(u64, Span)>,
    },
    /// A worker that has joined has other data, or was gone before it could take part.
    WorkerRefused {
        /// Who.
        member: Incarnation,
        /// Why.
        reason: String,
    },
    /// Somebody, or something, is waited for.
    Waiting(Missing),
    /// No new rounds begin, or they do again.
    Paused(bool),
    /// A checkpoint could not be written.
    NotSaved {
        /// The round.
        round: Round,
        /// Why.
        reason: String,
    },
}

impl Told {
    /// One that could be counted on is lost; one that could not yet never takes part.
    pub(crate) fn gone(member: Incarnation, was_ready: bool, reason: &str) -> Self {
        match was_ready {
            true => Told::WorkerLost { member, reason: reason.into() },
            false => Told::WorkerRefused { member, reason: format!("it was gone before it could take part: {reason}") },
        }
    }
}

/// What a run that cannot go on waits for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Missing {
    /// There are too few members.
    Members {
        /// Members that are there.
        members: usize,
        /// Members that are needed.
        needed: usize,
    },
    /// Nobody who is here holds these partitions, and nothing else is left to do.
    Partitions(Vec<PartitionId>),
}

impl Missing {
    pub(crate) fn of(options: &MasterOptions, members: usize, rest: &Schedule) -> Self {
        let needed = options.min_workers.max(1);
        match members >= needed && rest.is_partitioned() {
            true => Self::Partitions(rest.partitions_left().1),
            false => Self::Members { members, needed },
        }
    }

    /// Why a run ends that has waited for so many seconds.
    pub(crate) fn for_too_long(&self, seconds: u64) -> String {
        match self {
            Self::Members { members, needed } => format!(
                "expected at least {needed} workers within {seconds} s, found {members}; start more, or ask for fewer with `--min-workers`"
            ),
            Self::Partitions(_) => {
                format!("expected a worker that brings {} within {seconds} s, found none; start one", self.name())
            }
        }
    }

    /// What is waited for, in words.
    pub fn name(&self) -> String {
        match self {
            Self::Members { members, needed } => format!("{needed} workers, {members} are here"),
            Self::Partitions(partitions) => match &partitions[..] {
                [one] => format!("partition {one}"),
                some => {
                    let named: Vec<String> = some.iter().take(8).map(PartitionId::to_string).collect();
                    let more = if some.len() > named.len() { ", …" } else { "" };
                    format!("partitions {}{more}", named.join(", "))
                }
            },
        }
    }
}
