//! The threads of a team that acts as one: all take every step together.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::JoinHandle;

use crossbeam_channel::{Receiver, Sender, bounded};
use paceline_model::{Batch, Handed, Loss, Part, PartwiseModel, Progress, State, slice_of};
use paceline_nn::{Engine, Network};

use super::Parts;
use crate::Error;
use crate::run::health::not_finite;
use crate::team::gate::Gate;
use crate::team::{Exchange, Purpose, Searching, Solo, Synchronous, Worker, panic_message};

/// What an error says of the last checkpoint.
const KEPT: &str = "the master keeps the last checkpoint";

/// A team of slots. The first works on the thread that asks, the others each on one of its own.
pub(super) struct Crew {
    first: Slot,
    others: Vec<Other>,
}

/// A thread with a slot.
struct Other {
    /// Closed by taking it, which ends the thread.
    tasks: Option<Sender<Task>>,
    done: Receiver<Result<Done, Error>>,
    thread: Option<JoinHandle<()>>,
}

/// What a slot is asked to do.
#[derive(Clone)]
pub(super) enum Task {
    /// Takes a step over the slot's own minibatch.
    Step(Batch, Progress, Purpose),
    /// Updates its share of the parameters with a gradient of all replicas, and takes over their running statistics.
    Update { at: Progress, gradient: Arc<dyn Parts>, weight: f32 },
    /// Its running statistics are these.
    SetRunning(Arc<[f32]>),
}

/// What a slot has done.
#[derive(Default)]
pub(super) struct Done {
    pub loss: Loss,
    /// The minibatch, to be filled again.
    pub batch: Option<Batch>,
}

/// One core's part of the team.
pub(super) struct Slot {
    index: usize,
    of: usize,
    worker: Worker<Engine, Box<dyn Exchange>>,
    /// The parts of the parameters, each updated by one slot when a result is committed.
    parts: Arc<[Part]>,
    gate: Arc<Gate>,
    room: Vec<f32>,
}

impl Crew {
    /// So many slots of a network, at the start of a run.
    pub(super) fn start(network: &Network, slots: usize, micro_batch: Option<usize>) -> Result<Self, Error> {
        let engine = || Engine::new(network.clone()).micro_batch(micro_batch);
        let (model, state) = (engine(), network.initial_state());
        let gate = Arc::new(Gate::new(slots));
        let exchanges: Vec<Box<dyn Exchange>> = match slots {
            1 => vec![Box::new(Solo::default())],
            _ if model.searches() => {
                let team = Searching::team(slots, &state, &gate);
                team.into_iter().map(|exchange| Box::new(exchange) as Box<dyn Exchange>).collect()
            }
            _ => {
                let team = Synchronous::team(slots, &model, &state, &gate);
                team.into_iter().map(|exchange| Box::new(exchange) as Box<dyn Exchange>).collect()
            }
        };
        let parts: Arc<[Part]> = model.parts(state.parameters.len()).into();
        let mut members = exchanges.into_iter().enumerate().map(|(index, mut exchange)| {
            let (model, mut state) = (engine(), state.clone());
            exchange.begin(&[], &mut state)?;
            let worker = Worker { model, state, exchange, progress: Progress::default() };
            Ok::<Slot, Error>(Slot {
                index,
                of: slots,
                worker,
                parts: parts.clone(),
                gate: gate.clone(),
                room: Vec::new(),
            })
        });
        let first = members.next().expect("a team has a slot")?;
        let others = members.map(|slot| Other::start(slot?)).collect::<Result<_, Error>>()?;
        Ok(Self { first, others })
    }

    pub(super) fn slots(&self) -> usize {
        self.others.len() + 1
    }

    /// The state of the team; of running statistics, what the first slot has.
    pub(super) fn state(&self) -> &State {
        &self.first.worker.state
    }

    /// The state, to be written while no task is under way; [`Task::SetRunning`] is for running statistics.
    pub(super) fn state_mut(&mut self) -> &mut State {
        &mut self.first.worker.state
    }

