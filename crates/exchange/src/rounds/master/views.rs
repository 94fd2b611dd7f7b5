//! How a view begins: everybody freezes, the newest round that somebody holds stands, and the next is taken by those who are here.

use std::collections::{BTreeMap, BTreeSet};

use super::super::message::ToMember;
use super::{Frozen, Master, MasterAction, Stage};
use crate::Planted;
use crate::membership::{Due, Fault, Waiting, arrange, donors_of, neighbours};
use crate::rounds::plan::Blame;
use crate::rounds::{Incarnation, Now, Plan, PlanChange, Round, Span, Told, ViewNumber, number_of, poison};

impl Master {
    /// A new view is needed: everybody freezes and says where they are.
    pub(super) fn prepare(&mut self, reason: String, now: Now) {
        if matches!(self.stage, Stage::Ended) {
            return;
        }
        if !self.has_enough() {
            if !matches!(self.stage, Stage::Waiting(_)) {
                self.stage = Stage::Waiting(Waiting::new(now));
            }
            // Nobody may ever come, and all that there is may be saved.
            return self.end_if_saved();
        }
        self.view += 1;
        self.gathering.take_all(&mut self.edges, self.planted);
        for member in self.roster.ready() {
            self.actions.push(MasterAction::Send(member, ToMember::Prepare { view: self.view }));
        }
        self.stage = Stage::Preparing { reason, frozen: BTreeMap::new(), contributed: BTreeSet::new() };
    }

    /// Whether a view of those who are here can begin.
    pub(super) fn has_enough(&self) -> bool {
        self.roster.has_enough(&self.options, self.stop_asked.is_some())
    }

    pub(super) fn begin_if_all_are_frozen(&mut self) {
        let Stage::Preparing { frozen, reason, contributed } = &self.stage else { return };
        let members = self.roster.ready();
        if !members.iter().all(|member| frozen.contains_key(member)) {
            return;
        }
        let (frozen, reason, contributed) = (frozen.clone(), reason.clone(), contributed.clone());
        self.begin(members, &frozen, &contributed, reason);
    }

    /// The commit: the newest round that a survivor holds stands, and the next one is taken by those who are here.
    pub(super) fn begin(
        &mut self,
        members: Vec<Incarnation>,
        frozen: &BTreeMap<Incarnation, Frozen>,
        contributed: &BTreeSet<(Round, Incarnation)>,
        reason: String,
    ) {
        let completed = || frozen.values().filter_map(|frozen| frozen.completed);
        let mut newest = completed().max();
        if self.has(Planted::CommitsTheOldestRound) {
            newest = completed().min();
        }
        let state = match newest {
            Some(round) => round,
            // Nobody holds anything but the master, whose checkpoint everybody starts from.
            None => self.roll_back(),
        };
        let first = state + 1;
        // A plan of a view in which a round was completed that nobody holds any more did not come to be.
        let mut void = Vec::new();
        while self.plans.len() > 1 && self.plans.last().is_some_and(|plan| plan.first > first) {
            void.extend(self.plans.pop().into_iter().flat_map(|plan| plan.aside));
        }
        let before =
            self.plans.last().expect("the first plan begins behind a checkpoint, and is kept until it is counted");
        let held = before.at(first).0;
        let overlap = self.options.overlap;
        let (slow_in, mut stragglers) = std::mem::take(&mut self.stragglers);
        stragglers
            .retain(|member| slow_in == first && !contributed.contains(&(first, *member)) && members.contains(member));
        if let Some(held) = &held {
            for (member, slice) in
                before.members.iter().zip(&held.slices).filter(|(member, _)| stragglers.contains(member))
            {
                let examples = slice.iter().flatten().map(Span::len).sum();
                self.actions.push(MasterAction::Tell(Told::LeaseAgain { member: *member, examples }));
            }
        }
        let blame = |member: Incarnation| match self.gone.get(&member) {
            Some(true) if overlap && contributed.contains(&(first, member)) => Blame::Next,
            Some(true) => Blame::Round { overlap },
            None if stragglers.contains(&member) => Blame::Slow,
            _ => Blame::Nothing,
        };
        let holders: BTreeSet<Incarnation> =
            frozen.iter().filter(|(_, frozen)| frozen.completed == Some(state)).map(|(member, _)| *member).collect();
        let members = match members.len() > self.options.mesh_limit {
            true if self.has(Planted::PutsAnybodyAbove) => members.into_iter().rev().collect(),
            true => arrange(&before.members, &members, &holders, |a, b| self.edges.are_relayed(a, b)),
            false => members,
        };
        let crew: Vec<_> = members.iter().map(|member| (*member, self.roster.capacity(*member))).collect();
        let mut plan = before.change(self.view, &crew, first, &void, blame);
        if self.has(Planted::ForgetsTheLostSlice) {
            plan.rest = before.at(first).1;
        }
        if self.has(Planted::RepeatsACommittedSlice)
            && first > before.first
            && let Some(committed) = before.at(first - 1).0
        {
            let lost = before.members.iter().zip(&committed.slices).filter(|(member, _)| !members.contains(member));
            lost.for_each(|(_, slice)| drop(plan.rest.give_back(&slice.concat(), true)));
        }
        if self.has(Planted::NeverSetsAside) {
            let again: Vec<Span> = plan.aside.drain(..).map(|(_, span)| Span { losses: 0, ..span }).collect();
            plan.rest.give_back(&again, false);
        }
        let lost_any = before.members.iter().any(|member| !members.contains(member));
        if lost_any && held.is_some() {
            self.actions.push(MasterAction::Tell(Told::RoundAgain { round: first }));
        }
        for (epoch, span) in plan.aside.clone() {
            self.actions.push(MasterAction::Tell(Told::SetAside { epoch, spans: vec![span] }));
            if self.options.stops_on_poison {
                self.end(Some(poison(epoch, span)));
                return;
            }
        }
        let (whole, change) = (PlanChange::whole(&plan), PlanChange::between(before, &plan));
        for (place, member) in members.iter().enumerate() {
            let is_known = frozen[member].knows == before.view || self.has(Planted::TakesTheLastPlanForKnown);
            let told = if is_known { &change } else { &whole };
            let linked = neighbours(place, members.len(), self.options.mesh_limit).into_iter().map(|at| members[at]);
            let reached = |peer: Incarnation| (peer, self.edges.address(*member, peer, self.roster.address(peer)));
            let peers = linked.map(reached).collect();
            let holders = donors_of(&members, place, &holders, self.options.mesh_limit);
            let view = ToMember::View { plan: Box::new(told.clone()), peers, holders };
            self.actions.push(MasterAction::Send(*member, view));
        }
        self.actions.push(MasterAction::Tell(Told::View { view: self.view, members, first, reason }));
        self.done = holders.iter().map(|member| (*member, state)).collect();
        self.plans.push(plan);
        self.stage = Stage::Running;
        self.state_asked_of = None;
        if !self.has(Planted::PublishesAnAbortedRound) {
            self.drop_arrived(|round| round > state);
        }
        self.count();
    }

