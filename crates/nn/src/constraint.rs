use serde::{Deserialize, Serialize};

/// What weights must hold after every update. Norms are those of the weights that go into one output.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Constraint {
    /// No norm above `norm`.
    MaxNorm {
        /// Largest norm.
        norm: f32,
    },
    /// Norms between both.
    MinMaxNorm {
        /// Least norm.
        min: f32,
        /// Largest norm.
        max: f32,
        /// 1 moves all the way to the nearer bound, less moves part of the way.
        #[serde(default = "one")]
        rate: f32,
    },
    /// No weight below 0.
    NonNegative,
    /// Norms of 1.
    UnitNorm,
}

fn one() -> f32 {
    1.0
}

impl Constraint {
    /// What cannot be, if anything.
    pub(crate) fn problem(self) -> Option<String> {
        match self {
            Constraint::MaxNorm { norm } if !(norm > 0.0 && norm.is_finite()) => {
                Some(format!("`norm` must be above 0, found {norm}"))
            }
            Constraint::MinMaxNorm { min, max, rate }
                if !(0.0 <= min && min <= max && max.is_finite() && (0.0..=1.0).contains(&rate)) =>
            {
                Some(format!("expected 0 ≤ `min` ≤ `max` and `rate` from 0 to 1, found {min}, {max} and {rate}"))
            }
            _ => None,
        }
    }

    /// Projects `weights`, whose last dimension has `outputs` entries.
    pub(crate) fn project(self, weights: &mut [f32], outputs: usize) {
        if self == Constraint::NonNegative {
            weights.iter_mut().for_each(|w| *w = w.max(0.0));
            return;
        }
        for output in 0..outputs {
            let squares: f32 = weights[output..].iter().step_by(outputs).map(|w| w * w).sum();
            let norm = squares.sqrt();
            let wanted = match self {
                Constraint::MaxNorm { norm: most } => norm.min(most),
                Constraint::MinMaxNorm { min, max, rate } => rate * norm.clamp(min, max) + (1.0 - rate) * norm,
                Constraint::UnitNorm => 1.0,
                Constraint::NonNegative => unreachable!("done above"),
            };
            // A column of zeros has no direction to scale.
            if norm > 0.0 && wanted != norm {
                let scale = wanted / norm;
                weights[output..].iter_mut().step_by(outputs).for_each(|w| *w *= scale);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Constraint;

    fn norms(constraint: Constraint) -> [f32; 3] {
        // Columns with norms 5, 0.5 and 0.
        let mut weights = [3.0, 0.3, 0.0, -4.0, 0.4, 0.0];
        constraint.project(&mut weights, 3);
        [0, 1, 2].map(|c| (weights[c] * weights[c] + weights[c + 3] * weights[c + 3]).sqrt())
    }

    fn assert_close(found: [f32; 3], expected: [f32; 3]) {
        assert!(found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-6), "{found:?} is not {expected:?}");
    }

    #[test]
    fn norms_end_where_the_constraint_wants_them() {
        assert_close(norms(Constraint::MaxNorm { norm: 2.0 }), [2.0, 0.5, 0.0]);
        assert_close(norms(Constraint::UnitNorm), [1.0, 1.0, 0.0]);
        assert_close(norms(Constraint::MinMaxNorm { min: 1.0, max: 2.0, rate: 1.0 }), [2.0, 1.0, 0.0]);
        assert_close(norms(Constraint::MinMaxNorm { min: 1.0, max: 2.0, rate: 0.5 }), [3.5, 0.75, 0.0]);
        assert_close(norms(Constraint::NonNegative), [3.0, 0.5, 0.0]);
    }
}
