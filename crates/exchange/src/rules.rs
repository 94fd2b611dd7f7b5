//! The rules of whatever mode a run has, behind one door: a driver carries out the same events and actions for all of them.

use serde::{Deserialize, Serialize};

use crate::Planted;
use crate::rounds::{
    self, Incarnation, MasterAction, MasterEvent, MemberAction, MemberEvent, Now, Round, Schedule, Term, ViewNumber,
};
use crate::sharing;

/// A master of any mode.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum MasterRules {
    /// Of `sync` and `averaging`.
    Rounds(rounds::Master),
    /// Of `shared`.
    Sharing(sharing::Master),
}

/// A member of any mode.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum MemberRules {
    /// Of `sync` and `averaging`.
    Rounds(rounds::Member),
    /// Of `shared`.
    Sharing(sharing::Member),
}

macro_rules! either {
    ($rules:expr, $machine:ident => $what:expr) => {
        match $rules {
            Self::Rounds($machine) => $what,
            Self::Sharing($machine) => $what,
        }
    };
}

impl MasterRules {
    /// What happens, and what follows from it.
    pub fn handle(&mut self, event: MasterEvent, now: Now) -> Vec<MasterAction> {
        either!(self, machine => machine.handle(event, now))
    }

    /// Plants a mistake, for the simulator.
    pub fn plant(&mut self, mistake: Option<Planted>) {
        either!(self, machine => machine.plant(mistake));
    }

    /// The term.
    pub fn term(&self) -> Term {
        either!(self, machine => machine.term())
    }

    /// The newest view, and who is in it.
    pub fn view(&self) -> (ViewNumber, &[Incarnation]) {
        either!(self, machine => machine.view())
    }

    /// The last round that counts; in `shared`, the examples that do.
    pub fn counted(&self) -> Round {
        either!(self, machine => machine.counted())
    }

    /// Members that are there, with when they were last heard of.
    pub fn members(&self) -> Vec<(Incarnation, Now)> {
        either!(self, machine => machine.members().collect())
    }

    /// The last round that a member has done; in `shared`, its last lease.
    pub fn done(&self, member: Incarnation) -> Round {
        either!(self, machine => machine.done(member))
    }

    /// Leases that a member holds and is not known to have done: in rounds, its slice of the current one.
    pub fn leases_out(&self, member: Incarnation) -> usize {
        match self {
            Self::Rounds(machine) => usize::from(machine.view().1.contains(&member)),
            Self::Sharing(machine) => machine.leases_out(member),
        }
    }

    /// What is left to do behind the newest state that the master holds, which may be on its way to the disk.
    pub fn newest(&self) -> Schedule {
        either!(self, machine => machine.newest())
    }

    /// What was left to do at the newest checkpoint.
    pub fn rest(&self) -> Schedule {
        either!(self, machine => machine.rest())
    }

    /// What this state is called.
    pub fn phase(&self) -> &'static str {
        either!(self, machine => machine.phase())
    }

    /// What is remembered of views and losses: bounded by how far members can be apart.
    pub fn history_kept(&self) -> usize {
        match self {
            Self::Rounds(machine) => machine.plans_kept(),
            Self::Sharing(machine) => machine.unsettled(),
        }
    }
}

impl MemberRules {
    /// What happens, and what follows from it.
    pub fn handle(&mut self, event: MemberEvent, now: Now) -> Vec<MemberAction> {
        either!(self, machine => machine.handle(event, now))
    }

    /// Plants a mistake, for the simulator.
    pub fn plant(&mut self, mistake: Option<Planted>) {
        either!(self, machine => machine.plant(mistake));
    }

    /// Who this is.
    pub fn incarnation(&self) -> Incarnation {
        either!(self, machine => machine.incarnation())
    }

    /// Until when work may go on without another word of the master.
    pub fn lease_until(&self) -> Now {
        either!(self, machine => machine.lease_until())
    }

    /// Rounds, or messages, of which something is kept: bounded by what may be under way.
    pub fn history_kept(&self) -> usize {
        match self {
            Self::Rounds(machine) => machine.rounds_kept(),
            Self::Sharing(machine) => machine.messages_kept(),
        }
    }

    /// The rules of rounds, if it is these.
    pub fn rounds(&self) -> Option<&rounds::Member> {
        match self {
            Self::Rounds(machine) => Some(machine),
            Self::Sharing(_) => None,
        }
    }

    /// The rules of `shared`, if it is these.
    pub fn sharing(&self) -> Option<&sharing::Member> {
        match self {
            Self::Rounds(_) => None,
            Self::Sharing(machine) => Some(machine),
        }
    }
}
