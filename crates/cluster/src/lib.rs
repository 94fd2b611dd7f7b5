//! Many machines train one network: carries out what the rules of `paceline-exchange` decide.
//!
//! # Layout
//!
//! - [`coordination`]: who leads a run, and where the others find it; by the files of a folder, or by a ZooKeeper.
//! - [`tracker`]: the state of a run over HTTP, for people and for Prometheus.
//! - [`transport`]: links between processes that carry frames, in memory or over TCP; nothing of it ever blocks.
//! - [`trust`]: who may join and speak: join strings, tokens, certificates of one run, TLS.

pub mod coordination;
pub mod tracker;
pub mod transport;
pub mod trust;
