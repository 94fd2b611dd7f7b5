//! Paceline trains one neural network on many workers.
//!
//! This crate is the door: it re-exports the others and holds no logic. Twenty lines train a network:
//!
//! ```
//! use paceline::prelude::*;
//!
//! let network = NetworkConfig::image(8, 8, 1)
//!     .seed(123)
//!     .updater(Updater::adam(0.002))
//!     .layer(Conv2d::new(8, [3, 3]).padding(Padding::Same).activation(Activation::Relu))
//!     .layer(Subsampling::max([2, 2]))
//!     .layer(Dense::new(32).activation(Activation::Relu))
//!     .layer(Output::new(10, Loss::CrossEntropy).activation(Activation::Softmax));
//! let train = open("digits:train", &OpenOptions::default())?;
//! let test = open("digits:test", &OpenOptions::default())?;
//! let options = TrainOptions { epochs: 5, batch: 32, ..TrainOptions::default() };
//! let trainer = Trainer::new(Network::new(network)?, train, options)?.test(test)?;
//! let outcome = trainer.run(&mut |_event| {})?;
//! assert!(outcome.scores.expect("there is test data").accuracy().expect("there are classes") > 0.9);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Layout
//!
//! - [`model`]: flat buffers, minibatches, and the trait that any engine implements to be trained.
//! - [`nn`]: networks: description, engine, evaluation, model files.
//! - [`data`]: sources, normalisers, loaders.
//! - [`train`]: the step, the trainer, events, job files.
//! - [`cluster`]: master and worker of a run on many machines, to be embedded.
//! - [`prelude`]: what most programs need.

pub use paceline_cluster as cluster;
pub use paceline_data as data;
pub use paceline_model as model;
pub use paceline_nn as nn;
pub use paceline_train as train;
/// What the settings of layers of other crates are read from and written to.
pub use serde_json;

/// What most programs need.
pub mod prelude {
    pub use paceline_data::{Arrays, Loader, LoaderOptions, NormaliserKind, OpenOptions, Source, open, split};
    pub use paceline_model::{Batch, Model, State, Targets};
    pub use paceline_nn::config::{
        ActivationLayer, BatchNorm, Conv2d, CustomConfig, Dense, Dropout, GlobalPooling, LocalResponseNormalisation,
        LossLayer, NetworkConfig, Output, Padding, Pool, Subsampling, ZeroPadding,
    };
    pub use paceline_nn::{
        Activation, Constraint, Engine, GradientNormalisation, Loss, ModelFile, Network, Schedule, Updater, WeightInit,
    };
    pub use paceline_train::{
        AveragingOptions, BatchedOptions, CheckpointOptions, ClassWeights, EarlyStopping, Event, IfFound, Job, Metric,
        Mode, Outcome, Outer, ParallelInference, Plateau, SavedModel, Scores, SharedOptions, Stop, Take,
        ThresholdPolicy, TrainOptions, Trainer,
    };
}
