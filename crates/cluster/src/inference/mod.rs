//! One pass of a trained model over data, on many machines: to judge it, or to predict.
//!
//! One process leads: it has the model, computes itself, and gives parts of the data to whoever helps. Helpers get the model from it and
//! read the same data themselves. What they answer is put together in the order of the data, batch by batch, so that every figure has
//! the bits that one process gives. A helper may come and go at any moment: its parts are done by others. When all is given out the
//! leader does itself what helpers have not answered, so that it never waits for one.
//!
//! # Layout
//!
//! - [`lead_inference`] (`leader`), [`help_inference`] (`following`): the two sides. `words`: what they say to each other.
//! - `parts`: who does what. `runners`: the threads that compute. `answer`: what comes of it, and how it travels.

mod answer;
mod following;
mod leader;
mod parts;
mod runners;
mod words;

use std::sync::Arc;
use std::time::Duration;

use paceline_data::{OpenOptions, Source};

pub use answer::{AnswerHead, TargetKind};
pub use following::help_inference;
pub use leader::lead_inference;
pub use words::Helping;

use crate::trust::Token;
use crate::worker::Target;

/// How a pass is led.
pub struct LeadInference {
    /// Where helpers connect to: `HOST:PORT` or `HOST:FROM-TO`.
    pub listen: String,
    /// What they are told to connect to, if that is not where it listens.
    pub advertise: Option<String>,
    /// Whether links speak TLS; needed when others than this machine can reach it.
    pub tls: bool,
    /// What helpers must know. With TLS there is always one.
    pub token: Option<Token>,
    /// The model file.
    pub model: Vec<u8>,
    /// The data in words, as helpers open it.
    pub data: String,
    /// The same, opened.
    pub source: Arc<dyn Source>,
    /// Examples in a batch.
    pub batch: usize,
    /// Whether targets count.
    pub judged: bool,
}

/// How a helper joins.
pub struct HelpOptions {
    /// Where the leader is; a coordinator knows none.
    pub target: Target,
    /// Proves that it may help; that of a join string goes first.
    pub token: Option<Token>,
    /// Threads that compute; none: all cores.
    pub workers: Option<usize>,
    /// How data is opened; relative paths start at its `root`, and nothing outside is read.
    pub open: OpenOptions,
    /// How long it looks for a leader.
    pub patience: Duration,
}

/// What the leader of a pass tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InferenceEvent {
    /// Helpers can join.
    Listening {
        /// Where.
        address: String,
        /// The join string, where it speaks TLS.
        join: Option<String>,
    },
    /// Somebody helps.
    Joined {
        /// Who: its host and its number.
        helper: String,
        /// How many do now.
        helpers: usize,
    },
    /// Somebody who wanted to help cannot.
    Refused {
        /// Who.
        helper: String,
        /// Why.
        reason: String,
    },
    /// More is done.
    Progress {
        /// Examples that are done, by whomever.
        examples: u64,
        /// All of them.
        of: u64,
    },
    /// Somebody does not help any more.
    Lost {
        /// Who.
        helper: String,
        /// Why.
        reason: String,
        /// Parts that are done anew.
        parts_again: usize,
    },
    /// What somebody did, when all is done.
    Helped {
        /// Who.
        helper: String,
        /// Examples that it has computed.
        examples: u64,
    },
}

/// What a helper tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HelpEvent {
    /// It helps.
    Joined {
        /// Whom: the leader's address.
        address: String,
        /// The data, as the leader names it.
        data: String,
        /// Examples in it.
        examples: usize,
    },
    /// There is no leader.
    Waiting {
        /// Where it looks.
        address: String,
        /// What is found there.
        reason: String,
    },
}
