//! The clock, the queue of what happens, and the processes.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use paceline_exchange::Planted;
use paceline_exchange::rounds::{Incarnation, Now, Round, Schedule, StepSize, Term, WorkNumber};

use crate::faults::Faults;
use crate::invariants::Watch;
use crate::master::MasterProcess;
use crate::network::{ConnectionId, Message, Network, Pid};
use crate::numbers::State;
use crate::random::Random;
use crate::worker::WorkerProcess;

/// What happens to a process, or to the world.
#[derive(Clone, Debug)]
pub(crate) enum Happening {
    Arrives(ConnectionId, Message),
    ConnectionDown(ConnectionId, &'static str),
    /// A dialled connection stands.
    Dialled(ConnectionId),
    /// Nobody answered at the other end.
    NotDialled(Option<Incarnation>),
    Timer(Now),
    Computed(Incarnation, WorkNumber),
    /// A step of `shared` is taken.
    Stepped(Incarnation),
    /// A peer is reached through the master from now on.
    Relayed(Incarnation, Incarnation),
    /// Something waits in the queue of the replica.
    Queued,
    TriesToJoin,
    DialsAgain,
    StartWorker,
    StartMaster,
    Fault,
}

/// What is on the disk that all masters share, and who may write to it.
#[derive(Clone, Debug)]
pub(crate) struct Disk {
    pub(crate) term: Term,
    pub(crate) round: Round,
    pub(crate) state: State,
    pub(crate) rest: Schedule,
}

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

/// A history.
pub struct World {
    pub(crate) now: Now,
    queue: BinaryHeap<Reverse<(Now, u64, Pid)>>,
    happenings: BTreeMap<u64, Happening>,
    count: u64,
    pub(crate) random: Random,
    pub(crate) network: Network,
    pub(crate) masters: BTreeMap<Pid, MasterProcess>,
    pub(crate) workers: BTreeMap<Pid, WorkerProcess>,
    /// Processes that do nothing until then.
    pub(crate) paused: BTreeMap<Pid, Now>,
    next_pid: Pid,
    /// Where workers look for a master.
    pub(crate) master_address: Option<Pid>,
    pub(crate) disk: Disk,
    pub(crate) next_incarnation: Incarnation,
    pub(crate) faults: Faults,
    pub(crate) watch: Watch,
    pub(crate) planted: Option<Planted>,
    pub(crate) rules: Rules,
    pub(crate) has_ended: bool,
    pub(crate) dead: BTreeSet<Pid>,
    is_traced: bool,
    trace: Vec<String>,
}

/// The process that stands for the world itself.
const NOBODY: Pid = 0;
/// Simulated milliseconds until a history must have ended, once nothing goes wrong any more.
const PATIENCE: Now = 120_000;

impl World {
    /// The history of a seed under some rules, with a mistake planted into the rules or without.
    pub fn new(rules: Rules, seed: u64, planted: Option<Planted>) -> Self {
        let mut random = Random::new(seed);
        let faults = Faults::new(&mut random);
        let share = match random.within(0, 2) {
            0 => StepSize::Each(random.within(1, 5)),
            _ => StepSize::Together(random.within(1, 12)),
        };
        let rest = Schedule::new(random.within(40, 400), random.within(1, 4), share);
        let rest = rest.in_rounds_of(random.within(1, 4));
        let rest = if random.one_in(3) { rest.at_most(random.within(5, 100), random.within(2, 9)) } else { rest };
        let mut world = Self {
            now: 0,
            queue: BinaryHeap::new(),
            happenings: BTreeMap::new(),
            count: 0,
            random,
            network: Network::default(),
            masters: BTreeMap::new(),
            workers: BTreeMap::new(),
            paused: BTreeMap::new(),
            next_pid: NOBODY + 1,
            master_address: None,
            disk: Disk { term: 0, round: 0, state: State::initial(), rest: rest.clone() },
            next_incarnation: 1,
            watch: Watch::new(rest, 0, rules == Rules::Sharing),
            faults,
            planted,
            rules,
            has_ended: false,
            dead: BTreeSet::new(),
            is_traced: false,
            trace: Vec::new(),
        };
        world.after(0, NOBODY, Happening::StartMaster);
        for _ in 0..world.faults.workers {
            let delay = world.random.within(0, 300);
            world.after(delay, NOBODY, Happening::StartWorker);
        }
        let first = world.random.within(200, 2000);
        world.after(first, NOBODY, Happening::Fault);
        world
    }

    /// Keeps every line of what happens.
    pub fn traced(mut self) -> Self {
        self.is_traced = true;
        self
    }

