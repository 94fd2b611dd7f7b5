use std::fmt::{self, Display};

use serde::Serialize;

use super::curve::{Curve, Group, PrecisionRecallPoint, RocPoint};
use super::rows::rows;
use super::table::{Table, amount, not_finite_line, score};

/// Which thresholds a curve distinguishes, and so how much memory it takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Thresholds {
    /// Every score that occurs: 12 bytes for each example.
    Exact,
    /// So many equal steps from 0 to 1: 16 bytes for each step, however many examples there are.
    ///
    /// Scores in the same step are treated as equal, and those outside of 0 to 1 fall in the outermost steps.
    Steps(usize),
}

impl Thresholds {
    /// So many steps, or every score that occurs if no number is given.
    pub fn of(steps: Option<usize>) -> Self {
        steps.map_or(Thresholds::Exact, Thresholds::Steps)
    }
}

/// How well the scores of a network set positives (class 1) apart from negatives (class 0), at any threshold.
///
/// An example whose score is not finite is wrong at every threshold: a positive comes after all
/// others, a negative before all others.
#[derive(Clone, Debug)]
pub struct Roc {
    scores: ScoreStore,
    examples: u64,
    not_finite: u64,
}

/// The scores so far, as [`Thresholds`] asks.
#[derive(Clone, Debug)]
enum ScoreStore {
    Exact(Vec<Scored>),
    /// The weights of the positives and negatives of each step, lowest first; two more for what is not finite.
    Steps(Vec<[f64; 2]>),
}

#[derive(Clone, Copy, Debug)]
struct Scored {
    score: f32,
    weight: f32,
    positive: bool,
}

impl Roc {
    /// An evaluation with no examples yet.
    pub fn new(thresholds: Thresholds) -> Self {
        let scores = match thresholds {
            Thresholds::Exact => ScoreStore::Exact(Vec::new()),
            Thresholds::Steps(steps) => {
                assert!(steps > 0, "a ROC curve expects at least one step, got 0");
                ScoreStore::Steps(vec![[0.0; 2]; steps + 2])
            }
        };
        Self { scores, examples: 0, not_finite: 0 }
    }

    /// Adds a batch: `rows × 1` scores of class 1 (or `rows × 2` outputs), the actual classes and the weights.
    ///
    /// # Panics
    ///
    /// When the slices do not fit each other, a class is not 0 or 1, or a weight is negative or not finite.
    pub fn add(&mut self, outputs: &[f32], classes: &[u32], weights: Option<&[f32]>) {
        for row in rows(outputs, classes, weights, 2) {
            self.add_example(row.is_finite().then(|| row.score(1)), row.class == 1, row.weight);
        }
    }

    /// Adds one example; no score is one that was not finite.
    pub(super) fn add_example(&mut self, score: Option<f32>, positive: bool, weight: f64) {
        self.examples += 1;
        self.not_finite += u64::from(score.is_none());
        let worst = if positive { f32::NEG_INFINITY } else { f32::INFINITY };
        match &mut self.scores {
            ScoreStore::Exact(all) => {
                all.push(Scored { score: score.unwrap_or(worst), weight: weight as f32, positive });
            }
            ScoreStore::Steps(steps) => {
                let last = steps.len() - 1;
                let step = match score {
                    None if positive => 0,
                    None => last,
                    Some(score) => ((f64::from(score) * (last - 1) as f64) as usize).min(last - 2) + 1,
                };
                steps[step][usize::from(!positive)] += weight;
            }
        }
    }

    /// Adds what `other` has gathered.
    ///
    /// # Panics
    ///
    /// When `other` distinguishes other thresholds.
    pub fn merge(&mut self, other: &Self) {
        match (&mut self.scores, &other.scores) {
            (ScoreStore::Exact(own), ScoreStore::Exact(more)) => own.extend(more),
            (ScoreStore::Steps(own), ScoreStore::Steps(more)) if own.len() == more.len() => {
                own.as_flattened_mut().iter_mut().zip(more.as_flattened()).for_each(|(own, more)| *own += more);
            }
            _ => panic!("only curves of the same thresholds merge"),
        }
        self.examples += other.examples;
        self.not_finite += other.not_finite;
    }

