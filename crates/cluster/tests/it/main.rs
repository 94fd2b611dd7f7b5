//! The crate from outside, one folder or file for each part.

mod coordination;
mod local_errors;
mod tracker;
mod transport;
