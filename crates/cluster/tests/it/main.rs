//! The crate from outside, one folder or file for each part.

mod embedded;
mod inference;
mod local_errors;
mod messages;
#[path = "../support/suite.rs"]
mod suite;
mod tracker;
mod transport;
