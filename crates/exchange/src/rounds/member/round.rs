//! One round at a member: contribute, sum, complete.

use super::super::message::{ToMaster, ToPeer};
use super::{At, Course, Member, MemberAction, Stage, Steps, StragglerLimit, Work};
use crate::Planted;
use crate::membership::Paths;
use crate::planted::has;
use crate::rounds::{Assignment, Incarnation, Now, Plan, Round, Slice, ViewNumber};

/// How much longer each level of a tree waits for stragglers than the one below it, in milliseconds.
const LEVEL_WAITS: Now = 200;

impl Member {
    pub(super) fn my_slice(&self) -> Option<Slice> {
        let place = self.plan.as_ref()?.members.iter().position(|member| *member == self.me)?;
        Some(self.assignment()?.slices[place].clone())
    }

    pub(super) fn assignment(&self) -> Option<&Assignment> {
        self.plan.as_ref()?.assignment.as_ref()
    }

    /// The first step of the current round.
    pub(super) fn at(&self) -> At {
        let of = |assignment: &Assignment| At { epoch: assignment.epoch, iteration: assignment.iteration };
        self.assignment().map_or_else(At::default, of)
    }

    pub(super) fn round(&self) -> Round {
        self.completed.unwrap_or(0) + 1
    }

    /// Begins to compute the current round, or the one behind it while this one is summed.
    pub(super) fn work_on(&mut self) {
        let place = |plan: &Plan| plan.members.iter().position(|member| *member == self.me);
        let Some((place, plan)) = self.plan.as_ref().and_then(|plan| Some((place(plan)?, plan))) else { return };
        let (crew, mut rest) = (&plan.crew, plan.rest.clone());
        let (assignment, round, course) = match (&self.work, &plan.assignment) {
            (None, Some(assignment)) => {
                let course = if crew.len() == 1 { Course::Alone } else { Course::Contributed };
                (assignment.clone(), self.round(), course)
            }
            (Some(work), _) if self.options.overlap && work.is_done && self.ahead.is_none() => {
                let Some(assignment) = rest.take(crew) else { return };
                (assignment, work.round + 1, Course::Ahead)
            }
            _ => return,
        };
        let of_mine = |mut assignment: Assignment| Steps {
            epoch: assignment.epoch,
            iteration: assignment.iteration,
            slice: assignment.slices.swap_remove(place),
        };
        let (steps, next) = (of_mine(assignment), rest.take(crew).map(of_mine));
        self.works += 1;
        let work = Work { number: self.works, round, slice: steps.slice.clone(), course, is_done: false };
        *(if course == Course::Ahead { &mut self.ahead } else { &mut self.work }) = Some(work);
        let plan = self.plan.as_ref().filter(|_| course == Course::Contributed);
        let gives = plan.zip(self.paths.clone()).map(|(plan, paths)| (plan.view, paths));
        self.actions.push(MemberAction::Compute { work: self.works, round, steps, next, course, gives });
    }

    /// A round that nobody else takes part in is complete when it is computed; its result is the state itself.
    pub(super) fn complete_alone(&mut self) {
        let (view, round) = (self.view, self.round());
        self.completed_round(view, round, false);
        if std::mem::take(&mut self.saves_when_done) {
            self.save();
        }
        if let Some(view) = self.freezes_for.take() {
            self.freeze(view);
        }
    }

    /// How long the current round waits. A second time it is not the work that is slow, but perhaps the link.
    pub(super) fn straggler_limit(&self) -> Option<Now> {
        let limit = match self.options.straggler_limit? {
            StragglerLimit::After(limit) => limit,
            StragglerLimit::Auto => self.lately.limit()?,
        };
        let limit = if self.told_of_waiting == self.round() { limit.max(self.options.edge_limit) } else { limit };
        // Those above wait for whom those below wait for, who know better who it is.
        Some(limit + self.paths.as_ref().map_or(0, |paths| LEVEL_WAITS * paths.height().saturating_sub(1)))
    }

    /// A round that was contributed to waits for others: the master hears of it when the limit is over.
    pub(super) fn tell_of_stragglers(&mut self, now: Now) {
        let Some((limit, paths)) = self.straggler_limit().zip(self.paths.as_ref()) else { return };
        let (view, round) = (self.view, self.round());
        let is_done = self.work.as_ref().is_some_and(|work| work.is_done && work.round == round);
        if self.stage != Stage::Active || !is_done {
            self.waits = None;
            return;
        }
        let (since, is_told) = *self.waits.get_or_insert((now, false));
        if !is_told && now >= since + limit {
            let arrived = self.arrived.get(&(view, round));
            // Who cannot be reached is told of as such.
            let is_missing = |member: &Incarnation| {
                !self.down.contains_key(member)
                    && !arrived.is_some_and(|arrived| arrived.contributions.contains(member))
            };
            let members: Vec<Incarnation> = paths.sources().into_iter().filter(is_missing).collect();
            // Should that change nothing, it is told again.
            self.waits = Some((now, false));
            if !members.is_empty() {
                self.told_of_waiting = round;
                self.tell(ToMaster::WaitsFor { view, round, members });
            }
        }
    }

