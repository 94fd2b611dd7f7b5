//! How a run on many machines trains, by its job.

use paceline_exchange::rounds::{Round, StepSize};
use paceline_train::{Mode, ReplicaMode, SharedOptions, TrainOptions};

use crate::ClusterError;

/// How the replicas of a run stay together.
pub(crate) fn replica_mode(train: &TrainOptions) -> Result<ReplicaMode, ClusterError> {
    match &train.mode {
        Mode::Solo | Mode::Sync => Ok(ReplicaMode::Sync),
        Mode::Averaging(options) => Ok(ReplicaMode::Averaging(*options)),
        Mode::Shared(SharedOptions { dump: Some(_), .. }) => {
            Err(ClusterError::NotFollowed { setting: "train.mode.shared.dump" })
        }
        Mode::Shared(options) => Ok(ReplicaMode::Shared(options.clone())),
    }
}

/// Examples of a step.
pub(crate) fn step_size(train: &TrainOptions) -> StepSize {
    match train.global_batch {
        Some(all) => StepSize::Together(all as u64),
        None => StepSize::Each(train.batch as u64),
    }
}

/// The rounds between two checkpoints that are so many steps apart; in `shared` a round is an example.
pub(crate) fn rounds_of(mode: &ReplicaMode, steps: u64, train: &TrainOptions) -> Round {
    match mode {
        ReplicaMode::Shared(_) => steps * train.global_batch.unwrap_or(train.batch) as u64,
        _ => steps.div_ceil(mode.steps()),
    }
}

/// Whether workers compute the next round while the last one is averaged.
pub(crate) fn overlaps(mode: &ReplicaMode) -> bool {
    matches!(mode, ReplicaMode::Averaging(options) if options.overlap)
}

/// What people call it.
pub(crate) fn name_of(mode: &ReplicaMode) -> &'static str {
    match mode {
        ReplicaMode::Sync => "sync",
        ReplicaMode::Averaging(_) => "averaging",
        ReplicaMode::Shared(_) => "shared",
    }
}

/// Steps that a worker may be ahead of what the others have taken of it.
pub(crate) fn max_ahead(mode: &ReplicaMode) -> u64 {
    match mode {
        ReplicaMode::Shared(options) => options.max_ahead,
        ReplicaMode::Sync | ReplicaMode::Averaging(_) => 1,
    }
}
