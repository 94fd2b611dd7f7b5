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
    /// How often this state could not be written.
    tries: u32,
    /// How often none could, this one or those whose place it took.
    failures: u32,
    /// When that was last, and when it is tried again; none while it is under way.
    again: Option<(Now, Now)>,
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

    /// Whether a state is being written, and not only waits to be tried again.
    pub(crate) fn is_under_way(&self) -> bool {
        self.attempt.as_ref().is_some_and(|attempt| attempt.again.is_none())
    }

    /// Begins to save a state, when none is under way. One that could not be written leaves its place to this one, which is newer and
    /// is tried when the other would have been; the one that a run ends with is tried sooner.
    pub(crate) fn begin(&mut self, round: Round, rest: Schedule, is_last: bool) -> MasterAction {
        let Some(Attempt { failures, again: Some((failed, again)), .. }) = self.attempt else {
            self.attempt = Some(Attempt { round, rest: rest.clone(), tries: 0, failures: 0, again: None });
            return MasterAction::Persist { round, rest };
        };
        let (failures, again) = if is_last { (0, again.min(failed + FIRST_WAIT)) } else { (failures, again) };
        self.attempt = Some(Attempt { round, rest: rest.clone(), tries: 0, failures, again: Some((failed, again)) });
        MasterAction::Keep { round, rest }
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
        attempt.tries += 1;
        attempt.failures += 1;
        let wait = FIRST_WAIT << (attempt.failures - 1).min(16);
        attempt.again = Some((now, now + wait.min(LONGEST_WAIT)));
        true
    }

    /// Tries again what is due.
    pub(crate) fn try_again(&mut self, now: Now) -> Option<MasterAction> {
        let attempt = self.attempt.as_mut().filter(|attempt| attempt.again.is_some_and(|(_, at)| now >= at))?;
        attempt.again = None;
        Some(MasterAction::Persist { round: attempt.round, rest: attempt.rest.clone() })
    }

    /// When to look again.
    pub(crate) fn next(&self) -> Option<Now> {
        self.attempt.as_ref()?.again.map(|(_, at)| at)
    }

    /// Whether a run that only waits for this has waited enough.
    pub(crate) fn is_hopeless(&self) -> bool {
        self.attempt.as_ref().is_some_and(|attempt| attempt.tries >= LAST_TRIES)
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
        assert_eq!(saving.begin(7, rest(5), false), MasterAction::Persist { round: 7, rest: rest(5) });
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

    #[test]
    fn a_newer_state_takes_the_place_of_one_that_could_not_be_saved() {
        let rest = |left| Schedule::new(left, 1, StepSize::Each(1));
        let mut saving = Saving::new(3, rest(9));
        saving.begin(7, rest(5), false);
        for at in [0, 1000, 3000, 7000] {
            assert!(saving.try_again(at).is_some() == (at > 0) && saving.is_under_way() && saving.failed(7, at));
        }
        assert_eq!(saving.next(), Some(15_000));
        assert_eq!(saving.begin(8, rest(4), false), MasterAction::Keep { round: 8, rest: rest(4) });
        assert_eq!((saving.next(), saving.newest().0, saving.round()), (Some(15_000), 8, 3), "no sooner for that");
        assert_eq!(saving.begin(9, rest(0), true), MasterAction::Keep { round: 9, rest: rest(0) });
        assert_eq!(saving.next(), Some(8000), "the last one is tried soon");
        assert!(!saving.persisted(7) && !saving.failed(7, 7500));
        // It has all its tries before it, and does not take forever for them.
        let mut now = 8000;
        while !saving.is_hopeless() {
            assert_eq!(saving.try_again(now), Some(MasterAction::Persist { round: 9, rest: rest(0) }));
            assert!(saving.failed(9, now));
            now = saving.next().expect("it is tried again");
        }
        assert_eq!(now, 8000 + 1000 + 2000 + 4000 + 8000 + 16_000 + 30_000);
    }
}
