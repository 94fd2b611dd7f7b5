//! The master's side of `shared`: membership, cuts, leases, what counts, checkpoints.

mod leases;
mod partitions;
mod saving;
#[cfg(test)]
mod tests;
mod views;

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::message::{Order, Report};
use super::{Have, Lease, LeaseId, Mark, Sequence};
use crate::membership::{DONE, Edges, Fault, GATHERED_FOR, Gathering, Hold, LEFT, Roster, Saving, Waiting, add_reason};
use crate::planted::{Planted, has};
use crate::rounds::message::{ToMaster, ToMember};
use crate::rounds::{
    Brings, Capacity, Incarnation, MasterAction, MasterEvent, MasterOptions, Now, Operator, Pace, Round, Schedule,
    Slots, StepSize, Term, Told, ViewNumber, number_of,
};

/// How leases are cut, and when checkpoints are taken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SharingOptions {
    /// Examples of a step.
    pub share: StepSize,
    /// Steps of a lease; fewer near the end of an epoch.
    pub steps_per_lease: u64,
    /// A checkpoint after so many examples, and at the end of an epoch.
    pub save_every: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Stage {
    /// Too few members.
    Waiting(Waiting),
    /// Members say what they hold of those that are lost.
    Preparing {
        reason: String,
        holds: BTreeMap<Incarnation, Holds>,
        /// Whether more were lost since.
        is_outdated: bool,
    },
    /// A view is at work.
    Running,
    Ended,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Holds {
    has_state: bool,
    /// Of each that is lost, and from where on it could be given to others.
    have: BTreeMap<Incarnation, (Have, Sequence)>,
    /// The view whose members it knows.
    knows: ViewNumber,
}

/// What a member was given of this epoch, and how far it is known to have come.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Holding {
    leases: Vec<Lease>,
    /// Another member holds its messages up to here, or a checkpoint does: so far it is counted.
    one: Mark,
    /// All members do.
    all: Mark,
    /// It has taken the steps up to here and lived.
    survived: Mark,
}

/// A member that is gone, until all others have the same of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Lost {
    to_blame: bool,
    holding: Holding,
    /// From where on its leases have come back.
    returned: Option<Mark>,
}

/// The first view waits so long for more workers, in milliseconds: a young network takes it ill when its first steps are taken by
/// one, then by two, then by four.
const FIRST_GATHERED_FOR: Now = 300;

/// A master in one term.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Master {
    options: MasterOptions,
    sharing: SharingOptions,
    term: Term,
    view: ViewNumber,
    stage: Stage,
    roster: Roster,
    /// The newest view that began, and its members.
    begun: ViewNumber,
    members: Vec<Incarnation>,
    /// Those of them that have a state with everything up to the cuts.
    caught_up: BTreeSet<Incarnation>,
    /// What nobody has been given.
    schedule: Schedule,
    holdings: BTreeMap<Incarnation, Holding>,
    lost: BTreeMap<Incarnation, Lost>,
    hungry: BTreeSet<Incarnation>,
    next_lease: LeaseId,
    /// Examples that count, of all epochs.
    counted: Round,
    /// Their steps.
    pace: Pace,
    /// The newest checkpoint, and the next.
    saving: Saving,
    /// Whether a checkpoint is wanted, and who was asked for its state.
    save_wanted: bool,
    asked: Option<Incarnation>,
    /// Who members were before, and up to where the messages of those that are gone counted.
    former: BTreeMap<Incarnation, Incarnation>,
    cuts: BTreeMap<Incarnation, Sequence>,
    /// When the first view begins with those who are there.
    gathers_until: Option<Now>,
    /// How often each pair could not reach each other.
    edges: Edges,
    /// What asks for a new view.
    gathering: Gathering,
    is_done: bool,
    /// Nobody who is here holds what is left.
    idle: Option<Waiting>,
    hold: Hold,
    /// The end was asked for when so many examples counted.
    stop_asked: Option<Round>,
    actions: Vec<MasterAction>,
    planted: Option<Planted>,
}

