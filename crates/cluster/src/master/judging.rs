//! Early stopping on many machines: what the judged states come to, and how long the run has lasted.

use std::path::{Path, PathBuf};
use std::time::Duration;

use paceline_exchange::rounds::Now;
use paceline_train::{EarlyStopping, KeptEpoch, Metric, Scores, Standing, TrainOptions};
use serde::{Deserialize, Serialize};

/// What a checkpoint keeps of what was judged.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Kept {
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
    began: Now,
}

impl Judging {
    pub(super) fn new(train: &TrainOptions, kept: Kept, now: Now) -> Self {
        let comes_to_best = train.early_stopping.is_some_and(|stopping| stopping.save_best);
        Self {
            stopping: train.early_stopping,
            keeps_best: comes_to_best || train.checkpoint.best,
            standing: kept.standing,
            before: Duration::try_from_secs_f64(kept.seconds).unwrap_or_default(),
            began: now,
        }
    }

    pub(super) fn kept(&self, now: Now) -> Kept {
        Kept { standing: self.standing, seconds: self.elapsed(now).as_secs_f64() }
    }

    fn elapsed(&self, now: Now) -> Duration {
        self.before + Duration::from_millis(now.saturating_sub(self.began))
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
    pub(super) fn time_is_over(&self, now: Now) -> Option<String> {
        let elapsed = self.elapsed(now);
        let left = self.stopping?.time_left(elapsed)?;
        left.is_zero().then(|| format!("its {:.2} minutes are over", elapsed.as_secs_f64() / 60.0))
    }

    /// The epoch that the best model is of, with the value that it is the best by.
    pub(super) fn kept_epoch(&self, epoch: u64, scores: &Scores) -> Option<KeptEpoch> {
        let metric = self.stopping.filter(|stopping| stopping.save_best)?.metric;
        Some(KeptEpoch { epoch, metric, value: metric.of(scores)? })
    }

    /// Whether the run comes to the best model, and there is one.
    pub(super) fn comes_to_best(&self) -> bool {
        self.stopping.is_some_and(|stopping| stopping.save_best) && self.standing.best().is_some()
    }

    /// Whether a loss that is no number ends the run with the best model instead of failing it.
    pub(super) fn forgives_invalid_scores(&self) -> bool {
        self.stopping.is_some_and(|stopping| stopping.invalid_score) && self.comes_to_best()
    }
}

/// Where the best model lies.
pub(super) fn best_path(folder: &Path) -> PathBuf {
    folder.join("best.safetensors")
}
