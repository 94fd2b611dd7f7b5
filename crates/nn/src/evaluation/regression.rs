use std::fmt::{self, Display};

use serde::Serialize;

use super::moments::Moments;
use super::rows::example_weights;
use super::table::{Table, score, shortened};

/// How far the outputs of a network are from their targets, column by column.
///
/// A pair of which the output or the target is not finite is left out of its column and counted. A
/// score that is undefined is `None`: all of them without examples, R² where the targets do not vary,
/// Pearson's correlation where the outputs or the targets do not.
#[derive(Clone, Debug, PartialEq)]
pub struct Regression {
    columns: Vec<Column>,
    examples: u64,
}

#[derive(Clone, Debug, PartialEq)]
struct Column {
    name: String,
    moments: Moments,
    not_finite: u64,
}

impl Regression {
    /// An evaluation of the columns called `names`, with no examples yet.
    pub fn new(names: Vec<String>) -> Self {
        assert!(!names.is_empty(), "a regression expects at least one column, got none");
        let column = |name| Column { name, moments: Moments::default(), not_finite: 0 };
        Self { columns: names.into_iter().map(column).collect(), examples: 0 }
    }

    /// Adds a batch: `rows × columns` outputs and as many targets, and one weight for each row.
    ///
    /// # Panics
    ///
    /// When the slices do not fit each other, or a weight is negative or not finite.
    pub fn add(&mut self, outputs: &[f32], targets: &[f32], weights: Option<&[f32]>) {
        let width = self.columns.len();
        assert_eq!(outputs.len(), targets.len(), "outputs and targets are of the same shape");
        assert_eq!(outputs.len() % width, 0, "{} outputs are not whole rows of {width} columns", outputs.len());
        let rows = outputs.chunks_exact(width).zip(targets.chunks_exact(width));
        for ((outputs, targets), weight) in rows.zip(example_weights(weights, outputs.len() / width)) {
            if weight == 0.0 {
                continue;
            }
            self.examples += 1;
            for ((column, output), target) in self.columns.iter_mut().zip(outputs).zip(targets) {
                if output.is_finite() && target.is_finite() {
                    column.moments.merge(&Moments::of(f64::from(*output), f64::from(*target), weight));
                } else {
                    column.not_finite += 1;
                }
            }
        }
    }

    /// Adds what `other` has gathered.
    ///
    /// # Panics
    ///
    /// When `other` evaluates other columns.
    pub fn merge(&mut self, other: &Self) {
        let same = self.columns.iter().map(|column| &column.name).eq(other.columns.iter().map(|column| &column.name));
        assert!(same, "only evaluations of the same columns merge");
        self.examples += other.examples;
        for (own, other) in self.columns.iter_mut().zip(&other.columns) {
            own.moments.merge(&other.moments);
            own.not_finite += other.not_finite;
        }
    }

    /// The number of examples.
    pub fn examples(&self) -> u64 {
        self.examples
    }

    /// The number of pairs, over all columns, that were left out because they are not finite.
    pub fn not_finite(&self) -> u64 {
        self.columns.iter().map(|column| column.not_finite).sum()
    }

    /// The scores of one column.
    pub fn scores(&self, column: usize) -> ColumnScores {
        let moments = &self.columns[column].moments;
        ColumnScores {
            mse: moments.mean_squared_error(),
            mae: moments.mean_absolute_error(),
            rmse: moments.mean_squared_error().map(f64::sqrt),
            r2: moments.r2(),
            pearson: moments.pearson(),
        }
    }

    /// The plain mean of every score over the columns where it is defined.
    pub fn average(&self) -> ColumnScores {
        let columns: Vec<ColumnScores> = (0..self.columns.len()).map(|column| self.scores(column)).collect();
        let mean = |score: fn(&ColumnScores) -> Option<f64>| {
            let defined = columns.iter().filter_map(score).count();
            (defined > 0).then(|| columns.iter().filter_map(score).sum::<f64>() / defined as f64)
        };
        ColumnScores {
            mse: mean(|scores| scores.mse),
            mae: mean(|scores| scores.mae),
            rmse: mean(|scores| scores.rmse),
            r2: mean(|scores| scores.r2),
            pearson: mean(|scores| scores.pearson),
        }
    }

