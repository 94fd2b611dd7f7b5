//! Many machines train one network: carries out what the rules of `paceline-exchange` decide.
//!
//! # Layout
//!
//! - [`transport`]: links between processes that carry frames, in memory or over TCP; nothing of it ever blocks.
//! - [`trust`]: who may join and speak: join strings, tokens, certificates of one run, TLS.

pub mod transport;
pub mod trust;
