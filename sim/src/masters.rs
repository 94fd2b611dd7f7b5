//! What a master's loop wants, carried out.

use paceline_cluster::coordination::RunStage;
use paceline_cluster::loops::{MasterInput, MasterLoop, MasterSetup, Record, Term};
use paceline_cluster::tracker::Board;
use paceline_cluster::wire::JobText;
use paceline_exchange::Bulk;
use paceline_exchange::rounds::message::DataProof;
use paceline_exchange::rounds::{Incarnation, MasterOptions, MemberOptions, Now, Span, StepSize, Told};
use paceline_train::{Event, ReplicaMode, SharedOptions, TrainOptions};

use crate::hosts::{Effect, SimMaster, Socket};
use crate::network::Pid;
use crate::numbers::State;
use crate::placing::Placing;
use crate::replica::read_state;
use crate::workers::WorkerProcess;
use crate::world::{Happening, NOBODY, Rules, StopAsked, World};

/// What every worker of a history has.
pub(crate) const DATA: DataProof = DataProof { examples: 7, fingerprint: 7 };
/// A process that is silent for so long is lost, in simulated milliseconds.
const SILENCE_LIMIT: Now = 2000;

pub(crate) struct MasterProcess {
    master: Option<MasterLoop>,
    host: SimMaster,
    /// When it is woken next.
    pub wakes: Now,
    has_started: bool,
    /// Whether its members were compared when training had ended.
    is_looked_at: bool,
}

impl MasterProcess {
    /// The term that it leads.
    pub(crate) fn term(&self) -> Option<&Term> {
        self.master.as_ref().and_then(MasterLoop::term)
    }

    /// What its rules are at.
    pub(crate) fn phase(&self) -> Option<String> {
        let term = self.master.as_ref()?.term()?;
        Some(format!("{:?}", term.rules()))
    }
}

pub(crate) fn job() -> JobText {
    JobText { name: "job".into(), text: String::new(), is_json: false, settings: Vec::new() }
}

impl World {
    fn setup(&self, pid: Pid) -> MasterSetup {
        let share = if self.rules == Rules::Sharing { StepSize::Each(2) } else { self.work.share() };
        let save_every =
            self.faults.save_every.map(|every| if self.rules == Rules::Sharing { 3 * every } else { every });
        let member = MemberOptions {
            save_every,
            overlap: self.faults.overlap,
            straggler_limit: self.faults.straggler_limit,
            mesh_limit: self.faults.mesh_limit,
            share,
            max_ahead: self.faults.max_ahead,
            window_messages: 6,
            ..MemberOptions::within(SILENCE_LIMIT, 5)
        };
        let rules = MasterOptions {
            mesh_limit: self.faults.mesh_limit,
            // Of those that come with a partition for an epoch, there may be fewer than workers.
            min_workers: if self.placing == Placing::Passing { 1 } else { self.faults.min_workers },
            expected_workers: self.faults.expected_workers,
            expected_within: 2000,
            silence_limit: SILENCE_LIMIT,
            waiting_limit: 150_000,
            waiting_told_every: 5000,
            stops_on_poison: false,
            overlap: self.faults.overlap,
            data: (self.placing == Placing::Everywhere).then_some(DATA),
            goes_on: false,
        };
        MasterSetup {
            text: job(),
            train: TrainOptions { epochs: self.work.epochs(), ..TrainOptions::default() },
            mode: match self.rules {
                Rules::Rounds => ReplicaMode::Sync,
                Rules::Sharing => ReplicaMode::Shared(SharedOptions::default()),
            },
            rules,
            member,
            work: self.work.clone(),
            parameters: 5,
            token: None,
            address: pid.to_string(),
            key: None,
            renews_after: None,
            restarts: false,
            statistics: false,
            planted: self.planted,
        }
    }

    pub(crate) fn start_master(&mut self) {
        let pid = self.new_pid();
        let run = self.random.next() | 1;
        let mut host = SimMaster {
            now: self.clocks.shows(pid, self.now),
            socket: Socket::new(pid),
            run,
            record: Record::default(),
        };
        let master = MasterLoop::new(self.setup(pid), Board::default(), &mut host);
        let process =
            MasterProcess { master: Some(master), host, wakes: Now::MAX, has_started: false, is_looked_at: false };
        self.masters.insert(pid, process);
        self.say(|| format!("master {pid} starts"));
        self.master_acts(pid);
    }

