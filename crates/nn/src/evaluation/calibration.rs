use std::fmt::{self, Display};

use serde::Serialize;

use super::confusion::ratio;
use super::rows::rows;
use super::table::{Table, amount, score};

/// Bins of equal width in which probabilities are compared with frequencies.
const BINS: usize = 10;

/// How well the probabilities of a classifier agree with frequencies: of the predictions made with a probability of 0.8, 0.8 should be
/// right.
///
/// The calibration error is Σ (w_b / W) · |confidence_b − accuracy_b| over ten bins of equal width (Naeini et al. 2015), where the confidence
/// is the probability of the predicted class. The Brier score is the weighted mean of Σ (p_k − y_k)² over the classes, and of (p − y)² for
/// two classes, as in scikit-learn. Examples with an output that is not finite are left out.
#[derive(Clone, Debug, PartialEq)]
pub struct Calibration {
    classes: usize,
    bins: Vec<Bin>,
    squares: f64,
}

/// The examples whose predicted class has a probability in this bin.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Bin {
    weight: f64,
    confidence: f64,
    right: f64,
}

impl Calibration {
    /// An evaluation of so many classes, with no examples yet.
    pub fn new(classes: usize) -> Self {
        Self { classes, bins: vec![Bin::default(); BINS], squares: 0.0 }
    }

    /// Adds a batch: `rows × classes` probabilities (or `rows × 1` for two classes), the actual classes and the weights.
    ///
    /// # Panics
    ///
    /// When the slices do not fit each other, a class is out of range, or a weight is negative or not finite.
    pub fn add(&mut self, outputs: &[f32], classes: &[u32], weights: Option<&[f32]>) {
        for row in rows(outputs, classes, weights, self.classes).filter(|row| row.is_finite()) {
            let predicted = row.predicted();
            let confidence = f64::from(row.score(predicted));
            let bin = &mut self.bins[((confidence * BINS as f64) as usize).min(BINS - 1)];
            bin.weight += row.weight;
            bin.confidence += row.weight * confidence;
            bin.right += if predicted == row.class { row.weight } else { 0.0 };
            let square = |class: usize| {
                let actual = if class == row.class { 1.0 } else { 0.0 };
                (f64::from(row.score(class)) - actual).powi(2)
            };
            // Of two classes both have the same square.
            let counted = if self.classes == 2 { 1..2 } else { 0..self.classes };
            self.squares += row.weight * counted.map(square).sum::<f64>();
        }
    }

    /// Adds what `other` has gathered.
    ///
    /// # Panics
    ///
    /// When `other` evaluates another number of classes.
    pub fn merge(&mut self, other: &Self) {
        assert_eq!(self.classes, other.classes, "only evaluations of the same classes merge");
        for (own, more) in self.bins.iter_mut().zip(&other.bins) {
            own.weight += more.weight;
            own.confidence += more.confidence;
            own.right += more.right;
        }
        self.squares += other.squares;
    }

    /// The calibration error, the Brier score and the bins, for JSON.
    pub fn report(&self) -> CalibrationReport {
        let total: f64 = self.bins.iter().map(|bin| bin.weight).sum();
        let bins = self.bins.iter().enumerate().filter(|(_, bin)| bin.weight > 0.0);
        let bins = bins.map(|(at, bin)| CalibrationBin {
            from: at as f64 / BINS as f64,
            to: (at + 1) as f64 / BINS as f64,
            weight: bin.weight,
            confidence: bin.confidence / bin.weight,
            accuracy: bin.right / bin.weight,
        });
        let error = self.bins.iter().map(|bin| (bin.confidence - bin.right).abs()).sum::<f64>();
        CalibrationReport { error: ratio(error, total), brier: ratio(self.squares, total), bins: bins.collect() }
    }
}

impl Display for Calibration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = Table::new(["probability", "confidence", "accuracy", "examples"]);
        for bin in self.report().bins {
            let range = format!("{:.1} to {:.1}", bin.from, bin.to);
            table.line([range, score(Some(bin.confidence)), score(Some(bin.accuracy)), amount(bin.weight)]);
        }
        write!(f, "{table}")
    }
}

/// The figures of [`Calibration::report`], for JSON.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CalibrationReport {
    /// The calibration error.
    pub error: f64,
    /// The Brier score.
    pub brier: f64,
    /// The bins that have examples.
    pub bins: Vec<CalibrationBin>,
}

/// The predictions whose probability lies in one bin.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct CalibrationBin {
    /// The lowest probability of the bin.
    pub from: f64,
    /// The highest.
    pub to: f64,
    /// The weight of its examples; a count without weights.
    pub weight: f64,
    /// The mean probability of the predicted class.
    pub confidence: f64,
    /// The share of right predictions.
    pub accuracy: f64,
}

#[cfg(test)]
mod tests {
    use super::Calibration;
    use crate::evaluation::fixture::{assert_close, classes, close, expected, float, floats, weights};

    #[test]
    fn errors_and_bins_agree_with_numpy_and_scikit_learn() {
        for (name, case) in expected()["calibration"].as_object().expect("cases by name") {
            let count = case["classes"].as_u64().expect("a number") as usize;
            let mut calibration = Calibration::new(count);
            let (outputs, actual, weights) = (floats(&case["outputs"]), classes(&case["actual"]), weights(case));
            // In two parts that are merged.
            let (half, mut rest) = (actual.len() / 2, Calibration::new(count));
            let width = outputs.len() / actual.len();
            calibration.add(&outputs[..half * width], &actual[..half], weights.as_ref().map(|all| &all[..half]));
            rest.add(&outputs[half * width..], &actual[half..], weights.as_ref().map(|all| &all[half..]));
            calibration.merge(&rest);
            let report = calibration.report();
            assert!(close(report.error, float(&case["error"])), "{name}: {}", report.error);
            assert!(close(report.brier, float(&case["brier"])), "{name}: {}", report.brier);
            assert_close(name, report.bins.iter().map(|bin| bin.accuracy), &case["accuracy"]);
            assert_close(name, report.bins.iter().map(|bin| bin.confidence), &case["confidence"]);
        }
    }

    #[test]
    fn outputs_that_are_not_finite_are_left_out() {
        let mut calibration = Calibration::new(2);
        calibration.add(&[0.75, f32::NAN], &[1, 0], None);
        let report = calibration.report();
        assert_eq!((report.error, report.brier, report.bins.len()), (0.25, 0.0625, 1));
    }
}
