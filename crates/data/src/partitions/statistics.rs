use serde::{Deserialize, Serialize};

use crate::normaliser::of_step;
use crate::source::for_each_piece;
use crate::{Error, Source};

/// What normalisers need to know of the features of some examples; that of several partitions can be put together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Statistics {
    /// Examples, or steps of sequences: a number means the same at each step, so that all steps are taken together.
    pub count: u64,
    /// The smallest value of each column; none without examples.
    pub minimum: Vec<Option<f32>>,
    /// The largest value of each column; none without examples.
    pub maximum: Vec<Option<f32>>,
    /// The mean of each column.
    pub mean: Vec<f64>,
    /// The squares of what each value of a column is from the mean, added up.
    pub squares: Vec<f64>,
}

impl Statistics {
    /// Of no examples.
    fn empty(width: usize) -> Self {
        let (minimum, maximum) = (vec![None; width], vec![None; width]);
        Self { count: 0, minimum, maximum, mean: vec![0.0; width], squares: vec![0.0; width] }
    }

    /// Of all examples of a source, in one pass and bounded memory.
    pub fn of(source: &dyn Source) -> Result<Self, Error> {
        let width = of_step(source);
        let is_sequence = width < source.shape().width();
        let mut all = Self::empty(width);
        for_each_piece(source, |batch| {
            // A step whose first number is NaN is padding.
            for row in batch.features.chunks_exact(width).filter(|row| !(is_sequence && row[0].is_nan())) {
                all.take(row);
            }
            Ok(())
        })?;
        Ok(all.repeated(source.shape().width() / width))
    }

    /// The same for every step of a sequence.
    fn repeated(self, steps: usize) -> Self {
        Self {
            count: self.count,
            minimum: self.minimum.repeat(steps),
            maximum: self.maximum.repeat(steps),
            mean: self.mean.repeat(steps),
            squares: self.squares.repeat(steps),
        }
    }

    fn take(&mut self, row: &[f32]) {
        self.count += 1;
        let share = 1.0 / self.count as f64;
        for (column, value) in row.iter().enumerate() {
            self.minimum[column] = Some(self.minimum[column].map_or(*value, |least| least.min(*value)));
            self.maximum[column] = Some(self.maximum[column].map_or(*value, |most| most.max(*value)));
            // Welford 1962, as for a source that is seen whole.
            let delta = f64::from(*value) - self.mean[column];
            self.mean[column] += delta * share;
            self.squares[column] += delta * (f64::from(*value) - self.mean[column]);
        }
    }

    /// Of these examples and those (Chan, Golub, LeVeque 1979).
    pub(super) fn and(mut self, other: &Self) -> Self {
        let least = |a: Option<f32>, b: Option<f32>| a.map_or(b, |a| Some(b.map_or(a, |b| a.min(b))));
        let most = |a: Option<f32>, b: Option<f32>| a.map_or(b, |a| Some(b.map_or(a, |b| a.max(b))));
        let (before, more) = (self.count as f64, other.count as f64);
        let all = (before + more).max(1.0);
        for column in 0..self.mean.len() {
            self.minimum[column] = least(self.minimum[column], other.minimum[column]);
            self.maximum[column] = most(self.maximum[column], other.maximum[column]);
            let delta = other.mean[column] - self.mean[column];
            self.mean[column] += delta * (more / all);
            self.squares[column] += other.squares[column] + delta * delta * (before * more / all);
        }
        self.count += other.count;
        self
    }

    /// Whether there is one of each for every column.
    pub(super) fn fits(&self, width: usize) -> bool {
        let lengths = [self.minimum.len(), self.maximum.len(), self.mean.len(), self.squares.len()];
        lengths.iter().all(|length| *length == width)
    }
}

#[cfg(test)]
mod tests {
    use paceline_model::Targets;

    use super::*;
    use crate::{Arrays, ExampleShape, TargetShape};

    fn rows(values: &[f32]) -> Arrays {
        let shape = ExampleShape { features: vec![2], targets: TargetShape::None };
        Arrays::new(values.to_vec(), shape, Targets::None).expect("rows of two")
    }

    #[test]
    fn what_partitions_come_to_is_what_the_whole_does() {
        let values: Vec<f32> = (0..40u16).map(|at| f32::from(at * 7 % 11) + 1e4).collect();
        let whole = Statistics::of(&rows(&values)).expect("it is read");
        for cut in [0, 2, 14, 40] {
            let part = |values: &[f32]| Statistics::of(&rows(values)).expect("it is read");
            let merged = part(&values[..cut]).and(&part(&values[cut..]));
            assert_eq!((merged.count, &merged.minimum, &merged.maximum), (20, &whole.minimum, &whole.maximum));
            for (found, expected) in
                merged.mean.iter().chain(&merged.squares).zip(whole.mean.iter().chain(&whole.squares))
            {
                assert!((found - expected).abs() <= 1e-9 * expected.abs().max(1.0), "{cut}: {found} {expected}");
            }
        }
    }
}
