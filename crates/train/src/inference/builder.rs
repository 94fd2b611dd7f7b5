use std::time::Duration;

use paceline_nn::ModelFile;

use super::ParallelInference;
use crate::Error;

/// How requests come to the workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InferenceMode {
    /// Each request is a pass by itself, on the first worker that is free.
    Sequential {
        /// Requests that may wait; when so many do, the next one waits to be let in, or is told [`Busy`].
        ///
        /// [`Busy`]: crate::InferenceError::Busy
        queue_limit: usize,
    },
    /// Requests that wait together share a pass.
    Batched(BatchedOptions),
    /// The caller's own thread runs the model, on one of as many replicas as there are workers: no queue, no hand-over.
    InPlace,
}

/// How requests are joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchedOptions {
    /// Examples in a pass. A request with more is a pass by itself.
    pub batch_limit: usize,
    /// Requests that may wait; when so many do, the next one waits to be let in, or is told [`Busy`].
    ///
    /// [`Busy`]: crate::InferenceError::Busy
    pub queue_limit: usize,
    /// How long a request may be kept while its pass has room for more. At 0 a worker that is free takes what waits.
    pub wait: Duration,
}

/// The queue limit where none is said.
const QUEUE_LIMIT: usize = 64;

/// More threads than this are a mistake on any machine.
const MOST_WORKERS: usize = 1024;

impl Default for BatchedOptions {
    fn default() -> Self {
        Self { batch_limit: 32, queue_limit: QUEUE_LIMIT, wait: Duration::ZERO }
    }
}

impl Default for InferenceMode {
    fn default() -> Self {
        Self::Batched(BatchedOptions::default())
    }
}

impl InferenceMode {
    /// Requests that may wait.
    pub(super) fn queue_limit(&self) -> usize {
        match *self {
            Self::Sequential { queue_limit } | Self::Batched(BatchedOptions { queue_limit, .. }) => queue_limit,
            Self::InPlace => 0,
        }
    }

    fn validate(&self) -> Result<(), Error> {
        let bad = |setting| Err(Error::BadSetting { setting, expected: "at least 1", found: "0".into() });
        match self {
            Self::Batched(BatchedOptions { batch_limit: 0, .. }) => bad("batch_limit"),
            Self::Sequential { .. } | Self::Batched(_) if self.queue_limit() == 0 => bad("queue_limit"),
            _ => Ok(()),
        }
    }
}

/// Says how a [`ParallelInference`] goes; all cores in mode batched if nothing is said.
#[derive(Clone, Debug)]
#[must_use = "nothing answers before `build`"]
pub struct InferenceBuilder {
    model: ModelFile,
    workers: usize,
    mode: InferenceMode,
}

impl InferenceBuilder {
    pub(super) fn new(model: ModelFile) -> Self {
        let workers = crate::sync::cores();
        Self { model, workers, mode: InferenceMode::default() }
    }

    /// Passes that run at the same time; the cores that this process may use if not set.
    pub fn workers(self, workers: usize) -> Self {
        Self { workers, ..self }
    }

    /// See [`InferenceMode`].
    pub fn mode(self, mode: InferenceMode) -> Self {
        Self { mode, ..self }
    }

    /// [`InferenceMode::Sequential`], with room for 64 requests that wait.
    pub fn sequential(self) -> Self {
        self.mode(InferenceMode::Sequential { queue_limit: QUEUE_LIMIT })
    }

    /// [`InferenceMode::Batched`].
    pub fn batched(self, options: BatchedOptions) -> Self {
        self.mode(InferenceMode::Batched(options))
    }

    /// [`InferenceMode::InPlace`].
    pub fn in_place(self) -> Self {
        self.mode(InferenceMode::InPlace)
    }

    /// Starts the workers.
    pub fn build(self) -> Result<ParallelInference, Error> {
        if !(1..=MOST_WORKERS).contains(&self.workers) {
            let found = self.workers.to_string();
            return Err(Error::BadSetting { setting: "workers", expected: "from 1 to 1024", found });
        }
        self.mode.validate()?;
        ParallelInference::start(self.model, self.workers, self.mode)
    }
}
