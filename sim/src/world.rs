//! The clock, the queue of what happens, and the processes.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use paceline_cluster::coordination::RunRecord;
use paceline_cluster::loops::{Answer, Found, MasterInput, WorkerInput};
use paceline_exchange::rounds::{Incarnation, Now, Operator, Round, Schedule, StepSize};
use paceline_exchange::{Frame, Planted};

use crate::clocks::Clocks;
use crate::coordinator::Coordinator;
use crate::faults::Faults;
use crate::invariants::Watch;
use crate::links;
use crate::masters::MasterProcess;
use crate::network::{Network, Pid};
use crate::placing::Placing;
use crate::random::Random;
use crate::store::{Store, Written};
use crate::workers::WorkerProcess;

/// What happens to a process, or to the world.
pub(crate) enum Happening {
    Arrives(u64, Frame),
    /// Something long is on its way.
    Arriving(u64),
    Opened(u64),
    Closed(u64, String),
    Wakes(Now),
    Answered(Answer),
    /// Is on the disk, unless its writer died before.
    Written(Box<Written>, Answer),
    Found(Option<Found>),
    Prepared,
    /// What the replica is at is done.
    Computed,
    Asked(Operator),
    AskedToGo,
    /// The coordinator notices that a process is gone.
    Expires(Pid),
    /// A candidate is told that it leads, if it does.
    Leads,
    /// One that was succeeded in a term learns of it.
    Unled(u64),
    /// One that leads a term notices that the coordinator is away.
    Unsure(u64),
    /// One that leads a term hears that the coordinator is back.
    Regains(u64),
    /// What a process wants to publish arrives.
    Publishes(Pid, RunRecord),
    StartMaster,
    StartWorker,
    Trouble,
}

/// The process that stands for the world itself.
pub(crate) const NOBODY: Pid = 0;
/// Simulated milliseconds until a history must have ended, once nothing goes wrong any more.
const PATIENCE: Now = 180_000;

/// Whose rules a history is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rules {
    /// `sync` and `averaging`.
    Rounds,
    /// `shared`.
    Sharing,
}

/// How often something rare came about.
pub type Rare = BTreeMap<&'static str, u64>;

/// How a history ended.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// What did not hold, if anything: the first of it, and when.
    pub violation: Option<String>,
    /// Rare states that were reached.
    pub rare: Rare,
    /// Simulated milliseconds.
    pub time: Now,
    /// What happened, as lines, if a trace was asked for.
    pub trace: Vec<String>,
}

/// A master was asked to stop, for the first time: asking again changes nothing.
pub(crate) struct StopAsked {
    pub pid: Pid,
    pub at: Now,
    pub term: u64,
    /// Who was in the view, if one was at work.
    pub crew: Option<Vec<Incarnation>>,
    /// The last round that counted.
    pub counted: Round,
}

/// A history of the shipped loops.
pub struct World {
    pub(crate) now: Now,
    queue: BinaryHeap<Reverse<(Now, u64, Pid)>>,
    happenings: BTreeMap<u64, Happening>,
    count: u64,
    pub(crate) random: Random,
    pub(crate) network: Network,
    pub(crate) masters: BTreeMap<Pid, MasterProcess>,
    pub(crate) workers: BTreeMap<Pid, WorkerProcess>,
    pub(crate) paused: BTreeMap<Pid, Now>,
    pub(crate) clocks: Clocks,
    pub(crate) dead: BTreeSet<Pid>,
    pub(crate) next_pid: Pid,
    pub(crate) coordinator: Coordinator,
    pub(crate) store: Store,
    pub(crate) work: Schedule,
    pub(crate) placing: Placing,
    pub(crate) faults: Faults,
    pub(crate) watch: Watch,
    pub(crate) planted: Option<Planted>,
    pub(crate) rules: Rules,
    pub(crate) has_ended: bool,
    pub(crate) stop_asked: Option<StopAsked>,
    pub(crate) is_traced: bool,
    pub(crate) trace: Vec<String>,
    /// Frames that were sent, and their bytes.
    pub(crate) said: (u64, u64),
    /// Frames that a master sent or was sent.
    pub(crate) said_to_master: u64,
    /// Bytes that a master sent.
    pub(crate) master_said: u64,
}

impl World {
    /// The history of a seed under some rules, with a mistake planted or without.
    pub fn new(rules: Rules, seed: u64, planted: Option<Planted>) -> Self {
        let mut random = Random::new(seed ^ 0x5eed);
        let faults = Faults::new(&mut random);
        let share = match random.within(0, 2) {
            0 => StepSize::Each(random.within(1, 5)),
            _ => StepSize::Together(random.within(1, 12)),
        };
        let share = if rules == Rules::Sharing { StepSize::Each(2) } else { share };
        let work = Schedule::new(random.within(40, 300), random.within(1, 4), share);
        let steps = if rules == Rules::Sharing { 1 } else { random.within(1, 4) };
        let (placing, work) = Placing::of(seed, work);
        let work = work.in_rounds_of(steps);
        let mut world = Self::empty(rules, random, faults, work);
        world.placing = placing;
        world.planted = planted;
        // Sometimes a standby from the start.
        for _ in 0..world.random.within(1, 3) {
            let delay = world.random.within(0, 500);
            world.after(delay, NOBODY, Happening::StartMaster);
        }
        for _ in 0..world.faults.workers {
            let delay = world.random.within(0, 600);
            world.after(delay, NOBODY, Happening::StartWorker);
        }
        let first = world.random.within(200, 2000);
        world.after(first, NOBODY, Happening::Trouble);
        world
    }

