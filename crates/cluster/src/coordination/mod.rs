//! Who leads a run, and where the others find it.
//!
//! A *term* is one master's rule. It is taken by compare-and-set and fences: whoever publishes under a term that is not
//! the newest is refused, however long it has slept. The calls block within limits, on the caller's own thread.

mod embedded;
mod error;
mod nonce;
mod record;
mod zookeeper;

use std::time::Duration;

pub use embedded::Embedded;
pub use error::{CoordinationError, Loss, Tried};
pub use record::{RECORD_LIMIT, RunRecord, RunStage};
pub use zookeeper::{CONNECT_LIMIT, ZooKeeper, ZooKeeperAddress};

/// What a candidate has when it leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leadership {
    /// The term that it took: above every term that was ever taken here, and nobody else's.
    pub term: u64,
    /// What the leader before it published last.
    pub found: Option<RunRecord>,
}

/// One candidate's, or one worker's, view of a coordinator. Dropping it steps down and leaves, as a clean end does.
pub trait Coordination: Send {
    /// Waits until this candidate leads, at most `limit` and the time of a call or two; `None` when another one still leads
    /// then.
    ///
    /// Each success takes a new term, also that of a candidate that leads already. One that was told `None` keeps its place
    /// among those who wait: it should ask again soon, or [`resign`](Coordination::resign).
    fn lead(&mut self, limit: Duration) -> Result<Option<Leadership>, CoordinationError>;

    /// Publishes what others need to find this master. `record.term` is the term that this candidate leads.
    ///
    /// [`CoordinationError::Fenced`] when a newer term was taken, and nothing is written then. After any other error it is open
    /// whether the record was written; publishing again is safe.
    fn publish(&mut self, record: &RunRecord) -> Result<(), CoordinationError>;

    /// Fails with [`CoordinationError::Lost`] when this candidate may no longer believe that it leads; it says so before
    /// anybody else can have been told that they do. Cheap, and final: only [`regain`](Coordination::regain) and
    /// [`lead`](Coordination::lead) lead again.
    fn check(&mut self) -> Result<(), CoordinationError>;

    /// Leads on in the term that was lost because the coordinator was not heard for too long, within about `limit`.
    ///
    /// [`CoordinationError::Fenced`] when somebody else has taken a term since; [`CoordinationError::Unreachable`] when the
    /// coordinator does not answer yet. Succeeds at once for one that leads.
    fn regain(&mut self, limit: Duration) -> Result<(), CoordinationError>;

    /// The record of the master that leads now, if its term is above `after`; otherwise waits for one, at most `limit` and the
    /// time of a call or two. `None` when there is none then.
    fn find(&mut self, after: u64, limit: Duration) -> Result<Option<RunRecord>, CoordinationError>;

    /// Shows a worker under its name until it is dropped, or its process dies.
    fn register(&mut self, name: &str) -> Result<(), CoordinationError>;

    /// The names of the workers that are there, in order. Names that several use appear once each.
    fn workers(&mut self) -> Result<Vec<String>, CoordinationError>;

    /// Steps down at once, or leaves those who wait, so that another one leads without waiting.
    fn resign(&mut self);
}
