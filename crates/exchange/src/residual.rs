use serde::{Deserialize, Serialize};

use crate::{Error, Instructions};

/// Clips the residual to some thresholds every few steps, so that what is old does not pile up.
///
/// DL4J clips to 5 thresholds every 5 steps. What is clipped is lost, and is told so that the sum can be accounted for.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Clipping {
    /// Steps from one clipping to the next.
    pub every: u64,
    /// How many thresholds an element may keep.
    pub thresholds: f32,
}

impl Clipping {
    /// Fails with the setting that makes no sense.
    pub fn validate(&self) -> Result<(), Error> {
        let Self { every, thresholds } = *self;
        if every == 0 {
            return Err(Error::BadSetting { setting: "every", expected: "at least 1", found: 0.0 });
        }
        if !(thresholds.is_finite() && thresholds > 0.0) {
            let found = f64::from(thresholds);
            return Err(Error::BadSetting { setting: "thresholds", expected: "finite and above 0", found });
        }
        Ok(())
    }

    /// What to clip to after step `step`, counted from 0, was encoded with `threshold`; `None` if it is not its turn.
    pub fn limit_after(&self, step: u64, threshold: f32) -> Option<f32> {
        (step % self.every == self.every - 1).then_some(self.thresholds * threshold)
    }
}

/// What was taken from a residual.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Clipped {
    /// The number of elements that were beyond the limit.
    pub elements: usize,
    /// The sum of the magnitudes that were taken away.
    pub mass: f64,
}

/// The size of a residual.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Norms {
    /// The sum of the magnitudes.
    pub l1: f64,
    /// The square root of the sum of the squares.
    pub l2: f64,
}

impl Norms {
    pub(crate) fn of(instructions: Instructions, residual: &[f32]) -> Self {
        instructions.run(
            #[inline(always)]
            || Self::sum(residual),
        )
    }

    #[inline(always)]
    fn sum(residual: &[f32]) -> Self {
        /// As many sums as the widest registers take, so that they do not wait for each other.
        const SUMS: usize = 16;
        let (mut magnitudes, mut squares) = ([0.0; SUMS], [0.0; SUMS]);
        let (whole, rest) = residual.as_chunks::<SUMS>();
        let mut last = [0.0; SUMS];
        last[..rest.len()].copy_from_slice(rest);
        for chunk in whole.iter().chain([&last]) {
            for (lane, value) in chunk.iter().enumerate() {
                let value = f64::from(*value);
                magnitudes[lane] += value.abs();
                squares[lane] += value * value;
            }
        }
        Self { l1: magnitudes.iter().sum(), l2: squares.iter().sum::<f64>().sqrt() }
    }
}

/// Takes what is beyond `limit` on either side. A limit that is negative or no number takes nothing.
pub(crate) fn clip(residual: &mut [f32], limit: f32) -> Clipped {
    let mut clipped = Clipped::default();
    if limit.is_nan() || limit < 0.0 {
        return clipped;
    }
    for value in residual {
        if value.abs() > limit {
            clipped.elements += 1;
            clipped.mass += f64::from(value.abs()) - f64::from(limit);
            *value = limit.copysign(*value);
        }
    }
    clipped
}

#[cfg(test)]
mod tests {
    use super::{Clipping, Norms, clip};
    use crate::Instructions;

    #[test]
    fn what_is_clipped_is_what_is_missing() {
        let mut residual: Vec<f32> = (0..100).map(|i| (i as f32 - 50.0) / 10.0).collect();
        let norms = |residual: &[f32]| Norms::of(Instructions::detect(), residual);
        let before = norms(&residual).l1;
        let clipped = clip(&mut residual, 2.0);
        assert_eq!(clipped.elements, 30 + 29);
        assert!((before - norms(&residual).l1 - clipped.mass).abs() < 1e-9);
        assert!(residual.iter().all(|value| value.abs() <= 2.0));
        assert_eq!(residual[0], -2.0);
        assert_eq!(clip(&mut residual, f32::NAN).elements, 0);
    }

    #[test]
    fn norms_are_those_of_the_definition() {
        let residual: Vec<f32> = (0..37).map(|i| i as f32 - 18.0).collect();
        for instructions in Instructions::available() {
            let norms = Norms::of(instructions, &residual);
            assert_eq!(norms.l1, 2.0 * 171.0);
            assert_eq!(norms.l2, (2.0 * 2109.0f64).sqrt());
        }
    }

    #[test]
    fn clipping_comes_every_few_steps() {
        let clipping = Clipping { every: 5, thresholds: 3.0 };
        let limits: Vec<_> = (0..10).filter_map(|step| clipping.limit_after(step, 0.5).map(|l| (step, l))).collect();
        assert_eq!(limits, [(4, 1.5), (9, 1.5)]);
        clipping.validate().expect("good settings");
        let error = Clipping { every: 0, ..clipping }.validate().expect_err("no steps");
        assert_eq!(error.to_string(), "`every`: expected at least 1, found 0");
        Clipping { thresholds: f32::NAN, ..clipping }.validate().expect_err("no number");
    }
}