    /// Everything above, for JSON.
    pub fn report(&self) -> RegressionReport {
        let column = |(index, column): (usize, &Column)| ColumnReport {
            name: column.name.clone(),
            weight: column.moments.weight(),
            not_finite: column.not_finite,
            scores: self.scores(index),
        };
        RegressionReport {
            examples: self.examples,
            not_finite: self.not_finite(),
            average: self.average(),
            columns: self.columns.iter().enumerate().map(column).collect(),
        }
    }
}

impl Display for Regression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let report = self.report();
        writeln!(f, "examples  {}\n", report.examples)?;
        let mut table = Table::new(["column", "MSE", "MAE", "RMSE", "R²", "Pearson"]);
        let cells = |scores: ColumnScores| {
            [error(scores.mse), error(scores.mae), error(scores.rmse), score(scores.r2), score(scores.pearson)]
        };
        for column in &report.columns {
            table.line(std::iter::once(shortened(&column.name)).chain(cells(column.scores)));
        }
        if report.columns.len() > 1 {
            table.line(std::iter::once("(average)".to_owned()).chain(cells(report.average)));
        }
        write!(f, "{table}")?;
        match report.not_finite {
            0 => Ok(()),
            count => writeln!(f, "{count} pairs of output and target are left out because they are not finite."),
        }
    }
}

/// An error, which is in the unit of its column and of whatever size; `-` where it is undefined.
fn error(value: Option<f64>) -> String {
    match value {
        None => "-".to_owned(),
        Some(value) if value == 0.0 || (1e-3..1e6).contains(&value) => format!("{value:.4}"),
        Some(value) => format!("{value:.4e}"),
    }
}

/// The scores of a column, or their means; `None` (`null` in JSON) where undefined.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ColumnScores {
    /// The mean squared error.
    pub mse: Option<f64>,
    /// The mean absolute error.
    pub mae: Option<f64>,
    /// The root of the mean squared error.
    pub rmse: Option<f64>,
    /// The share of the variance of the targets that the outputs explain; below 0 they are worse than the mean.
    pub r2: Option<f64>,
    /// Pearson's correlation between outputs and targets.
    pub pearson: Option<f64>,
}

/// What [`Regression::report`] gives, for JSON.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RegressionReport {
    /// The number of examples.
    pub examples: u64,
    /// How many pairs were left out because they are not finite.
    pub not_finite: u64,
    /// The means over the columns.
    pub average: ColumnScores,
    /// One entry per column.
    pub columns: Vec<ColumnReport>,
}

