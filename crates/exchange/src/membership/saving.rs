//! A checkpoint on its way to the disk: it is tried again until it stands there.

use serde::{Deserialize, Serialize};

use crate::rounds::{MasterAction, Now, Round, Schedule};

/// Between the first two tries, in milliseconds; each wait is twice the one before.
const FIRST_WAIT: Now = 1000;
/// Between any two tries at most.
const LONGEST_WAIT: Now = 30_000;
/// So many tries of the state that a run ends with, over half a minute or so: then the run fails.
const LAST_TRIES: u32 = 6;

/// The newest checkpoint, and the one that is to take its place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Saving {
    /// What stands on the disk, and what is left to do behind it.
    saved: (Round, Schedule),
    attempt: Option<Attempt>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Attempt {
    round: Round,
    rest: Schedule,
    failures: u32,
    /// When it is tried again; none while it is under way.
    again: Option<Now>,
}

impl Saving {
    pub(crate) fn new(round: Round, rest: Schedule) -> Self {
        Self { saved: (round, rest), attempt: None }
    }

    /// The round of the newest checkpoint.
    pub(crate) fn round(&self) -> Round {
        self.saved.0
    }

    /// What is left to do behind it.
    pub(crate) fn rest(&self) -> &Schedule {
        &self.saved.1
    }

    /// The newest state that the master holds, on the disk or on its way there.
    pub(crate) fn newest(&self) -> (Round, &Schedule) {
        match &self.attempt {
            Some(attempt) => (attempt.round, &attempt.rest),
            None => (self.saved.0, &self.saved.1),
        }
    }

    /// What is left behind the newest state is this, as has turned out since.
    pub(crate) fn correct(&mut self, rest: Schedule) {
        match &mut self.attempt {
            Some(attempt) => attempt.rest = rest,
            None => self.saved.1 = rest,
        }
    }

    pub(crate) fn is_busy(&self) -> bool {
        self.attempt.is_some()
    }

    pub(crate) fn begin(&mut self, round: Round, rest: Schedule) -> MasterAction {
        self.attempt = Some(Attempt { round, rest: rest.clone(), failures: 0, again: None });
        MasterAction::Persist { round, rest }
    }

    /// It stands on the disk. Says whether that was waited for.
    pub(crate) fn persisted(&mut self, round: Round) -> bool {
        let attempt = self.attempt.take_if(|attempt| attempt.round == round && attempt.again.is_none());
        attempt.map(|attempt| self.saved = (attempt.round, attempt.rest)).is_some()
    }

    /// It could not be written. Says whether that is to be told.
    pub(crate) fn failed(&mut self, round: Round, now: Now) -> bool {
        let attempt = self.attempt.as_mut().filter(|attempt| attempt.round == round && attempt.again.is_none());
        let Some(attempt) = attempt else { return false };
        attempt.failures += 1;
        let wait = FIRST_WAIT << (attempt.failures - 1).min(16);
        attempt.again = Some(now + wait.min(LONGEST_WAIT));
        true
    }

    /// Tries again what is due.
    pub(crate) fn try_again(&mut self, now: Now) -> Option<MasterAction> {
        let attempt = self.attempt.as_mut().filter(|attempt| attempt.again.is_some_and(|at| now >= at))?;
        attempt.again = None;
        Some(MasterAction::Persist { round: attempt.round, rest: attempt.rest.clone() })
    }

    /// When to look again.
    pub(crate) fn next(&self) -> Option<Now> {
        self.attempt.as_ref()?.again
    }

    /// Whether a run that only waits for this has waited enough.
    pub(crate) fn is_hopeless(&self) -> bool {
        self.attempt.as_ref().is_some_and(|attempt| attempt.failures >= LAST_TRIES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rounds::StepSize;

    #[test]
    fn a_save_that_fails_is_tried_again_ever_later_and_the_last_one_stands_meanwhile() {
        let rest = |left| Schedule::new(left, 1, StepSize::Each(1));
        let mut saving = Saving::new(3, rest(9));
        assert_eq!(saving.begin(7, rest(5)), MasterAction::Persist { round: 7, rest: rest(5) });
        let (mut now, mut waits) = (100, Vec::new());
        while !saving.is_hopeless() {
            assert!(saving.failed(7, now) && !saving.failed(7, now), "one failure of each try is told");
            let again = saving.next().expect("it is tried again");
            assert_eq!((saving.try_again(again - 1), saving.round(), saving.newest().0), (None, 3, 7));
            waits.push(again - now);
            now = again;
            assert!(saving.try_again(now).is_some() && saving.try_again(now).is_none());
        }
        assert_eq!(waits, [1000, 2000, 4000, 8000, 16_000, 30_000]);
        assert!(!saving.persisted(6) && saving.persisted(7) && !saving.persisted(7));
        assert_eq!((saving.round(), saving.rest(), saving.is_busy()), (7, &rest(5), false));
    }
}
