use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::checkpoint::duration_of;
use super::metric::Metric;
use crate::Error;

/// When a run ends before its last epoch. Each condition that is set can end it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct EarlyStopping {
    /// What the model is judged by, on the test data.
    pub metric: Metric,
    /// Evaluations in a row without an improvement.
    pub patience: Option<u64>,
    /// The least that counts as an improvement.
    pub improvement: f64,
    /// The metric is as good as this, or better.
    pub target: Option<f64>,
    /// The metric is worse than this.
    pub worst: Option<f64>,
    /// Minutes of training, those before a resume included.
    pub minutes: Option<f64>,
    /// The loss is no number. If not set, or if there is no best model yet, the run fails instead.
    pub invalid_score: bool,
    /// The run comes to the best model that was judged, not to the last one.
    pub save_best: bool,
}

impl Default for EarlyStopping {
    fn default() -> Self {
        Self {
            metric: Metric::default(),
            patience: None,
            improvement: 0.0,
            target: None,
            worst: None,
            minutes: None,
            invalid_score: true,
            save_best: true,
        }
    }
}

impl EarlyStopping {
    /// Fails with the setting that makes no sense.
    pub fn validate(&self) -> Result<(), Error> {
        let bad = |setting, expected, found: String| Err(Error::BadSetting { setting, expected, found });
        let Self { patience, improvement, minutes, .. } = *self;
        if patience == Some(0) {
            return bad("train.early_stopping.patience", "at least 1", "0".into());
        }
        if !(improvement.is_finite() && improvement >= 0.0) {
            return bad("train.early_stopping.improvement", "0 or more", improvement.to_string());
        }
        if let Some(minutes) = minutes.filter(|m| !(m.is_finite() && *m > 0.0)) {
            return bad("train.early_stopping.minutes", "above 0", minutes.to_string());
        }
        let marks = [("train.early_stopping.target", self.target), ("train.early_stopping.worst", self.worst)];
        for (setting, mark) in marks {
            if let Some(mark) = mark.filter(|mark| !mark.is_finite()) {
                return bad(setting, "a number", mark.to_string());
            }
        }
        Ok(())
    }

    /// Whether it needs the model to be judged.
    pub fn needs_scores(&self) -> bool {
        self.patience.is_some() || self.target.is_some() || self.worst.is_some() || self.save_best
    }

    /// The time that is left.
    pub fn time_left(&self, trained: Duration) -> Option<Duration> {
        self.minutes.map(|minutes| duration_of(minutes).saturating_sub(trained))
    }
}

/// The best model so far and how long ago that was; a checkpoint keeps it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Standing {
    /// The best value, as bits: a decimal that is read back must be the very number that was written.
    best: Option<u64>,
    /// Evaluations since.
    since: u64,
}

/// What an evaluation comes to.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// Whether it is the best so far.
    pub is_best: bool,
    /// Why the run ends here, if it does.
    pub ends: Option<String>,
}

impl Standing {
    /// The best value so far.
    pub fn best(&self) -> Option<f64> {
        self.best.map(f64::from_bits)
    }

    /// Takes the metric of another evaluation.
    pub fn judge(&mut self, value: f64, stopping: &EarlyStopping) -> Verdict {
        let metric = stopping.metric;
        let least = stopping.improvement;
        let gain = self.best.map(|best| metric.gain(value, f64::from_bits(best)));
        // The first value is the best so far, if it is one; a tie is no improvement.
        let is_best = !value.is_nan() && gain.is_none_or(|gain| gain > 0.0 && gain >= least);
        self.since = if is_best { 0 } else { self.since + 1 };
        if is_best {
            self.best = Some(value.to_bits());
        }
        let name = metric.name();
        let ends = if stopping.worst.is_some_and(|worst| metric.gain(value, worst) < 0.0) {
            Some(format!("the {name} is {value:.5}, worse than allowed"))
        } else {
            self.ends(stopping)
        };
        Verdict { is_best, ends }
    }

    /// Why a run with this record ends, if it does.
    pub fn ends(&self, stopping: &EarlyStopping) -> Option<String> {
        let (metric, best) = (stopping.metric, self.best.map(f64::from_bits));
        if let (Some(target), Some(best)) = (stopping.target, best)
            && metric.gain(best, target) >= 0.0
        {
            return Some(format!("the {} is {best:.5}, as good as asked for", metric.name()));
        }
        let patience = stopping.patience.filter(|patience| self.since >= *patience);
        patience.map(|_| format!("the {} has not improved for {} evaluations", metric.name(), self.since))
    }
}

#[cfg(test)]
mod tests {
    use super::{EarlyStopping, Standing};
    use crate::Metric;

    fn verdicts(stopping: EarlyStopping, values: &[f64]) -> (Vec<bool>, Option<usize>, Option<f64>) {
        let mut record = Standing::default();
        let verdicts: Vec<_> = values.iter().map(|value| record.judge(*value, &stopping)).collect();
        let ends = verdicts.iter().position(|verdict| verdict.ends.is_some());
        (verdicts.iter().map(|verdict| verdict.is_best).collect(), ends, record.best.map(f64::from_bits))
    }

    #[test]
    fn patience_counts_evaluations_in_a_row() {
        let stopping = EarlyStopping { patience: Some(2), ..EarlyStopping::default() };
        let (best, ends, value) = verdicts(stopping, &[1.0, 0.9, 0.95, 0.8, 0.8, f64::NAN]);
        assert_eq!(best, [true, true, false, true, false, false]);
        assert_eq!((ends, value), (Some(5), Some(0.8)));
    }

    #[test]
    fn a_small_gain_is_no_improvement_if_more_is_asked_for() {
        let stopping = EarlyStopping {
            metric: Metric::Accuracy,
            patience: Some(2),
            improvement: 0.01,
            ..EarlyStopping::default()
        };
        let (best, ends, value) = verdicts(stopping, &[0.9, 0.905, 0.909]);
        assert_eq!((best, ends, value), (vec![true, false, false], Some(2), Some(0.9)));
    }

    #[test]
    fn marks_are_on_the_right_side_of_each_metric() {
        let score = EarlyStopping { target: Some(0.1), worst: Some(2.0), ..EarlyStopping::default() };
        assert_eq!(verdicts(score, &[1.9, 0.2, 0.1]).1, Some(2));
        assert_eq!(verdicts(score, &[1.0, 2.1]).1, Some(1));
        let accuracy = EarlyStopping { metric: Metric::Accuracy, target: Some(0.9), worst: Some(0.2), ..score };
        assert_eq!(verdicts(accuracy, &[0.3, 0.91]).1, Some(1));
        assert_eq!(verdicts(accuracy, &[0.3, 0.1]).1, Some(1));
        assert_eq!(verdicts(accuracy, &[f64::NAN, 0.5]).0, [false, true], "no number is never the best");
    }
}
