//! What only this mode's members are told and do.

use serde::{Deserialize, Serialize};

use super::super::{Have, Mark, Sequence};
use crate::rounds::{Incarnation, Part, Round, Span, ViewNumber};

/// What happens to a member.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Happened {
    /// The oldest step that was asked for and not answered is taken; so many bytes has its message, if it was asked for
    /// one. The driver keeps it under the next number of the own messages.
    Stepped {
        /// Bytes.
        bytes: Option<u64>,
    },
    /// The oldest state that was asked for and not answered is copied.
    SnapshotTaken,
}

/// What a step makes a message of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Encodes {
    /// Of nothing: all stays in the residual, because somebody has not taken what was sent before.
    Nothing,
    /// Of what has grown large.
    Large,
    /// Of everything, before it leaves.
    Everything,
}

/// What a member does, in order. Steps, messages and states go through one queue, in this order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Act {
    /// Takes a step over these examples; over none, it only makes a message. [`Happened::Stepped`] follows.
    Step {
        /// The epoch of the examples.
        epoch: u64,
        /// Steps before it, for schedules of rates.
        iteration: u64,
        /// Their places in the order of the epoch.
        spans: Vec<Span>,
        /// What becomes of its update.
        encodes: Encodes,
    },
    /// Keeps the message that has just come with a word.
    Keep {
        /// Of whom.
        origin: Incarnation,
        /// Its number.
        sequence: Sequence,
    },
    /// Applies a message that is kept.
    Apply {
        /// Of whom.
        origin: Incarnation,
        /// Its number.
        sequence: Sequence,
    },
    /// Messages up to this one need not be kept any more.
    Forget {
        /// Of whom.
        origin: Incarnation,
        /// The last.
        up_to: Sequence,
    },
    /// Sends an own message that is kept.
    Send {
        /// To whom.
        to: Incarnation,
        /// Its number.
        sequence: Sequence,
        /// How far the own leases are done with it.
        covered: Mark,
        /// Examples that it covers.
        examples: u64,
        /// All members hold the own messages up to here.
        stable: Sequence,
    },
    /// Sends a message of a lost member that is kept.
    Relay {
        /// To whom.
        to: Incarnation,
        /// Of whom.
        origin: Incarnation,
        /// Its number.
        sequence: Sequence,
        /// How far the origin had come with it.
        covered: Mark,
        /// Examples that it covers.
        examples: u64,
    },
    /// Copies the state as it is behind all that was asked for so far. [`Happened::SnapshotTaken`] follows.
    Snapshot,
    /// Sends the oldest copy to a peer.
    SendSnapshot {
        /// To whom.
        to: Incarnation,
        /// The view.
        view: ViewNumber,
        /// The messages that are in it.
        vector: Vec<(Incarnation, Have)>,
        /// Examples that are in it.
        round: Round,
    },
    /// Sends the oldest copy to the master.
    SaveSnapshot {
        /// The view.
        view: ViewNumber,
        /// The epoch that it was asked for in.
        epoch: u64,
        /// The messages that are in it.
        vector: Vec<(Incarnation, Have)>,
        /// Examples that are in it.
        round: Round,
    },
    /// Nobody wants the oldest copy any more.
    DropSnapshot,
    /// Takes over the state that came. What an earlier incarnation had not sent, and its messages behind this number, go into
    /// the residual; if nothing is known of it, the residual is empty.
    Adopt {
        /// Who it was, and its last message that counts.
        former: Option<(Incarnation, Sequence)>,
    },
    /// From now on the replica counts for this part of all.
    Count(Part),
}