    /// A view begins, and with it another division of examples.
    pub(super) fn drop_ahead(&mut self) {
        if !self.has(Planted::KeepsWhatWasComputedAhead) && self.ahead.take().is_some() {
            self.actions.push(MemberAction::DropAhead);
        }
    }

    pub(super) fn hear(&mut self, peer: Incarnation, message: ToPeer) {
        match message {
            ToPeer::Contribution { round, .. } if self.has(Planted::TakesContributionsOfOtherViews) => {
                self.arrived.entry((self.view, round)).or_default().contributions.insert(peer);
                self.complete();
            }
            ToPeer::Contribution { view, round } if self.is_of_use(view, round) => {
                self.arrived.entry((view, round)).or_default().contributions.insert(peer);
                self.complete();
            }
            ToPeer::Reduced { view, round } if self.is_of_use(view, round) => {
                self.arrived.entry((view, round)).or_default().sums.insert(peer);
                self.complete();
            }
            ToPeer::Contribution { .. } | ToPeer::Reduced { .. } => {}
            ToPeer::WantResult { view, round } | ToPeer::WantState { view, round } => {
                let began = self.plan.as_ref().map_or(0, |plan| plan.view);
                if view == began && self.completed == Some(round) {
                    self.serve(peer, round, matches!(message, ToPeer::WantResult { .. }));
                } else if view > began || (view == began && matches!(self.stage, Stage::CatchingUp { .. })) {
                    self.wanting.insert(peer, view);
                }
                // Otherwise whoever asked asks somebody else, or is told of another view.
            }
            ToPeer::Result { round } => {
                let state = self.plan.as_ref().map(|plan| plan.first - 1);
                let is_next = self.completed.is_some_and(|completed| completed + 1 == round) && state == Some(round);
                if matches!(self.stage, Stage::CatchingUp { .. }) && is_next {
                    self.actions.push(MemberAction::ApplyFetched(round, self.behind));
                    self.has_result = true;
                    self.catch_up(round);
                }
            }
            ToPeer::State { round } => self.adopt(round),
            // Of the other mode.
            ToPeer::Sharing(_) => {}
        }
    }

    /// Gives a peer what it lacks, once on every link.
    pub(super) fn serve(&mut self, peer: Incarnation, round: Round, is_one_behind: bool) {
        if self.served.insert(peer, round) != Some(round) {
            // The state is as good, only longer.
            self.actions.push(match is_one_behind && self.has_result {
                true => MemberAction::ServeResult(peer, round),
                false => MemberAction::ServeState(peer, round),
            });
        }
    }

    /// Of this view or one that begins here soon; not behind, and no further ahead than a peer can be.
    pub(super) fn is_of_use(&self, view: ViewNumber, round: Round) -> bool {
        view > self.view || (view == self.view && self.completed.is_none_or(|completed| round > completed))
    }

    /// Sends the own contribution as far as it is there; in a tree it is kept for the sum.
    pub(super) fn contribute_to_all(&mut self) {
        let Some(paths) = self.paths.clone().filter(|_| self.stage == Stage::Active) else { return };
        let round = self.round();
        if !self.work.as_ref().is_some_and(|work| work.is_done && work.round == round) {
            return;
        }
        match &paths {
            Paths::Mesh { members, .. } => members.iter().for_each(|to| self.contribute(members, *to, round)),
            Paths::Tree { me, .. } => self.contribute(&[*me], *me, round),
        }
        self.arrived.entry((self.view, round)).or_default().contributions.insert(self.me);
        self.complete();
    }

    fn contribute(&mut self, summers: &[Incarnation], to: Incarnation, round: Round) {
        let (view, parts) = (self.view, summers.len());
        let part = summers.iter().position(|member| *member == to).unwrap_or(0);
        self.actions.push(MemberAction::Contribute { to, view, round, part, parts });
    }

