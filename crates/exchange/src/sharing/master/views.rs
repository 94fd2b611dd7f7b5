//! How a view begins: everybody says what they hold of those that are lost, and the most that anybody holds counts.

use std::collections::{BTreeMap, BTreeSet};

use super::super::message::{Order, Sharing};
use super::{Have, Holding, Holds, Incarnation, Lost, Mark, Master, Now, Sequence, Stage, Told, ViewNumber};
use crate::membership::{Crew, Due, Fault, Waiting, arrange, donors_of, neighbours};
use crate::planted::Planted;
use crate::rounds::{Capacity, Span, number_of, poison};

/// Cuts that are remembered for members that come back.
const CUTS_KEPT: usize = 64;

impl Master {
    pub(super) fn prepare(&mut self, reason: String, now: Now) {
        if self.stage == Stage::Ended {
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
        let lost: Vec<Incarnation> = self.lost.keys().copied().collect();
        for member in self.roster.ready() {
            self.order(member, Order::Cut { view: self.view, lost: lost.clone() });
        }
        self.caught_up.clear();
        self.asked = None;
        self.stage = Stage::Preparing { reason, holds: BTreeMap::new(), is_outdated: false };
    }

    /// Whether a view of those who are here can begin.
    pub(super) fn has_enough(&self) -> bool {
        self.roster.has_enough(&self.options, self.stop_asked.is_some())
    }

    pub(super) fn take_holds(
        &mut self,
        member: Incarnation,
        view: ViewNumber,
        has_state: bool,
        have: Vec<(Incarnation, Have, Sequence)>,
        knows: ViewNumber,
    ) {
        let Stage::Preparing { holds, .. } = &mut self.stage else { return };
        if view != self.view {
            return;
        }
        let have = have.into_iter().map(|(lost, have, from)| (lost, (have, from))).collect();
        holds.insert(member, Holds { has_state, have, knows });
    }

    pub(super) fn begin_if_all_have_answered(&mut self, now: Now) {
        let Stage::Preparing { reason, holds, is_outdated } = &self.stage else { return };
        let ready = self.roster.ready();
        if !ready.iter().all(|member| holds.contains_key(member)) {
            return;
        }
        let (reason, holds) = (reason.clone(), holds.clone());
        if *is_outdated {
            return self.prepare(reason, now);
        }
        match self.out_of_reach(&holds) {
            Some((member, lost)) => {
                let reason = format!("it lacks messages of worker {} that nobody keeps any more", number_of(lost));
                self.lose(member, reason, Fault::None, now);
            }
            None => self.begin(ready, &holds, reason),
        }
    }

    /// Who holds the most of a lost member's messages, and of equals who could give the most of them.
    fn holder(&self, holds: &BTreeMap<Incarnation, Holds>, lost: Incarnation) -> Option<(Have, Sequence, Incarnation)> {
        let held = holds.iter().filter(|(_, holds)| holds.has_state).map(|(member, holds)| {
            let (have, from) = holds.have.get(&lost).copied().unwrap_or((Have::default(), 1));
            (have, from, *member)
        });
        match self.has(Planted::CutsAtTheLeast) {
            false => held.max_by_key(|(have, from, _)| (*have, std::cmp::Reverse(*from))),
            true => held.min_by_key(|(have, ..)| *have),
        }
    }

    /// A member that lacks messages which those who have them got with a state, so that they cannot give them away.
    fn out_of_reach(&self, holds: &BTreeMap<Incarnation, Holds>) -> Option<(Incarnation, Incarnation)> {
        for lost in self.lost.keys() {
            let Some((cut, from, _)) = self.holder(holds, *lost) else { continue };
            let lacks = |holds: &Holds| {
                let have = holds.have.get(lost).map_or(0, |(have, _)| have.sequence);
                holds.has_state && have < cut.sequence && have + 1 < from
            };
            if let Some((member, _)) = holds.iter().find(|(_, holds)| lacks(holds)) {
                return Some((*member, *lost));
            }
        }
        None
    }

    fn begin(&mut self, members: Vec<Incarnation>, holds: &BTreeMap<Incarnation, Holds>, reason: String) {
        let donors: BTreeSet<Incarnation> = members.iter().copied().filter(|member| holds[member].has_state).collect();
        let members = match members.len() > self.options.mesh_limit {
            true => arrange(&self.members, &members, &donors, |a, b| self.edges.are_relayed(a, b)),
            false => members,
        };
        let mut cuts = Vec::new();
        if donors.is_empty() {
            self.roll_back();
        } else {
            let mut aside: Vec<(u64, Vec<Span>)> = Vec::new();
            for (member, mut lost) in std::mem::take(&mut self.lost) {
                let (cut, _, holder) = self.holder(holds, member).expect("there is a donor");
                aside.extend(self.resolve(member, &mut lost, cut.covered));
                self.remember_cut(member, cut);
                cuts.push((member, cut, holder));
                self.lost.insert(member, lost);
            }
            if self.set_aside(aside) {
                return;
            }
        }
        let crew: Vec<Capacity> = members.iter().map(|member| self.roster.capacity(*member)).collect();
        let whole = Crew::change((0, &[]), &members, &crew);
        let change = Crew::change((self.begun, &self.members), &members, &crew);
        for (place, member) in members.iter().enumerate() {
            let is_known = holds[member].knows == self.begun || self.has(Planted::TakesTheLastPlanForKnown);
            let was = self.former.get(member).copied();
            let linked = neighbours(place, members.len(), self.options.mesh_limit).into_iter().map(|at| members[at]);
            let reached = |peer: Incarnation| (peer, self.edges.address(*member, peer, self.roster.address(peer)));
            let view = Sharing {
                view: self.view,
                crew: if is_known { change.clone() } else { whole.clone() },
                peers: linked.map(reached).collect(),
                cuts: cuts.clone(),
                donors: donors_of(&members, place, &donors, self.options.mesh_limit),
                begins_anew: donors.is_empty(),
                round: self.saving.newest().0,
                former: was.and_then(|was| Some((was, self.cuts.get(&was).copied()?))),
            };
            self.order(*member, Order::View(Box::new(view)));
            self.holdings.entry(*member).or_default();
        }
        self.tell(Told::View { view: self.view, members: members.clone(), first: self.counted + 1, reason });
        (self.begun, self.members) = (self.view, members);
        self.stage = Stage::Running;
    }

    /// Counts what a lost member had done up to the cut, and takes back what lies behind it.
    fn resolve(&mut self, member: Incarnation, lost: &mut Lost, cut: Mark) -> Vec<(u64, Vec<Span>)> {
        let (counted, end) = (lost.holding.one, lost.returned);
        let (mut aside, mut again, mut to_blame) = (Vec::new(), 0, lost.to_blame);
        for lease in &lost.holding.leases {
            let (done, before) = (lease.done_at(cut), lease.done_at(counted));
            let end = end.map_or(lease.examples(), |end| lease.done_at(end));
            if done > before {
                self.count(member, lease.epoch, lease.part(before, done), lease.step);
            }
            if done < before {
                let spans = lease.part(done, before);
                self.counted -= before - done;
                self.pace.slow_down(before - done, lease.step);
                self.tell(Told::TakenBack { member, epoch: lease.epoch, spans, counted: self.counted });
            }
            if done >= end || self.has(Planted::ForgetsTheLostLease) {
                continue;
            }
            again += end - done;
            self.schedule.slow_down(end - done, lease.step);
            // What killed it, if anything it held did, is in the first lease that it is not known to have lived through.
            let is_first = lease.done_at(lost.holding.survived) < lease.examples();
            let is_blamed = is_first && std::mem::take(&mut to_blame);
            let spans = self.schedule.give_back(&lease.part(done, end), is_blamed);
            if !spans.is_empty() {
                aside.push((lease.epoch, spans));
            }
        }
        if again > 0 {
            self.tell(Told::LeaseAgain { member, examples: again });
        }
        (lost.holding.one, lost.returned) = (cut, Some(cut));
        aside
    }

    fn remember_cut(&mut self, member: Incarnation, cut: Have) {
        self.cuts.insert(member, cut.sequence);
        while self.cuts.len() > CUTS_KEPT {
            self.cuts.pop_first();
        }
    }

    /// Tells what is set aside; whether the run ends with it.
    fn set_aside(&mut self, aside: Vec<(u64, Vec<Span>)>) -> bool {
        let first = aside.first().map(|(epoch, spans)| (*epoch, spans[0]));
        for (epoch, spans) in aside {
            self.tell(Told::SetAside { epoch, spans });
        }
        if let Some((epoch, span)) = first.filter(|_| self.options.stops_on_poison) {
            self.end(Some(poison(epoch, span)));
            return true;
        }
        false
    }

    /// Nobody holds anything but the master, whose checkpoint everybody starts from.
    fn roll_back(&mut self) {
        let (round, rest) = self.saving.newest();
        let mut rest = rest.clone();
        let lost = std::mem::take(&mut self.lost);
        if self.counted > round || !lost.is_empty() {
            let aside = rest.set_aside();
            self.tell(Told::RolledBack { to: round, from: self.counted, aside });
        }
        let held = |lost: &Lost| {
            let Holding { leases, one, survived, .. } = &lost.holding;
            let done = (*one).max(*survived);
            let lease = leases.iter().find(|lease| lease.done_at(done) < lease.examples())?;
            // The checkpoint may have some of it, from others that were lost.
            Some((lease.epoch, rest.not_taken(lease.epoch, &lease.part(lease.done_at(done), lease.examples()))))
        };
        let held = lost.values().filter(|lost| lost.to_blame).filter_map(held);
        let mut held: Vec<(u64, Span)> =
            held.flat_map(|(epoch, spans)| spans.into_iter().map(move |span| (epoch, span))).collect();
        // What came back may have been lost again since: the later loss knows of the earlier.
        held.sort_by_key(|(_, span)| span.losses);
        for (epoch, span) in held {
            let aside = rest.mark(epoch, &[span]);
            if !aside.is_empty() {
                self.tell(Told::SetAside { epoch, spans: aside });
            }
        }
        self.holdings.clear();
        self.hungry.clear();
        // Their messages do not count any more, wherever they were cut.
        self.cuts.clear();
        self.saving.correct(rest.clone());
        self.schedule = rest;
        if !self.has(Planted::KeepsTheCountWhenAllAreLost) {
            self.counted = round;
        }
        self.pace = self.schedule.pace();
        self.is_done = false;
    }

    pub(super) fn take_caught_up(&mut self, member: Incarnation, view: ViewNumber) {
        if view != self.view || self.stage != Stage::Running {
            return;
        }
        self.caught_up.insert(member);
        if self.members.iter().all(|member| self.caught_up.contains(member)) {
            self.lost.clear();
        }
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
