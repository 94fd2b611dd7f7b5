//! The leaf that everything else stands on: what a replica is, what a minibatch is, and what a
//! model must be able to do to be trained by Paceline.
//!
//! # Layout
//!
//! - [`Flat`]: the one buffer type, cache-line aligned `f32`; [`SharedFlat`]: one that several threads use in turns.
//! - [`State`]: everything a replica is, as flat buffers of one layout.
//! - [`Batch`]: a minibatch: features, targets, weights, and which examples they are.
//! - [`Model`]: gradient and prediction over a [`State`]; any engine that implements it can be trained. [`PartwiseModel`]: one
//!   that computes part by part, so that others can use what is there.
//! - [`slice_of`]: how a step is cut into slices, in one process and on many machines; [`place_of`]: where an example lies whose
//!   partition lives with some workers.
//! - [`vectorize`]: loops with the widest instructions that the machine has.
//! - [`Factors`]: what replicas of a process show each other in place of a gradient.

mod batch;
mod block;
mod factors;
mod flat;
mod large_pages;
mod model;
mod place;
mod shared_flat;
mod slices;
mod state;
mod vectorize;

pub use batch::{Batch, Targets};
pub use block::NoMemory;
pub use factors::{FactorSum, Factors, Part, SharedFactors};
pub use flat::{Flat, Number, Parts, PartsMut};
pub use model::{
    Error, Handed, Loss, Model, PartwiseModel, Progress, SearchTogether, TakeFactors, TakePart, hand_out_in_turn,
    train_in_turn,
};
pub use place::{MOST_IN_A_PARTITION, MOST_PARTITIONS, PartitionId, place_of, within_partition};
pub use shared_flat::SharedFlat;
pub use slices::slice_of;
pub use state::State;
pub use vectorize::vectorize;
