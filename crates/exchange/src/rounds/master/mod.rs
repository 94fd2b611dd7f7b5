//! The master's side of rounds: membership, views, what counts, checkpoints.

mod counting;
mod partitions;
#[cfg(test)]
mod tests;
mod views;
mod words;

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
pub use words::{MasterAction, MasterEvent, MasterOptions, Operator};

use super::message::{ToMaster, ToMember};
use crate::membership::{DONE, Edges, Fault, GATHERED_FOR, Gathering, Hold, LEFT, Roster, Saving, Waiting, add_reason};
use crate::planted::{Planted, has};

use super::{Brings, Capacity, Incarnation, Now, Plan, Round, Schedule, Slots, Term, Told, ViewNumber, number_of};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Stage {
    /// Too few members.
    Waiting(Waiting),
    /// Members freeze and say where they are.
    Preparing {
        reason: String,
        frozen: BTreeMap<Incarnation, Frozen>,
        /// Whose contributions to which rounds have arrived at somebody who is here.
        contributed: BTreeSet<(Round, Incarnation)>,
    },
    /// A view is at work.
    Running,
    Ended,
}

/// Where a member has frozen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Frozen {
    /// The last round that it has completed; none while it has no state.
    completed: Option<Round>,
    /// The view whose plan it knows.
    knows: ViewNumber,
}

/// A master in one term.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Master {
    options: MasterOptions,
    term: Term,
    view: ViewNumber,
    stage: Stage,
    roster: Roster,
    /// Plans that a round in doubt could belong to, oldest first; the last is that of the newest view.
    plans: Vec<Plan>,
    /// Rounds that members of the newest view have said are done.
    done: BTreeMap<Incarnation, Round>,
    /// Every member has said so of this round, and it is counted.
    counted: Round,
    /// The newest checkpoint, and the next.
    saving: Saving,
    /// A state that has arrived for a round that is not counted yet.
    arrived: Option<(Round, Schedule)>,
    /// The round whose state the newest view was asked for, because it ends or goes.
    state_asked_of: Option<Round>,
    /// Members that were lost or left; those that left are not to blame for what they held.
    gone: BTreeMap<Incarnation, bool>,
    /// A round, and members that it waited for too long: what they took in it comes back, unless they have contributed by now.
    stragglers: (Round, BTreeSet<Incarnation>),
    /// The last round in which one has waited for another. If that happens twice, it is the link between them.
    waited: BTreeMap<(Incarnation, Incarnation), Round>,
    /// Pairs that could not reach each other.
    edges: Edges,
    /// What asks for a new view.
    gathering: Gathering,
    /// Nobody who is here holds what is left.
    idle: Option<Waiting>,
    hold: Hold,
    /// The end was asked for when this round was the last that counted.
    stop_asked: Option<Round>,
    actions: Vec<MasterAction>,
    planted: Option<Planted>,
}

impl Master {
    /// A master whose newest checkpoint is that of a round, with this left to do.
    pub fn new(options: MasterOptions, term: Term, round: Round, rest: Schedule, now: Now) -> Self {
        Self {
            options,
            term,
            view: 0,
            stage: Stage::Waiting(Waiting::new(now)),
            roster: Roster::default(),
            plans: vec![Plan::begin(0, round + 1, rest.clone())],
            done: BTreeMap::new(),
            counted: round,
            saving: Saving::new(round, rest),
            arrived: None,
            state_asked_of: None,
            gone: BTreeMap::new(),
            stragglers: (0, BTreeSet::new()),
            waited: BTreeMap::new(),
            edges: Edges::default(),
            gathering: Gathering::default(),
            idle: None,
            hold: Hold::default(),
            stop_asked: None,
            actions: Vec::new(),
            planted: None,
        }
    }

    /// Plants a mistake, for the simulator.
    pub fn plant(&mut self, mistake: Option<Planted>) {
        self.planted = mistake;
    }

    fn has(&self, mistake: Planted) -> bool {
        has(self.planted, mistake)
    }

    /// The term.
    pub fn term(&self) -> Term {
        self.term
    }

    /// The newest view, and who is in it.
    pub fn view(&self) -> (ViewNumber, &[Incarnation]) {
        (self.view, self.plans.last().map_or(&[], |plan| &plan.members))
    }

