//! A member's side of rounds: one worker process from joining to leaving.

mod lately;
mod round;
mod words;

use std::collections::{BTreeMap, BTreeSet};

use lately::Lately;
use serde::{Deserialize, Serialize};
pub use words::{At, Course, MemberAction, MemberEvent, MemberOptions, Steps, StragglerLimit, WorkNumber};

use super::message::{ToMaster, ToMember, ToPeer};
use crate::membership::{Paths, Touch, with_those_below};
use crate::planted::{Planted, has};

use super::{Incarnation, Now, Plan, PlanChange, Round, Slice, Term, ViewNumber};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Stage {
    /// No view yet, or frozen for the next one.
    Still,
    /// The view has begun, but what comes before its first round is missing here.
    CatchingUp {
        holders: Vec<Incarnation>,
        asked: usize,
        /// When somebody was last asked, or something of what was asked for came.
        asked_at: Now,
    },
    /// At work.
    Active,
    Over,
}

/// What the driver computes or has computed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Work {
    number: WorkNumber,
    round: Round,
    slice: Slice,
    course: Course,
    is_done: bool,
}

/// What has arrived of a round.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Arrived {
    contributions: BTreeSet<Incarnation>,
    sums: BTreeSet<Incarnation>,
    is_summed: bool,
    /// Whether the sums that came were sent on to those below.
    is_passed_on: bool,
}

/// One incarnation of a worker process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    options: MemberOptions,
    me: Incarnation,
    term: Term,
    stage: Stage,
    /// The newest view that was prepared or began.
    view: ViewNumber,
    /// That of the last view that began here, brought up to the round behind the last completed one.
    plan: Option<Plan>,
    /// How its members sum.
    paths: Option<Paths>,
    completed: Option<Round>,
    /// The first step of the round behind that, as the last view knew it.
    behind: At,
    /// Whether the result of that round is kept here; one that took over a state has none.
    has_result: bool,
    /// Whether the last round was completed in this view, so that its sums are still of use to peers.
    completed_here: bool,
    work: Option<Work>,
    /// Of the round behind that, if rounds overlap.
    ahead: Option<Work>,
    /// A view that was prepared while a step was taken alone: it is frozen for it when that is done.
    freezes_for: Option<ViewNumber>,
    /// The master has asked for a state while a step was taken alone.
    saves_when_done: bool,
    /// Since when a round waits for others, and whether that was told.
    waits: Option<(Now, bool)>,
    /// The last round of which that was told.
    told_of_waiting: Round,
    /// Since when the own contribution to a round is done, and how long rounds have waited for others lately.
    waiting_since: Option<Now>,
    lately: Lately,
    /// When something last happened.
    now: Now,
    /// Works that were begun.
    works: WorkNumber,
    arrived: BTreeMap<(ViewNumber, Round), Arrived>,
    /// Who was given the state of which round on the link that stands: asking again brings it no sooner.
    served: BTreeMap<Incarnation, Round>,
    /// Who wants the state before a view, which has not begun here or is on its way.
    wanting: BTreeMap<Incarnation, ViewNumber>,
    /// Peers whose link is down, since when, and whether that was told.
    down: BTreeMap<Incarnation, (Now, bool)>,
    touch: Touch,
    actions: Vec<MemberAction>,
    planted: Option<Planted>,
}

/// Why a member goes whose master takes it for one that knows another view.
pub(crate) const DOES_NOT_FIT: &str = "the master told of a view that does not fit the last one here";
/// How long a holder that was asked for a state or a result is waited for before the next one is asked.
const PATIENCE: Now = 2000;

