//! The crate from outside, one file for each thing that it does.

mod custom;
mod dump;
mod job;
mod resume;
mod team;
mod weights;