impl Master {
    /// A master whose newest checkpoint has so many examples in it, with this left to do.
    pub fn new(
        options: MasterOptions,
        sharing: SharingOptions,
        term: Term,
        round: Round,
        rest: Schedule,
        now: Now,
    ) -> Self {
        Self {
            options,
            sharing,
            term,
            view: 0,
            stage: Stage::Waiting(Waiting::new(now)),
            roster: Roster::default(),
            begun: 0,
            members: Vec::new(),
            caught_up: BTreeSet::new(),
            schedule: rest.clone(),
            holdings: BTreeMap::new(),
            lost: BTreeMap::new(),
            hungry: BTreeSet::new(),
            next_lease: 0,
            counted: round,
            pace: rest.pace(),
            saving: Saving::new(round, rest),
            save_wanted: false,
            asked: None,
            former: BTreeMap::new(),
            cuts: BTreeMap::new(),
            gathers_until: None,
            edges: Edges::default(),
            gathering: Gathering::default(),
            is_done: false,
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
        (self.view, &self.members)
    }

    /// Examples that count.
    pub fn counted(&self) -> Round {
        self.counted
    }

    /// Members that are there, with when they were last heard of.
    pub fn members(&self) -> impl Iterator<Item = (Incarnation, Now)> {
        self.roster.heard()
    }

    /// The lease up to which a member is known to have come.
    pub fn done(&self, member: Incarnation) -> Round {
        self.holdings.get(&member).map_or(0, |holding| holding.one.lease)
    }

    /// Leases of a member that are not known to be done.
    pub fn leases_out(&self, member: Incarnation) -> usize {
        let out = |holding: &Holding| {
            holding.leases.iter().filter(|lease| lease.done_at(holding.one) < lease.examples()).count()
        };
        self.holdings.get(&member).map_or(0, out)
    }

    /// Members that are lost and of which not all others are known to hold the same.
    pub fn unsettled(&self) -> usize {
        self.lost.len()
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

    /// What happens, and what follows from it.
    pub fn handle(&mut self, event: MasterEvent, now: Now) -> Vec<MasterAction> {
        if self.stage != Stage::Ended {
            self.happen(event, now);
            self.hold.look(self.options.silence_limit, now);
            self.find_silent(now);
            self.repair(now);
            self.actions.extend(self.saving.try_again(now));
            self.begin_when_gathered(now);
            self.begin_if_all_have_answered(now);
            self.go_on();
            self.let_go(now);
            self.wait(now);
            self.ask_for_state();
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
                self.lose(member, format!("its connection ended: {reason}"), Fault::ToBlame, now);
            }
            MasterEvent::SharedStateArrived { member, view, epoch, round, vector } => {
                self.take_state(member, view, epoch, round, &vector);
            }
            // Of the other modes.
            MasterEvent::StateArrived(_, round, _) => self.actions.push(MasterAction::Discard(round)),
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
            ToMaster::Ready { data, address, was, slots } => {
                self.admit(member, data, address, was, slots, now);
            }
            ToMaster::Beat { beat } => {
                let paused = self.hold.is_on() || matches!(self.stage, Stage::Waiting(_));
                self.send(member, ToMember::Renew { beat, paused });
            }
            ToMaster::Sharing(report) => self.hear_report(member, report),
            ToMaster::Unreachable { view, peer } => self.blame_edge(view, member, peer, now),
            ToMaster::Leave => self.lose(member, LEFT.into(), Fault::Goes, now),
            // Of the other modes.
            ToMaster::Frozen { .. } | ToMaster::Done { .. } | ToMaster::WaitsFor { .. } => {}
        }
    }

    fn hear_report(&mut self, member: Incarnation, report: Report) {
        match report {
            Report::Holds { view, has_state, have, knows } => self.take_holds(member, view, has_state, have, knows),
            Report::CaughtUp { view } => self.take_caught_up(member, view),
            Report::Wants { done } => {
                if let Some(holding) = self.holdings.get_mut(&member) {
                    holding.survived = holding.survived.max(done);
                    self.hungry.insert(member);
                }
            }
            Report::Covered { one, all } => self.cover(member, one, all),
        }
    }

    fn send(&mut self, member: Incarnation, message: ToMember) {
        self.actions.push(MasterAction::Send(member, message));
    }

    fn order(&mut self, member: Incarnation, order: Order) {
        self.send(member, ToMember::Sharing(order));
    }

    fn tell(&mut self, told: Told) {
        self.actions.push(MasterAction::Tell(told));
    }

    fn admit(
        &mut self,
        member: Incarnation,
        data: Brings,
        address: String,
        was: Option<Incarnation>,
        slots: Slots,
        now: Now,
    ) {
        if let Some(reason) = self.schedule.refuses(&data, self.options.data.as_ref()) {
            self.roster.remove(member);
            self.tell(Told::WorkerRefused { member, reason: reason.clone() });
            self.actions.push(MasterAction::Refuse(member, reason));
            return;
        }
        let held = match self.has(Planted::GivesWhatItDoesNotHold) {
            true => self.schedule.everything().held,
            false => data.held(),
        };
        self.roster.admit(member, address, Capacity { slots, held });
        if let Some(was) = was {
            self.former.insert(member, was);
        }
        self.tell(Told::WorkerJoined(member));
        if self.comes_too_late(member) {
            return self.lose(member, DONE.into(), Fault::Goes, now);
        }
        match self.view {
            // Those who come at about the same time begin together.
            0 => {
                let until = now + self.roster.gathers_for(FIRST_GATHERED_FOR, &self.options, self.view);
                self.gathers_until = Some(self.gathers_until.map_or(until, |before| before.min(until)));
            }
            _ => self.gathering.join(member, now, GATHERED_FOR),
        }
    }

    fn begin_when_gathered(&mut self, now: Now) {
        if self.view == 0 && self.gathers_until.is_some_and(|at| now >= at) {
            self.prepare("the first workers are here".into(), now);
        }
    }

    /// A member is gone. What it held is looked at when the others have said what they hold of it.
    fn lose(&mut self, member: Incarnation, reason: String, fault: Fault, now: Now) {
        let Some(was_ready) = self.roster.remove(member) else { return };
        self.tell(Told::gone(member, was_ready, &reason));
        self.send(member, ToMember::Stop { reason: reason.clone(), rejoin: fault != Fault::Goes });
        self.actions.push(MasterAction::Close(member));
        self.hungry.remove(&member);
        self.caught_up.remove(&member);
        self.former.remove(&member);
        self.edges.forget(member);
        if self.asked == Some(member) {
            self.asked = None;
        }
        if let Some(holding) = self.holdings.remove(&member) {
            let to_blame = fault == Fault::ToBlame;
            self.lost.insert(member, Lost { to_blame, holding, returned: None });
        }
        let why = format!("worker {} was lost: {reason}", number_of(member));
        let (has_enough, forgets) = (self.has_enough(), self.has(Planted::CountsOnWhoWasLostMeanwhile));
        match &mut self.stage {
            _ if !was_ready => {}
            // When the others have answered they are asked once more, about all who were lost meanwhile.
            Stage::Preparing { holds, reason, is_outdated } if has_enough => {
                holds.remove(&member);
                *is_outdated = !forgets;
                add_reason(reason, &why);
            }
            Stage::Preparing { .. } => self.prepare(why, now),
            _ if self.members.contains(&member) => self.prepare(why, now),
            _ => {}
        }
    }

    fn obey(&mut self, operator: Operator, now: Now) {
        match operator {
            Operator::Pause | Operator::Resume => {
                let is_asked = operator == Operator::Pause;
                self.hold.ask(is_asked);
                self.tell(Told::Paused(is_asked));
            }
            Operator::Save => self.save_wanted = true,
            Operator::Stop => {
                self.stop_asked.get_or_insert(self.counted);
                self.save_wanted = true;
                match self.stage {
                    Stage::Running if self.counted == self.saving.round() => self.end(None),
                    // Whoever is here holds more than the last checkpoint, perhaps.
                    Stage::Waiting(_) => self.prepare("the run is to stop".into(), now),
                    Stage::Running | Stage::Preparing { .. } | Stage::Ended => {}
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

    fn end(&mut self, error: Option<String>) {
        if self.stage == Stage::Ended {
            return;
        }
        self.stage = Stage::Ended;
        let farewell = self.options.farewell(error.as_deref(), self.stop_asked.is_some());
        for member in self.roster.remove_all() {
            self.send(member, farewell.clone());
        }
        self.actions.push(MasterAction::End(error));
    }

    fn set_timer(&mut self, now: Now) {
        let waiting = match &self.stage {
            Stage::Waiting(waiting) => Some(waiting.next(&self.options, now)),
            _ => self.idle.as_ref().map(|idle| idle.next(&self.options, now)),
        };
        let gathered = self.gathers_until.filter(|at| self.view == 0 && now < *at);
        let silence = self.roster.next_silence(self.options.silence_limit);
        let hold = self.hold.timer(self.options.silence_limit);
        let timers = silence
            .into_iter()
            .chain(waiting)
            .chain(gathered)
            .chain(self.saving.next())
            .chain(hold)
            .chain(self.gathering.next());
        if let Some(at) = timers.min() {
            self.actions.push(MasterAction::SetTimer(at));
        }
    }
}
