//! Curves over all thresholds, from examples that are grouped by equal score.
//!
//! Going down the scores, each group adds its positives `p` and negatives `n` to those that the
//! threshold accepts. A group moves both rates at once, so examples of equal score count half as
//! ordered right and half as ordered wrong.

use serde::Serialize;

use super::confusion::ratio;

/// The examples of one score: the weights of the positive and of the negative ones.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Group {
    pub(super) threshold: f32,
    pub(super) positive: f64,
    pub(super) negative: f64,
}

/// A point of the ROC curve: what is accepted when every score from `threshold` up is.
///
/// The threshold is infinite at the first point, where nothing is accepted (`null` in JSON).
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct RocPoint {
    /// The lowest accepted score.
    pub threshold: f32,
    /// The share of the negatives that are accepted.
    pub false_positive_rate: f64,
    /// The share of the positives that are accepted.
    pub true_positive_rate: f64,
}

/// A point of the precision-recall curve: what is accepted when every score from `threshold` up is.
///
/// The threshold is infinite at the first point, where nothing is accepted (`null` in JSON).
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct PrecisionRecallPoint {
    /// The lowest accepted score.
    pub threshold: f32,
    /// Of what is accepted, the share that is positive; 1 where nothing is.
    pub precision: f64,
    /// The share of the positives that are accepted.
    pub recall: f64,
}

/// The groups of equal score, highest first, and their sums.
pub(super) struct Curve {
    groups: Vec<Group>,
    pub(super) positive: f64,
    pub(super) negative: f64,
}

impl Curve {
    /// A curve of groups that stand in falling order of their thresholds.
    pub(super) fn new(groups: Vec<Group>) -> Self {
        // Not `sum`, which is −0 for no floats and would be displayed so.
        let (positive, negative) =
            groups.iter().fold((0.0, 0.0), |(p, n), group| (p + group.positive, n + group.negative));
        Self { groups, positive, negative }
    }

    /// The threshold, positives and negatives accepted after each group.
    fn accepted(&self) -> impl Iterator<Item = Group> {
        self.groups.iter().scan((0.0, 0.0), |(positive, negative), group| {
            *positive += group.positive;
            *negative += group.negative;
            Some(Group { threshold: group.threshold, positive: *positive, negative: *negative })
        })
    }

    pub(super) fn roc(&self) -> Vec<RocPoint> {
        let start = RocPoint { threshold: f32::INFINITY, false_positive_rate: 0.0, true_positive_rate: 0.0 };
        let point = |accepted: Group| RocPoint {
            threshold: accepted.threshold,
            false_positive_rate: ratio(accepted.negative, self.negative),
            true_positive_rate: ratio(accepted.positive, self.positive),
        };
        std::iter::once(start).chain(self.accepted().map(point)).collect()
    }

    pub(super) fn precision_recall(&self) -> Vec<PrecisionRecallPoint> {
        let start = PrecisionRecallPoint { threshold: f32::INFINITY, precision: 1.0, recall: 0.0 };
        let point = |accepted: Group| PrecisionRecallPoint {
            threshold: accepted.threshold,
            precision: ratio(accepted.positive, accepted.positive + accepted.negative),
            recall: ratio(accepted.positive, self.positive),
        };
        std::iter::once(start).chain(self.accepted().map(point)).collect()
    }

    /// The area under the ROC curve by trapezoids, `Σ n · (P_before + P_after) / 2` over `P · N`; `None` of one class.
    pub(super) fn area(&self) -> Option<f64> {
        let all = self.positive * self.negative;
        let trapezoids = self.accepted().zip(&self.groups);
        let area: f64 = trapezoids.map(|(after, group)| group.negative * (after.positive - group.positive / 2.0)).sum();
        (all > 0.0).then(|| area / all)
    }

    /// `Σ precision · (rise in recall)`, the step rule; `None` without positives.
    pub(super) fn precision_recall_area(&self) -> Option<f64> {
        let steps = self.accepted().zip(&self.groups);
        let area: f64 =
            steps.map(|(after, group)| ratio(after.positive, after.positive + after.negative) * group.positive).sum();
        (self.positive > 0.0).then(|| area / self.positive)
    }
}
