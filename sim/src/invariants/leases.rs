//! No step without a lease: who has not heard of the master for long stops by itself.

use paceline_exchange::rounds::Now;

use super::Watch;
use crate::network::Pid;

impl Watch {
    pub(crate) fn may_work(&mut self, now: Now, pid: Pid, lease_until: Now) {
        if now >= lease_until {
            self.fail(now, format!("worker {pid} began a round although its lease ended at {lease_until}"));
        }
    }
}
