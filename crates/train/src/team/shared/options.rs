use std::path::PathBuf;

use paceline_exchange::{Clipping, Error, ThresholdPolicy};
use serde::{Deserialize, Serialize};

/// How updates are shared.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SharedOptions {
    /// From what size on an element of an update is sent.
    pub threshold: ThresholdPolicy,
    /// What becomes of the updates of several replicas.
    pub combine: Combine,
    /// When more messages than these are waiting, they are summed before they are applied.
    pub sum_beyond: usize,
    /// How many steps a replica may be ahead of the slowest one; whoever is further waits for it.
    ///
    /// What it learns further ahead it learns from parameters that the others have left. Replicas on the cores of one machine
    /// come so far only when one of them loses its core for a while, or when the examples are not shuffled and its core is slow.
    pub max_ahead: u64,
    /// Takes away what piles up in the residuals. None by default: it was no better, see `docs/shared-updates.md`.
    pub clipping: Option<Clipping>,
    /// Lets small updates through now and then. None by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shake: Option<Shake>,
    /// A folder where all messages are written down, with the parameters that they begin from.
    pub dump: Option<PathBuf>,
}

/// Messages with a smaller threshold, which send what is too small for the others.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shake {
    /// Messages of a replica from one such to the next.
    pub every: u64,
    /// What its threshold is divided by.
    pub by: f32,
}

impl Shake {
    /// Fails with the setting that makes no sense.
    pub(crate) fn validate(&self) -> Result<(), Error> {
        let Self { every, by } = *self;
        if every == 0 {
            return Err(Error::BadSetting { setting: "every", expected: "at least 1", found: 0.0 });
        }
        if !(by.is_finite() && by > 1.0) {
            return Err(Error::BadSetting { setting: "by", expected: "finite and above 1", found: f64::from(by) });
        }
        Ok(())
    }
}

/// What becomes of the updates of several replicas.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Combine {
    /// Each counts as one of so many: as large a step as one replica with all examples would take.
    #[default]
    Mean,
    /// Each counts in full. Diverges with many replicas and a rate that suits one.
    Sum,
}

impl Default for SharedOptions {
    fn default() -> Self {
        Self {
            threshold: ThresholdPolicy::default(),
            combine: Combine::default(),
            sum_beyond: 8,
            max_ahead: 4,
            clipping: None,
            shake: None,
            dump: None,
        }
    }
}
