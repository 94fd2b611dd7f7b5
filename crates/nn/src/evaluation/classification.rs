use std::fmt::{self, Display};

use serde::Serialize;

use super::confusion::{Confusion, Scores, ratio};
use super::rows::rows;
use super::table::{Table, amount, not_finite_line, score, shortened};

/// Above this many classes the confusion matrix is not displayed: nobody reads so wide a table.
const DISPLAYED_CLASSES: usize = 30;

/// How well a network tells classes apart.
///
/// The predicted class is the one with the highest output, the lowest index among equals. A network
/// of one output and two classes gives the probability of class 1, which is predicted above 0.5.
/// An example with an output that is not finite is a wrong prediction of no class.
///
/// Undefined scores are 0, as with scikit-learn's `zero_division=0`: the precision of a class that was
/// never predicted, the recall of one without examples. Macro averages leave out the classes that
/// have neither examples nor predictions, and no others.
#[derive(Clone, Debug, PartialEq)]
pub struct Classification {
    names: Vec<String>,
    confusion: Confusion,
    /// N, and the weight of the examples whose class is among the N highest outputs.
    top: Option<(usize, f64)>,
    /// The probability from which class 1 of two is predicted; none: above 0.5.
    threshold: Option<f32>,
    examples: u64,
    not_finite: u64,
}

impl Classification {
    /// What the classes are called.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// An evaluation of the classes called `names`, with no examples yet.
    pub fn new(names: Vec<String>) -> Self {
        assert!(!names.is_empty(), "a classification expects at least one class, got none");
        Self { confusion: Confusion::new(names.len()), names, top: None, threshold: None, examples: 0, not_finite: 0 }
    }

    /// Also gathers how often the actual class is among the `n` highest outputs.
    pub fn with_top_n(mut self, n: usize) -> Self {
        assert!(n > 0, "a top-N accuracy expects an N of at least 1, got 0");
        assert_eq!(self.examples, 0, "N must be set before the first batch");
        self.top = Some((n, 0.0));
        self
    }

    /// Of two classes, predicts class 1 where its probability is at least this.
    pub fn with_threshold(mut self, threshold: f32) -> Self {
        assert_eq!(self.names.len(), 2, "a threshold decides between two classes");
        assert_eq!(self.examples, 0, "the threshold must be set before the first batch");
        self.threshold = Some(threshold);
        self
    }

    /// Adds a batch: `rows × classes` outputs (or `rows × 1` for two classes), the actual classes and the weights.
    ///
    /// # Panics
    ///
    /// When the slices do not fit each other, a class is out of range, or a weight is negative or not finite.
    pub fn add(&mut self, outputs: &[f32], classes: &[u32], weights: Option<&[f32]>) {
        for row in rows(outputs, classes, weights, self.names.len()) {
            let finite = row.is_finite();
            self.examples += 1;
            self.not_finite += u64::from(!finite);
            self.confusion.add(row.class, finite.then(|| row.predicted_at(self.threshold)), row.weight);
            if let Some((n, hits)) = &mut self.top
                && finite
                && row.rank() < *n
            {
                *hits += row.weight;
            }
        }
    }

    /// Adds what `other` has gathered.
    ///
    /// # Panics
    ///
    /// When `other` evaluates other classes or another N.
    pub fn merge(&mut self, other: &Self) {
        assert_eq!(self.names, other.names, "only evaluations of the same classes merge");
        assert_eq!(self.threshold, other.threshold, "only evaluations at the same threshold merge");
        self.confusion.merge(&other.confusion);
        self.examples += other.examples;
        self.not_finite += other.not_finite;
        match (&mut self.top, other.top) {
            (Some((n, hits)), Some((m, more))) if *n == m => *hits += more,
            (None, None) => {}
            (own, other) => panic!("only evaluations of the same N merge, got {own:?} and {other:?}"),
        }
    }

    /// The number of examples.
    pub fn examples(&self) -> u64 {
        self.examples
    }

    /// The number of examples with an output that is not finite.
    pub fn not_finite(&self) -> u64 {
        self.not_finite
    }

    /// The weight of the examples of class `actual` that were predicted to be `predicted`; a count without weights.
    pub fn confusion(&self, actual: usize, predicted: usize) -> f64 {
        self.confusion.row(actual)[predicted]
    }

