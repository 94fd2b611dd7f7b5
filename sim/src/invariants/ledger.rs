//! Every example of every epoch is counted once, or set aside once, and nothing else is.

use std::collections::{BTreeMap, BTreeSet};

use paceline_exchange::rounds::{Assignment, Now, Round, Schedule, Told};

use super::Watch;
use crate::numbers::{WIDTH, worth};

type EpochPlace = (u64, u64);

/// What was counted, by round: later rounds are taken back when a run goes back to a checkpoint.
#[derive(Clone, Debug)]
pub(crate) struct Ledger {
    work: Schedule,
    /// The round behind which the work begins.
    begins: Round,
    counted: BTreeMap<Round, Assignment>,
    /// In `shared`: what counts.
    is_sharing: bool,
    shared: BTreeSet<EpochPlace>,
    /// Steps that were told of them.
    steps: u64,
    aside: BTreeSet<EpochPlace>,
    /// What was set aside and what counted in each state that a run may go back to.
    states: BTreeMap<Round, (BTreeSet<EpochPlace>, BTreeSet<EpochPlace>)>,
}

fn places(assignment: &Assignment) -> impl Iterator<Item = EpochPlace> {
    assignment.spans().flat_map(|span| span.start..span.end).map(|place| (assignment.epoch, place))
}

/// All that is left to take.
fn left(mut schedule: Schedule) -> Vec<EpochPlace> {
    let mut all = Vec::new();
    let everybody = [schedule.everything()];
    while let Some(round) = schedule.take(&everybody) {
        all.extend(places(&round));
    }
    all
}

impl Ledger {
    pub(crate) fn new(work: Schedule, begins: Round, is_sharing: bool) -> Self {
        Self {
            work,
            begins,
            counted: BTreeMap::new(),
            is_sharing,
            shared: BTreeSet::new(),
            steps: 0,
            aside: BTreeSet::new(),
            states: BTreeMap::new(),
        }
    }

    pub(crate) fn go_back(&mut self, round: Round) {
        self.counted.split_off(&(round + 1));
        self.steps = 0;
        (self.aside, self.shared) = self.states.get(&round).cloned().unwrap_or_default();
    }

    fn newest(&self) -> Round {
        self.counted.last_key_value().map_or(self.begins, |(round, _)| *round)
    }

    pub(crate) fn hear(&mut self, told: &Told) -> Result<(), String> {
        match told {
            Told::Counted { round, assignment } => {
                if *round != self.newest() + 1 {
                    return Err(format!("round {round} was counted after round {}", self.newest()));
                }
                self.counted.insert(*round, assignment.clone());
            }
            Told::Shared { epoch, spans, steps, .. } => {
                let before = std::mem::replace(&mut self.steps, *steps);
                if *steps < before {
                    return Err(format!("step {steps} was told after step {before}"));
                }
                for place in spans.iter().flat_map(|span| span.start..span.end) {
                    if !self.shared.insert((*epoch, place)) {
                        return Err(format!("example {place} of epoch {epoch} was counted twice"));
                    }
                }
            }
            Told::TakenBack { epoch, spans, .. } => {
                self.steps = 0;
                for place in spans.iter().flat_map(|span| span.start..span.end) {
                    if !self.shared.remove(&(*epoch, place)) {
                        return Err(format!("example {place} of epoch {epoch} was taken back, but did not count"));
                    }
                }
            }
            Told::SetAside { epoch, spans } => {
                self.aside.extend(spans.iter().flat_map(|span| span.start..span.end).map(|place| (*epoch, place)));
            }
            Told::RolledBack { to, aside, .. } => {
                self.go_back(*to);
                self.aside
                    .extend(aside.iter().flat_map(|(epoch, span)| (span.start..span.end).map(|place| (*epoch, place))));
            }
            _ => {}
        }
        Ok(())
    }

