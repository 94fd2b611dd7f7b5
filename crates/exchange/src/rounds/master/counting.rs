//! What counts and what is saved: only what every member of the view has said is done.

use super::super::message::ToMember;
use super::{Master, MasterAction, Stage};
use crate::Planted;
use crate::planted::has;
use crate::rounds::{Incarnation, Now, Round, Schedule, Told};

impl Master {
    /// A state that arrived for a round that did not come to be, or is no news.
    pub(super) fn drop_arrived(&mut self, is_void: impl Fn(Round) -> bool) {
        if let Some((round, _)) = self.arrived.take_if(|(round, _)| is_void(*round)) {
            self.actions.push(MasterAction::Discard(round));
        }
    }

    /// Counts the rounds that every member of the view has said are done.
    pub(super) fn count(&mut self) {
        let Some(plan) = self.plans.last() else { return };
        let done = plan.members.iter().map(|member| self.done.get(member).copied().unwrap_or(0));
        let least = if self.has(Planted::CountsWhenTheFirstIsDone) { done.max() } else { done.min() };
        let Some(least) = least else { return };
        while self.counted < least && !matches!(self.stage, Stage::Ended) {
            let round = self.counted + 1;
            let Some(plan) = self.plans.iter().rev().find(|plan| plan.first <= round) else { return };
            // Members do only what a plan says; whatever else is said counts for nothing.
            let Some(assignment) = plan.at(round).0 else { return };
            self.counted = round;
            self.edges.work(&plan.members);
            self.forget_plans();
            let (epoch, ends) = (assignment.epoch, assignment.ends_epoch);
            self.actions.push(MasterAction::Tell(Told::Counted { round, assignment }));
            if ends {
                self.actions.push(MasterAction::Tell(Told::EpochDone { epoch, round }));
            }
            self.publish();
        }
        self.end_if_done();
    }

    /// Plans that begin behind what is counted are what a view change needs; of the others the newest, brought up to there.
    pub(super) fn forget_plans(&mut self) {
        if self.has(Planted::NeverForgetsPlans) {
            return;
        }
        let next = self.counted + 1;
        let keep = self.plans.iter().rposition(|plan| plan.first <= next).unwrap_or(0);
        self.plans.drain(..keep);
        let is_planned = |member: &Incarnation| self.plans.iter().any(|plan| plan.members.contains(member));
        self.gone.retain(|member, _| is_planned(member));
        self.waited.retain(|(a, b), _| self.roster.contains(*a) && self.roster.contains(*b));
        let plan = &mut self.plans[0];
        if plan.first < next {
            (plan.assignment, plan.rest) = plan.at(next);
            plan.first = next;
        }
    }

    pub(super) fn is_done(&self) -> bool {
        let plan = self.plans.last();
        plan.is_some_and(|plan| {
            let is_last = plan.first == self.counted + 1 && plan.assignment.is_none();
            let is_done = plan.rest.is_done() || self.has(Planted::EndsWhenNobodyHoldsTheRest);
            is_last && is_done && !plan.members.is_empty()
        })
    }

    /// When nothing is left to do, or the end was asked for, the state of the last round is the model.
    pub(super) fn end_if_done(&mut self) {
        if self.stage != Stage::Running || !(self.is_done() || self.stop_asked.is_some()) {
            return;
        }
        if self.saving.round() == self.counted {
            self.end(None);
        } else if self.saving.newest().0 < self.counted {
            self.ask_for_the_newest();
        }
    }

    /// Asks for the state of the last round that counts, once.
    pub(super) fn ask_for_the_newest(&mut self) {
        if self.state_asked_of != Some(self.counted) {
            self.state_asked_of = Some(self.counted);
            self.ask_for_state();
        }
    }

    pub(super) fn ask_for_state(&mut self) {
        let holder =
            self.plans.last().and_then(|plan| plan.members.iter().find(|member| self.done.contains_key(member)));
        if let Some(member) = holder {
            self.actions.push(MasterAction::Send(*member, ToMember::Save));
        }
    }

    pub(super) fn end(&mut self, error: Option<String>) {
        self.stage = Stage::Ended;
        let farewell = self.options.farewell(error.as_deref(), self.stop_asked.is_some());
        for member in self.roster.remove_all() {
            self.actions.push(MasterAction::Send(member, farewell.clone()));
        }
        self.actions.push(MasterAction::End(error));
    }

    /// The state of a round is here. It is published only when every member has said that the round is done.
    pub(super) fn take_state(&mut self, member: Incarnation, round: Round, rest: Schedule) {
        if self.arrived.as_ref().is_some_and(|(before, _)| *before == round) {
            // The same state once more: it waits to be counted.
            return;
        }
        let is_news = round > self.saving.newest().0 && self.arrived.as_ref().is_none_or(|(before, _)| *before < round);
        if !self.roster.contains(member) || !is_news {
            self.actions.push(MasterAction::Discard(round));
            return;
        }
        self.drop_arrived(|_| true);
        self.arrived = Some((round, rest));
        self.publish();
        self.end_if_done();
    }

    pub(super) fn publish(&mut self) {
        if self.saving.is_under_way() {
            return;
        }
        if let Some((round, rest)) = self
            .arrived
            .take_if(|(round, _)| *round <= self.counted || has(self.planted, Planted::PublishesBeforeAllAreDone))
        {
            let is_last = self.stop_asked.is_some() || rest.is_done();
            self.actions.push(self.saving.begin(round, rest, is_last));
        }
    }

    pub(super) fn take_persisted(&mut self, round: Round) {
        if self.saving.persisted(round) {
            match self.stage {
                Stage::Waiting(_) => self.end_if_saved(),
                _ if self.stop_asked.is_some_and(|asked| round >= asked.min(self.counted)) => self.end(None),
                _ => self.end_if_done(),
            }
            if self.stage != Stage::Ended {
                self.publish();
            }
        }
    }

    /// Too few are here. Ends if the newest checkpoint is the last, or if the end was asked for and the master holds no newer state.
    pub(super) fn end_if_saved(&mut self) {
        if self.saving.rest().is_done() || (self.stop_asked.is_some() && !self.saving.is_busy()) {
            self.end(None);
        }
    }

    pub(super) fn take_failure(&mut self, round: Round, reason: String, now: Now) {
        if !self.saving.failed(round, now) {
            return;
        }
        self.actions.push(MasterAction::Tell(Told::NotSaved { round, reason: reason.clone() }));
        self.publish();
        let is_last = self.stop_asked.is_some() || self.saving.newest().1.is_done();
        if is_last && self.saving.is_hopeless() {
            self.end(Some(format!("the last state, of round {round}, could not be saved: {reason}")));
        }
    }

    pub(super) fn save_again(&mut self, now: Now) {
        self.actions.extend(self.saving.try_again(now));
    }
}
