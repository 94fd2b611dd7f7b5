//! The crate from outside, one file for each thing that it does.

mod coordination;