/// The scores of one column.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ColumnReport {
    /// The name of the column.
    pub name: String,
    /// The weight of the pairs that are counted.
    pub weight: f64,
    /// How many pairs were left out because they are not finite.
    pub not_finite: u64,
    /// `mse`, `mae`, `rmse`, `r2` and `pearson`, beside the others in JSON.
    #[serde(flatten)]
    pub scores: ColumnScores,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{ColumnScores, Regression};
    use crate::evaluation::fixture::{
        assert_close, close, expected, float, floats, names, parts, relatively_close, weight, weights,
    };

    #[test]
    fn every_number_agrees_with_scikit_learn_and_scipy() {
        for (name, case) in expected()["regression"].as_object().expect("cases by name") {
            let mut evaluation = Regression::new(names(3));
            evaluation.add(&floats(&case["outputs"]), &floats(&case["targets"]), weights(case).as_deref());
            let column = |score: fn(ColumnScores) -> Option<f64>| {
                let evaluation = &evaluation;
                (0..3).map(move |column| score(evaluation.scores(column)).expect("defined"))
            };
            assert_close(&format!("{name} mse"), column(|scores| scores.mse), &case["mse"]);
            assert_close(&format!("{name} mae"), column(|scores| scores.mae), &case["mae"]);
            assert_close(&format!("{name} rmse"), column(|scores| scores.rmse), &case["rmse"]);
            assert_close(&format!("{name} r2"), column(|scores| scores.r2), &case["r2"]);
            assert_close(&format!("{name} pearson"), column(|scores| scores.pearson), &case["pearson"]);
            let average = evaluation.average();
            assert!(close(average.rmse.expect("defined"), float(&case["average_rmse"])), "{name}");
            assert!(close(average.r2.expect("defined"), float(&case["average_r2"])), "{name}");
        }
    }

    #[test]
    fn scores_without_examples_or_spread_are_undefined() {
        let mut evaluation = Regression::new(names(1));
        let nothing = ColumnScores { mse: None, mae: None, rmse: None, r2: None, pearson: None };
        assert_eq!([evaluation.scores(0), evaluation.average()], [nothing; 2]);
        evaluation.add(&[1.0, 3.0], &[2.0, 2.0], None);
        let constant = ColumnScores { mse: Some(1.0), mae: Some(1.0), rmse: Some(1.0), ..nothing };
        assert_eq!(evaluation.scores(0), constant);
    }

    #[test]
    fn pairs_that_are_not_finite_are_left_out_and_counted() {
        let mut evaluation = Regression::new(names(2));
        evaluation.add(&[1.0, f32::NAN, 2.0, 5.0], &[2.0, 1.0, f32::INFINITY, 5.0], None);
        assert_eq!([evaluation.examples(), evaluation.not_finite()], [2, 2]);
        assert_eq!([evaluation.scores(0).mse, evaluation.scores(1).mse], [Some(1.0), Some(0.0)]);
        assert!(evaluation.to_string().ends_with("left out because they are not finite.\n"), "{evaluation}");
    }

    #[test]
    fn a_mean_far_from_zero_does_not_drown_the_spread() {
        let mut evaluation = Regression::new(names(1));
        let near = [16_000_000.0, 16_000_001.0, 16_000_002.0, 16_000_003.0];
        evaluation.add(&near, &near, None);
        assert_eq!([evaluation.scores(0).r2, evaluation.scores(0).pearson], [Some(1.0), Some(1.0)]);
    }

    #[test]
    #[should_panic(expected = "3 outputs are not whole rows of 2 columns")]
    fn outputs_that_do_not_fit_are_a_bug() {
        Regression::new(names(2)).add(&[0.0; 3], &[0.0; 3], None);
    }

    #[test]
    fn is_displayed_as_an_aligned_table() {
        let mut evaluation = Regression::new(vec!["width".into(), "height".into()]);
        evaluation.add(&[1.0, 10.0, 2.0, 20.0, 3.5, 40.0], &[1.0, 12.0, 2.0, 24.0, 3.0, 36.0], None);
        let wanted = "\
examples  3

column         MSE     MAE    RMSE      R²  Pearson
width       0.0833  0.1667  0.2887  0.8750   0.9934
height     12.0000  3.3333  3.4641  0.8750   0.9820
(average)   6.0417  1.7500  1.8764  0.8750   0.9877
";
        assert_eq!(evaluation.to_string(), wanted);
    }

    type Example = ([f32; 2], [f32; 2], f32);

    fn gathered(examples: &[Example]) -> Regression {
        let mut evaluation = Regression::new(names(2));
        for (outputs, targets, weight) in examples {
            evaluation.add(outputs, targets, Some(&[*weight]));
        }
        evaluation
    }

    proptest! {
        #[test]
        fn parts_merged_in_any_order_are_the_whole(
            (mut parts, mut shuffled) in parts((
                prop::array::uniform2(prop_oneof![20 => -1e3f32..1e3, 1 => Just(f32::NAN)]),
                prop::array::uniform2(-1e3f32..1e3),
                weight(),
            )),
        ) {
            // Two examples far apart: without any spread R² and the correlation have no digits to compare.
            let spread = vec![([-1e3; 2], [1e3; 2], 5.0), ([1e3; 2], [-1e3; 2], 5.0)];
            parts.push(spread.clone());
            shuffled.insert(0, spread);
            let whole = gathered(&parts.concat());
            let mut merged = gathered(&[]);
            shuffled.iter().for_each(|part| merged.merge(&gathered(part)));
            prop_assert_eq!([merged.examples(), merged.not_finite()], [whole.examples(), whole.not_finite()]);
            for column in 0..2 {
                let [merged, whole] = [&merged, &whole].map(|evaluation| evaluation.scores(column));
                for (a, b) in [(merged.mse, whole.mse), (merged.mae, whole.mae), (merged.rmse, whole.rmse)] {
                    prop_assert!(relatively_close(a.expect("spread"), b.expect("spread")), "{:?} {:?}", a, b);
                }
                // These two are differences: near 0 they have no digits of their own to compare.
                for (a, b) in [(merged.r2, whole.r2), (merged.pearson, whole.pearson)] {
                    prop_assert!(close(a.expect("spread"), b.expect("spread")), "{:?} {:?}", a, b);
                }
            }
        }
    }
}
