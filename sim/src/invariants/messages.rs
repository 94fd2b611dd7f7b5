//! In `shared`, a state is the sum of the messages that are in it, and what they are about is what the state counts.

use std::collections::{BTreeMap, BTreeSet};

use paceline_exchange::rounds::{Incarnation, Now, Round, Schedule};
use paceline_exchange::sharing::Sequence;

use super::Watch;
use crate::numbers::{State, Update, WIDTH};

/// All messages that were ever made.
#[derive(Clone, Debug, Default)]
pub(crate) struct Messages {
    all: BTreeMap<(Incarnation, Sequence), Update>,
}

impl Messages {
    fn of<'a>(&'a self, state: &'a State) -> impl Iterator<Item = &'a Update> {
        let of = |(origin, up_to): (&Incarnation, &Sequence)| {
            self.all.range((*origin, 1)..=(*origin, *up_to)).map(|(_, update)| update)
        };
        state.applied.iter().flat_map(of)
    }

    fn sum(&self, state: &State) -> [i64; WIDTH] {
        let mut sum = [0; WIDTH];
        for update in self.of(state) {
            sum.iter_mut().zip(update.values).for_each(|(sum, value)| *sum += value);
        }
        sum
    }

    /// The messages that are in a state, without the last ones of an origin if they are about no examples: one that leaves
    /// sends what it has left at any time.
    fn about_examples(&self, state: &State) -> BTreeMap<Incarnation, Sequence> {
        let mut applied = state.applied.clone();
        for (origin, up_to) in &mut applied {
            while self.all.get(&(*origin, *up_to)).is_some_and(|update| update.places.is_empty()) {
                *up_to -= 1;
            }
        }
        applied.retain(|_, up_to| *up_to > 0);
        applied
    }

    /// The examples that are in a state, if none is in it twice.
    fn places(&self, state: &State) -> Result<BTreeSet<(u64, u64)>, String> {
        let mut places = BTreeSet::new();
        for place in self.of(state).flat_map(|update| &update.places) {
            if !places.insert(*place) {
                return Err(format!("example {} of epoch {} is in a state twice", place.1, place.0));
            }
        }
        Ok(places)
    }
}

impl Watch {
    pub(crate) fn made(&mut self, origin: Incarnation, sequence: Sequence, update: Update) {
        self.messages.all.insert((origin, sequence), update);
    }

    /// The message of an origin that is about an example.
    pub(crate) fn message_about(&self, origin: Incarnation, place: (u64, u64)) -> Option<Sequence> {
        let mut of = self.messages.all.range((origin, 1)..=(origin, Sequence::MAX));
        of.find(|(_, update)| update.places.contains(&place)).map(|((_, sequence), _)| *sequence)
    }

    pub(crate) fn state_is_sum(&mut self, now: Now, state: &State) {
        if self.messages.sum(state) != state.values {
            self.fail(now, "a state is not the sum of the messages that are in it".into());
        }
    }

    pub(crate) fn shared_published(&mut self, now: Now, round: Round, state: &State, rest: &Schedule) {
        self.count("a checkpoint was published");
        self.state_is_sum(now, state);
        match self.messages.places(state) {
            Err(wrong) => self.fail(now, wrong),
            Ok(places) if places.len() as u64 != round => {
                self.fail(now, format!("a state with {} examples was published as one with {round}", places.len()));
            }
            Ok(places) => self.covered_in_checkpoint(now, round, &places, rest),
        }
    }

    /// All members of the last view hold the same when the run ends.
    pub(crate) fn all_hold_the_same(&mut self, now: Now, states: Vec<&State>) {
        for state in &states {
            self.state_is_sum(now, state);
        }
        let applied: Vec<_> = states.iter().map(|state| self.messages.about_examples(state)).collect();
        if applied.windows(2).any(|pair| pair[0] != pair[1]) {
            self.fail(now, format!("members hold different messages when the run has ended: {applied:?}"));
        }
    }
}
