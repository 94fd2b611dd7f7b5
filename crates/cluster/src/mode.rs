//! What the modes of a run on many machines have in common, and where they differ.

use paceline_exchange::rounds::{Round, Share};
use paceline_train::{Mode, RoundMode, SharedOptions, TrainOptions};

use crate::ClusterError;

/// How a run on many machines trains.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum RunMode {
    /// In rounds, which are steps or a few of them.
    Rounds(RoundMode),
    /// By messages about steps of so many examples; a round is a number of examples.
    Shared { options: SharedOptions, batch: u64 },
}

impl RunMode {
    /// That of a job.
    pub(crate) fn of(train: &TrainOptions) -> Result<Self, ClusterError> {
        match &train.mode {
            Mode::Solo | Mode::Sync => Ok(Self::Rounds(RoundMode::Sync)),
            Mode::Averaging(options) => Ok(Self::Rounds(RoundMode::Averaging(*options))),
            Mode::Shared(SharedOptions { dump: Some(_), .. }) => {
                Err(ClusterError::NotFollowed { setting: "train.mode.shared.dump" })
            }
            Mode::Shared(options) => {
                let batch = train.global_batch.unwrap_or(train.batch) as u64;
                Ok(Self::Shared { options: options.clone(), batch })
            }
        }
    }

    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Rounds(mode) => mode.name(),
            Self::Shared { .. } => "shared",
        }
    }

    /// The mode of rounds, if it is one.
    pub(crate) fn rounds(&self) -> Option<RoundMode> {
        match self {
            Self::Rounds(mode) => Some(*mode),
            Self::Shared { .. } => None,
        }
    }

    /// Steps that were taken when a run is at a round.
    pub(crate) fn iteration(&self, round: Round) -> u64 {
        match self {
            Self::Rounds(mode) => round * mode.steps(),
            Self::Shared { batch, .. } => round / (*batch).max(1),
        }
    }

    /// The rounds that so many steps are.
    pub(crate) fn rounds_of(&self, steps: u64) -> Round {
        match self {
            Self::Rounds(mode) => steps.div_ceil(mode.steps()),
            Self::Shared { batch, .. } => steps * batch,
        }
    }

    /// Whether workers compute the next round while the last one is averaged.
    pub(crate) fn overlaps(&self) -> bool {
        matches!(self, Self::Rounds(RoundMode::Averaging(options)) if options.overlap)
    }

    /// Steps that a worker may be ahead of what the others have taken of it.
    pub(crate) fn max_ahead(&self) -> u64 {
        match self {
            Self::Rounds(_) => 1,
            Self::Shared { options, .. } => options.max_ahead,
        }
    }

    /// Examples of a round.
    pub(crate) fn share(&self, train: &TrainOptions) -> Share {
        let steps = self.rounds().map_or(1, |mode| mode.steps());
        match train.global_batch {
            Some(all) => Share::Together(all as u64 * steps),
            None => Share::Each(train.batch as u64 * steps),
        }
    }
}