    /// The number of examples.
    pub fn examples(&self) -> u64 {
        self.examples
    }

    /// The number of examples whose score is not finite.
    pub fn not_finite(&self) -> u64 {
        self.not_finite
    }

    /// Which thresholds it distinguishes.
    pub fn thresholds(&self) -> Thresholds {
        match &self.scores {
            ScoreStore::Exact(_) => Thresholds::Exact,
            ScoreStore::Steps(steps) => Thresholds::Steps(steps.len() - 2),
        }
    }

    /// The area under the ROC curve by trapezoids: how probably a positive scores above a negative.
    ///
    /// `None` until there are both positives and negatives.
    pub fn auc(&self) -> Option<f64> {
        self.curve().area()
    }

    /// The area under the precision-recall curve by steps, which is the average precision.
    ///
    /// Trapezoids would be too high here: precision does not fall in a straight line from one recall to the
    /// next (Davis and Goadrich 2006). `None` without positives.
    pub fn precision_recall_area(&self) -> Option<f64> {
        self.curve().precision_recall_area()
    }

    /// The ROC curve, from where nothing is accepted to where everything is.
    pub fn roc_points(&self) -> Vec<RocPoint> {
        self.curve().roc()
    }

    /// The precision-recall curve, from where nothing is accepted to where everything is.
    pub fn precision_recall_points(&self) -> Vec<PrecisionRecallPoint> {
        self.curve().precision_recall()
    }

    /// The threshold with the highest F1 of the positives, the highest such threshold among equals; `None` without positives.
    pub fn best_threshold(&self) -> Option<BestThreshold> {
        let f1 = |point: &PrecisionRecallPoint| match point.precision + point.recall {
            0.0 => 0.0,
            sum => 2.0 * point.precision * point.recall / sum,
        };
        let curve = self.curve();
        let points = curve.precision_recall();
        let all = points.iter().enumerate().skip(1).map(|(at, point)| (f1(point), at));
        let (f1, at) = all.reduce(|a, b| if b.0 > a.0 { b } else { a }).filter(|_| curve.positive > 0.0)?;
        // Every threshold above the next lower score gives the same classes: the usual one is kept if it is among these.
        let below = points.get(at + 1).map_or(f64::NEG_INFINITY, |next| f64::from(next.threshold));
        let threshold = if below < 0.5 && points[at].threshold >= 0.5 { 0.5 } else { points[at].threshold };
        Some(BestThreshold { threshold, f1 })
    }

    /// The areas and counts, for JSON.
    pub fn report(&self) -> RocReport {
        let curve = self.curve();
        RocReport {
            examples: self.examples,
            not_finite: self.not_finite,
            positive: curve.positive,
            negative: curve.negative,
            auc: curve.area(),
            precision_recall_area: curve.precision_recall_area(),
        }
    }

    fn curve(&self) -> Curve {
        Curve::new(match &self.scores {
            ScoreStore::Exact(all) => groups_of_equal_score(all.clone()),
            ScoreStore::Steps(steps) => groups_of_steps(steps),
        })
    }
}

fn groups_of_equal_score(mut all: Vec<Scored>) -> Vec<Group> {
    // Sorting by weight too makes every sum independent of the order in which parts were merged.
    all.sort_unstable_by(|a, b| b.score.total_cmp(&a.score).then(a.weight.total_cmp(&b.weight)));
    let group = |equal: &[Scored]| {
        let mut group = Group { threshold: equal[0].score, positive: 0.0, negative: 0.0 };
        for scored in equal {
            *(if scored.positive { &mut group.positive } else { &mut group.negative }) += f64::from(scored.weight);
        }
        group
    };
    all.chunk_by(|a, b| a.score == b.score).map(group).collect()
}

