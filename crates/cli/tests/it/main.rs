//! The binary from outside: real processes, one file for each thing that they do.

mod bad_inputs;
mod bad_models;
mod cluster;
mod coming_from_dl4j;
mod data_command;
mod help;
mod killed;
mod namespaces;
mod nan;
mod paceline;
mod predict;
mod resume;
mod status;
mod train;
