//! A team of cores: the replicas of one process, each on a thread of its own.
//!
//! # Layout
//!
//! - `worker`: [`Worker::step_for`] is the whole way of one minibatch.
//! - `exchange`: how replicas stay together; `solo`, `sync`, `averaging` and `shared` are the modes.
//! - `feed`: hands out the minibatches of a stretch; `balance`: more of a step for those who are faster.
//! - `gate`, `common_work`, `claims`, `passage`, `board`, `factor_board`, `buffers`: where replicas wait for each other, who does
//!   which part of the common work, and the memory that they share. None of it is a word of a public trait.

mod averaging;
mod balance;
mod board;
mod buffers;
mod claims;
mod common_work;
mod exchange;
mod factor_board;
pub(crate) mod feed;
pub(crate) mod gate;
mod outer;
mod passage;
mod searching;
mod shared;
mod solo;
mod sync;
mod worker;

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::unbounded;
use paceline_data::Loader;
use paceline_model::Loss;

pub use averaging::{Averaging, AveragingOptions};
pub use exchange::{Exchange, Exchanged, Memory, Outlet, Purpose, Step, StepPlan};
pub use outer::Outer;
use paceline_nn::Engine;
pub(crate) use searching::Searching;
pub use shared::{Combine, Shake, Shared, SharedOptions, Traffic};
pub(crate) use shared::{RESIDUAL, UpdateSender};
pub use solo::Solo;
pub use sync::Synchronous;
pub use worker::{StepReport, Worker};

use self::feed::{Deal, Feed};
use self::gate::Gate;
use crate::Error;
use crate::run::halt::Halt;
use crate::run::health::not_finite;

/// Steps are told at most this often: a terminal cannot show more, and a log need not.
pub(crate) const TELL_EVERY: Duration = Duration::from_millis(100);

/// What is sent is told more seldom: it takes a look at the whole residual.
const TELL_TRAFFIC_EVERY: Duration = Duration::from_millis(500);

/// Replicas with their shares of the data.
pub(crate) struct Team {
    pub members: Vec<Member>,
    pub gate: Arc<Gate>,
    pub deal: Deal,
    /// Steps between two moments when replicas may be asked to halt.
    pub stride: u64,
    pub halt: Halt,
}

/// A replica, its share of the data, and what it has seen of the epoch.
pub(crate) struct Member {
    pub worker: Worker<Engine, Box<dyn Exchange>>,
    pub loader: Loader,
    pub losses: Loss,
    /// Bytes of the messages that it has sent.
    pub bytes_sent: u64,
}

/// The last of some steps that a replica has taken since it last said so, or what it has sent in those that it has told: whoever
/// listens has a thread of its own, and to wake it takes the core from a replica that computes.
#[derive(Clone, Copy)]
pub(crate) struct StepsTaken {
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
    /// The replica that speaks for all between two stretches.
    pub(crate) fn first(&self) -> &Member {
        &self.members[0]
    }

    /// Takes the steps of a stretch, all or as many as there are before a stop, and settles. Says which step comes next.
    ///
    /// `kept` is what an error says of the last checkpoint.
    pub(crate) fn run(&mut self, stretch: Stretch, kept: &str, tell: &mut dyn FnMut(StepsTaken)) -> Result<u64, Error> {
        let parts = self.members.iter().map(|member| member.loader.epoch(stretch.epoch, stretch.from)).collect();
        let steps = [stretch.from, stretch.until];
        let feed = Feed::new(parts, steps, self.deal.clone(), self.stride, &self.halt);
        let before = self.first().worker.progress.iteration;
        self.take_steps(&feed, stretch, kept, tell)?;
        let next = feed.end();
        // Replicas may have taken more steps or fewer, but together they have taken these.
        for member in &mut self.members {
            member.worker.progress.iteration = before + next - stretch.from;
        }
        Ok(next)
    }

    fn take_steps(
        &mut self,
        feed: &Feed,
        stretch: Stretch,
        kept: &str,
        tell: &mut dyn FnMut(StepsTaken),
    ) -> Result<(), Error> {
        if let [only] = &mut self.members[..] {
            return only.run(0, feed, stretch, kept, tell);
        }
        let gate = &self.gate;
        let (sender, taken) = unbounded();
        let ends: Vec<Result<(), Error>> = std::thread::scope(|scope| {
            let mut threads = Vec::with_capacity(self.members.len());
            for (index, member) in self.members.iter_mut().enumerate() {
                let sender = sender.clone();
                let work = move || {
                    // Nobody is left to listen only when this run is over anyway.
                    let mut tell = |taken| {
                        let _ = sender.send(taken);
                    };
                    let end = catch_unwind(AssertUnwindSafe(|| member.run(index, feed, stretch, kept, &mut tell)))
                        .unwrap_or_else(|panic| {
                            Err(Error::WorkerPanicked { worker: index, message: panic_message(&*panic) })
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
        // Those who were abandoned only say that somebody else has failed.
        let (abandoned, others): (Vec<_>, Vec<_>) =
            ends.into_iter().partition(|end| matches!(end, Err(Error::Abandoned)));
        others.into_iter().chain(abandoned).collect()
    }
}

impl Member {
    fn run(
        &mut self,
        index: usize,
        feed: &Feed,
        stretch: Stretch,
        kept: &str,
        tell: &mut dyn FnMut(StepsTaken),
    ) -> Result<(), Error> {
        let Self { worker, losses, bytes_sent, .. } = self;
        let first = worker.progress.iteration;
        let (mut told, mut told_traffic) = (None::<Instant>, None::<Instant>);
        let (mut untold, mut last) = (0, None::<StepsTaken>);
        while let Some(minibatch) = feed.take(index)? {
            let (step, batch) = (minibatch.step, &minibatch.batch);
            worker.progress.iteration = first + step - stretch.from;
            let report = worker.step(batch)?;
            if !report.loss.sum.is_finite() {
                let network = worker.model.network();
                return Err(not_finite(network, &worker.state, worker.progress, batch, report.loss.mean(), kept));
            }
            if let Some(took) = report.moved.own_time {
                feed.tell_time(index, took, batch.examples());
            }
            losses.merge(report.loss);
            *bytes_sent += report.moved.bytes_sent;
            untold += batch.examples();
            let iteration = worker.progress.iteration;
            let taken = StepsTaken { member: index, step, iteration, loss: report.loss, examples: 0, traffic: None };
            last = Some(taken);
            feed.recycle(minibatch);
            let is_pause = stretch.pause_at.is_some_and(|at| Instant::now() >= at);
            if is_pause || told.is_none_or(|told| told.elapsed() >= TELL_EVERY) {
                let tells_traffic = told_traffic.is_none_or(|told| told.elapsed() >= TELL_TRAFFIC_EVERY);
                let traffic = if tells_traffic { worker.exchange.traffic() } else { None };
                told_traffic = if tells_traffic { Some(Instant::now()) } else { told_traffic };
                tell(StepsTaken { examples: std::mem::take(&mut untold), traffic, ..taken });
                told = Some(Instant::now());
            }
        }
        if let Some(last) = last {
            let traffic = worker.exchange.traffic();
            if untold > 0 || traffic.is_some() {
                tell(StepsTaken { examples: untold, traffic, ..last });
            }
        }
        worker.exchange.settle(&mut worker.state)?;
        Ok(())
    }
}

/// What a panic said.
pub fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".to_owned())
}