    /// What a checkpoint says is left, what was counted up to it and what was set aside are everything, once each.
    fn checkpoint(&mut self, round: Round, rest: &Schedule) -> Result<(), String> {
        let mut missing: BTreeSet<EpochPlace> = left(self.work.clone()).into_iter().collect();
        let counted = self.counted.range(..=round).flat_map(|(_, assignment)| places(assignment));
        for (epoch, place) in counted.chain(left(rest.clone())) {
            if !missing.remove(&(epoch, place)) {
                return Err(format!("the checkpoint of round {round} has example {place} of epoch {epoch} twice"));
            }
        }
        if self.is_sharing {
            let counted = missing.difference(&self.aside).copied().collect::<BTreeSet<EpochPlace>>();
            if let Some((epoch, place)) = counted.difference(&self.shared).next() {
                return Err(format!("the checkpoint has example {place} of epoch {epoch}, which does not count"));
            }
            self.states.insert(round, (missing.intersection(&self.aside).copied().collect(), counted));
            return Ok(());
        }
        match missing.difference(&self.aside).next() {
            Some((epoch, place)) => {
                Err(format!("the checkpoint of round {round} has lost example {place} of epoch {epoch}"))
            }
            None => {
                self.states.insert(round, (missing, BTreeSet::new()));
                Ok(())
            }
        }
    }

    /// What a state must be that all counted rounds up to this one went into.
    pub(crate) fn sum(&self, round: Round) -> [i64; WIDTH] {
        let mut sum = [0; WIDTH];
        for assignment in self.counted.range(..=round).map(|(_, assignment)| assignment) {
            for place in assignment.spans().flat_map(|span| span.start..span.end) {
                sum.iter_mut().zip(worth(assignment.epoch, place)).for_each(|(sum, worth)| *sum += worth);
            }
        }
        sum
    }

    /// How often each example was counted or set aside, if that is not once.
    fn wrong(&self) -> Option<String> {
        let mut seen: BTreeMap<EpochPlace, u32> = left(self.work.clone()).into_iter().map(|place| (place, 0)).collect();
        for place in self.counted.values().flat_map(places).chain(self.aside.iter().chain(&self.shared).copied()) {
            *seen.entry(place).or_default() += 1;
        }
        let ((epoch, place), times) = seen.into_iter().find(|(_, times)| *times != 1)?;
        Some(format!("example {place} of epoch {epoch} was counted or set aside {times} times"))
    }
}

impl Watch {
    /// At the end of a run.
    pub(crate) fn all_once(&mut self, now: Now) {
        if let Some(wrong) = self.ledger.wrong() {
            self.fail(now, wrong);
        }
    }

    pub(crate) fn all_in_checkpoint(&mut self, now: Now, round: Round, rest: &Schedule) {
        if let Err(wrong) = self.ledger.checkpoint(round, rest) {
            self.fail(now, wrong);
        }
    }

    /// In `shared`: a checkpoint has in it what it says is not left, but for what is set aside.
    pub(crate) fn covered_in_checkpoint(
        &mut self,
        now: Now,
        round: Round,
        covered: &BTreeSet<EpochPlace>,
        rest: &Schedule,
    ) {
        if let Err(wrong) = self.ledger.checkpoint(round, rest) {
            return self.fail(now, wrong);
        }
        let expected = self.ledger.states.get(&round).map(|(_, counted)| counted.clone()).unwrap_or_default();
        if let Some((epoch, place)) = expected.symmetric_difference(covered).copied().next() {
            self.fail(
                now,
                format!("the checkpoint has example {place} of epoch {epoch} and says that it is left, or neither"),
            );
        }
    }

    pub(crate) fn counted_sum(&self, round: Round) -> [i64; WIDTH] {
        self.ledger.sum(round)
    }

    pub(crate) fn is_sharing(&self) -> bool {
        self.ledger.is_sharing
    }

    pub(crate) fn last_counted(&self) -> Round {
        self.ledger.newest()
    }

    pub(crate) fn back_to(&mut self, round: Round) {
        self.ledger.go_back(round);
    }
}
