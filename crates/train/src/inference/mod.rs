//! One model, answered by several workers.
//!
//! # Layout
//!
//! The way of a request: `output` puts it into a `slot` (with the version of the model that it begins with, see
//! `served`) and into the queue; a worker takes it out through the `intake`, alone or with others that make one pass
//! with it; its `replica` runs the pass and writes the answer into the slot. In place, the caller's thread takes a
//! replica instead and does the same.
//!
//! - `builder`: modes and limits.
//! - `sources`: whole sources, in order.
//! - `statistics`: what was done so far.

mod builder;
mod error;
mod intake;
mod replica;
mod served;
mod slot;
mod sources;
mod statistics;

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, bounded};
use paceline_nn::ModelFile;

pub use builder::{BatchedOptions, InferenceBuilder, InferenceMode};
pub use error::InferenceError;
pub use slot::{Answer, Pending};
pub use statistics::InferenceStatistics;

use crate::Error;
use intake::{Intake, Request};
use replica::Replica;
use served::Served;
use slot::{Job, Slots};
use statistics::Counters;

/// A trained model that several workers answer with, and that can be swapped while they do.
///
/// ```no_run
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use paceline_nn::ModelFile;
/// use paceline_train::{BatchedOptions, ParallelInference};
///
/// let model = ModelFile::load("lenet.safetensors".as_ref())?;
/// let options = BatchedOptions { batch_limit: 64, ..BatchedOptions::default() };
/// let inference = ParallelInference::builder(model).workers(4).batched(options).build()?;
/// let probabilities = inference.output(&[0.0; 28 * 28])?;
/// inference.swap(ModelFile::load("better.safetensors".as_ref())?)?;
/// # Ok(()) }
/// ```
///
/// Features go in as they are in the data: the model's own normaliser is applied to them. A request holds one example or
/// several, row after row, and gets the bits that it would get alone, whatever shares its pass.
///
/// Clones ask the same workers. When the last one is dropped, the workers answer what waits and end.
#[derive(Clone)]
pub struct ParallelInference {
    shared: Arc<Shared>,
}

struct Shared {
    current: RwLock<Arc<Served>>,
    mode: InferenceMode,
    workers: usize,
    counters: Arc<Counters>,
    slots: Arc<Slots>,
    way: Dispatch,
}

/// How a request comes to a replica.
enum Dispatch {
    /// When the queue is full, senders wait or are refused. It is closed by taking it, which ends the threads.
    Queue { queue: Option<Sender<Request>>, threads: Vec<JoinHandle<()>> },
    /// Replicas that are free; whoever finds none waits or is refused.
    InPlace { free: Receiver<Replica>, back: Sender<Replica> },
}

/// What to do when all are busy.
#[derive(Clone, Copy, PartialEq, Eq)]
enum IfBusy {
    Wait,
    Refuse,
}

impl ParallelInference {
    /// Begins to say how requests to this model are answered.
    pub fn builder(model: ModelFile) -> InferenceBuilder {
        InferenceBuilder::new(model)
    }

    fn start(model: ModelFile, workers: usize, mode: InferenceMode) -> Result<Self, Error> {
        let current = RwLock::new(Arc::new(Served::new(model, 1)?));
        let counters = Arc::new(Counters::default());
        let replicas = (0..workers).map(|index| Replica::new(index, counters.clone()));
        let (batch_limit, wait) = match mode {
            InferenceMode::Batched(options) => (options.batch_limit, options.wait),
            InferenceMode::Sequential { .. } | InferenceMode::InPlace => (1, Duration::ZERO),
        };
        let way = if mode == InferenceMode::InPlace {
            let (back, free) = bounded(workers);
            replicas.for_each(|replica| back.send(replica).expect("there is room for all and we hold the other end"));
            Dispatch::InPlace { free, back }
        } else {
            let (queue, requests) = bounded(mode.queue_limit());
            let intake = Arc::new(Intake::new(requests, batch_limit, wait));
            let start = |(index, replica): (usize, Replica)| {
                let intake = intake.clone();
                let thread = std::thread::Builder::new().name(format!("paceline-inference-{index}"));
                thread.spawn(move || replica.work(&intake)).map_err(|source| Error::WorkerThread { source })
            };
            // If one cannot be started, the queue is dropped here and those before it end.
            let threads = replicas.enumerate().map(start).collect::<Result<_, _>>()?;
            Dispatch::Queue { queue: Some(queue), threads }
        };
        let slots = Arc::new(Slots::new(workers + mode.queue_limit()));
        Ok(Self { shared: Arc::new(Shared { current, mode, workers, counters, slots, way }) })
    }

    /// The outputs for one example or several, row after row.
    pub fn output(&self, features: &[f32]) -> Result<Vec<f32>, InferenceError> {
        Ok(self.answer(features)?.outputs)
    }

    /// The same, unless nobody is free and nothing may wait: then [`InferenceError::Busy`] at once.
    pub fn try_output(&self, features: &[f32]) -> Result<Vec<f32>, InferenceError> {
        Ok(self.try_submit(features)?.wait()?.outputs)
    }

