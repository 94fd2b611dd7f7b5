//! The crate from outside, one folder for each part.

mod transport;