    pub(crate) fn tell_master(&mut self, pid: Pid, input: MasterInput) {
        let Some(process) = self.masters.get_mut(&pid) else { return };
        if self.is_traced {
            let mut input = format!("{input:?}");
            input.truncate(160);
            self.trace.push(format!("{:>7} master {pid}: {input}", self.now));
        }
        process.host.now = self.clocks.shows(pid, self.now);
        let Some(master) = &mut process.master else { return };
        master.handle(input, &mut process.host);
        if let Some(term) = master.term() {
            let (rules, linked) = (term.rules(), term.linked().collect::<Vec<_>>());
            // The more there are, the more views come before a round can be counted.
            let many = 1 + self.faults.workers as usize / 8;
            self.watch.queues(self.now, "plans", rules.history_kept() / many);
            let is_over = rules.phase() == "ended" && !std::mem::replace(&mut process.is_looked_at, true);
            // Unless one was lost at last: what the others hold of it did not have to be the same any more.
            let is_settled = rules.history_kept() == 0;
            if is_over && is_settled && rules.rest().is_done() && self.rules == Rules::Sharing {
                let members: Vec<_> = rules.view().1.iter().copied().filter(|of| linked.contains(of)).collect();
                let states: Vec<State> = self.workers.values().filter_map(|worker| worker.state_of(&members)).collect();
                self.watch.all_hold_the_same(self.now, states.iter().collect());
            }
            process.is_looked_at &= rules.phase() == "ended";
        }
        self.master_acts(pid);
    }

    /// Carries out what its loop wants. It may die between any two of these things.
    fn master_acts(&mut self, pid: Pid) {
        let Some(process) = self.masters.get_mut(&pid) else { return };
        for effect in std::mem::take(&mut process.host.socket.effects) {
            if self.dead.contains(&pid) || self.watch.violation.is_some() {
                return;
            }
            if self.faults.crashes_between_actions(&mut self.random, self.now) {
                self.watch.count("master crashed between two actions");
                return self.lose_master(pid);
            }
            match effect {
                Effect::Send(link, frame) => self.send(link, pid, frame, false),
                Effect::SendFirst(link, frame) => self.send(link, pid, frame, true),
                Effect::Close(link, reason) => self.close(link, pid, &reason),
                Effect::Begin(operation) => {
                    self.say(|| {
                        let mut operation = format!("{operation:?}");
                        operation.truncate(160);
                        format!("  master {pid} begins {operation}")
                    });
                    self.begin(pid, operation);
                }
                Effect::Told(told) => self.hear_told(pid, &told),
                Effect::Event(event) => self.hear_event(pid, &event),
                Effect::Holds(round, rest, state) => {
                    let term = self.masters[&pid].master.as_ref().and_then(MasterLoop::term);
                    if let Some(term) = term.map(|term| term.number()) {
                        self.look_at_state(pid, (term, round, rest), &state);
                    }
                }
                Effect::Connect(..)
                | Effect::Find(_)
                | Effect::Prepare
                | Effect::Compute(_)
                | Effect::WorkerTold(_) => {}
            }
        }
        let Some(process) = self.masters.get_mut(&pid) else { return };
        let Some(master) = &mut process.master else { return };
        if let Some(outcome) = master.take_outcome() {
            process.master = None;
            return self.master_over(pid, outcome.map(|outcome| outcome.stopped).map_err(|error| error.to_string()));
        }
        let wakes = master.wakes_at().unwrap_or(Now::MAX);
        if wakes != process.wakes {
            process.wakes = wakes;
            if wakes != Now::MAX {
                self.wake(pid, wakes);
            }
        }
    }

    /// Only what the newest master says is the run's; an old one is refused when it publishes.
    fn hear_told(&mut self, pid: Pid, told: &Told) {
        let term = self.masters[&pid].master.as_ref().and_then(MasterLoop::term).map(|term| term.number());
        if !term.is_some_and(|term| self.leads(pid, term)) {
            return;
        }
        self.say(|| format!("  told: {told:?}"));
        if let Told::Counted { round, assignment } = told {
            let term = self.masters[&pid].master.as_ref().and_then(MasterLoop::term);
            let members = term.map(|term| term.rules().view().1.to_vec()).unwrap_or_default();
            let way = |worker: &WorkerProcess| worker.way_of(&members, assignment.iteration);
            let ways = self.workers.values().filter_map(way).collect();
            self.watch.same_way(self.now, *round, ways);
        }
        if let Told::WorkerLost { member, reason } = told
            && reason.contains("nothing was heard")
        {
            self.holds_no_lease(*member);
        }
        if let Told::View { members, .. } = told
            && members.len() > self.faults.mesh_limit
        {
            self.watch.count("a view was a tree");
        }
        if let Told::Shared { member, epoch, spans, .. } = told {
            self.is_held(pid, *member, *epoch, spans);
        }
        self.watch.hear(self.now, told);
    }

    /// One that is given up for its silence has stopped by itself: what it was doing may be given to another.
    fn holds_no_lease(&mut self, member: Incarnation) {
        let lease =
            |(pid, worker): (&Pid, &WorkerProcess)| worker.lease_of(member).map(|until| self.clocks.when(*pid, until));
        let until = self.workers.iter().filter(|(pid, _)| !self.dead.contains(pid)).find_map(lease);
        if let Some(until) = until.filter(|until| *until > self.now) {
            self.watch.fail(self.now, format!("worker {member} was given up, but holds a lease until {until}"));
        }
    }

