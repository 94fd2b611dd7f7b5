//! No step without a lease: who has not heard of the master for long stops by itself, and nobody takes what it does not have.

use paceline_exchange::rounds::{Capacity, Now, Span};

use super::Watch;
use crate::network::Pid;

impl Watch {
    pub(crate) fn may_work(&mut self, now: Now, pid: Pid, lease_until: Now) {
        if now >= lease_until {
            self.fail(now, format!("worker {pid} began a round although its lease ended at {lease_until}"));
        }
    }
    /// Where data lives with workers.
    pub(crate) fn may_take(&mut self, now: Now, pid: Pid, epoch: u64, spans: &[Span], capacity: &Capacity) {
        match spans.iter().find(|span| !capacity.holds(epoch, span)) {
            Some(span) => {
                self.fail(now, format!("worker {pid} was given {span:?} of epoch {epoch}, which it does not have"))
            }
            None => self.count("a worker took from its partition"),
        }
    }
}