    /// Back to the checkpoint: what was counted since is done again.
    pub(super) fn roll_back(&mut self) -> Round {
        let (round, rest) = self.saving.newest();
        let mut rest = rest.clone();
        if self.plans.last().is_some_and(|plan| !plan.members.is_empty()) {
            let aside = rest.set_aside();
            self.actions.push(MasterAction::Tell(Told::RolledBack { to: round, from: self.counted, aside }));
        }
        for (epoch, spans) in self.held_by_the_lost() {
            let aside = rest.mark(epoch, &spans);
            if !aside.is_empty() {
                self.actions.push(MasterAction::Tell(Told::SetAside { epoch, spans: aside }));
            }
        }
        self.saving.correct(rest.clone());
        self.drop_arrived(|_| true);
        self.waited.clear();
        if !self.has(Planted::KeepsTheCountAtARollBack) {
            self.counted = round;
        }
        self.plans = vec![Plan::begin(self.view, round + 1, rest)];
        round
    }

    /// What those who were lost and may be to blame worked on last, by epoch.
    pub(super) fn held_by_the_lost(&self) -> Vec<(u64, Vec<Span>)> {
        let Some(plan) = self.plans.last() else { return Vec::new() };
        let to_blame = plan.members.iter().enumerate().filter(|(_, member)| self.gone.get(member) == Some(&true));
        let held = |(place, member): (usize, &Incarnation)| {
            let round = plan.first.max(self.done.get(member).copied().unwrap_or(0) + 1);
            // Nobody is left who knows how far it was.
            let rounds = round..=round + u64::from(self.options.overlap);
            rounds.filter_map(move |round| plan.at(round).0).map(move |a| (a.epoch, a.slices[place].concat()))
        };
        to_blame.flat_map(held).collect()
    }

    /// A round waits too long for some: it is taken again without them.
    pub(super) fn go_on_without(
        &mut self,
        view: ViewNumber,
        member: Incarnation,
        round: Round,
        stragglers: &[Incarnation],
        now: Now,
    ) {
        if view != self.view || self.stage != Stage::Running {
            return;
        }
        // Who has not come to the state before the round is not slow, but on its way to it.
        let stragglers: Vec<Incarnation> =
            stragglers.iter().copied().filter(|peer| self.done.contains_key(peer)).collect();
        if stragglers.is_empty() {
            return;
        }
        let waited_before = |peer: &&Incarnation| self.waited.get(&(member, **peer)) == Some(&round);
        if let Some(peer) = stragglers.iter().find(waited_before) {
            return self.blame_edge(view, member, *peer, now);
        }
        self.waited.extend(stragglers.iter().map(|peer| ((member, *peer), round)));
        self.stragglers = (round, stragglers.iter().copied().collect());
        let named = stragglers.iter().map(|peer| number_of(*peer)).collect::<Vec<_>>().join(", ");
        self.prepare(format!("round {round} goes on without what worker {named} has not done in time"), now);
    }

    /// Both ends reach the master, but not each other.
    pub(super) fn blame_edge(&mut self, view: ViewNumber, member: Incarnation, peer: Incarnation, now: Now) {
        if view != self.view || self.stage != Stage::Running || !self.roster.contains(peer) {
            return;
        }
        self.gathering.break_up(member, peer, now);
    }

    /// Begins a view with those who have joined, and mends or parts all pairs that do not reach each other.
    pub(super) fn repair(&mut self, now: Now) {
        let due = self.gathering.take_due(now, &self.roster, &mut self.edges, self.planted);
        let Some(Due { reasons, evicted }) = due else { return };
        evicted.into_iter().for_each(|(member, reason)| self.lose(member, reason, Fault::None, now));
        if !reasons.is_empty() {
            self.prepare(reasons.join("; "), now);
        }
    }
}
