//! How good a network is: measures that are gathered batch by batch and merged over workers.
//!
//! Every evaluation has the same verbs: `new`, `add` a batch, `merge` what another worker has
//! gathered, `report` for JSON, and `Display` for people. Parts merged in any order give the
//! whole: counts exactly, sums of weights and of errors but for the rounding of `f64`.
//!
//! An example of weight 0 is padding: it is left out of everything, counts included. Weights must
//! be finite and not negative. An output that is NaN or infinite is never a panic: it is counted in
//! `not_finite`, and each evaluation says what else it makes of it.
//!
//! # Layout
//!
//! - [`Classification`] — accuracy, precision, recall, F1, MCC, the confusion matrix
//! - [`Roc`], [`MultiClassRoc`] — how well the scores order the examples, at any threshold
//! - [`Calibration`] — how well probabilities agree with frequencies
//! - [`Regression`] — the errors and correlations of every column
//! - `rows` checks a batch and walks over its examples
//! - `confusion`, `curve`, `moments` hold the formulas; `table` aligns what is displayed

mod calibration;
mod classification;
mod confusion;
mod curve;
mod moments;
mod multi_class_roc;
mod regression;
mod roc;
mod rows;
mod table;

#[cfg(test)]
mod fixture;

pub use calibration::{Calibration, CalibrationBin, CalibrationReport};
pub use classification::{ClassReport, Classification, ClassificationReport, TopN};
pub use confusion::Scores;
pub use curve::{PrecisionRecallPoint, RocPoint};
pub use multi_class_roc::{ClassRocReport, MultiClassRoc, MultiClassRocReport};
pub use regression::{ColumnReport, ColumnScores, Regression, RegressionReport};
pub use roc::{BestThreshold, Roc, RocReport, Thresholds};
