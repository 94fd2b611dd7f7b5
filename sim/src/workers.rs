//! What a worker's loop wants, carried out.

use paceline_cluster::ClusterError;
use paceline_cluster::loops::{Desk, Found, Ready, WorkerInput, WorkerLoop, WorkerSetup};
use paceline_cluster::wire::Word;
use paceline_exchange::Frame;
use paceline_exchange::rounds::message::ToPeer;
use paceline_exchange::rounds::{Held, Incarnation, Now};
use paceline_exchange::sharing::message::PeerWord;

use crate::hosts::{Effect, SimWorker};
use crate::masters::job;
use crate::network::Pid;
use crate::numbers::State;
use crate::replica::{LAYOUT, MESSAGE, SimReplica};
use crate::world::{Happening, NOBODY, Rules, World};

pub(crate) struct WorkerProcess {
    worker: WorkerLoop,
    host: SimWorker,
    desk: Option<Desk>,
    replica: SimReplica,
    is_computing: bool,
    was: Option<Incarnation>,
    /// The partitions that it has.
    pub held: Vec<Held>,
    /// When it is woken next.
    pub wakes: Now,
}

impl WorkerProcess {
    /// The state, if this is one of the members, has one, and has nothing to do.
    pub(crate) fn state_of(&self, members: &[Incarnation]) -> Option<State> {
        let member = self.worker.member().filter(|member| members.contains(&member.incarnation()))?;
        member.sharing().and_then(|member| member.vector())?;
        self.desk.as_ref().filter(|desk| !desk.is_busy())?;
        Some(self.replica.inside().state.clone())
    }

    /// Until when it may work, if it is this member; by its own clock.
    pub(crate) fn lease_of(&self, member: Incarnation) -> Option<Now> {
        self.worker.member().filter(|of| of.incarnation() == member).map(|of| of.lease_until())
    }

    /// The way of the round that began with a step, if this is one of the members and still knows it.
    pub(crate) fn way_of(&self, members: &[Incarnation], iteration: u64) -> Option<u64> {
        self.worker.incarnation().filter(|incarnation| members.contains(incarnation))?;
        // What waits to be done is as good as done, but cannot be compared.
        self.desk.as_ref().filter(|desk| !desk.is_busy())?;
        self.replica.inside().ways.get(&iteration).copied()
    }
}

impl World {
    pub(crate) fn start_worker(&mut self) {
        let held = self.brings();
        let pid = self.new_pid();
        let mut host = SimWorker::new(self.clocks.shows(pid, self.now), pid);
        let setup = WorkerSetup {
            token: None,
            needs_key: false,
            slots: self.faults.slots(pid),
            patience: 60_000,
            place: "the coordinator".into(),
            planted: self.planted,
        };
        let worker = WorkerLoop::new(setup, &mut host);
        let replica = SimReplica::new(pid * 1000);
        let (is_computing, was) = (false, None);
        let process = WorkerProcess { worker, host, desk: None, replica, is_computing, was, held, wakes: Now::MAX };
        self.workers.insert(pid, process);
        self.say(|| format!("worker {pid} starts"));
        self.worker_acts(pid);
    }

    pub(crate) fn tell_worker(&mut self, pid: Pid, input: WorkerInput) {
        if self.is_traced {
            let mut input = format!("{input:?}");
            input.truncate(160);
            self.trace.push(format!("{:>7} worker {pid}: {input}", self.now));
        }
        let Some(process) = self.workers.get_mut(&pid) else { return };
        process.host.now = self.clocks.shows(pid, self.now);
        process.worker.handle(input, &mut process.host);
        self.worker_acts(pid);
    }

