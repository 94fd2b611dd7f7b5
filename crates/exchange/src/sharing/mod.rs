//! The rules of `shared` on many machines: nobody waits, but for those who have not taken the last few steps.
//!
//! A member takes steps over the examples of its leases, and sends every other member a message about each: what it
//! changes, and how far in its leases it has come. Whoever holds the messages of an origin up to a number has all that
//! the origin has done up to there, examples and updates alike, so what counts and what parameters are cannot differ.
//!
//! When a member is lost, the others say how many of its messages they hold. The most that anybody holds is the **cut**:
//! who has fewer fetches the rest from there, later ones are refused, and what the messages up to the cut do not cover
//! is leased again. Training goes on meanwhile.
//!
//! Everything here is `(state, event, now) → (state, actions)` as in [`crate::rounds`], whose words it shares; what only
//! this mode says is in [`message`].
//!
//! # Layout
//!
//! - [`Master`]: membership, cuts, leases, what counts, checkpoints.
//! - [`Member`]: one worker process from joining to leaving.
//! - [`message`]: what they say to each other.

mod master;
mod member;
pub mod message;

use serde::{Deserialize, Serialize};

pub use master::{Master, SharingOptions};
pub use member::{Act, Encodes, Happened, Member};

use crate::rounds::Span;

/// A lease within a term.
pub type LeaseId = u64;
/// The number of a message of an incarnation, from 1.
pub type Sequence = u64;

/// Examples that one member takes, alone, in the order of the spans.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    /// Its number; a member takes its leases in their order.
    pub id: LeaseId,
    /// The epoch, from 0.
    pub epoch: u64,
    /// Places in the order of the epoch.
    pub spans: Vec<Span>,
    /// Steps that all members together had been given before it, for schedules of rates.
    pub iteration: u64,
    /// Examples of a step of all members when it was given.
    pub step: u64,
}

impl Lease {
    /// How many examples.
    pub fn examples(&self) -> u64 {
        self.spans.iter().map(Span::len).sum()
    }

    /// Whether somebody was lost with some of them before.
    pub fn is_suspect(&self) -> bool {
        self.spans.iter().any(|span| span.losses > 0)
    }

    /// How many of them are done when a member has come to a mark.
    pub fn done_at(&self, mark: Mark) -> u64 {
        match self.id.cmp(&mark.lease) {
            std::cmp::Ordering::Less => self.examples(),
            std::cmp::Ordering::Equal => mark.examples.min(self.examples()),
            std::cmp::Ordering::Greater => 0,
        }
    }

    /// The examples from one place of the lease to another.
    pub fn part(&self, from: u64, to: u64) -> Vec<Span> {
        let mut before = 0;
        let mut part = Vec::new();
        for span in &self.spans {
            let (start, end) = (from.max(before), to.min(before + span.len()));
            if start < end {
                part.push(Span { start: span.start + start - before, end: span.start + end - before, ..*span });
            }
            before += span.len();
        }
        part
    }
}

/// How far a member has come in its leases: those before this one are done, and so many examples of this one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Mark {
    /// The lease.
    pub lease: LeaseId,
    /// Examples of it.
    pub examples: u64,
}

/// What somebody holds of an origin: all messages up to a number, and how far the origin had come then.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Have {
    /// The number.
    pub sequence: Sequence,
    /// How far.
    pub covered: Mark,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_is_cut_where_a_mark_is() {
        let span = |start, end| Span { start, end, losses: 0 };
        let lease = Lease { id: 4, epoch: 0, spans: vec![span(10, 13), span(40, 44)], iteration: 0, step: 4 };
        let at = |lease, examples| Mark { lease, examples };
        assert_eq!([at(3, 9), at(4, 5), at(5, 0)].map(|mark| lease.done_at(mark)), [0, 5, 7]);
        assert_eq!(lease.part(2, 5), [span(12, 13), span(40, 42)]);
        assert_eq!(lease.part(5, 7), [span(42, 44)]);
        assert_eq!(lease.part(7, 7), []);
    }
}
