//! What is said between the leader of a pass and its helpers, beside what all who join say.

use paceline_exchange::rounds::message::DataProof;
use serde::{Deserialize, Serialize};

use super::answer::AnswerHead;

/// What they say.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Helping {
    /// A helper is let in; the model file is beside it.
    Welcome {
        /// The data, as the leader was told of it.
        data: String,
        /// Examples in a batch.
        batch: usize,
        /// Whether targets count.
        judged: bool,
    },
    /// The helper has the same data, it thinks.
    Ready(DataProof),
    /// It is to run the model over this part.
    Part(usize),
    /// What came of it is beside it.
    Answer {
        /// The part.
        part: usize,
        /// What the numbers are.
        head: AnswerHead,
    },
    /// The helper cannot go on.
    Failed {
        /// Why.
        error: String,
    },
    /// All is done.
    Over,
}