    /// The share of right predictions; 0 without examples.
    pub fn accuracy(&self) -> f64 {
        self.confusion.accuracy()
    }

    /// The share of examples whose class is among the N highest outputs; `None` unless asked for.
    pub fn top_n_accuracy(&self) -> Option<f64> {
        self.top.map(|(_, hits)| ratio(hits, self.confusion.total()))
    }

    /// Precision, recall and F1 of one class.
    pub fn scores(&self, class: usize) -> Scores {
        self.confusion.scores(class)
    }

    /// The plain mean over the classes that have examples or predictions.
    pub fn macro_average(&self) -> Scores {
        self.confusion.macro_average()
    }

    /// The scores of all decisions thrown together; all three are the accuracy when every output was finite.
    pub fn micro_average(&self) -> Scores {
        self.confusion.micro_average()
    }

    /// Matthews' correlation for several classes (Gorodkin 2004), between −1 and 1; 0 where undefined.
    pub fn mcc(&self) -> f64 {
        self.confusion.mcc()
    }

    /// Everything above, for JSON.
    pub fn report(&self) -> ClassificationReport {
        let classes = 0..self.names.len();
        let class = |class: usize| ClassReport {
            name: self.names[class].clone(),
            actual: self.confusion.actual(class),
            predicted: self.confusion.predicted(class),
            scores: self.scores(class),
        };
        ClassificationReport {
            examples: self.examples,
            weight: self.confusion.total(),
            not_finite: self.not_finite,
            accuracy: self.accuracy(),
            top_n: self.top.map(|(n, hits)| TopN { n, accuracy: ratio(hits, self.confusion.total()) }),
            mcc: self.mcc(),
            macro_average: self.macro_average(),
            micro_average: self.micro_average(),
            classes: classes.clone().map(class).collect(),
            confusion: classes.map(|actual| self.confusion.row(actual).to_vec()).collect(),
        }
    }

    fn confusion_table(&self) -> Table {
        let names = self.names.iter().map(|name| shortened(name));
        let unpredicted = (self.not_finite > 0).then(|| "not finite".to_owned());
        let heads = std::iter::once(String::new()).chain(names.clone()).chain(unpredicted);
        let mut table = Table::from_heads(heads.collect());
        for (actual, name) in names.enumerate() {
            let cells = self.confusion.row(actual).iter().map(|&cell| amount(cell));
            let unpredicted = (self.not_finite > 0).then(|| amount(self.confusion.unpredicted(actual)));
            table.line(std::iter::once(name).chain(cells).chain(unpredicted));
        }
        table
    }
}

impl Display for Classification {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let report = self.report();
        let mut summary = Table::from_heads(vec!["examples".to_owned(), report.examples.to_string()]);
        if report.weight != report.examples as f64 {
            summary.line(["weight".to_owned(), amount(report.weight)]);
        }
        summary.line(["accuracy".to_owned(), score(Some(report.accuracy))]);
        if let Some(TopN { n, accuracy }) = report.top_n {
            summary.line([format!("top-{n} accuracy"), score(Some(accuracy))]);
        }
        summary.line(["MCC".to_owned(), score(Some(report.mcc))]);
        write!(f, "{summary}")?;
        not_finite_line(f, self.not_finite, "counted as wrong")?;

        let mut table = Table::new(["class", "precision", "recall", "F1", "actual", "predicted"]);
        let cells = |scores: Scores| [scores.precision, scores.recall, scores.f1].map(|value| score(Some(value)));
        for class in &report.classes {
            let amounts = [amount(class.actual), amount(class.predicted)];
            table.line([shortened(&class.name)].into_iter().chain(cells(class.scores)).chain(amounts));
        }
        table.line(["(macro average)".to_owned()].into_iter().chain(cells(report.macro_average)));
        table.line(["(micro average)".to_owned()].into_iter().chain(cells(report.micro_average)));
        write!(f, "\n{table}\n")?;

        match self.names.len() {
            ..=DISPLAYED_CLASSES => {
                write!(f, "Confusion matrix (row = actual, column = predicted):\n{}", self.confusion_table())
            }
            classes => writeln!(f, "The confusion matrix of {classes} classes is too wide to display."),
        }
    }
}

