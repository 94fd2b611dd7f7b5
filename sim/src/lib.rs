//! The deterministic simulator: the shipped rules of `paceline-exchange`, a network that resets, stalls and cuts, and processes
//! that die, pause and come back. One seed is one history; the same seed gives the same history on every machine.
//!
//! Numbers are integers here, so that what is conserved is conserved exactly.
//!
//! # Layout
//!
//! - [`World`]: the clock, the queue of what happens, and the processes.
//! - `network`: connections are ordered streams; what is reset loses all but a beginning.
//! - `master`, `worker`: the two drivers that carry out actions.
//! - `sharing`: what workers do in `shared` only.
//! - `numbers`, `stream`: what a worker computes and holds, in rounds and in `shared`.
//! - `faults`: what goes wrong, and when.
//! - [`replay()`]: what real runs recorded.
//! - [`invariants`]: what must hold, one file each.

mod faults;
pub mod invariants;
mod master;
mod network;
mod numbers;
mod random;
mod replay;
mod sharing;
mod stream;
mod worker;
mod world;

pub use faults::Faults;
pub use replay::{Replayed, replay};
pub use world::{Outcome, Rare, Rules, World};
