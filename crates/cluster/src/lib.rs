//! Many machines train one network: carries out what the rules of `paceline-exchange` decide.
//!
//! # Layout
//!
//! - [`coordination`]: who leads a run, and where the others find it; by the files of a folder, or by a ZooKeeper.

pub mod coordination;
