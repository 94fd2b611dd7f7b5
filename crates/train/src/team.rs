//! The replicas of one process, each on a thread of its own.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::unbounded;
use paceline_data::Loader;
use paceline_model::Loss;

use crate::exchange::Exchange;
use crate::gate::Gate;
use crate::health::not_finite;
use crate::threaded::Threaded;
use crate::{Error, Traffic, Worker};

/// Steps are told at most this often: a terminal cannot show more, and a log need not.
pub(crate) const TELL_EVERY: Duration = Duration::from_millis(100);

/// Replicas with their shares of the data.
pub(crate) struct Team {
    members: Vec<Member>,
    gate: Arc<Gate>,
}

/// A replica, its share of the data, and what it has seen of the epoch.
pub(crate) struct Member {
    pub worker: Worker<Threaded, Box<dyn Exchange>>,
    pub loader: Loader,
    pub losses: Loss,
    /// Bytes of the messages that it has sent.
    pub bytes_sent: u64,
}

/// The last of some steps that a replica has taken since it last said so: who listens has a thread of its own, and to
/// wake it takes the core from somebody who computes.
pub(crate) struct Taken {
    pub member: usize,
    /// The step of the epoch.
    pub step: u64,
    pub iteration: u64,
    /// The loss of this step.
    pub loss: Loss,
    /// The examples of all of these steps.
    pub examples: usize,
    /// What it has sent since it last said so.
    pub traffic: Option<Traffic>,
}

/// Which steps of which epoch.
#[derive(Clone, Copy)]
pub(crate) struct Stretch {
    pub epoch: u64,
    pub from: u64,
    pub until: u64,
    /// When replicas say at once how far they are, because they are to pause.
    pub pause_at: Option<Instant>,
}

impl Team {
    pub(crate) fn new(members: Vec<Member>, gate: Arc<Gate>) -> Self {
        Self { members, gate }
    }

    pub(crate) fn members(&self) -> &[Member] {
        &self.members
    }

    pub(crate) fn members_mut(&mut self) -> &mut [Member] {
        &mut self.members
    }

    /// The replica that speaks for all between two stretches.
    pub(crate) fn first(&self) -> &Member {
        &self.members[0]
    }

    /// Takes the steps of a stretch, all or as many as there are before a stop, and settles. Says which step comes next.
    ///
    /// `kept` is what an error says of the last checkpoint.
    pub(crate) fn run(&mut self, stretch: Stretch, kept: &str, tell: &mut dyn FnMut(Taken)) -> Result<u64, Error> {
        if let [only] = &mut self.members[..] {
            return only.run(0, stretch, kept, tell);
        }
        let gate = &self.gate;
        let (sender, taken) = unbounded();
        let ends: Vec<Result<u64, Error>> = std::thread::scope(|scope| {
            let mut threads = Vec::with_capacity(self.members.len());
            for (index, member) in self.members.iter_mut().enumerate() {
                let sender = sender.clone();
                let work = move || {
                    // Nobody is left to listen only when this run is over anyway.
                    let mut tell = |taken| drop(sender.send(taken));
                    let end = catch_unwind(AssertUnwindSafe(|| member.run(index, stretch, kept, &mut tell)))
                        .unwrap_or_else(|panic| {
                            Err(Error::WorkerPanicked { worker: index, message: message(&*panic) })
                        });
                    if end.is_err() {
                        gate.break_up();
                    }
                    end
                };
                let thread = std::thread::Builder::new().name(format!("paceline-worker-{index}"));
                threads.push(thread.spawn_scoped(scope, work).inspect_err(|_| gate.break_up()));
            }
            drop(sender);
            taken.iter().for_each(tell);
            let join = |thread: std::io::Result<std::thread::ScopedJoinHandle<'_, _>>| match thread {
                Ok(thread) => thread.join().expect("panics were caught inside"),
                Err(source) => Err(Error::WorkerThread { source }),
            };
            threads.into_iter().map(join).collect()
        });
        let mut next = stretch.from;
        let mut broken = None;
        for end in ends {
            match end {
                Ok(step) => next = step,
                // The others only say that somebody else has failed.
                Err(Error::Abandoned) => broken = broken.or(Some(Error::Abandoned)),
                Err(error) => return Err(error),
            }
        }
        broken.map_or(Ok(next), Err)
    }
}

impl Member {
    fn run(&mut self, index: usize, stretch: Stretch, kept: &str, tell: &mut dyn FnMut(Taken)) -> Result<u64, Error> {
        let Self { worker, loader, losses, bytes_sent } = self;
        let (mut step, mut told, mut untold) = (stretch.from, None::<Instant>, 0);
        let mut batches = loader.epoch(stretch.epoch, stretch.from);
        while step < stretch.until
            && let Some(batch) = batches.next()
        {
            let batch = batch?;
            let report = worker.step(&batch)?;
            if !report.loss.sum.is_finite() {
                return Err(not_finite(&worker.state, worker.progress, &batch, report.loss.mean(), kept));
            }
            losses.merge(report.loss);
            *bytes_sent += report.moved.bytes_sent;
            untold += batch.examples();
            batches.recycle(batch);
            let stops = worker.exchange.stops()?;
            let is_last = stops || step + 1 == stretch.until;
            let is_pause = stretch.pause_at.is_some_and(|at| Instant::now() >= at);
            if is_last || is_pause || told.is_none_or(|told| told.elapsed() >= TELL_EVERY) {
                let (iteration, traffic) = (worker.progress.iteration, worker.exchange.traffic());
                let examples = std::mem::take(&mut untold);
                tell(Taken { member: index, step, iteration, loss: report.loss, examples, traffic });
                told = Some(Instant::now());
            }
            step += 1;
            if stops {
                break;
            }
        }
        worker.exchange.settle(&mut worker.state)?;
        Ok(step)
    }
}

pub(crate) fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".to_owned())
}
