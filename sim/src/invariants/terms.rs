//! Terms only grow: for the masters that begin, and for everybody who has seen one.

use paceline_exchange::rounds::{Now, Round, Term};

use super::Watch;
use crate::network::Pid;

#[derive(Clone, Debug, Default)]
pub(crate) struct Terms {
    newest: Term,
}

impl Watch {
    pub(crate) fn master_began(&mut self, now: Now, term: Term, round: Round) {
        if term <= self.terms.newest {
            self.fail(now, format!("a master began term {term} after term {}", self.terms.newest));
        }
        self.terms.newest = term;
        // What was counted after the checkpoint is void: it is done again.
        self.back_to(round);
    }

    pub(crate) fn term_seen(&mut self, now: Now, pid: Pid, before: Term, term: Term) {
        if term > self.terms.newest {
            self.fail(
                now,
                format!("worker {pid} saw term {term}, but the newest is {} (it knew {before})", self.terms.newest),
            );
        }
    }
}
