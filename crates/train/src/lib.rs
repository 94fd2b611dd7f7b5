//! One machine: what happens to a minibatch, and the run around it.
//!
//! # Layout
//!
//! - [`Worker`]: a replica; its `step` is the whole way of one minibatch.
//! - [`Exchange`]: how replicas stay together; [`Solo`] is the replica that is alone, [`Synchronous`] ones take every
//!   step together, [`Averaging`] ones become their mean every few steps, [`Shared`] ones send what has grown large and hardly ever wait.
//!   [`Mode`] names them.
//! - [`Trainer`]: epochs, evaluation, checkpoints, stopping; it tells what happens as [`Event`]s.
//! - [`SavedModel`]: a model file, ready to judge and to predict.
//! - [`Scores`], [`evaluate`]: how good a model is on a source.
//! - [`Job`]: a whole run, as a job file describes it.

mod error;
mod event;
mod exchange;
mod gate;
mod health;
mod job;
mod mode;
mod resume;
mod run;
mod saved;
mod scores;
mod team;
mod trainer;
mod worker;

pub use error::Error;
pub use event::Event;
pub use exchange::{
    Averaging, AveragingOptions, Combine, Exchange, Exchanged, Reduced, Shared, SharedOptions, Solo, Synchronous,
    Traffic,
};
pub use job::{DIGITS_JOB, DataConfig, Job, TrainConfig};
pub use mode::Mode;
pub use paceline_exchange::{Clipping, Form, ThresholdPolicy};
pub use saved::SavedModel;
pub use scores::{Evaluator, Measures, Scores, evaluate};
pub use trainer::{Outcome, Stop, TrainOptions, Trainer};
pub use worker::{StepReport, Worker};