    /// Nobody is there yet.
    pub(crate) fn empty(rules: Rules, random: Random, faults: Faults, work: Schedule) -> Self {
        Self {
            now: 0,
            queue: BinaryHeap::new(),
            happenings: BTreeMap::new(),
            count: 0,
            random,
            network: Network::default(),
            masters: BTreeMap::new(),
            workers: BTreeMap::new(),
            paused: BTreeMap::new(),
            clocks: Clocks::default(),
            dead: BTreeSet::new(),
            next_pid: NOBODY + 1,
            coordinator: Coordinator::default(),
            store: Store::default(),
            watch: Watch::new(work.clone(), 0, rules == Rules::Sharing),
            work,
            placing: Placing::Everywhere,
            faults,
            planted: None,
            rules,
            has_ended: false,
            stop_asked: None,
            is_traced: false,
            trace: Vec::new(),
            said: (0, 0),
            said_to_master: 0,
            master_said: 0,
        }
    }

    /// Keeps every line of what happens.
    pub fn traced(mut self) -> Self {
        self.is_traced = true;
        self
    }

    /// Runs to the end.
    pub fn run(mut self) -> Outcome {
        while !self.has_ended && self.watch.violation.is_none() && self.advance() {
            if self.now > self.faults.until + PATIENCE {
                let phases: Vec<String> = self.masters.values().filter_map(MasterProcess::phase).collect();
                let late = format!("the run has not ended {PATIENCE} ms after the last fault; masters: {phases:?}");
                self.watch.fail(self.now, late);
            }
        }
        if self.watch.violation.is_none() && !self.has_ended {
            self.watch.fail(self.now, "nothing happens any more, and the run has not ended".into());
        }
        Outcome { violation: self.watch.violation, rare: self.watch.rare, time: self.now, trace: self.trace }
    }

    /// Lets the next thing happen; false when there is none.
    pub(crate) fn advance(&mut self) -> bool {
        let Some(Reverse((at, id, pid))) = self.queue.pop() else { return false };
        self.now = self.now.max(at);
        if let Some(resumes) = self.paused.get(&pid).copied() {
            if resumes > self.now {
                // Order is kept: the number of the happening stays.
                self.queue.push(Reverse((resumes, id, pid)));
                return true;
            }
            self.paused.remove(&pid);
        }
        if let Some(happening) = self.happenings.remove(&id)
            && !self.dead.contains(&pid)
        {
            self.happen(pid, happening);
        }
        true
    }

    fn happen(&mut self, pid: Pid, happening: Happening) {
        if let Happening::Arrives(link, _) | Happening::Arriving(link) = &happening
            && !self.network.connections.get(link).is_some_and(|connection| connection.is_up)
        {
            return;
        }
        match happening {
            Happening::StartMaster => self.start_master(),
            Happening::StartWorker => self.start_worker(),
            Happening::Trouble => self.make_trouble(),
            Happening::Expires(leader) => self.expire(leader),
            Happening::Publishes(by, record) => self.take_record(by, record),
            happening if self.masters.contains_key(&pid) => match happening {
                Happening::Leads => self.lead_now(pid),
                Happening::Unled(term) => self.tell_unled(pid, term),
                Happening::Unsure(term) => self.be_unsure(pid, term),
                Happening::Regains(term) => self.regain(pid, term),
                Happening::Answered(answer) => self.tell_master(pid, MasterInput::Done(answer)),
                Happening::Written(written, answer) => {
                    self.store.take(*written);
                    self.tell_master(pid, MasterInput::Done(answer));
                }
                Happening::Asked(operator) => {
                    if operator == Operator::Stop && self.stop_asked.as_ref().is_none_or(|asked| asked.pid != pid) {
                        let (at, term, counted) = (self.now, self.coordinator.term, self.watch.last_counted());
                        self.stop_asked = Some(StopAsked { pid, at, term, crew: self.crew_at_work(pid), counted });
                    }
                    self.tell_master(pid, MasterInput::Asked(operator));
                }
                Happening::Wakes(at) if self.masters[&pid].wakes == at => self.tell_master(pid, MasterInput::Wake),
                other => {
                    if let Some(event) = links::event(other) {
                        self.tell_master(pid, MasterInput::Link(event));
                    }
                }
            },
            happening if self.workers.contains_key(&pid) => match happening {
                Happening::Found(found) => self.tell_worker(pid, WorkerInput::Found(Ok(found))),
                Happening::Prepared => self.prepared(pid),
                Happening::Computed => self.computed(pid),
                Happening::AskedToGo => self.tell_worker(pid, WorkerInput::AskedToGo),
                Happening::Wakes(at) if self.workers[&pid].wakes == at => self.tell_worker(pid, WorkerInput::Wake),
                other => {
                    if let Some(event) = links::event(other) {
                        self.tell_worker(pid, WorkerInput::Link(event));
                    }
                }
            },
            _ => {}
        }
    }

    pub(crate) fn after(&mut self, delay: Now, pid: Pid, happening: Happening) {
        self.at(self.now + delay, pid, happening);
    }

    pub(crate) fn at(&mut self, at: Now, pid: Pid, happening: Happening) {
        self.count += 1;
        self.happenings.insert(self.count, happening);
        self.queue.push(Reverse((at, self.count, pid)));
    }

    pub(crate) fn say(&mut self, line: impl FnOnce() -> String) {
        if self.is_traced {
            let line = format!("{:>7} {}", self.now, line());
            self.trace.push(line);
        }
    }

    pub(crate) fn new_pid(&mut self) -> Pid {
        self.next_pid += 1;
        self.next_pid
    }

    /// A timer rings when it was asked for, or a little late.
    pub(crate) fn wake(&mut self, pid: Pid, at: Now) {
        let late = if self.random.one_in(10) { self.random.within(0, 200) } else { 0 };
        self.at(self.clocks.when(pid, at).max(self.now) + late, pid, Happening::Wakes(at));
    }
}
