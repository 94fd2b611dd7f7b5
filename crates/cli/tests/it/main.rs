//! The binary from outside: real processes, one file for each thing that they do.

mod bad_inputs;
mod bad_models;
mod careful;
mod cluster;
mod coming_from_dl4j;
mod data_command;
mod everyday;
mod figures;
mod graphs;
mod guards;
mod help;
mod init;
mod insight;
mod killed;
mod many;
#[path = "../support/masters.rs"]
mod masters;
mod messages;
mod nan;
#[path = "../support/paceline.rs"]
mod paceline;
mod partitions;
mod predict;
mod pretraining;
mod resume;
mod run_folder;
mod start_from;
mod statistics;
mod status;
mod train;
mod trust;
