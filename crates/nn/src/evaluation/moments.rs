/// The means and centred second moments of pairs of numbers, and their differences.
///
/// Two parts `a` and `b` of weights `w` merge after Chan, Golub and LeVeque (1979), and a single pair
/// is a part without spread, which gives Welford's update:
///
/// ```text
/// δ  = mean_b − mean_a
/// mean = mean_a + δ · w_b / w
/// M2 = M2_a + M2_b + δ² · w_a · w_b / w       and likewise δx · δy for the co-moment
/// ```
///
/// Sums of plain squares would cancel where the mean is large beside the spread.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Moments {
    weight: f64,
    output_mean: f64,
    target_mean: f64,
    output_square: f64,
    target_square: f64,
    product: f64,
    squared_error: f64,
    absolute_error: f64,
}

impl Moments {
    /// The moments of one pair.
    pub(super) fn of(output: f64, target: f64, weight: f64) -> Self {
        let error = output - target;
        Self {
            weight,
            output_mean: output,
            target_mean: target,
            squared_error: weight * error * error,
            absolute_error: weight * error.abs(),
            ..Self::default()
        }
    }

    pub(super) fn merge(&mut self, other: &Self) {
        if other.weight == 0.0 {
            return;
        }
        let weight = self.weight + other.weight;
        let share = other.weight / weight;
        let between = self.weight * share;
        let output = other.output_mean - self.output_mean;
        let target = other.target_mean - self.target_mean;
        self.weight = weight;
        self.output_mean += output * share;
        self.target_mean += target * share;
        self.output_square += other.output_square + output * output * between;
        self.target_square += other.target_square + target * target * between;
        self.product += other.product + output * target * between;
        self.squared_error += other.squared_error;
        self.absolute_error += other.absolute_error;
    }

    pub(super) fn weight(&self) -> f64 {
        self.weight
    }

    pub(super) fn mean_squared_error(&self) -> Option<f64> {
        (self.weight > 0.0).then(|| self.squared_error / self.weight)
    }

    pub(super) fn mean_absolute_error(&self) -> Option<f64> {
        (self.weight > 0.0).then(|| self.absolute_error / self.weight)
    }

    /// `1 − Σ (output − target)² / Σ (target − mean)²`; `None` when the targets do not vary.
    pub(super) fn r2(&self) -> Option<f64> {
        (self.target_square > 0.0).then(|| 1.0 - self.squared_error / self.target_square)
    }

    /// The covariance over both standard deviations; `None` when the outputs or the targets do not vary.
    pub(super) fn pearson(&self) -> Option<f64> {
        let spread = (self.output_square * self.target_square).sqrt();
        (spread > 0.0).then(|| (self.product / spread).clamp(-1.0, 1.0))
    }
}
