//! The crate from outside, one file for each thing that must hold.

mod conservation;
mod entropy;
mod frames;
mod hostile_messages;
mod instruction_sets;
mod messages;
mod reference;
mod thresholds;
