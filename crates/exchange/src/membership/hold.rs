//! Whether a run holds on: somebody has asked for it, or nobody can say whether its master still leads.

use serde::{Deserialize, Serialize};

use crate::rounds::Now;

/// Whether no new work is given out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Hold {
    is_asked: bool,
    /// Since when the coordinator has not answered.
    unsure_since: Option<Now>,
    is_unsure: bool,
}

impl Hold {
    pub(crate) fn is_on(&self) -> bool {
        self.is_asked || self.is_unsure
    }

    pub(crate) fn ask(&mut self, is_asked: bool) {
        self.is_asked = is_asked;
    }

    /// The coordinator does not answer, or answers again.
    pub(crate) fn set_unsure(&mut self, is_unsure: bool, now: Now) {
        if is_unsure {
            self.unsure_since.get_or_insert(now);
        } else {
            (self.unsure_since, self.is_unsure) = (None, false);
        }
    }

    /// Work goes on for a while without a coordinator: most of the time it is back before it matters.
    pub(crate) fn look(&mut self, limit: Now, now: Now) {
        self.is_unsure = self.next(limit).is_some_and(|at| now >= at);
    }

    /// When it holds on unless the coordinator answers.
    fn next(&self, limit: Now) -> Option<Now> {
        self.unsure_since.map(|since| since + limit)
    }

    /// When to look again.
    pub(crate) fn timer(&self, limit: Now) -> Option<Now> {
        self.next(limit).filter(|_| !self.is_unsure)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_holds_on_a_limit_after_its_coordinator_was_last_there_and_no_longer_than_it_is_away() {
        let mut hold = Hold::default();
        hold.set_unsure(true, 100);
        hold.set_unsure(true, 150);
        hold.look(50, 149);
        assert!(!hold.is_on());
        assert_eq!(hold.timer(50), Some(150));
        hold.look(50, 150);
        assert!(hold.is_on());
        assert_eq!(hold.timer(50), None);
        hold.set_unsure(false, 160);
        hold.look(50, 160);
        assert!(!hold.is_on());
        hold.ask(true);
        hold.set_unsure(false, 170);
        assert!(hold.is_on(), "somebody else has asked for it");
    }
}