    /// The outputs, written over those in `outputs`, and the version that computed them. Allocates nothing in the long run.
    pub fn output_into(&self, features: &[f32], outputs: &mut Vec<f32>) -> Result<u64, InferenceError> {
        let pending = self.submit(features)?;
        Ok(pending.finish(|job| std::mem::swap(&mut job.outputs, outputs))?.version)
    }

    /// The outputs, and which version of the model computed them.
    pub fn answer(&self, features: &[f32]) -> Result<Answer, InferenceError> {
        self.submit(features)?.wait()
    }

    /// Asks without waiting for the answer; waits while the queue is full. In place, the answer is computed here and now.
    pub fn submit(&self, features: &[f32]) -> Result<Pending, InferenceError> {
        self.ask(features, IfBusy::Wait)
    }

    /// The same, with [`InferenceError::Busy`] where [`Self::submit`] would wait.
    pub fn try_submit(&self, features: &[f32]) -> Result<Pending, InferenceError> {
        self.ask(features, IfBusy::Refuse)
    }

    /// Puts another model in the place of this one, and says its version.
    ///
    /// No request fails over it. A request is answered by the version that it began with, so that none sees two, and all
    /// that begin after this has returned see the new one. A model of another input or output shape is refused.
    pub fn swap(&self, model: ModelFile) -> Result<u64, Error> {
        let mut new = Served::new(model, 0)?;
        let mut current = self.shared.current.write().unwrap_or_else(PoisonError::into_inner);
        current.can_become(&new)?;
        new.version = current.version + 1;
        let version = new.version;
        *current = Arc::new(new);
        Ok(version)
    }

    /// The version that requests begin with now: 1 at first, one more after every swap.
    pub fn version(&self) -> u64 {
        self.current().version
    }

    /// Numbers that come out for an example.
    pub fn output_width(&self) -> usize {
        self.current().outputs()
    }

    /// Passes that run at the same time.
    pub fn workers(&self) -> usize {
        self.shared.workers
    }

    /// How requests come to the workers.
    pub fn mode(&self) -> InferenceMode {
        self.shared.mode
    }

    /// What was done so far.
    pub fn statistics(&self) -> InferenceStatistics {
        self.shared.counters.read()
    }

    fn current(&self) -> Arc<Served> {
        self.shared.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn ask(&self, features: &[f32], if_busy: IfBusy) -> Result<Pending, InferenceError> {
        let model = self.current();
        let expected = model.inputs();
        // Before it waits: a request that does not fit must not spoil the pass of others.
        if features.is_empty() || !features.len().is_multiple_of(expected) {
            return Err(InferenceError::Features { expected, found: features.len() });
        }
        self.begin(model, true, if_busy, |job| job.ask(features, expected))
    }

    /// Sends a request on its way.
    fn begin(
        &self,
        model: Arc<Served>,
        joins: bool,
        if_busy: IfBusy,
        fill: impl FnOnce(&mut Job),
    ) -> Result<Pending, InferenceError> {
        let Shared { mode, workers, counters, slots, way, .. } = &*self.shared;
        let (slot, version) = (slots.take(), model.version);
        let mut job = slot.lock();
        (job.model, job.end) = (Some(model), None);
        fill(&mut job);
        let examples = job.batch.examples();
        drop(job);
        let let_in = match way {
            Dispatch::Queue { queue, .. } => {
                let queue = queue.as_ref().expect("closed only when nobody can ask");
                let request = Request { slot: slot.clone(), examples, version, arrived: Instant::now(), joins };
                match if_busy {
                    IfBusy::Wait => queue.send(request).is_ok(),
                    IfBusy::Refuse => queue.try_send(request).is_ok(),
                }
            }
            Dispatch::InPlace { free, back } => {
                let replica = match if_busy {
                    IfBusy::Wait => free.recv().ok(),
                    IfBusy::Refuse => free.try_recv().ok(),
                };
                let found = replica.is_some();
                if let Some(mut replica) = replica {
                    replica.answer(&slot);
                    back.send(replica).expect("there is room for all and we hold the other end");
                }
                found
            }
        };
        if !let_in {
            counters.refused();
            slots.give_back(slot);
            let (limit, what) = match mode {
                InferenceMode::InPlace => (*workers, "replicas are all in use"),
                _ => (mode.queue_limit(), "requests wait already, and no more may"),
            };
            return Err(InferenceError::Busy { limit, what });
        }
        Ok(Pending::new(slot, slots.clone()))
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        if let Dispatch::Queue { queue, threads } = &mut self.way {
            drop(queue.take());
            for thread in threads.drain(..) {
                // Panics over a request were caught and told; one outside has nobody left to tell.
                let _ = thread.join();
            }
        }
    }
}

impl fmt::Debug for ParallelInference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Shared { mode, workers, .. } = &*self.shared;
        let mut shown = f.debug_struct("ParallelInference");
        shown.field("mode", mode).field("workers", workers).field("version", &self.version()).finish()
    }
}
