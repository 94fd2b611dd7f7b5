use serde::{Deserialize, Serialize};

use crate::team::Outer;

/// How replicas are averaged.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AveragingOptions {
    /// Steps between two averages.
    pub frequency: u64,
    /// Whether what the updater remembers is averaged too; if not, every replica keeps its own. Without a word here, it is,
    /// unless rounds overlap.
    pub average_updater: Option<bool>,
    /// On many machines: whether a replica goes on while its round is averaged. What it has done meanwhile is added to the mean,
    /// which therefore comes one round late. In one process there is nothing to wait for: rounds stay as they are.
    pub overlap: bool,
    /// What is done with the mean.
    pub outer: Outer,
    /// In one process with a core for each worker, if the job says what all take in a step and not what each takes: whether
    /// a slower one gets less of it. Then a run depends on how fast the cores were, and gives other bits every time.
    pub balance: bool,
    /// Whether the loss that steps tell is that of all replicas; if not, it is the first one's.
    pub report_score: bool,
}

impl Default for AveragingOptions {
    fn default() -> Self {
        Self {
            frequency: 3,
            average_updater: None,
            overlap: false,
            outer: Outer::None,
            balance: false,
            report_score: true,
        }
    }
}

impl AveragingOptions {
    /// Whether what the updater remembers is averaged too.
    pub fn averages_updater(&self) -> bool {
        self.average_updater.unwrap_or(!self.overlap)
    }
}
