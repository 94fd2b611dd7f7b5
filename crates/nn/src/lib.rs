//! The engine: a network is described, its shapes are inferred, it is lowered to a plan, and an executor runs the plan.
//!
//! # Layout
//!
//! From the description to the numbers, in the order in which a minibatch meets them:
//!
//! - [`config`]: how a network is described, in files and in Rust.
//! - [`Network`]: the same with all shapes known and all parameters laid out (`layer/` has one file per kind).
//! - `plan/`: operations over ranges of one arena, for one batch size.
//! - `executor`: runs a plan; `plain/` holds the kernels that read like formulas, `cpu/` the fast ones.
//! - [`Engine`]: a network on the processor; [`Reference`]: the same in plain `f64` loops, to compare with.
//! - [`updater`]: gradients become updates, by the segment table.
//! - [`evaluation`]: how good the outputs are.
//! - [`model_file`]: what is kept on disk.

mod activation;
pub mod config;
mod constraint;
mod cpu;
mod custom;
mod engine;
mod error;
pub mod evaluation;
mod executor;
mod factors;
mod filters;
mod gradient_normalisation;
mod graph;
mod layer;
mod loss;
pub mod model_file;
mod network;
mod node;
mod pass;
mod plain;
mod plan;
mod presented;
pub mod random;
mod real;
mod recurrence;
mod reference;
mod schedule;
mod shape;
mod solver;
mod stepwise;
pub mod updater;
mod weight_init;
mod weight_noise;
mod weights_file;
mod window;

pub use activation::Activation;
pub use config::NetworkConfig;
pub use constraint::Constraint;
pub use cpu::Instructions;
pub use custom::{Backward, CustomLayer, CustomLoss, CustomParameter, Layer, LossFunction, Registry};
pub use engine::Engine;
pub use error::Error;
pub use filters::Filters;
pub use gradient_normalisation::GradientNormalisation;
pub use loss::{BoxLoss, Loss, NamedLoss};
pub use model_file::{Array, ModelFile, ModelOnDisk, Numbers};
pub use network::{LayerInfo, Network, OutputInfo, Parameter};
pub use paceline_model::Flat;
pub use presented::Presented;
pub use real::Real;
pub use reference::Reference;
pub use schedule::{Per, Rule, Schedule};
pub use shape::{InputType, Shape};
pub use solver::{LineSearch, Optimiser};
pub use stepwise::Stepwise;
pub use updater::Updater;
pub use weight_init::{Distribution, Fan, WeightInit};
pub use weight_noise::WeightNoise;
pub use weights_file::{Layout, WeightsFile};