fn groups_of_steps(steps: &[[f64; 2]]) -> Vec<Group> {
    let last = steps.len() - 1;
    let threshold = |step: usize| match step {
        0 => f32::NEG_INFINITY,
        step if step == last => f32::INFINITY,
        step => ((step - 1) as f64 / (last - 1) as f64) as f32,
    };
    let group =
        |(step, &[positive, negative]): (usize, &[f64; 2])| Group { threshold: threshold(step), positive, negative };
    let seen = |group: &Group| group.positive + group.negative > 0.0;
    steps.iter().enumerate().rev().map(group).filter(seen).collect()
}

impl Display for Roc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let report = self.report();
        let mut table = Table::from_heads(vec!["examples".to_owned(), report.examples.to_string()]);
        table.line(["positive".to_owned(), amount(report.positive)]);
        table.line(["negative".to_owned(), amount(report.negative)]);
        table.line(["AUC".to_owned(), score(report.auc)]);
        table.line(["precision-recall area".to_owned(), score(report.precision_recall_area)]);
        write!(f, "{table}")?;
        not_finite_line(f, self.not_finite, "wrong at every threshold")
    }
}

/// A threshold, and the F1 of the positives when every score from it up is accepted.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct BestThreshold {
    /// The lowest accepted score.
    pub threshold: f32,
    /// The harmonic mean of precision and recall.
    pub f1: f64,
}

