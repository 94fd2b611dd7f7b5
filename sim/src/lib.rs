//! The deterministic simulator: the shipped loops of master and worker in a world in which network, disk, coordinator, clock and
//! computing are simulated. One seed is one history; the same seed gives the same history on every machine.
//!
//! Numbers are integers here, so that what is conserved is conserved exactly.
//!
//! # Layout
//!
//! - [`World`]: the clock, the queue of what happens, and the processes.
//! - `masters`, `workers`: what their loops want, carried out. `store`: who leads, and what is on the disk.
//! - `hosts`: what the loops take for their surroundings. `replica`, `numbers`: what computes.
//! - `network`, `links`: connections are ordered streams; what is reset loses all but a beginning.
//! - `faults`, `trouble`: what goes wrong, and when. `clocks`: every process has its own.
//! - [`Crowd`]: many members and hardly a fault, to count what is said.
//! - [`replay()`]: what real runs recorded.
//! - [`invariants`]: what must hold, one file each.

mod clocks;
mod coordinator;
mod crowd;
mod faults;
mod hosts;
pub mod invariants;
mod links;
mod masters;
mod network;
mod numbers;
mod placing;
mod random;
mod replay;
mod replica;
mod store;
mod trouble;
mod workers;
mod world;

pub use crowd::Crowd;
pub use faults::Faults;
pub use replay::{Replayed, replay};
pub use world::{Outcome, Rare, Rules, World};