    /// Sums when all whose contributions fall to this one have given them; completes when the whole is here.
    pub(super) fn complete(&mut self) {
        let Some((plan, paths)) = self.plan.clone().zip(self.paths.clone()).filter(|_| self.stage == Stage::Active)
        else {
            return;
        };
        let (view, round, members) = (plan.view, self.round(), &plan.members);
        let Some(arrived) = self.arrived.get_mut(&(view, round)) else { return };
        let parent = paths.parent();
        let is_hasty = has(self.planted, Planted::SumsBeforeAllBelowHaveGiven) && parent.is_some();
        let is_given =
            |member: &Incarnation| arrived.contributions.contains(member) || (is_hasty && *member != self.me);
        if !arrived.is_summed && paths.sources().iter().all(is_given) {
            arrived.is_summed = true;
            self.actions.push(MemberAction::Sum { view, round, paths: paths.clone() });
            match parent {
                Some(to) => self.actions.push(MemberAction::PassUp { to, view, round }),
                None => drop(arrived.sums.insert(self.me)),
            }
        }
        let is_whole = paths.summers().iter().all(|member| arrived.sums.contains(member));
        // In a tree the whole is sent on, otherwise what was summed here.
        let is_to_be_sent = if parent.is_some() { is_whole } else { arrived.is_summed };
        let is_selfish = parent.is_some() && has(self.planted, Planted::KeepsTheWholeToItself);
        if is_to_be_sent && !is_selfish && !std::mem::replace(&mut arrived.is_passed_on, true) {
            let send = |to| MemberAction::Distribute { to, view, round };
            self.actions.extend(paths.receivers().into_iter().map(send));
        }
        if !is_whole {
            return;
        }
        let at = self.at();
        self.actions.push(MemberAction::Apply { view, round, members: members.clone(), at });
        self.actions.push(MemberAction::Forget(view, round));
        self.arrived.remove(&(view, round));
        self.completed_round(view, round, true);
        // Faster peers may have contributed to the next one.
        self.complete();
    }

    /// What follows when a round is complete here.
    fn completed_round(&mut self, view: ViewNumber, round: Round, has_result: bool) {
        if let Some(since) = self.waiting_since.take().filter(|_| has_result) {
            self.lately.waited(self.now.saturating_sub(since));
        }
        (self.completed, self.completed_here, self.work) = (Some(round), has_result, self.ahead.take());
        self.waits = None;
        self.has_result = has_result;
        let ended = self.assignment().is_some_and(|assignment| assignment.ends_epoch);
        let Some(plan) = &mut self.plan else { return };
        (plan.first, plan.assignment) = (round + 1, plan.rest.take(&plan.crew));
        let is_first = plan.members[0] == self.me;
        self.tell(ToMaster::Done { view, round });
        if is_first && (ended || self.options.save_every.is_some_and(|every| round.is_multiple_of(every))) {
            self.save();
        }
    }

    /// Sends the state of the last completed round, with what is left behind it.
    pub(super) fn save(&mut self) {
        let Some(round) = self.completed.filter(|_| self.stage == Stage::Active) else { return };
        let Some(Plan { assignment, mut rest, .. }) = self.plan.clone() else { return };
        if let Some(assignment) = assignment.filter(|_| !self.has(Planted::SavesTheScheduleOneRoundLate)) {
            rest.put_back(&assignment);
        }
        self.actions.push(MemberAction::SaveState(round, rest));
    }

    /// The link to a peer is new: says again what it may not have heard.
    pub(super) fn say_again(&mut self, peer: Incarnation, now: Now) {
        let Some(paths) = self.paths.clone() else { return };
        let (view, round) = (self.view, self.round());
        match self.stage {
            Stage::Active => {
                let is_summed = self.arrived.get(&(view, round)).is_some_and(|arrived| arrived.is_summed);
                let is_done = self.work.as_ref().is_some_and(|work| work.is_done && work.round == round);
                if self.completed_here && paths.receivers().contains(&peer) {
                    self.actions.push(MemberAction::Distribute { to: peer, view, round: round - 1 });
                }
                match &paths {
                    Paths::Mesh { members, .. } if members.contains(&peer) => {
                        if is_done {
                            self.contribute(members, peer, round);
                        }
                        if is_summed {
                            self.actions.push(MemberAction::Distribute { to: peer, view, round });
                        }
                    }
                    Paths::Tree { parent: Some(parent), .. } if *parent == peer && is_summed => {
                        self.actions.push(MemberAction::PassUp { to: peer, view, round });
                    }
                    Paths::Mesh { .. } | Paths::Tree { .. } => {}
                }
            }
            // What was on its way from there is lost.
            Stage::CatchingUp { ref holders, .. } if holders.contains(&peer) => self.ask_for_what_is_missing(now),
            Stage::CatchingUp { .. } => {}
            Stage::Still | Stage::Over => {}
        }
    }
}
