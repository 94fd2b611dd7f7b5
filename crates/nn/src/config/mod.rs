//! How a network is described: the same structs behind job files and Rust builders.
//!
//! # Layout
//!
//! - `network`: the whole network and its defaults.
//! - `layer`: the kinds of layers with their settings.
//! - `settings`: what may be set for the network and again for a layer.
//! - `stack`: networks that are known by a name. `window`: windows that are written as one number.
//! - `ending`: the activation and the loss at the end, by the task where they are not stated.
//! - `table`: reading names or tables. `wording`: what is wrong with them, with suggestions for what is misspelt.

mod ending;
mod layer;
mod network;
mod settings;
mod stack;
mod table;
mod window;
mod wording;

pub(crate) use ending::{Assumed, activation_before, gives_probabilities};
pub use layer::*;
pub use network::{InputConfig, NetworkConfig};
pub use settings::Settings;
pub use stack::{ConvolutionalDeepBeliefNet, DeepBeliefNet, SemanticHashing, StackedAutoEncoder};
pub use wording::{explain, nearest};
