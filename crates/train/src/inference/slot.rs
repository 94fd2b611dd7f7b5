use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use paceline_model::{Batch, Loss, Targets};

use super::InferenceError;
use super::served::Served;

/// Where a request and its answer lie. Slots are used again, so that a request allocates nothing but its result.
pub(super) struct Slot {
    job: Mutex<Job>,
    done: Condvar,
}

/// What a replica is to do, and what came of it.
pub(super) struct Job {
    /// The version that this request began with; none once it is answered.
    pub(super) model: Option<Arc<Served>>,
    /// The features as they were given; normalised in place on the way.
    pub(super) batch: Batch,
    pub(super) outputs: Vec<f32>,
    pub(super) end: Option<Result<Told, InferenceError>>,
}

/// What an answer says besides the outputs.
#[derive(Clone, Copy)]
pub(super) struct Told {
    pub(super) version: u64,
    pub(super) loss: Option<Loss>,
}

impl Slot {
    fn new() -> Self {
        let job = Job { model: None, batch: Batch::empty(), outputs: Vec::new(), end: None };
        Self { job: Mutex::new(job), done: Condvar::new() }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Job> {
        self.job.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes the end of the request and wakes whoever waits for it.
    pub(super) fn finish(&self, job: &mut Job, end: Result<Told, InferenceError>) {
        job.model = None;
        job.end = Some(end);
        self.done.notify_all();
    }
}

impl Job {
    /// Takes features that are whole examples.
    pub(super) fn ask(&mut self, features: &[f32], width: usize) {
        let examples = (features.len() / width) as u64;
        let Batch { indices, width: of, features: to, targets, weights, .. } = &mut self.batch;
        indices.clear();
        indices.extend(0..examples);
        to.clear();
        to.extend_from_slice(features);
        (*of, *targets, *weights) = (width, Targets::None, None);
    }
}

/// Slots that nobody uses.
pub(super) struct Slots {
    free: Mutex<Vec<Arc<Slot>>>,
    most: usize,
}

impl Slots {
    /// Keeps no more than so many.
    pub(super) fn new(most: usize) -> Self {
        Self { free: Mutex::new(Vec::new()), most }
    }

    pub(super) fn take(&self) -> Arc<Slot> {
        let free = self.free.lock().unwrap_or_else(PoisonError::into_inner).pop();
        free.unwrap_or_else(|| Arc::new(Slot::new()))
    }

    pub(super) fn give_back(&self, slot: Arc<Slot>) {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        if free.len() < self.most {
            free.push(slot);
        }
    }
}

/// A request on its way. It is answered even if nobody waits for it.
#[must_use = "a request is answered whether or not anybody waits, but only who waits sees the answer"]
pub struct Pending {
    slot: Arc<Slot>,
    slots: Arc<Slots>,
}

/// What a model says of a request.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// The outputs of every example, row after row.
    pub outputs: Vec<f32>,
    /// The version of the model that computed all of them: 1 at first, one more after every swap.
    pub version: u64,
}

impl Pending {
    pub(super) fn new(slot: Arc<Slot>, slots: Arc<Slots>) -> Self {
        Self { slot, slots }
    }

    /// Waits for the answer.
    pub fn wait(self) -> Result<Answer, InferenceError> {
        let mut outputs = Vec::new();
        let told = self.finish(|job| std::mem::swap(&mut job.outputs, &mut outputs))?;
        Ok(Answer { outputs, version: told.version })
    }

    /// Waits, and hands over the job as it was left.
    pub(super) fn finish(self, take: impl FnOnce(&mut Job)) -> Result<Told, InferenceError> {
        let mut job = self.slot.lock();
        let end = loop {
            match job.end.take() {
                Some(end) => break end,
                None => job = self.slot.done.wait(job).unwrap_or_else(PoisonError::into_inner),
            }
        };
        take(&mut job);
        drop(job);
        self.slots.give_back(self.slot);
        end
    }
}
