//! The crate from outside, one folder or file for each part.

mod coordination;
mod tracker;
mod transport;
