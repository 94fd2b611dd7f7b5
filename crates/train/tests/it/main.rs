//! The crate from outside, one file for each thing that it does.

mod accumulation;
mod custom;
mod deal;
mod dump;
mod earlier_models;
mod early_stopping;
mod inference;
mod job;
mod judging;
mod leaks;
mod messages;
mod pretraining;
mod replica;
mod resume;
mod sequences;
mod solvers;
mod start_from;
mod target_normaliser;
mod team;
mod transfer;
mod weights;
