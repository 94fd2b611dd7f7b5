//! Many machines train one network: carries out what the rules of `paceline-exchange` decide.
//!
//! # Layout
//!
//! - [`run_master`], [`run_worker`]: the two processes of a run; [`run_worker_with`] brings a kind of replica of its own.
//! - [`loops`]: the same two as machines that are handed one input at a time, for other surroundings than real ones.
//! - [`coordination`]: who leads a run, and where the others find it; by the files of a folder, or by a ZooKeeper.
//! - [`inference`]: a trained model over data, on many machines. `door`: how strangers come in, to train or to help.
//! - [`tracker`]: the state of a run over HTTP, for people and for Prometheus.
//! - [`transport`]: links between processes that carry frames, in memory or over TCP; nothing of it ever blocks.
//! - [`trust`]: who may join and speak: join strings, tokens, certificates of one run, TLS.
//! - [`wire`]: what travels in frames.
//! - [`prove`]: count and fingerprint of the data, so that all train on the same.

pub mod coordination;
mod descriptors;
mod door;
mod error;
pub mod inference;
mod local_user;
mod master;
mod mode;
mod names;
mod proof;
mod record;
mod spool;
pub mod tracker;
pub mod transport;
pub mod trust;
mod whereabouts;
pub mod wire;
mod worker;

/// Master and worker without their surroundings: no thread, no clock, no socket and no disk. `run_master` and `run_worker` drive
/// them with real ones, the simulator with simulated ones.
pub mod loops {
    pub use crate::master::host::{
        Answer, Begun, Checkpoint, Exported, Input as MasterInput, MasterHost, Operation, Unpublished,
    };
    pub use crate::master::judging::Kept;
    pub use crate::master::master_loop::{MasterLoop, MasterSetup};
    pub use crate::master::term::Term;
    pub use crate::record::Record;
    pub use crate::worker::compute::{Desk, ReplicaDone, ReplicaTask};
    pub use crate::worker::host::{Found, Input as WorkerInput, Ready, WorkerHost};
    pub use crate::worker::worker_loop::{WorkerLoop, WorkerSetup};
}

pub use error::ClusterError;
pub use master::{LeadOptions, Outcome, run_master};
pub use paceline_exchange::rounds::{MOST_SLOTS, Slots, StragglerLimit};
pub use proof::{brings, prove};
pub use whereabouts::Whereabouts;
pub use wire::JobText;
pub use worker::{MakeReplica, Target, WorkerEvent, WorkerOptions, read_job, run_worker, run_worker_with};

/// Events of the network that may wait for a loop. When they are as many, links are read no further.
const EVENTS_WAITING: usize = 1024;