    /// Runs to the end.
    pub fn run(mut self) -> Outcome {
        while let Some(Reverse((at, id, pid))) = self.queue.pop() {
            self.now = self.now.max(at);
            if self.has_ended || self.watch.violation.is_some() {
                break;
            }
            if self.now > self.faults.until + PATIENCE {
                let phases: Vec<String> = self.masters.values().map(|m| format!("{:?}", m.machine)).collect();
                self.watch.fail(
                    self.now,
                    format!("the run has not ended {PATIENCE} ms after the last fault; masters: {phases:?}"),
                );
                break;
            }
            if let Some(resumes) = self.paused.get(&pid).copied() {
                if resumes > self.now {
                    // Order is kept: the number of the happening stays.
                    self.queue.push(Reverse((resumes, id, pid)));
                    continue;
                }
                self.paused.remove(&pid);
            }
            let Some(happening) = self.happenings.remove(&id) else { continue };
            if !self.dead.contains(&pid) {
                self.happen(pid, happening);
            }
        }
        if self.watch.violation.is_none() && !self.has_ended {
            self.watch.fail(self.now, "nothing happens any more, and the run has not ended".into());
        }
        Outcome { violation: self.watch.violation, rare: self.watch.rare, time: self.now, trace: self.trace }
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

    fn happen(&mut self, pid: Pid, happening: Happening) {
        self.say(|| format!("{pid}: {happening:?}"));
        match happening {
            Happening::StartMaster => self.start_master(),
            Happening::StartWorker => self.start_worker(),
            Happening::Fault => self.fail_somehow(),
            Happening::ConnectionDown(connection, _)
                if self.network.connections.get(&connection).is_some_and(|c| c.is_up) =>
            {
                self.network.connections.get_mut(&connection).expect("it was found").is_up = false;
                self.happen(pid, happening);
            }
            Happening::Arrives(connection, _)
                if !self.network.connections.get(&connection).is_some_and(|c| c.is_up) => {}
            other if self.masters.contains_key(&pid) => self.happen_to_master(pid, other),
            other if self.workers.contains_key(&pid) => self.happen_to_worker(pid, other),
            _ => {}
        }
    }

    pub(crate) fn new_pid(&mut self) -> Pid {
        self.next_pid += 1;
        self.next_pid
    }

    pub(crate) fn send(&mut self, connection: ConnectionId, from: Pid, message: Message) {
        let delay = self.random.within(1, 15);
        if let Some((to, at)) = self.network.arrival(connection, from, self.now, delay) {
            self.at(at, to, Happening::Arrives(connection, message));
        }
    }

    /// Tries to connect; the process hears of it.
    pub(crate) fn dial(&mut self, from: Pid, to: Pid, whom: Option<Incarnation>) -> Option<ConnectionId> {
        let passes = self.network.passes_at(from, to, self.now);
        let exists = (self.masters.contains_key(&to) || self.workers.contains_key(&to)) && !self.dead.contains(&to);
        if !exists || passes > self.now + 1000 {
            let delay = if exists { 1000 } else { self.random.within(1, 10) };
            self.after(delay, from, Happening::NotDialled(whom));
            return None;
        }
        let id = self.network.open(from, to);
        let delay = self.random.within(1, 10);
        self.at(passes + delay, from, Happening::Dialled(id));
        Some(id)
    }

    /// The connection is gone. Each end hears of it soon, or late if it is half open.
    pub(crate) fn reset(&mut self, id: ConnectionId, why: &'static str) {
        let Some(connection) = self.network.connections.get_mut(&id).filter(|c| c.is_up) else { return };
        connection.is_up = false;
        for pid in connection.ends {
            let is_late = self.random.one_in(8);
            let delay = if is_late { self.random.within(1000, 20_000) } else { self.random.within(1, 20) };
            self.after(delay, pid, Happening::ConnectionDown(id, why));
        }
    }

    /// A process is gone; silently, if nobody is told for a long time. What it had sent may still arrive, or not.
    pub(crate) fn kill(&mut self, pid: Pid, is_silent: bool) {
        self.dead.insert(pid);
        for id in self.network.of(pid) {
            let arrives = !is_silent && self.random.one_in(2);
            let other = self.network.connections[&id].other(pid);
            if arrives {
                let at = self.network.last_arrival(id).max(self.now) + 1;
                self.at(at, other, Happening::ConnectionDown(id, "closed by peer"));
                continue;
            }
            self.network.connections.get_mut(&id).expect("it was listed").is_up = false;
            let delay = if is_silent { 30_000 } else { self.random.within(1, 20) };
            self.after(delay, other, Happening::ConnectionDown(id, "reset by peer"));
        }
    }
}