impl Member {
    /// A member that the master of a term has welcomed.
    pub fn new(options: MemberOptions, me: Incarnation, term: Term, now: Now) -> Self {
        let touch = Touch::new(&options, now);
        Self {
            options,
            me,
            term,
            stage: Stage::Still,
            view: 0,
            plan: None,
            paths: None,
            completed: None,
            behind: At::default(),
            has_result: false,
            completed_here: false,
            work: None,
            ahead: None,
            freezes_for: None,
            saves_when_done: false,
            waits: None,
            told_of_waiting: 0,
            waiting_since: None,
            lately: Lately::default(),
            now,
            works: 0,
            arrived: BTreeMap::new(),
            served: BTreeMap::new(),
            wanting: BTreeMap::new(),
            down: BTreeMap::new(),
            touch,
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

    /// Until when work may go on without another word of the master.
    pub fn lease_until(&self) -> Now {
        self.touch.lease_until
    }

    /// Who this is.
    pub fn incarnation(&self) -> Incarnation {
        self.me
    }

    /// The last round that was completed here.
    pub fn completed(&self) -> Option<Round> {
        self.completed
    }

    /// The newest view that is known here.
    pub fn view(&self) -> ViewNumber {
        self.view
    }

    /// How contributions become one sum in its view.
    pub fn paths(&self) -> Option<&Paths> {
        self.paths.as_ref()
    }

    /// Whether this incarnation is over.
    pub fn is_over(&self) -> bool {
        self.stage == Stage::Over
    }

    /// Rounds of which something is kept: bounded by how far members can be apart.
    pub fn rounds_kept(&self) -> usize {
        self.arrived.len()
    }

    /// What happens, and what follows from it.
    pub fn handle(&mut self, event: MemberEvent, now: Now) -> Vec<MemberAction> {
        self.now = now;
        if !self.is_over() {
            self.happen(event, now);
        }
        if !self.is_over() {
            self.keep_in_touch(now);
            self.go_on(now);
            self.set_timer(now);
        }
        std::mem::take(&mut self.actions)
    }

    fn happen(&mut self, event: MemberEvent, now: Now) {
        match event {
            MemberEvent::DataRead { data, address, was, slots } => {
                self.tell(ToMaster::Ready { data, address, was, slots });
            }
            MemberEvent::MasterSaid(term, message) => {
                // A greater term is another master's: this incarnation knows only its own.
                if term == self.term {
                    self.obey(message, now);
                }
            }
            MemberEvent::PeerSaid(peer, message) => self.hear(peer, message),
            MemberEvent::StateFromMaster(round) => self.adopt(round),
            MemberEvent::Computed(number) => {
                if let Some(work) = self.work.as_mut().filter(|work| work.number == number) {
                    work.is_done = true;
                    self.waiting_since = Some(now);
                    match work.course {
                        Course::Alone => self.complete_alone(),
                        Course::Contributed | Course::Ahead => self.contribute_to_all(),
                    }
                }
            }
            MemberEvent::Arriving(from) => {
                if self.waits.is_some() {
                    self.waits = Some((now, false));
                }
                // The master carries what a peer says that is not reached, and says nothing long unasked.
                if let Stage::CatchingUp { holders, asked_at, .. } = &mut self.stage
                    && from.is_none_or(|peer| holders.contains(&peer))
                {
                    *asked_at = now;
                }
            }
            MemberEvent::PeerUp(peer) => {
                self.down.remove(&peer);
                self.served.remove(&peer);
                if !self.has(Planted::NeverSaysAgain) {
                    self.say_again(peer, now);
                }
            }
            MemberEvent::PeerDown(peer) => {
                self.down.entry(peer).or_insert((now, false));
            }
            MemberEvent::MasterLost(reason) => self.end(format!("the master is gone: {reason}"), true),
            MemberEvent::AskedToLeave => self.tell(ToMaster::Leave),
            // Of the other mode.
            MemberEvent::Sharing(_) | MemberEvent::Tick => {}
        }
    }

    fn tell(&mut self, message: ToMaster) {
        self.actions.push(MemberAction::Tell(message));
    }

    fn end(&mut self, reason: String, rejoin: bool) {
        self.stage = Stage::Over;
        self.actions.push(MemberAction::End { reason, rejoin });
    }

    fn obey(&mut self, message: ToMember, now: Now) {
        match message {
            // What is taken alone changes the state as it goes: nobody can be given the state of the round before any more.
            ToMember::Prepare { view }
                if view > self.view && self.steps_alone() && !self.has(Planted::FreezesWithinAStep) =>
            {
                self.freezes_for = Some(view);
            }
            ToMember::Prepare { view } if view > self.view => self.freeze(view),
            ToMember::View { plan, peers, holders }
                if plan.view == self.view
                    && (self.stage == Stage::Still || self.has(Planted::CompletesWhileFrozen)) =>
            {
                self.begin(&plan, peers, holders, now);
            }
            ToMember::Prepare { .. } | ToMember::View { .. } | ToMember::Sharing(_) => {}
            ToMember::Renew { beat, paused } => self.touch.renew(&self.options, beat, paused, self.planted),
            // What is taken alone changes the state as it goes: it is saved when that is done.
            ToMember::Save if self.steps_alone() && !self.has(Planted::SavesWithinAStep) => self.saves_when_done = true,
            ToMember::Save => self.save(),
            ToMember::Stop { reason, rejoin } => self.end(reason, rejoin),
        }
    }

    /// Whether a round is being computed that nobody else takes part in.
    pub fn steps_alone(&self) -> bool {
        self.work.as_ref().is_some_and(|work| work.course == Course::Alone && !work.is_done)
    }

    /// Whether a view waits for that round.
    pub fn is_waited_for(&self) -> bool {
        self.freezes_for.is_some()
    }

    /// Completes no more rounds until the next view begins.
    pub(super) fn freeze(&mut self, view: ViewNumber) {
        if !self.has(Planted::CompletesWhileFrozen) {
            self.stage = Stage::Still;
        }
        self.view = view;
        let arrived = self.plan.as_ref().and_then(|plan| self.arrived.get(&(plan.view, self.round())));
        let members = self.plan.as_ref().map_or(&[][..], |plan| &plan.members);
        let with_all = |member: &Incarnation| with_those_below(members, *member, self.options.mesh_limit);
        let of = |arrived: &Arrived| -> BTreeSet<Incarnation> {
            let from_others = arrived.contributions.iter().filter(|from| **from != self.me).flat_map(with_all);
            let own = arrived.contributions.get(&self.me).copied();
            from_others.chain(own).collect()
        };
        let contributed = arrived.map(of).into_iter().flatten().collect();
        let knows = self.plan.as_ref().map_or(0, |plan| plan.view);
        self.tell(ToMaster::Frozen { view, completed: self.completed, contributed, knows });
    }

    /// A view begins: from the state before its first round, with whatever of that round is already done here.
    fn begin(&mut self, change: &PlanChange, peers: Vec<(Incarnation, String)>, holders: Vec<Incarnation>, now: Now) {
        let Some(plan) = change.apply(self.plan.as_ref()) else { return self.end(DOES_NOT_FIT.into(), true) };
        let paths = Paths::of(&plan.members, self.me, self.options.mesh_limit);
        if paths.is_none() {
            return;
        }
        let (view, members, round) = (plan.view, plan.members.clone(), plan.first);
        self.actions.push(MemberAction::Begin { view, members, round });
        self.drop_ahead();
        self.paths = paths;
        self.wanting.retain(|_, view| *view == plan.view);
        self.down.retain(|peer, _| peers.iter().any(|(linked, _)| linked == peer));
        self.actions.push(MemberAction::Connect(peers));
        self.served.clear();
        self.down.values_mut().for_each(|down| *down = (now, false));
        let state = plan.first - 1;
        self.arrived.retain(|(view, _), _| *view >= plan.view);
        self.actions.push(MemberAction::Forget(plan.view, 0));
        // What is next is of the round behind the last completed one, unless a view began that was never caught up with.
        if self
            .plan
            .as_ref()
            .is_some_and(|before| self.completed.is_some_and(|completed| completed + 1 >= before.first))
        {
            self.behind = self.at();
        }
        self.plan = Some(plan);
        self.completed_here = false;
        if self.has(Planted::BeginsWithoutAState) && self.completed.is_none() {
            self.completed = Some(state);
        }
        if self.completed == Some(state) {
            self.activate();
        } else {
            self.stage = Stage::CatchingUp { holders, asked: 0, asked_at: now };
            self.ask_for_what_is_missing(now);
        }
    }

    fn ask_for_what_is_missing(&mut self, now: Now) {
        let Some((view, state)) = self.plan.as_ref().map(|plan| (plan.view, plan.first - 1)) else { return };
        let is_one_behind = self.completed.is_some_and(|completed| completed + 1 == state);
        let Stage::CatchingUp { holders, asked, asked_at } = &mut self.stage else { return };
        let holder = if holders.is_empty() { None } else { Some(holders[*asked % holders.len()]) };
        (*asked, *asked_at) = (*asked + 1, now);
        self.actions.push(match holder {
            None => MemberAction::AskMasterForState(state),
            Some(holder) if is_one_behind => MemberAction::Ask(holder, ToPeer::WantResult { view, round: state }),
            Some(holder) => MemberAction::Ask(holder, ToPeer::WantState { view, round: state }),
        });
    }

    /// What comes before the first round of the view is here.
    fn activate(&mut self) {
        self.stage = Stage::Active;
        let (view, round) = (self.view, self.completed.unwrap_or(0));
        self.tell(ToMaster::Done { view, round });
        for peer in std::mem::take(&mut self.wanting).into_keys() {
            self.serve(peer, round, false);
        }
        // Work on this round that was begun in an older view is good if it is of the same examples.
        let mine = self.my_slice();
        if self.has(Planted::ReusesWorkOfAnotherRound) {
            self.work.iter_mut().for_each(|work| work.round = round + 1);
        } else if self.work.as_ref().is_some_and(|work| work.round != round + 1 || Some(&work.slice) != mine.as_ref()) {
            self.work = None;
        }
        self.waits = None;
        self.contribute_to_all();
    }

    fn adopt(&mut self, round: Round) {
        let state = self.plan.as_ref().map(|plan| plan.first - 1);
        if matches!(self.stage, Stage::CatchingUp { .. }) && state == Some(round) {
            self.actions.push(MemberAction::Adopt(round));
            self.has_result = false;
            self.catch_up(round);
        }
    }

    fn catch_up(&mut self, round: Round) {
        self.completed = Some(round);
        self.arrived.retain(|(_, of), _| *of > round);
        self.activate();
    }

    /// Begins the next round if it may; asks again for what does not come; reports peers that cannot be reached.
    fn go_on(&mut self, now: Now) {
        if let Stage::CatchingUp { asked_at, .. } = self.stage
            && now >= asked_at + PATIENCE
        {
            self.ask_for_what_is_missing(now);
        }
        let may_work = now < self.touch.lease_until || self.has(Planted::WorksWithoutALease);
        if self.stage == Stage::Active && !self.touch.paused && may_work {
            self.work_on();
        }
        self.tell_of_stragglers(now);
        let (view, limit) = (self.view, self.options.edge_limit);
        if matches!(self.stage, Stage::Active | Stage::CatchingUp { .. }) {
            for (peer, (since, is_told)) in &mut self.down {
                if !*is_told && now >= *since + limit {
                    *is_told = true;
                    self.actions.push(MemberAction::Tell(ToMaster::Unreachable { view, peer: *peer }));
                }
            }
        }
    }

    /// Beats; without an answer for as long as the limit says, the master is gone.
    fn keep_in_touch(&mut self, now: Now) {
        if let Some(beat) = self.touch.beat(&self.options, now) {
            self.tell(ToMaster::Beat { beat });
        }
        if self.touch.is_lost(&self.options, now) {
            self.end("nothing was heard of the master".into(), true);
        }
    }

    fn set_timer(&mut self, now: Now) {
        let mut at = self.touch.next(&self.options);
        if let Stage::CatchingUp { asked_at, .. } = self.stage {
            at = at.min(asked_at + PATIENCE);
        }
        if let (Some(limit), Some((since, false))) = (self.straggler_limit(), self.waits) {
            at = at.min(since + limit);
        }
        for (since, is_told) in self.down.values() {
            if !is_told {
                at = at.min(since + self.options.edge_limit);
            }
        }
        self.actions.push(MemberAction::SetTimer(at.max(now + 1)));
    }
}

#[cfg(test)]
mod tests {
    use super::super::plan::Blame;
    use super::super::{Capacity, Schedule, StepSize};
    use super::*;

    #[test]
    fn who_is_slow_is_not_asked_again_and_who_is_silent_is() {
        let mut member = Member::new(MemberOptions::within(60_000, 5), 2, 1, 0);
        let plan = Plan::begin(0, 5, Schedule::new(40, 1, StepSize::Each(2)));
        let plan = plan.change(1, &[(1, Capacity::of(1)), (2, Capacity::of(1))], 5, &[], |_| Blame::Nothing);
        let view =
            ToMember::View { plan: Box::new(PlanChange::whole(&plan)), peers: vec![(1, "a".into())], holders: vec![1] };
        let asks = |actions: &[MemberAction]| {
            actions
                .iter()
                .filter(|a| matches!(a, MemberAction::Ask(1, ToPeer::WantState { view: 1, round: 4 })))
                .count()
        };
        member.handle(MemberEvent::MasterSaid(1, ToMember::Prepare { view: 1 }), 0);
        assert_eq!(asks(&member.handle(MemberEvent::MasterSaid(1, view), 0)), 1);
        for now in [PATIENCE - 1, 2 * PATIENCE - 2, 3 * PATIENCE - 3] {
            assert_eq!(asks(&member.handle(MemberEvent::Arriving(Some(1)), now)), 0);
        }
        assert_eq!(asks(&member.handle(MemberEvent::Arriving(Some(9)), 4 * PATIENCE - 3)), 1, "that was somebody else");
        assert_eq!(asks(&member.handle(MemberEvent::Arriving(None), 5 * PATIENCE - 4)), 0, "the master carries it");
        assert_eq!(asks(&member.handle(MemberEvent::Tick, 6 * PATIENCE - 5)), 0);
        assert_eq!(asks(&member.handle(MemberEvent::Tick, 6 * PATIENCE - 4)), 1);
    }

    #[test]
    fn a_state_that_is_asked_for_while_a_step_is_taken_alone_is_that_behind_the_step() {
        let mut member = Member::new(MemberOptions::within(60_000, 5), 1, 1, 0);
        let plan = Plan::begin(0, 1, Schedule::new(40, 1, StepSize::Each(2)));
        let plan = plan.change(1, &[(1, Capacity::of(1))], 1, &[], |_| Blame::Nothing);
        let view = ToMember::View { plan: Box::new(PlanChange::whole(&plan)), peers: vec![], holders: vec![] };
        member.handle(MemberEvent::MasterSaid(1, ToMember::Prepare { view: 1 }), 0);
        member.handle(MemberEvent::MasterSaid(1, view), 0);
        member.handle(MemberEvent::StateFromMaster(0), 0);
        let saves = |actions: &[MemberAction]| -> Vec<Round> {
            let round = |action: &MemberAction| match action {
                MemberAction::SaveState(round, _) => Some(*round),
                _ => None,
            };
            actions.iter().filter_map(round).collect()
        };
        assert!(member.steps_alone());
        assert!(saves(&member.handle(MemberEvent::MasterSaid(1, ToMember::Save), 1)).is_empty());
        let work = member.work.as_ref().expect("it computes").number;
        assert_eq!(saves(&member.handle(MemberEvent::Computed(work), 2)), [1]);
        let work = member.work.as_ref().expect("it computes").number;
        assert!(saves(&member.handle(MemberEvent::Computed(work), 3)).is_empty(), "once");
    }

    #[test]
    fn a_state_is_given_once_for_every_link() {
        let mut member = Member::new(MemberOptions::within(60_000, 5), 1, 1, 0);
        let plan = Plan::begin(0, 1, Schedule::new(40, 1, StepSize::Each(2)));
        let plan = plan.change(1, &[(1, Capacity::of(1)), (2, Capacity::of(1))], 1, &[], |_| Blame::Nothing);
        let view =
            ToMember::View { plan: Box::new(PlanChange::whole(&plan)), peers: vec![(2, "b".into())], holders: vec![] };
        member.handle(MemberEvent::MasterSaid(1, ToMember::Prepare { view: 1 }), 0);
        member.handle(MemberEvent::MasterSaid(1, view), 0);
        member.handle(MemberEvent::StateFromMaster(0), 0);
        let mut gives = |event: MemberEvent| {
            let actions = member.handle(event, 1);
            actions.contains(&MemberAction::ServeState(2, 0))
        };
        let asks = || MemberEvent::PeerSaid(2, ToPeer::WantState { view: 1, round: 0 });
        assert!(gives(asks()));
        assert!(!gives(asks()), "it is on its way");
        assert!(!gives(MemberEvent::PeerUp(2)));
        assert!(gives(asks()), "what was on its way was lost with the link");
    }
}