    fn worker_acts(&mut self, pid: Pid) {
        let Some(process) = self.workers.get_mut(&pid) else { return };
        for effect in std::mem::take(&mut process.host.socket.effects) {
            if self.dead.contains(&pid) || self.watch.violation.is_some() {
                return;
            }
            match effect {
                Effect::Connect(link, address) => self.connect(link, pid, &address),
                Effect::SendFirst(link, frame) => self.send(link, pid, frame, true),
                Effect::Send(link, frame) => {
                    let is_last = self.faults.has_fragile_workers() && self.dies_of(&frame);
                    self.send(link, pid, frame, false);
                    if is_last {
                        return self.lose_worker(pid);
                    }
                }
                Effect::Close(link, reason) => self.close(link, pid, &reason),
                Effect::Find(known) => {
                    let found = self.found_by(known);
                    let found = found.map(|record| Found {
                        address: record.address.clone(),
                        key: None,
                        term: Some(record.term),
                    });
                    let delay = self.random.within(1, 50);
                    self.after(delay, pid, Happening::Found(found));
                }
                Effect::Prepare => {
                    let delay = self.random.within(1, 300);
                    self.after(delay, pid, Happening::Prepared);
                }
                Effect::Compute(task) => {
                    let process = self.workers.get_mut(&pid).expect("it acts");
                    if task.steps().is_some_and(|steps| !steps.is_empty())
                        && let Some(lease) = process.worker.member().map(|member| member.lease_until())
                    {
                        self.watch.may_work(self.now, pid, self.clocks.when(pid, lease));
                    }
                    if let Some(desk) = &mut process.desk {
                        desk.push(task);
                    }
                    self.work_on(pid);
                }
                Effect::WorkerTold(event) => self.say(|| format!("  worker {pid} tells {event:?}")),
                Effect::Begin(_) | Effect::Told(_) | Effect::Holds(..) | Effect::Event(_) => {}
            }
        }
        self.hand_back(pid);
        let Some(process) = self.workers.get_mut(&pid) else { return };
        if let Some(outcome) = process.worker.take_outcome() {
            self.say(|| format!("worker {pid} is over: {outcome:?}"));
            match outcome {
                Ok(()) => {}
                Err(ClusterError::WorkerBroken { .. }) => self.watch.count("a worker left for an error of its own"),
                Err(error) => self.watch.fail(self.now, format!("worker {pid} gave up: {error}")),
            }
            self.kill(pid, false);
            let delay = self.random.within(100, 3000);
            return self.after(delay, NOBODY, Happening::StartWorker);
        }
        let now = process.worker.incarnation();
        if now.is_some() && process.was.is_some() && now != process.was {
            self.watch.count("a worker came back as another incarnation");
        }
        if let (Some(now), before) = (now.filter(|now| process.was != Some(*now)), process.was.unwrap_or(0)) {
            self.watch.term_seen(self.now, pid, before >> 32, now >> 32);
        }
        process.was = now.or(process.was);
        now.into_iter().for_each(|incarnation| self.watch.is_called(incarnation, pid));
        if let Some(member) = process.worker.member() {
            // Messages are kept of every origin, and of a few that are lost.
            let origins = if self.rules == Rules::Sharing { 12.max(2 * self.faults.workers as usize) } else { 1 };
            self.watch.queues(self.now, "rounds or messages of an origin", member.history_kept() / origins);
        }
        let wakes = process.worker.wakes_at().unwrap_or(Now::MAX);
        if wakes != process.wakes {
            process.wakes = wakes;
            if wakes != Now::MAX {
                self.wake(pid, wakes);
            }
        }
    }

    /// Whether a worker dies when it has said this.
    fn dies_of(&mut self, frame: &Frame) -> bool {
        let Ok((word, _)) = Word::read(frame) else { return false };
        match word {
            Word::SaveState { .. } | Word::SaveShared { .. } => {
                let dies = self.faults.saver_dies(&mut self.random, self.now);
                if dies {
                    self.watch.count("a worker died when it had sent its state to the master");
                }
                dies
            }
            Word::ToPeer(ToPeer::State { .. } | ToPeer::Sharing(PeerWord::Snapshot { .. })) => {
                let dies = self.faults.donor_dies(&mut self.random, self.now);
                if dies {
                    self.watch.count("a donor died");
                }
                dies
            }
            Word::Relay { .. } => {
                self.watch.count("the master carried what two workers say");
                false
            }
            _ => false,
        }
    }

