//! Nobody is given up without a fault of its own or of its links.

use std::collections::BTreeMap;

use paceline_exchange::rounds::{Incarnation, Now};

use super::Watch;
use crate::network::Pid;

/// How long after a fault somebody may still be given up for it: the silence limit, and a timer that rings late.
const AFTERMATH: Now = 3000;

/// Who had a fault last, and until when it lasted.
#[derive(Clone, Debug, Default)]
pub(crate) struct Faulty {
    until: BTreeMap<Pid, Now>,
    /// When masters stood still: what happened before is noticed after.
    still: Vec<(Now, Now)>,
    /// How often each may still say so.
    may_say_so: BTreeMap<Pid, u32>,
    /// The process of each incarnation.
    processes: BTreeMap<Incarnation, Pid>,
}

impl Watch {
    pub(crate) fn is_faulty(&mut self, pid: Pid, until: Now) {
        let last = self.faulty.until.entry(pid).or_default();
        *last = (*last).max(until);
    }

    /// Whether none of these has had a fault since a while before.
    pub(crate) fn are_well(&self, members: &[Incarnation], at: Now) -> bool {
        let until = |member| self.faulty.until.get(self.faulty.processes.get(member)?);
        members.iter().all(|member| until(member).copied().unwrap_or(0) + AFTERMATH < at)
    }

    pub(crate) fn master_stands_still(&mut self, from: Now, to: Now) {
        self.faulty.still.push((from, to));
    }

    /// A master stands still, or its clock jumps.
    pub(crate) fn may_say_that_it_stood_still(&mut self, master: Pid) {
        *self.faulty.may_say_so.entry(master).or_default() += 1;
    }

    /// Once for each time that it did.
    pub(crate) fn says_that_it_stood_still(&mut self, now: Now, master: Pid, seconds: f64) {
        match self.faulty.may_say_so.get_mut(&master) {
            Some(times @ 1..) => *times -= 1,
            _ => self.fail(now, format!("master {master} says that it stood still for {seconds} s, and it did not")),
        }
    }

    pub(crate) fn is_called(&mut self, incarnation: Incarnation, pid: Pid) {
        self.faulty.processes.insert(incarnation, pid);
    }

    pub(crate) fn given_up(&mut self, now: Now, member: Incarnation, reason: &str) {
        let is_silence = reason.contains("nothing was heard") || reason.contains("connection ended");
        let Some(pid) = self.faulty.processes.get(&member).copied().filter(|_| is_silence) else { return };
        let last = self.faulty.until.get(&pid).copied().unwrap_or(0);
        let until = self.faulty.still.iter().fold(last, |until, (from, to)| match until + AFTERMATH >= *from {
            true => until.max(*to),
            false => until,
        });
        if until + AFTERMATH < now {
            self.fail(now, format!("worker {pid}, whose last fault was at {until}, was given up: {reason}"));
        }
    }
}