    /// Gives every slot something to do and waits until all have done it.
    pub(super) fn run(&mut self, mut tasks: Vec<Task>) -> Result<Vec<Done>, Error> {
        let others = tasks.split_off(1);
        let first = tasks.pop().expect("a task for every slot");
        for (other, task) in self.others.iter().zip(others) {
            // A thread that is gone is found out below.
            if let Some(tasks) = &other.tasks {
                let _ = tasks.send(task);
            }
        }
        let mut ends = vec![self.first.carry_out(first)];
        ends.extend(self.others.iter().enumerate().map(|(index, other)| {
            let gone = Error::WorkerPanicked { worker: index + 1, message: "its thread is gone".into() };
            other.done.recv().unwrap_or(Err(gone))
        }));
        // Those who were abandoned only say that somebody else has failed.
        if let Some(at) =
            ends.iter().position(|end| end.as_ref().is_err_and(|error| !matches!(error, Error::Abandoned)))
        {
            return Err(ends.swap_remove(at).err().expect("it is an error"));
        }
        ends.into_iter().collect()
    }

    /// Gives every slot the same to do.
    pub(super) fn run_all(&mut self, task: &Task) -> Result<(), Error> {
        let tasks = (0..self.slots()).map(|_| task.clone()).collect();
        self.run(tasks).map(drop)
    }
}

impl Other {
    fn start(mut slot: Slot) -> Result<Self, Error> {
        let (tasks, inbox) = bounded::<Task>(1);
        let (outbox, done) = bounded(1);
        let name = format!("paceline-slot-{}", slot.index);
        let work = move || {
            for task in inbox {
                if outbox.send(slot.carry_out(task)).is_err() {
                    return;
                }
            }
        };
        let thread = std::thread::Builder::new().name(name).spawn(work);
        let thread = thread.map_err(|source| Error::WorkerThread { source })?;
        Ok(Self { tasks: Some(tasks), done, thread: Some(thread) })
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        self.tasks = None;
        if let Some(thread) = self.thread.take() {
            // Panics were caught inside.
            let _ = thread.join();
        }
    }
}

impl Slot {
    /// Does it; whoever waits for this slot is told if it cannot.
    fn carry_out(&mut self, task: Task) -> Result<Done, Error> {
        let index = self.index;
        let end = catch_unwind(AssertUnwindSafe(|| self.work(task)))
            .unwrap_or_else(|panic| Err(Error::WorkerPanicked { worker: index, message: panic_message(&*panic) }));
        end.inspect_err(|_| self.gate.break_up())
    }

    fn work(&mut self, task: Task) -> Result<Done, Error> {
        match task {
            Task::Step(batch, progress, purpose) => return self.step(batch, progress, &purpose),
            Task::Update { at, gradient, weight } => self.update(at, &*gradient, weight),
            Task::SetRunning(running) => self.worker.state.running.copy_from_slice(&running),
        }
        Ok(Done::default())
    }

    fn step(&mut self, batch: Batch, progress: Progress, purpose: &Purpose) -> Result<Done, Error> {
        let worker = &mut self.worker;
        worker.progress = progress;
        // What batch norm sees belongs to the gradient that is handed out, not to what the replica is.
        let hands_out_gradient = matches!(purpose, Purpose::HandOut(Handed::Gradient, _));
        let before = hands_out_gradient.then(|| worker.state.running.clone());
        let report = worker.step_for(&batch, purpose)?;
        if !report.loss.sum.is_finite() {
            let Worker { model, state, progress, .. } = &*worker;
            return Err(not_finite(model.network(), state, *progress, &batch, report.loss.mean(), KEPT));
        }
        if let (Some(before), Purpose::HandOut(_, outlet)) = (before, purpose) {
            let parameters = worker.state.parameters.len();
            if self.index == 0 && !before.is_empty() {
                outlet.put(parameters..parameters + before.len(), &worker.state.running);
            }
            worker.state.running = before;
        }
        Ok(Done { loss: report.loss, batch: Some(batch) })
    }

    /// The parts that fall to this slot: as many numbers as to every other.
    fn own_parts(&self) -> impl Iterator<Item = std::ops::Range<usize>> + use<> {
        let length = self.worker.state.parameters.len() as u64;
        let own = slice_of(length, self.index as u64..self.index as u64 + 1, self.of as u64);
        let parts = self.parts.clone();
        (0..parts.len())
            .map(move |index| parts[index].range.clone())
            .filter(move |part| own.contains(&(part.start as u64)))
    }

    fn update(&mut self, at: Progress, gradient: &dyn Parts, weight: f32) {
        for part in self.own_parts() {
            let Worker { model, state, .. } = &mut self.worker;
            self.room.resize(self.room.len().max(part.len()), 0.0);
            let room = &mut self.room[..part.len()];
            gradient.copy(part.start, room);
            model.step_part(state, part, room, (weight, at), &mut |_| {});
        }
        let State { parameters, running, .. } = &mut self.worker.state;
        gradient.copy(parameters.len(), running);
    }
}