    /// The last round that counts.
    pub fn counted(&self) -> Round {
        self.counted
    }

    /// Members that are there, with when they were last heard of.
    pub fn members(&self) -> impl Iterator<Item = (Incarnation, Now)> {
        self.roster.heard()
    }

    /// The last round that a member of the newest view has said is done.
    pub fn done(&self, member: Incarnation) -> Round {
        self.done.get(&member).copied().unwrap_or(0)
    }

    /// What is left to do behind the newest state that the master holds, which may be on its way to the disk.
    pub fn newest(&self) -> Schedule {
        self.saving.newest().1.clone()
    }

    /// What was left to do at the newest checkpoint.
    pub fn rest(&self) -> Schedule {
        self.saving.rest().clone()
    }

    /// What this state is called.
    pub fn phase(&self) -> &'static str {
        match self.stage {
            Stage::Waiting(_) => "waiting",
            Stage::Preparing { .. } => "preparing",
            Stage::Running if self.hold.is_on() => "paused",
            Stage::Running => "running",
            Stage::Ended => "ended",
        }
    }

    /// Plans that are kept: bounded by how far members can be apart.
    pub fn plans_kept(&self) -> usize {
        self.plans.len()
    }

    /// What happens, and what follows from it.
    pub fn handle(&mut self, event: MasterEvent, now: Now) -> Vec<MasterAction> {
        if self.stage != Stage::Ended {
            self.happen(event, now);
            self.hold.look(self.options.silence_limit, now);
            self.find_silent(now);
            self.repair(now);
            self.begin_if_all_are_frozen();
            self.save_again(now);
            self.let_go(now);
            self.wait(now);
            self.set_timer(now);
        }
        std::mem::take(&mut self.actions)
    }

    fn happen(&mut self, event: MasterEvent, now: Now) {
        match event {
            MasterEvent::Joined(member) => self.roster.join(member, now),
            MasterEvent::Said(member, message) => {
                if self.roster.hear(member, now) {
                    self.hear(member, message, now);
                }
            }
            MasterEvent::Arriving(member) => drop(self.roster.hear(member, now)),
            MasterEvent::LinkLost(member, reason) => {
                self.lose(member, format!("its connection ended: {reason}"), Fault::ToBlame, now)
            }
            MasterEvent::StateArrived(member, round, rest) => self.take_state(member, round, rest),
            // Of the other mode.
            MasterEvent::SharedStateArrived { round, .. } => self.actions.push(MasterAction::Discard(round)),
            MasterEvent::Persisted(round) => self.take_persisted(round),
            MasterEvent::SaveFailed(round, reason) => self.take_failure(round, reason, now),
            MasterEvent::WasAway => self.roster.hear_all(now),
            MasterEvent::CoordinatorAway(is_away) => self.hold.set_unsure(is_away, now),
            MasterEvent::Asked(operator) => self.obey(operator, now),
            MasterEvent::Tick => {}
        }
    }

    fn hear(&mut self, member: Incarnation, message: ToMaster, now: Now) {
        match message {
            ToMaster::Ready { data, address, slots, .. } => self.admit(member, data, address, slots, now),
            ToMaster::Beat { beat } => {
                self.actions.push(MasterAction::Send(member, ToMember::Renew { beat, paused: self.hold.is_on() }));
            }
            ToMaster::Frozen { view, completed, contributed: heard, knows } => {
                if let Stage::Preparing { frozen, contributed, .. } = &mut self.stage
                    && view == self.view
                {
                    frozen.insert(member, Frozen { completed, knows });
                    let round = completed.unwrap_or(0) + 1;
                    contributed.extend(heard.into_iter().map(|by| (round, by)));
                }
            }
            ToMaster::Done { view, round } => {
                let is_current = view == self.view && self.stage == Stage::Running;
                if is_current && self.plans.last().is_some_and(|plan| plan.members.contains(&member)) {
                    self.done.insert(member, round);
                    self.count();
                }
            }
            ToMaster::Unreachable { view, peer } => self.blame_edge(view, member, peer, now),
            ToMaster::WaitsFor { view, round, members } => {
                self.go_on_without(view, member, round, &members, now);
            }
            ToMaster::Leave => self.lose(member, LEFT.into(), Fault::Goes, now),
            // Of the other mode.
            ToMaster::Sharing(_) => {}
        }
    }

    fn admit(&mut self, member: Incarnation, data: Brings, address: String, slots: Slots, now: Now) {
        if let Some(reason) = self.saving.rest().refuses(&data, self.options.data.as_ref()) {
            self.roster.remove(member);
            self.actions.push(MasterAction::Tell(Told::WorkerRefused { member, reason: reason.clone() }));
            self.actions.push(MasterAction::Refuse(member, reason));
            return;
        }
        let held = match self.has(Planted::GivesWhatItDoesNotHold) {
            true => self.saving.rest().everything().held,
            false => data.held(),
        };
        self.roster.admit(member, address, Capacity { slots, held });
        self.actions.push(MasterAction::Tell(Told::WorkerJoined(member)));
        if self.comes_too_late(member) {
            return self.lose(member, DONE.into(), Fault::Goes, now);
        }
        self.gathering.join(member, now, self.roster.gathers_for(GATHERED_FOR, &self.options, self.view));
    }

    /// A member is gone. Its silence or its broken link is the reason; whether it was to blame decides about what it held.
    fn lose(&mut self, member: Incarnation, reason: String, fault: Fault, now: Now) {
        let Some(was_ready) = self.roster.remove(member) else { return };
        self.gone.insert(member, fault == Fault::ToBlame);
        self.edges.forget(member);
        self.actions.push(MasterAction::Tell(Told::gone(member, was_ready, &reason)));
        self.actions
            .push(MasterAction::Send(member, ToMember::Stop { reason: reason.clone(), rejoin: fault != Fault::Goes }));
        self.actions.push(MasterAction::Close(member));
        let in_view = self.plans.last().is_some_and(|plan| plan.members.contains(&member));
        let why = format!("worker {} was lost: {reason}", number_of(member));
        let (has_enough, forgets) = (self.has_enough(), self.has(Planted::CountsOnWhoWasLostMeanwhile));
        match &mut self.stage {
            _ if !was_ready => {}
            // The others have frozen, or will: one less is waited for.
            Stage::Preparing { frozen, reason, .. } if has_enough => {
                if !forgets {
                    frozen.remove(&member);
                }
                add_reason(reason, &why);
            }
            Stage::Preparing { .. } => self.prepare(why, now),
            _ if in_view => self.prepare(why, now),
            _ => {}
        }
    }

    fn obey(&mut self, operator: Operator, now: Now) {
        match operator {
            Operator::Pause | Operator::Resume => {
                let is_asked = operator == Operator::Pause;
                self.hold.ask(is_asked);
                self.actions.push(MasterAction::Tell(Told::Paused(is_asked)));
            }
            Operator::Save => self.ask_for_state(),
            Operator::Stop => {
                self.stop_asked.get_or_insert(self.counted);
                match self.stage {
                    Stage::Running => self.end_if_done(),
                    // Whoever is here holds more than the last checkpoint, perhaps.
                    Stage::Waiting(_) => self.prepare("the run is to stop".into(), now),
                    Stage::Preparing { .. } | Stage::Ended => {}
                }
            }
        }
    }

    fn find_silent(&mut self, now: Now) {
        let limit = self.options.silence_limit;
        for member in self.roster.silent(now, limit) {
            self.lose(member, format!("nothing was heard of it for {limit} ms"), Fault::ToBlame, now);
        }
    }

    fn set_timer(&mut self, now: Now) {
        let silence = self.roster.next_silence(self.options.silence_limit);
        let waiting = match &self.stage {
            Stage::Waiting(waiting) => Some(waiting.next(&self.options, now)),
            _ => self.idle.as_ref().map(|idle| idle.next(&self.options, now)),
        };
        let hold = self.hold.timer(self.options.silence_limit);
        if let Some(at) =
            silence.into_iter().chain(waiting).chain(self.saving.next()).chain(hold).chain(self.gathering.next()).min()
        {
            self.actions.push(MasterAction::SetTimer(at));
        }
    }
}
