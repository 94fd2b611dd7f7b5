use std::fmt::{self, Display};

use serde::Serialize;

use super::roc::{Roc, RocReport, Thresholds};
use super::rows::rows;
use super::table::{Table, amount, not_finite_line, score, shortened};

/// How well the outputs set every class apart from all others, at any threshold: one [`Roc`] for each class.
///
/// With [`Thresholds::Exact`] each example takes 12 bytes for each class.
#[derive(Clone, Debug)]
pub struct MultiClassRoc {
    names: Vec<String>,
    classes: Vec<Roc>,
}

impl MultiClassRoc {
    /// An evaluation of the classes called `names`, with no examples yet.
    pub fn new(names: Vec<String>, thresholds: Thresholds) -> Self {
        assert!(!names.is_empty(), "a ROC curve for each class expects at least one class, got none");
        Self { classes: vec![Roc::new(thresholds); names.len()], names }
    }

    /// Adds a batch: `rows × classes` outputs (or `rows × 1` for two classes), the actual classes and the weights.
    ///
    /// # Panics
    ///
    /// When the slices do not fit each other, a class is out of range, or a weight is negative or not finite.
    pub fn add(&mut self, outputs: &[f32], classes: &[u32], weights: Option<&[f32]>) {
        for row in rows(outputs, classes, weights, self.names.len()) {
            let finite = row.is_finite();
            for (class, roc) in self.classes.iter_mut().enumerate() {
                roc.add_example(finite.then(|| row.score(class)), row.class == class, row.weight);
            }
        }
    }

    /// Adds what `other` has gathered.
    ///
    /// # Panics
    ///
    /// When `other` evaluates other classes or distinguishes other thresholds.
    pub fn merge(&mut self, other: &Self) {
        assert_eq!(self.names, other.names, "only evaluations of the same classes merge");
        self.classes.iter_mut().zip(&other.classes).for_each(|(own, other)| own.merge(other));
    }

    /// The curve of `class` against all others.
    pub fn class(&self, class: usize) -> &Roc {
        &self.classes[class]
    }

    /// The mean area of the classes whose area is defined; `None` when there is none.
    pub fn macro_auc(&self) -> Option<f64> {
        mean(self.classes.iter().filter_map(Roc::auc))
    }

    /// The areas of every class and their means, for JSON.
    pub fn report(&self) -> MultiClassRocReport {
        let class = |(name, roc): (&String, &Roc)| ClassRocReport { name: name.clone(), roc: roc.report() };
        let classes: Vec<ClassRocReport> = self.names.iter().zip(&self.classes).map(class).collect();
        MultiClassRocReport {
            examples: self.classes[0].examples(),
            not_finite: self.classes[0].not_finite(),
            macro_auc: mean(classes.iter().filter_map(|class| class.roc.auc)),
            macro_precision_recall_area: mean(classes.iter().filter_map(|class| class.roc.precision_recall_area)),
            classes,
        }
    }
}

fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, count) = values.fold((0.0, 0.0), |(sum, count), value| (sum + value, count + 1.0));
    (count > 0.0).then(|| sum / count)
}

impl Display for MultiClassRoc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let report = self.report();
        let mut table = Table::new(["class", "AUC", "precision-recall area", "positive", "negative"]);
        for ClassRocReport { name, roc } in &report.classes {
            table.line([
                shortened(name),
                score(roc.auc),
                score(roc.precision_recall_area),
                amount(roc.positive),
                amount(roc.negative),
            ]);
        }
        let averages = [score(report.macro_auc), score(report.macro_precision_recall_area)];
        table.line(std::iter::once("(macro average)".to_owned()).chain(averages));
        write!(f, "{table}")?;
        not_finite_line(f, report.not_finite, "wrong at every threshold")
    }
}

/// What [`MultiClassRoc::report`] gives, for JSON; an area that is undefined is `null`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MultiClassRocReport {
    /// The number of examples.
    pub examples: u64,
    /// How many had an output that is not finite; they count as wrong at every threshold.
    pub not_finite: u64,
    /// The mean area under the ROC curves that are defined.
    pub macro_auc: Option<f64>,
    /// The mean area under the precision-recall curves that are defined.
    pub macro_precision_recall_area: Option<f64>,
    /// One entry per class.
    pub classes: Vec<ClassRocReport>,
}

/// The areas of one class against all others.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ClassRocReport {
    /// The name of the class.
    pub name: String,
    /// The areas, beside the name in JSON.
    #[serde(flatten)]
    pub roc: RocReport,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::MultiClassRoc;
    use crate::evaluation::Thresholds;
    use crate::evaluation::fixture::{
        assert_close, classes, close, expected, float, floats, names, parts, rare_classes,
    };

    #[test]
    fn areas_agree_with_scikit_learn() {
        let expected = expected();
        let case = &expected["multi_class_roc"];
        check(case, 4, (floats(&case["outputs"]), classes(&case["actual"]), None));
        for case in expected["rare_classes"].as_array().expect("a list") {
            check(case, 3, rare_classes(case));
        }
    }

    fn check(case: &Value, count: usize, (outputs, classes, weights): (Vec<f32>, Vec<u32>, Option<Vec<f32>>)) {
        let mut evaluation = MultiClassRoc::new(names(count), Thresholds::Exact);
        evaluation.add(&outputs, &classes, weights.as_deref());
        let report = evaluation.report();
        let areas = |area: fn(&super::ClassRocReport) -> Option<f64>| report.classes.iter().filter_map(area);
        assert_close("auc", areas(|class| class.roc.auc), &case["auc"]);
        let wanted = &case["precision_recall_area"];
        assert_close("precision_recall_area", areas(|class| class.roc.precision_recall_area), wanted);
        assert!(close(evaluation.macro_auc().expect("all classes"), float(&case["macro_auc"])));
    }

    #[test]
    fn the_macro_average_leaves_out_classes_never_seen() {
        let mut evaluation = MultiClassRoc::new(names(3), Thresholds::Exact);
        assert_eq!(evaluation.macro_auc(), None);
        evaluation.add(&[0.8, 0.1, 0.1, 0.3, 0.6, 0.1], &[0, 1], None);
        assert_eq!([evaluation.class(2).auc(), evaluation.macro_auc()], [None, Some(1.0)]);
        assert!(evaluation.to_string().starts_with("class               AUC  precision-recall area"), "{evaluation}");
    }

    #[test]
    fn a_single_output_scores_both_classes() {
        let mut evaluation = MultiClassRoc::new(names(2), Thresholds::Steps(100));
        evaluation.add(&[0.8, 0.1, f32::NAN], &[1, 0, 1], None);
        assert_eq!([evaluation.class(0).auc(), evaluation.class(1).auc()], [Some(0.5), Some(0.5)]);
        assert_eq!(evaluation.report().not_finite, 1);
    }

    proptest! {
        #[test]
        fn parts_merged_in_any_order_are_the_whole(
            (parts, shuffled) in parts((prop::array::uniform3(0.0f32..1.0), 0u32..3)),
            exact: bool,
        ) {
            let thresholds = if exact { Thresholds::Exact } else { Thresholds::Steps(7) };
            let gathered = |examples: &[([f32; 3], u32)]| {
                let mut evaluation = MultiClassRoc::new(names(3), thresholds);
                examples.iter().for_each(|(outputs, class)| evaluation.add(outputs, &[*class], None));
                evaluation
            };
            let mut merged = gathered(&[]);
            shuffled.iter().for_each(|part| merged.merge(&gathered(part)));
            prop_assert_eq!(merged.report(), gathered(&parts.concat()).report());
        }
    }
}
