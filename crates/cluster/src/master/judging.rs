//! Early stopping on many machines: what the judged states come to, and how long the run has lasted.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use paceline_nn::{ModelFile, Registry};
use paceline_train::{EarlyStopping, Metric, Scores, Standing, TrainOptions};
use serde::{Deserialize, Serialize};

/// What a checkpoint keeps of it.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(super) struct Kept {
    standing: Standing,
    /// Seconds of training.
    seconds: f64,
}

/// What was judged so far.
pub(super) struct Judging {
    stopping: Option<EarlyStopping>,
    keeps_best: bool,
    standing: Standing,
    before: Duration,
    began: Instant,
}

impl Judging {
    pub(super) fn new(train: &TrainOptions, kept: Kept) -> Self {
        let comes_to_best = train.early_stopping.is_some_and(|stopping| stopping.save_best);
        Self {
            stopping: train.early_stopping,
            keeps_best: comes_to_best || train.checkpoint.best,
            standing: kept.standing,
            before: Duration::try_from_secs_f64(kept.seconds).unwrap_or_default(),
            began: Instant::now(),
        }
    }

    pub(super) fn kept(&self) -> Kept {
        Kept { standing: self.standing, seconds: (self.before + self.began.elapsed()).as_secs_f64() }
    }

    /// Whether the best model is kept.
    pub(super) fn keeps_best(&self) -> bool {
        self.keeps_best
    }

    /// Takes the scores of a state. Says whether the state is to be kept as the best, and why the run ends here, if it does.
    pub(super) fn take(&mut self, scores: &Scores) -> (bool, Option<String>) {
        let metric = self.stopping.map_or(Metric::Score, |stopping| stopping.metric);
        let Some(value) = metric.of(scores) else { return (false, None) };
        let verdict = self.standing.judge(value, &self.stopping.unwrap_or_default());
        (verdict.is_best && self.keeps_best, self.stopping.and(verdict.ends))
    }

    /// Why the run ends by the clock, if it does.
    pub(super) fn time_is_over(&self) -> Option<String> {
        let elapsed = self.before + self.began.elapsed();
        let left = self.stopping?.time_left(elapsed)?;
        left.is_zero().then(|| format!("its {:.2} minutes are over", elapsed.as_secs_f64() / 60.0))
    }

    /// The best model, where the run comes to it: a file that stands there since it was judged.
    pub(super) fn best(&self, folder: &Path) -> Option<ModelFile> {
        self.stopping.filter(|stopping| stopping.save_best)?;
        self.standing.best()?;
        ModelFile::load_with_registry(&best_path(folder), &Registry::default()).ok()
    }

    /// Whether a loss that is no number ends the run with the best model instead of failing it.
    pub(super) fn forgives_invalid_scores(&self, folder: &Path) -> bool {
        self.stopping.is_some_and(|stopping| stopping.invalid_score) && self.best(folder).is_some()
    }
}

/// Where the best model lies.
pub(super) fn best_path(folder: &Path) -> PathBuf {
    folder.join("best.safetensors")
}