/// What [`Roc::report`] gives, for JSON; an area that is undefined is `null`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct RocReport {
    /// The number of examples.
    pub examples: u64,
    /// How many had a score that is not finite; they count as wrong at every threshold.
    pub not_finite: u64,
    /// The weight of the positives; a count without weights.
    pub positive: f64,
    /// The weight of the negatives; a count without weights.
    pub negative: f64,
    /// The area under the ROC curve.
    pub auc: Option<f64>,
    /// The area under the precision-recall curve.
    pub precision_recall_area: Option<f64>,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Roc, Thresholds};
    use crate::evaluation::fixture::{
        assert_close, classes, close, expected, float, floats, parts, relatively_close, weight, weights,
    };

    #[test]
    fn areas_and_curves_agree_with_scikit_learn() {
        for (name, case) in expected()["roc"].as_object().expect("cases by name") {
            let mut roc = Roc::new(Thresholds::Exact);
            roc.add(&floats(&case["scores"]), &classes(&case["actual"]), weights(case).as_deref());
            assert!(close(roc.auc().expect("both classes"), float(&case["auc"])), "{name}: {roc}");
            let area = roc.precision_recall_area().expect("positives");
            assert!(close(area, float(&case["precision_recall_area"])), "{name}: {area}");
            let points = roc.roc_points();
            assert_close(name, points.iter().map(|point| point.false_positive_rate), &case["false_positive_rate"]);
            assert_close(name, points.iter().map(|point| point.true_positive_rate), &case["true_positive_rate"]);
            assert_close(name, points[1..].iter().map(|point| f64::from(point.threshold)), &case["thresholds"]);
            let points = roc.precision_recall_points();
            assert_close(name, points.iter().map(|point| point.precision), &case["precision"]);
            assert_close(name, points.iter().map(|point| point.recall), &case["recall"]);
        }
    }

    /// As `rare_roc` in `evaluation.py`.
    fn rare(tied: bool, weighted: bool, thresholds: Thresholds) -> Roc {
        let mut roc = Roc::new(thresholds);
        for row in 0..40_000u32 {
            let mut score = (row * 7919 % 40_009) as f32 / (40_009.0 * 50.0);
            if tied {
                score = (score * 2000.0).floor() / 2000.0;
            }
            let positive = [17, 4_000, 11_111, 23_456, 31_337, 39_998].contains(&row);
            let score = if positive { score + 0.005 } else { score };
            let weight = if weighted { 1.0 + (row % 7) as f32 / 8.0 } else { 1.0 };
            roc.add(&[score], &[u32::from(positive)], Some(&[weight]));
        }
        roc
    }

    #[test]
    fn a_rare_class_is_judged_as_scikit_learn_does() {
        for case in expected()["rare_roc"].as_array().expect("a list") {
            let [tied, weighted] = ["tied", "weighted"].map(|key| case[key].as_bool().expect("a flag"));
            let roc = rare(tied, weighted, Thresholds::Exact);
            let (auc, area) = (roc.auc().expect("both"), roc.precision_recall_area().expect("positives"));
            assert!((auc - float(&case["auc"])).abs() < 1e-9, "{case}: {auc}");
            assert!((area - float(&case["precision_recall_area"])).abs() < 1e-9, "{case}: {area}");
        }
        // What a thousand steps make of it is why they are not the default.
        let steps = rare(false, false, Thresholds::Steps(1000)).auc().expect("both");
        assert!((steps - float(&expected()["rare_roc"][0]["auc"])).abs() > 1e-4, "{steps}");
    }

    #[test]
    fn steps_are_close_to_the_exact_area() {
        let case = &expected()["roc"]["plain"];
        let mut roc = Roc::new(Thresholds::Steps(1000));
        roc.add(&floats(&case["scores"]), &classes(&case["actual"]), None);
        assert!((roc.auc().expect("both classes") - float(&case["auc"])).abs() < 1e-3);
    }

    #[test]
    fn areas_of_one_class_alone_are_undefined() {
        let mut roc = Roc::new(Thresholds::Exact);
        assert_eq!([roc.auc(), roc.precision_recall_area()], [None, None]);
        roc.add(&[0.2, 0.3], &[0, 0], None);
        assert_eq!([roc.auc(), roc.precision_recall_area()], [None, None]);
        assert!(
            roc.to_string().contains("positive               0\nnegative               2\nAUC                    -\n"),
            "{roc}"
        );
    }

    #[test]
    fn scores_that_are_not_finite_are_wrong_at_every_threshold() {
        for thresholds in [Thresholds::Exact, Thresholds::Steps(10)] {
            let mut roc = Roc::new(thresholds);
            roc.add(&[f32::NAN, f32::INFINITY, f32::NEG_INFINITY], &[1, 1, 0], None);
            assert_eq!((roc.auc(), roc.not_finite()), (Some(0.0), 3));
            roc.add(&[0.9, 0.1], &[1, 0], None);
            assert_eq!(roc.auc(), Some(1.0 / 6.0), "one of six pairs is ordered right");
        }
    }

    #[test]
    fn scores_outside_of_0_to_1_fall_in_the_outermost_steps() {
        let mut roc = Roc::new(Thresholds::Steps(4));
        roc.add(&[-3.0, 1e30, 1.0, 0.5], &[0, 1, 1, 0], None);
        assert_eq!(roc.auc(), Some(1.0));
        let thresholds: Vec<f32> = roc.roc_points().iter().map(|point| point.threshold).collect();
        assert_eq!(thresholds, [f32::INFINITY, 0.75, 0.5, 0.0]);
    }

    #[test]
    fn the_second_of_two_columns_is_the_score() {
        let mut roc = Roc::new(Thresholds::Exact);
        roc.add(&[0.3, 0.7, 0.6, 0.4], &[1, 0], None);
        assert_eq!(roc.auc(), Some(1.0));
    }

    #[test]
    fn the_best_threshold_is_that_of_the_highest_f1() {
        let mut roc = Roc::new(Thresholds::Exact);
        assert_eq!(roc.best_threshold(), None);
        roc.add(&[0.9, 0.4, 0.35, 0.3, 0.1], &[1, 0, 1, 1, 0], None);
        // From 0.3 up: precision 3/4, recall 1.
        let best = roc.best_threshold().expect("positives");
        assert_eq!(best.threshold, 0.3);
        assert!((best.f1 - 6.0 / 7.0).abs() < 1e-12, "{best:?}");
        // Of all thresholds that give the same classes, the usual one.
        let mut apart = Roc::new(Thresholds::Exact);
        apart.add(&[0.999, 0.998, 0.01], &[1, 1, 0], None);
        assert_eq!(apart.best_threshold().map(|best| (best.threshold, best.f1)), Some((0.5, 1.0)));
    }

    #[test]
    fn minus_zero_ties_with_zero() {
        let mut roc = Roc::new(Thresholds::Exact);
        roc.add(&[0.0, -0.0], &[1, 0], None);
        assert_eq!(roc.auc(), Some(0.5));
    }

    type Example = (f32, u32, f32);

    /// Score in steps of 1/64 (so that ties abound), class and weight.
    fn example() -> impl Strategy<Value = Example> {
        let score = prop_oneof![20 => (0u8..64).prop_map(|step| f32::from(step) / 64.0), 1 => Just(f32::NAN)];
        (score, 0u32..2, weight())
    }

    fn gathered(examples: &[Example], thresholds: Thresholds) -> Roc {
        let mut roc = Roc::new(thresholds);
        for &(score, class, weight) in examples {
            roc.add(&[score], &[class], Some(&[weight]));
        }
        roc
    }

    proptest! {
        #[test]
        fn parts_merged_in_any_order_are_the_whole((parts, shuffled) in parts(example()), exact: bool) {
            let thresholds = if exact { Thresholds::Exact } else { Thresholds::Steps(50) };
            let whole = gathered(&parts.concat(), thresholds);
            let mut merged = Roc::new(thresholds);
            shuffled.iter().for_each(|part| merged.merge(&gathered(part, thresholds)));
            if exact {
                prop_assert_eq!(merged.report(), whole.report());
                prop_assert_eq!(merged.roc_points(), whole.roc_points());
            }
            prop_assert_eq!(merged.auc().is_some(), whole.auc().is_some());
            prop_assert!(relatively_close(merged.auc().unwrap_or(0.0), whole.auc().unwrap_or(0.0)));
            let areas = [&merged, &whole].map(|roc| roc.precision_recall_area().unwrap_or(0.0));
            prop_assert!(relatively_close(areas[0], areas[1]));
        }

        #[test]
        fn steps_that_fit_the_scores_give_the_exact_curve(examples in prop::collection::vec(example(), 0..60)) {
            let [exact, steps] = [Thresholds::Exact, Thresholds::Steps(64)].map(|kind| gathered(&examples, kind));
            let (exact, steps) = (exact.roc_points(), steps.roc_points());
            prop_assert_eq!(exact.len(), steps.len());
            for (a, b) in exact.iter().zip(&steps) {
                prop_assert_eq!(a.threshold, b.threshold);
                prop_assert!(close(a.false_positive_rate, b.false_positive_rate));
                prop_assert!(close(a.true_positive_rate, b.true_positive_rate));
            }
        }

        #[test]
        fn the_area_is_the_share_of_pairs_in_the_right_order(examples in prop::collection::vec(example(), 2..40)) {
            let finite: Vec<Example> = examples.into_iter().filter(|(score, ..)| score.is_finite()).collect();
            let (mut right, mut pairs) = (0.0, 0.0);
            for (high, _, a) in finite.iter().filter(|(_, class, _)| *class == 1) {
                for (low, _, b) in finite.iter().filter(|(_, class, _)| *class == 0) {
                    let pair = f64::from(*a) * f64::from(*b);
                    pairs += pair;
                    right += pair * if high > low { 1.0 } else if high == low { 0.5 } else { 0.0 };
                }
            }
            let auc = gathered(&finite, Thresholds::Exact).auc();
            prop_assert_eq!(auc.is_some(), pairs > 0.0);
            prop_assert!(auc.is_none_or(|auc| close(auc, right / pairs)), "{:?} {}", auc, right / pairs);
        }
    }
}