/// What [`Classification::report`] gives, for JSON.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ClassificationReport {
    /// The number of examples.
    pub examples: u64,
    /// The sum of their weights.
    pub weight: f64,
    /// How many had an output that is not finite; they count as wrong.
    pub not_finite: u64,
    /// The share of right predictions.
    pub accuracy: f64,
    /// The share of examples whose class is among the N highest outputs, if asked for.
    pub top_n: Option<TopN>,
    /// Matthews' correlation for several classes.
    pub mcc: f64,
    /// The plain mean over classes.
    pub macro_average: Scores,
    /// All decisions thrown together.
    pub micro_average: Scores,
    /// One entry per class.
    pub classes: Vec<ClassReport>,
    /// Row = actual, column = predicted.
    pub confusion: Vec<Vec<f64>>,
}

/// The accuracy of the N highest outputs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct TopN {
    /// N.
    pub n: usize,
    /// The share of examples whose class is among them.
    pub accuracy: f64,
}

/// The scores of one class.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ClassReport {
    /// The name of the class.
    pub name: String,
    /// The weight of the examples that are of this class.
    pub actual: f64,
    /// The weight of the examples that were predicted to be.
    pub predicted: f64,
    /// `precision`, `recall` and `f1`, beside the others in JSON.
    #[serde(flatten)]
    pub scores: Scores,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::Classification;
    use crate::evaluation::fixture::{
        assert_close, classes, close, expected, float, floats, names, parts, rare_classes, relatively_close, weight,
        weights,
    };

    fn evaluate(case: &Value) -> Classification {
        let count = case["classes"].as_u64().expect("a number of classes") as usize;
        let mut evaluation = Classification::new(names(count)).with_top_n(case["top_n"].as_u64().expect("N") as usize);
        evaluation.add(&floats(&case["outputs"]), &classes(&case["actual"]), weights(case).as_deref());
        evaluation
    }

    fn rare(case: &Value) -> Classification {
        let mut evaluation = Classification::new(names(3)).with_top_n(2);
        let (outputs, classes, weights) = rare_classes(case);
        evaluation.add(&outputs, &classes, weights.as_deref());
        evaluation
    }

    #[test]
    fn every_number_agrees_with_scikit_learn() {
        let expected = expected();
        let cases = expected["classification"].as_object().expect("cases by name").iter();
        let cases = cases.map(|(name, case)| (name.clone(), case, evaluate(case)));
        let all_rare = expected["rare_classes"].as_array().expect("a list").iter();
        let all_rare = all_rare.enumerate().map(|(at, case)| (format!("rare {at}"), case, rare(case)));
        for (name, case, evaluation) in cases.chain(all_rare) {
            let report = evaluation.report();
            assert_eq!(report.not_finite, case["not_finite"], "{name}");
            assert_close(&format!("{name} confusion"), report.confusion.concat(), &case["confusion"]);
            let class = |score: fn(&super::ClassReport) -> f64| report.classes.iter().map(score);
            assert_close(&format!("{name} precision"), class(|c| c.scores.precision), &case["precision"]);
            assert_close(&format!("{name} recall"), class(|c| c.scores.recall), &case["recall"]);
            assert_close(&format!("{name} f1"), class(|c| c.scores.f1), &case["f1"]);
            assert_close(&format!("{name} support"), class(|c| c.actual), &case["support"]);
            for (average, scores) in [("macro", report.macro_average), ("micro", report.micro_average)] {
                let found = [scores.precision, scores.recall, scores.f1];
                let wanted = ["precision", "recall", "f1"].map(|score| float(&case[average][score]));
                assert!(found.iter().zip(wanted).all(|(a, b)| close(*a, b)), "{name} {average}: {found:?} {wanted:?}");
            }
            assert!(close(report.accuracy, float(&case["accuracy"])), "{name}: {}", report.accuracy);
            assert!(close(report.mcc, float(&case["mcc"])), "{name}: {}", report.mcc);
            if let Some(top) = case["top_n_accuracy"].as_f64() {
                assert!(close(report.top_n.expect("asked for").accuracy, top), "{name}: {:?} {top}", report.top_n);
            }
        }
    }

    #[test]
    fn top_1_is_the_accuracy() {
        let evaluation = evaluate(&expected()["classification"]["single_output"]);
        assert_eq!(evaluation.top_n_accuracy(), Some(evaluation.accuracy()));
    }

    #[test]
    fn is_displayed_as_aligned_tables() {
        let mut evaluation =
            Classification::new(vec!["cat".into(), "a_rather_long_name_of_a_dog".into()]).with_top_n(2);
        evaluation.add(&[0.9, 0.1, 0.2, 0.8, 0.7, 0.3, f32::NAN, 0.0], &[0, 1, 1, 0], None);
        let wanted = "\
examples             4
accuracy        0.5000
top-2 accuracy  0.7500
MCC             0.2236
Examples with outputs that are not finite: 1 (counted as wrong).

class             precision  recall      F1  actual  predicted
cat                  0.5000  0.5000  0.5000       2          2
a_rather_…_a_dog     1.0000  0.5000  0.6667       2          1
(macro average)      0.7500  0.5000  0.5833
(micro average)      0.6667  0.5000  0.5714

Confusion matrix (row = actual, column = predicted):
                  cat  a_rather_…_a_dog  not finite
cat                 1                 0           1
a_rather_…_a_dog    1                 1           0
";
        assert_eq!(evaluation.to_string(), wanted);
    }

    #[test]
    fn a_matrix_of_many_classes_is_left_out_with_a_sentence() {
        let displayed = Classification::new(names(31)).to_string();
        assert!(displayed.ends_with("The confusion matrix of 31 classes is too wide to display.\n"), "{displayed}");
    }

    #[test]
    fn reports_in_json_with_the_scores_beside_the_class_name() {
        let mut evaluation = Classification::new(names(2));
        evaluation.add(&[0.9, 0.2], &[1, 0], None);
        let json = serde_json::to_value(evaluation.report()).expect("a report is plain data");
        assert_eq!(json["accuracy"], 1.0);
        assert_eq!(json["classes"][1]["precision"], 1.0);
        assert_eq!(json["macro_average"]["f1"], 1.0);
        assert_eq!(json["top_n"], Value::Null);
    }

    /// Outputs (NaN at times), class and weight of one example of four classes.
    fn example() -> impl Strategy<Value = ([f32; 4], u32, f32)> {
        let output = prop_oneof![20 => (0u8..8).prop_map(|eighths| f32::from(eighths) / 8.0), 1 => Just(f32::NAN)];
        (prop::array::uniform4(output), 0u32..4, prop_oneof![9 => weight(), 1 => Just(0.0)])
    }

    fn gathered(examples: &[([f32; 4], u32, f32)], weighted: bool) -> Classification {
        let mut evaluation = Classification::new(names(4)).with_top_n(2);
        let outputs: Vec<f32> = examples.iter().flat_map(|(outputs, ..)| *outputs).collect();
        let classes: Vec<u32> = examples.iter().map(|(_, class, _)| *class).collect();
        let weights: Vec<f32> = examples.iter().map(|(.., weight)| *weight).collect();
        evaluation.add(&outputs, &classes, weighted.then_some(&weights[..]));
        evaluation
    }

    proptest! {
        #[test]
        fn parts_merged_in_any_order_are_the_whole((parts, shuffled) in parts(example()), weighted: bool) {
            let whole = gathered(&parts.concat(), weighted);
            let mut merged = gathered(&[], weighted);
            shuffled.iter().for_each(|part| merged.merge(&gathered(part, weighted)));
            if !weighted {
                prop_assert_eq!(&merged, &whole);
            }
            let (merged, whole) = (merged.report(), whole.report());
            prop_assert_eq!([merged.examples, merged.not_finite], [whole.examples, whole.not_finite]);
            for (a, b) in merged.confusion.iter().flatten().zip(whole.confusion.iter().flatten()) {
                prop_assert!(relatively_close(*a, *b), "{} {}", a, b);
            }
            // Matthews' correlation is a difference: near 0 it has no digits of its own to compare.
            prop_assert!(close(merged.mcc, whole.mcc));
            prop_assert!(relatively_close(merged.accuracy, whole.accuracy));
            prop_assert!(relatively_close(merged.macro_average.f1, whole.macro_average.f1));
            prop_assert!(relatively_close(merged.top_n.unwrap().accuracy, whole.top_n.unwrap().accuracy));
        }
    }
}
