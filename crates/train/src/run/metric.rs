use serde::{Deserialize, Serialize};

use crate::{Measures, Scores};

/// What models are compared by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Metric {
    /// The loss on the test data: lower is better.
    #[default]
    Score,
    /// The share of examples whose class was told right: higher is better.
    Accuracy,
    /// Of those that were told to be of a class, the share that is, as the mean over the classes: higher is better.
    Precision,
    /// Of those that are of a class, the share that was told, as the mean over the classes: higher is better.
    Recall,
    /// The harmonic mean of both, as the mean over the classes: higher is better.
    F1,
    /// Matthews' correlation of classes that were told and classes that are: higher is better.
    Mcc,
    /// The area under the ROC curve, as the mean over the classes: higher is better.
    Auc,
    /// The area under the precision-recall curve: of the second of two classes, else the mean over the classes; higher is better.
    PrAuc,
    /// The mean squared error of numbers: lower is better.
    Mse,
    /// The mean absolute error of numbers: lower is better.
    Mae,
    /// The root of the mean squared error of numbers: lower is better.
    Rmse,
    /// The share of the variance of numbers that is told: higher is better.
    R2,
}

impl Metric {
    /// All there are.
    pub const ALL: [Metric; 12] = [
        Metric::Score,
        Metric::Accuracy,
        Metric::Precision,
        Metric::Recall,
        Metric::F1,
        Metric::Mcc,
        Metric::Auc,
        Metric::PrAuc,
        Metric::Mse,
        Metric::Mae,
        Metric::Rmse,
        Metric::R2,
    ];

    /// The name in job files.
    pub fn name(self) -> &'static str {
        match self {
            Metric::Score => "score",
            Metric::Accuracy => "accuracy",
            Metric::Precision => "precision",
            Metric::Recall => "recall",
            Metric::F1 => "f1",
            Metric::Mcc => "mcc",
            Metric::Auc => "auc",
            Metric::PrAuc => "pr_auc",
            Metric::Mse => "mse",
            Metric::Mae => "mae",
            Metric::Rmse => "rmse",
            Metric::R2 => "r2",
        }
    }

    /// What it is for these scores; nothing where they are not of such targets. Of several ends it is that of the first, the score apart.
    pub fn of(self, scores: &Scores) -> Option<f64> {
        if self == Metric::Score {
            return Some(scores.score());
        }
        if matches!(self, Metric::Auc | Metric::PrAuc) {
            // There may be none, where all examples are of one class: then no model is better than another.
            let area = if self == Metric::Auc { scores.auc() } else { scores.pr_auc() };
            return scores.roc.as_ref().map(|_| area.unwrap_or(f64::NAN));
        }
        match &scores.measures {
            Measures::Classes(classes) => Some(match self {
                Metric::Accuracy => classes.accuracy(),
                Metric::Precision => classes.macro_average().precision,
                Metric::Recall => classes.macro_average().recall,
                Metric::F1 => classes.macro_average().f1,
                Metric::Mcc => classes.mcc(),
                _ => return None,
            }),
            Measures::Values(values) => {
                let average = values.average();
                let value = match self {
                    Metric::Mse => average.mse,
                    Metric::Mae => average.mae,
                    Metric::Rmse => average.rmse,
                    Metric::R2 => average.r2,
                    _ => return None,
                };
                Some(value.unwrap_or(f64::NAN))
            }
            Measures::Nothing => None,
        }
    }

    /// Whether it is told of targets of the kind that these scores are of.
    pub(crate) fn is_told_of(self, scores: &Scores) -> bool {
        self.of(scores).is_some()
    }

    /// Whether higher is better.
    pub fn wants_more(self) -> bool {
        !matches!(self, Metric::Score | Metric::Mse | Metric::Mae | Metric::Rmse)
    }

    /// By how much the first is better than the second. NaN is better than nothing.
    pub(crate) fn gain(self, value: f64, than: f64) -> f64 {
        if self.wants_more() { value - than } else { than - value }
    }
}

/// A figure as tables have it: five digits behind the point, or a power of ten where those would not tell, or not fit.
pub fn figure(value: f64) -> String {
    let size = value.abs();
    if value == 0.0 || !value.is_finite() || (1e-3..1e5).contains(&size) {
        format!("{value:.5}")
    } else {
        format!("{value:.4e}")
    }
}
