//! One machine: what happens to a minibatch, and the run around it.
//!
//! # Layout
//!
//! - [`Worker`]: a replica; its `step` is the whole way of one minibatch.
//! - [`Exchange`]: how replicas stay together; [`Solo`] is the replica that is alone, [`Synchronous`] ones take every
//!   step together, [`Averaging`] ones become their mean every few steps, [`Shared`] ones send what has grown large and hardly ever wait.
//!   [`Mode`] names them.
//! - [`Trainer`]: epochs, evaluation, checkpoints, stopping; it tells what happens as [`Event`]s.
//! - [`RoundReplica`]: a replica of a run on many machines.
//! - [`SavedModel`]: a model file, ready to judge and to predict.
//! - [`ParallelInference`]: a model that several workers answer with, and that can be swapped meanwhile.
//! - [`Scores`], [`evaluate`]: how good a model is on a source.
//! - [`Job`]: a whole run, as a job file describes it.

mod begin;
mod checkpoint;
mod early_stopping;
mod error;
mod event;
mod exchange;
mod feed;
mod gate;
mod halt;
mod health;
mod inference;
mod job;
mod mode;
mod resume;
mod rounds;
mod run;
mod saved;
mod scores;
mod shares;
mod sharing;
mod team;
mod threaded;
mod trainer;
mod worker;

pub use checkpoint::CheckpointOptions;
pub use early_stopping::{EarlyStopping, Metric, Standing, Verdict};
pub use error::Error;
pub use event::Event;
pub use exchange::{
    Averaging, AveragingOptions, Combine, Exchange, Exchanged, Memory, Outer, Shared, SharedOptions, Solo, Synchronous,
    Traffic,
};
pub use halt::Stop;
pub use inference::{
    Answer, BatchedOptions, InferenceBuilder, InferenceError, InferenceMode, InferenceStatistics, ParallelInference,
    Pending,
};
pub use job::{DIGITS_JOB, DataConfig, Job, TrainConfig};
pub use mode::Mode;
pub use paceline_exchange::{Clipping, Form, ThresholdPolicy};
pub use rounds::{Contribution, RoundMode, RoundReplica, adopt_into, snapshot_of};
pub use saved::SavedModel;
pub use scores::{Evaluator, Measures, Scores, evaluate};
pub use sharing::{SharedReplica, SharedStep};
pub use trainer::{Outcome, TrainOptions, Trainer};
pub use worker::{StepReport, Worker};
