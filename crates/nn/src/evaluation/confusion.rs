use serde::Serialize;

/// Precision, recall and F1 of a class, or averaged over classes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Scores {
    /// Of what was predicted to be the class, the share that is.
    pub precision: f64,
    /// Of what is the class, the share that was predicted to be.
    pub recall: f64,
    /// The harmonic mean of both.
    pub f1: f64,
}

impl Scores {
    /// `hits / predicted`, `hits / actual`, and `2 · hits / (predicted + actual)`.
    fn of(hits: f64, predicted: f64, actual: f64) -> Self {
        Self {
            precision: ratio(hits, predicted),
            recall: ratio(hits, actual),
            f1: ratio(2.0 * hits, predicted + actual),
        }
    }
}

/// `part / whole`, and 0 of nothing.
pub(super) fn ratio(part: f64, whole: f64) -> f64 {
    if whole == 0.0 { 0.0 } else { part / whole }
}

/// How often (by weight) each actual class was predicted to be each class, or could not be predicted.
///
/// A cell is a sum of weights in `f64`; without weights it is a count, exact up to 2⁵³.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Confusion {
    classes: usize,
    /// `classes × classes`, row = actual, column = predicted.
    cells: Vec<f64>,
    /// By actual class: examples whose outputs were not finite.
    unpredicted: Vec<f64>,
}

impl Confusion {
    pub(super) fn new(classes: usize) -> Self {
        Self { classes, cells: vec![0.0; classes * classes], unpredicted: vec![0.0; classes] }
    }

    pub(super) fn add(&mut self, actual: usize, predicted: Option<usize>, weight: f64) {
        match predicted {
            Some(predicted) => self.cells[actual * self.classes + predicted] += weight,
            None => self.unpredicted[actual] += weight,
        }
    }

    pub(super) fn merge(&mut self, other: &Self) {
        self.cells.iter_mut().zip(&other.cells).for_each(|(own, cell)| *own += cell);
        self.unpredicted.iter_mut().zip(&other.unpredicted).for_each(|(own, cell)| *own += cell);
    }

    pub(super) fn row(&self, actual: usize) -> &[f64] {
        &self.cells[actual * self.classes..(actual + 1) * self.classes]
    }

    pub(super) fn unpredicted(&self, actual: usize) -> f64 {
        self.unpredicted[actual]
    }

    /// What is `class`, predicted or not.
    pub(super) fn actual(&self, class: usize) -> f64 {
        self.row(class).iter().sum::<f64>() + self.unpredicted[class]
    }

    /// What was predicted to be `class`.
    pub(super) fn predicted(&self, class: usize) -> f64 {
        self.cells.iter().skip(class).step_by(self.classes).sum()
    }

    fn hits(&self) -> f64 {
        (0..self.classes).map(|class| self.row(class)[class]).sum()
    }

    pub(super) fn total(&self) -> f64 {
        self.cells.iter().chain(&self.unpredicted).sum()
    }

    pub(super) fn accuracy(&self) -> f64 {
        ratio(self.hits(), self.total())
    }

    pub(super) fn scores(&self, class: usize) -> Scores {
        Scores::of(self.row(class)[class], self.predicted(class), self.actual(class))
    }

    /// The plain mean over the classes that have examples or predictions.
    pub(super) fn macro_average(&self) -> Scores {
        let present = (0..self.classes).filter(|&class| self.actual(class) + self.predicted(class) > 0.0);
        let mut sum = Scores::default();
        let mut classes = 0.0;
        for scores in present.map(|class| self.scores(class)) {
            sum.precision += scores.precision;
            sum.recall += scores.recall;
            sum.f1 += scores.f1;
            classes += 1.0;
        }
        Scores {
            precision: ratio(sum.precision, classes),
            recall: ratio(sum.recall, classes),
            f1: ratio(sum.f1, classes),
        }
    }

    /// The scores of all decisions thrown together; all three are the accuracy when every output was finite.
    pub(super) fn micro_average(&self) -> Scores {
        Scores::of(self.hits(), self.cells.iter().sum(), self.total())
    }

    /// Matthews' correlation for several classes (Gorodkin 2004, "Comparing two K-category assignments"):
    ///
    /// ```text
    ///                c·s − Σ p_k·t_k
    /// ─────────────────────────────────────────      c hits, s examples,
    /// √(s² − Σ p_k²) · √(s² − Σ t_k²)                p_k predicted and t_k actual examples of class k
    /// ```
    ///
    /// What could not be predicted is one more class that is predicted and never actual.
    /// 0 when everything is, or is predicted to be, one class.
    pub(super) fn mcc(&self) -> f64 {
        let unpredicted: f64 = self.unpredicted.iter().sum();
        let s = self.total();
        let (mut both, mut predicted, mut actual) = (self.hits() * s, s * s - unpredicted * unpredicted, s * s);
        for class in 0..self.classes {
            let (p, t) = (self.predicted(class), self.actual(class));
            both -= p * t;
            predicted -= p * p;
            actual -= t * t;
        }
        // Sums of weights that are not whole leave a rounding error where the exact difference is 0.
        let negligible = 1e-12 * s * s;
        if predicted <= negligible || actual <= negligible { 0.0 } else { both / (predicted.sqrt() * actual.sqrt()) }
    }
}

#[cfg(test)]
mod tests {
    use super::{Confusion, Scores};

    #[test]
    fn nothing_gathered_gives_zeros_and_no_nan() {
        let confusion = Confusion::new(3);
        assert_eq!([confusion.accuracy(), confusion.mcc()], [0.0; 2]);
        assert_eq!([confusion.macro_average(), confusion.micro_average(), confusion.scores(2)], [Scores::default(); 3]);
    }

    #[test]
    fn mcc_is_1_for_all_right_and_0_for_a_constant_prediction() {
        let mut right = Confusion::new(3);
        (0..3).for_each(|class| right.add(class, Some(class), 0.3));
        assert!((right.mcc() - 1.0).abs() < 1e-12);
        let mut constant = Confusion::new(3);
        (0..30).for_each(|example| constant.add(example % 3, Some(1), 0.3));
        assert_eq!(constant.mcc(), 0.0);
    }
}