    /// Who made the messages of a member, if it is known still.
    pub(crate) fn origin_of(&self, member: Incarnation) -> Option<u64> {
        let of = |process: &&WorkerProcess| process.worker.incarnation() == Some(member);
        Some(self.workers.values().find(of)?.replica.inside().origin)
    }

    /// Whether anybody but its origin holds a message, or may: what waits to be done cannot be looked at.
    pub(crate) fn may_be_held(&self, origin: u64, sequence: u64) -> bool {
        self.workers.values().any(|process| {
            let is_busy = process.is_computing || process.desk.as_ref().is_some_and(Desk::is_busy);
            let inside = process.replica.inside();
            inside.origin != origin && (is_busy || inside.state.applied.get(&origin) >= Some(&sequence))
        })
    }

    /// The job is read.
    pub(crate) fn prepared(&mut self, pid: Pid) {
        let Some(brings) = self.workers.get(&pid).map(|process| self.proves(&process.held)) else { return };
        let Some(process) = self.workers.get_mut(&pid) else { return };
        process.desk = Some(Desk::new(Box::new(process.replica.clone())));
        let width = if self.rules == Rules::Sharing { MESSAGE } else { LAYOUT.width() };
        let ready = Ready { job: job(), brings, width, layout: LAYOUT, gives_nothing: true };
        self.tell_worker(pid, WorkerInput::Ready(Ok(ready)));
    }

    /// Does what takes no time, and begins what takes some.
    fn work_on(&mut self, pid: Pid) {
        loop {
            let Some(process) = self.workers.get_mut(&pid) else { return };
            let Some(desk) = process.desk.as_mut().filter(|desk| desk.is_busy() && !process.is_computing) else {
                return;
            };
            let Some(steps) = desk.next_steps().cloned() else {
                if let Some(done) = desk.work() {
                    // It comes back in the order in which it was done.
                    let _ = process.host.outbox.send(done);
                }
                self.look_inside(pid);
                continue;
            };
            let held = process.held.clone();
            if let Some(capacity) = self.capacity(&held) {
                self.watch.may_take(self.now, pid, steps.epoch, &steps.slice.concat(), &capacity);
            }
            if self.faults.kills(steps.epoch, &steps.slice.concat()) {
                self.watch.count("an example killed its worker");
                return self.lose_worker(pid);
            }
            self.workers.get_mut(&pid).into_iter().for_each(|process| process.is_computing = true);
            let delay = if steps.is_empty() { 1 } else { self.faults.computes_for(&mut self.random, self.now) };
            return self.after(delay, pid, Happening::Computed);
        }
    }

    pub(crate) fn computed(&mut self, pid: Pid) {
        let Some(process) = self.workers.get_mut(&pid) else { return };
        process.is_computing = false;
        process.replica.inside().fails = self.faults.stumbles(&mut self.random, self.now);
        if let Some(done) = process.desk.as_mut().and_then(Desk::work) {
            let _ = process.host.outbox.send(done);
        }
        self.look_inside(pid);
        self.work_on(pid);
        self.hand_back(pid);
    }

    /// Gives the loop what its replica has done.
    fn hand_back(&mut self, pid: Pid) {
        while let Some(done) = self.workers.get(&pid).and_then(|process| process.host.done.try_recv().ok()) {
            if self.dead.contains(&pid) || self.watch.violation.is_some() {
                return;
            }
            self.tell_worker(pid, WorkerInput::Done(done));
        }
    }

    fn look_inside(&mut self, pid: Pid) {
        let Some(process) = self.workers.get(&pid) else { return };
        let mut inside = process.replica.inside();
        let (wrong, made) = (inside.wrong.take(), std::mem::take(&mut inside.made));
        drop(inside);
        for (origin, sequence, update) in made {
            self.watch.made(origin, sequence, update);
        }
        if let Some(wrong) = wrong {
            self.watch.fail(self.now, format!("worker {pid}: {wrong}"));
        }
    }

    /// A worker dies; another one starts some time later.
    pub(crate) fn lose_worker(&mut self, pid: Pid) {
        let is_silent = self.random.one_in(4);
        self.kill(pid, is_silent);
        let delay = self.random.within(100, 3000);
        self.after(delay, NOBODY, Happening::StartWorker);
    }
}
