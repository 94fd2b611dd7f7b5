//! One machine: what happens to a minibatch, and the run around it.
//!
//! # Layout
//!
//! Three rooms, each of which uses only those above it, and a few pieces beside them:
//!
//! - `team`: the cores of one process. [`Worker`] is a replica on one core; its `step_for` is the whole way of one minibatch.
//!   [`Exchange`] is how replicas stay together: [`Solo`], [`Synchronous`], [`Averaging`], [`Shared`]. [`Mode`] names them.
//! - `replica`: what an exchange between machines needs of one of them: [`Replica`], and the team of cores as one.
//! - `run`: a whole training in one process. [`Trainer`]: epochs, evaluation, checkpoints, stopping; it tells what happens as
//!   [`Event`]s.
//! - [`Job`]: a whole run, as a job file describes it.
//! - [`SavedModel`]: a model file, ready to judge and to predict. [`Scores`], [`evaluate`]: how good a model is on a source.
//! - [`TrainingStatistics`]: where the time of the workers of many machines went.
//! - [`ParallelInference`]: a model that several workers answer with, and that can be swapped meanwhile.

mod auto;
mod cross_validation;
mod error;
mod generate;
mod importance;
mod inference;
mod job;
mod memory;
mod mode;
mod normalisers;
mod options;
pub mod picture;
mod pretrain;
mod preview;
mod replica;
mod run;
mod saved;
mod scores;
mod statistics;
mod sync;
mod team;
mod transfer;
mod tune;

pub use cross_validation::{CrossValidation, FoldListener, Summary};
pub use error::Error;
pub use generate::GenerateOptions;
pub use importance::{Importance, Importances};
pub use inference::{
    Answer, BatchedOptions, InferenceBuilder, InferenceError, InferenceMode, InferenceStatistics, ParallelInference,
    Pending,
};
pub use job::{DIGITS_JOB, DataConfig, IfFound, Job, JobFile};
pub use mode::Mode;
pub use normalisers::Normalisers;
pub use options::{Balanced, ClassWeights, TrainOptions};
pub use paceline_exchange::{Clipping, Form, ThresholdPolicy};
pub use pretrain::{Phase, PretrainConfig, Pretraining};
pub use preview::Preview;
pub use replica::{
    Contributed, CoreReplica, Layout, Overhead, Parts, Replica, ReplicaMode, SharedStep, Sink, SlotShare, Snapshot,
    adopt_into, snapshot_of, write_numbers, write_snapshot,
};
pub use run::checkpoint::CheckpointOptions;
pub use run::early_stopping::{EarlyStopping, Standing, Verdict};
pub use run::event::{Event, KeptEpoch, counted};
pub use run::folder::{Holds, expect_free, has_checkpoint};
pub use run::halt::Stop;
pub use run::journal::{End, Journal, Row, panels, read_end, read_epochs};
pub use run::metric::{Metric, figure};
pub use run::phases::{PhasedTrainer, phase_folder};
pub use run::plateau::{Fallen, Plateau};
pub use run::start_from::Take;
pub use run::trainer::{Outcome, Trainer};
pub use saved::{ClassEnd, SavedModel};
pub use scores::{Evaluator, Measures, OutputScores, Scores, evaluate};
pub use statistics::{Phases, Spent, Stretch, TrainingStatistics, WorkerTime};
pub use team::{
    Averaging, AveragingOptions, Combine, Exchange, Exchanged, Memory, Outer, Outlet, Purpose, Shake, Shared,
    SharedOptions, Solo, Step, StepPlan, StepReport, Synchronous, Traffic, Worker, panic_message,
};
pub use transfer::{Names, Transfer, Transferred};
pub use tune::{Choice, Method, Range, Trial, TuneConfig, Tuned, Tuning, Values};