    /// In `shared`: what counts is held by another member, or by the master.
    fn is_held(&mut self, pid: Pid, member: Incarnation, epoch: u64, spans: &[Span]) {
        let Some((origin, last)) = self.origin_of(member).zip(spans.last()) else { return };
        let Some(sequence) = self.watch.message_about(origin, (epoch, last.end - 1)) else { return };
        let Some(term) = self.masters[&pid].master.as_ref().and_then(MasterLoop::term) else { return };
        let is_in = |state: &Bulk| read_state(state).is_ok_and(|state| state.applied.get(&origin) >= Some(&sequence));
        // Who held it may just have been lost: what nobody holds when its origin is lost too is taken back then.
        let is_held = term.states().any(|(_, state)| is_in(state)) || self.may_be_held(origin, sequence);
        if !is_held && term.rules().phase() == "running" {
            self.watch.fail(self.now, format!("message {sequence} of {member} counts, but nobody else holds it"));
        }
    }

    fn hear_event(&mut self, pid: Pid, event: &Event) {
        match event {
            Event::Started { .. } => {
                let process = self.masters.get_mut(&pid).expect("it speaks");
                process.has_started = true;
                // One that was succeeded while it stood still believes that it leads until it hears more; nobody listens to it.
                let term = process.master.as_ref().and_then(MasterLoop::term).map(|term| term.number());
                let is_newest = term == Some(self.coordinator.term);
                if is_newest
                    && matches!(self.coordinator.record.as_ref().map(|r| &r.stage), Some(RunStage::Ended { .. }))
                {
                    self.watch.fail(self.now, "a run that has ended was begun again".into());
                }
            }
            Event::Finished { .. } => self.run_finished(),
            Event::StoodStill { worker: None, seconds } => self.watch.says_that_it_stood_still(self.now, pid, *seconds),
            _ => {}
        }
    }

    /// The model is what was counted, and nothing else.
    fn run_finished(&mut self) {
        let record = self.coordinator.record.clone().unwrap_or_default();
        if !matches!(record.stage, RunStage::Ended { .. }) {
            return self.watch.fail(self.now, "a run was told to be finished before it was published".into());
        }
        let Some(model) = self.store.model.clone() else {
            return self.watch.fail(self.now, "a run has ended without a model".into());
        };
        let round = self.watch.last_counted();
        self.watch.ended(self.now, None, round, &model);
    }

    fn master_over(&mut self, pid: Pid, outcome: Result<bool, String>) {
        self.say(|| format!("master {pid} is over: {outcome:?}"));
        let has_started = self.masters[&pid].has_started;
        self.kill(pid, false);
        self.expire(pid);
        match outcome {
            Ok(false) if has_started => {
                // The same command once more must say that the run has ended.
                self.after(100, NOBODY, Happening::StartMaster);
            }
            Ok(false) => self.has_ended = true,
            Ok(true) => {
                self.look_at_a_stop(pid);
                self.after(500, NOBODY, Happening::StartMaster);
            }
            Err(error) => self.watch.fail(self.now, format!("the run failed: {error}")),
        }
    }

    /// The members of a view that is at work.
    pub(crate) fn crew_at_work(&self, pid: Pid) -> Option<Vec<Incarnation>> {
        let rules = self.masters[&pid].master.as_ref().and_then(MasterLoop::term)?.rules();
        (rules.phase() == "running").then(|| rules.view().1.to_vec())
    }

    /// One that was asked to stop when all was well has saved everything that counted then. In `shared` the others go on while a state
    /// is copied, and nobody can say what it had to have.
    fn look_at_a_stop(&mut self, pid: Pid) {
        let asked = self.stop_asked.take().filter(|asked| asked.pid == pid);
        let Some(StopAsked { at, term, crew: Some(crew), counted, .. }) = asked else { return };
        let is_succeeded = self.coordinator.term != term;
        if is_succeeded || !self.watch.are_well(&crew, at) || self.rules == Rules::Sharing {
            return;
        }
        self.watch.count("a run was stopped when all was well");
        let record = self.coordinator.record.as_ref();
        let saved = record.and_then(|record| self.store.files.get(record.checkpoint.as_ref()?));
        let saved = saved.map_or(0, |checkpoint| checkpoint.round);
        if saved < counted {
            self.watch.fail(self.now, format!("a run stopped with {saved} saved when {counted} counted"));
        }
    }

    /// A master dies; another one starts some time later. The coordinator notices after a while.
    pub(crate) fn lose_master(&mut self, pid: Pid) {
        let is_silent = self.random.one_in(4);
        self.kill(pid, is_silent);
        let notices = self.random.within(50, 4000);
        self.after(notices, NOBODY, Happening::Expires(pid));
        let delay = self.random.within(50, 4000);
        self.after(delay, NOBODY, Happening::StartMaster);
    }
}
