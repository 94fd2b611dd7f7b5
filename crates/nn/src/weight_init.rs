use serde::{Deserialize, Serialize};

use crate::random::Counted;

/// How weights start. `i` is the fan in, `o` the fan out; N(v) is normal with variance v, U(r) uniform in −r..r.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum WeightInit {
    /// Drawn from a stated distribution.
    Distribution(Distribution),
    /// All 0.
    Zero,
    /// All 1.
    Ones,
    /// The identity matrix; square weights only.
    Identity,
    /// N(1/i)
    Normal,
    /// U(1/√i)
    Uniform,
    /// N(2/(i+o)) (Glorot and Bengio 2010)
    #[default]
    Xavier,
    /// U(√(6/(i+o)))
    XavierUniform,
    /// N(1/i)
    XavierFanIn,
    /// N(2/i) (He et al. 2015)
    Relu,
    /// U(√(6/i))
    ReluUniform,
    /// U(4√(6/(i+o)))
    SigmoidUniform,
    /// N(1/i) (LeCun et al. 1998)
    LecunNormal,
    /// U(√(3/i))
    LecunUniform,
    /// N(1/i), cut at two deviations
    VarScalingNormalFanIn,
    /// N(1/o), cut at two deviations
    VarScalingNormalFanOut,
    /// N(2/(i+o)), cut at two deviations
    VarScalingNormalFanAvg,
    /// U(√(3/i))
    VarScalingUniformFanIn,
    /// U(√(3/o))
    VarScalingUniformFanOut,
    /// U(√(6/(i+o)))
    VarScalingUniformFanAvg,
}

/// A distribution to draw weights from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Distribution {
    /// Normal.
    Normal {
        /// Mean.
        #[serde(default)]
        mean: f64,
        /// Standard deviation.
        deviation: f64,
    },
    /// Normal, drawn again beyond two deviations.
    TruncatedNormal {
        /// Mean.
        #[serde(default)]
        mean: f64,
        /// Standard deviation.
        deviation: f64,
    },
    /// ln of it is normal.
    LogNormal {
        /// Mean of the logarithm.
        mean: f64,
        /// Standard deviation of the logarithm.
        deviation: f64,
    },
    /// Uniform.
    Uniform {
        /// Least value.
        lower: f64,
        /// Largest value.
        upper: f64,
    },
    /// The same value everywhere.
    Constant {
        /// The value.
        value: f64,
    },
    /// The number of successes of `trials` with the given probability.
    Binomial {
        /// Number of trials.
        trials: u32,
        /// Probability of success.
        probability: f64,
    },
    /// An orthogonal matrix times `gain` (Saxe et al. 2013).
    Orthogonal {
        /// Scale.
        #[serde(default = "one")]
        gain: f64,
    },
}

fn one() -> f64 {
    1.0
}

impl WeightInit {
    /// What is wrong with the settings, if anything.
    pub(crate) fn problem(&self) -> Option<String> {
        let WeightInit::Distribution(distribution) = self else { return None };
        let found = serde_json::to_string(distribution).unwrap_or_default();
        let wrong = |expected: &str| Some(format!("`weight_init`: expected {expected}, found {found}"));
        match *distribution {
            Distribution::Normal { mean, deviation }
            | Distribution::TruncatedNormal { mean, deviation }
            | Distribution::LogNormal { mean, deviation }
                if !(mean.is_finite() && (0.0..f64::INFINITY).contains(&deviation)) =>
            {
                wrong("a `mean` that is a number and a `deviation` of 0 or more")
            }
            Distribution::Uniform { lower, upper } if !(lower.is_finite() && upper.is_finite() && lower <= upper) => {
                wrong("`lower` ≤ `upper`")
            }
            Distribution::Constant { value: number } | Distribution::Orthogonal { gain: number }
                if !number.is_finite() =>
            {
                wrong("a number")
            }
            Distribution::Binomial { probability, .. } if !(0.0..=1.0).contains(&probability) => {
                wrong("a `probability` from 0 to 1")
            }
            _ => None,
        }
    }
}

/// What a weight is connected to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fan {
    /// Numbers that one output is made of.
    pub inputs: usize,
    /// Numbers that one input goes into.
    pub outputs: usize,
}

impl WeightInit {
    /// Fills `weights`, a matrix of rows by `columns`, from the counted stream.
    pub fn fill(&self, weights: &mut [f32], columns: usize, fan: Fan, stream: Counted) {
        let (i, o) = (fan.inputs as f64, fan.outputs as f64);
        let uniform = |range: f64| Distribution::Uniform { lower: -range, upper: range };
        let normal = |variance: f64| Distribution::Normal { mean: 0.0, deviation: variance.sqrt() };
        let cut = |variance: f64| Distribution::TruncatedNormal { mean: 0.0, deviation: variance.sqrt() };
        let distribution = match self {
            WeightInit::Distribution(distribution) => distribution.clone(),
            WeightInit::Zero => Distribution::Constant { value: 0.0 },
            WeightInit::Ones => Distribution::Constant { value: 1.0 },
            WeightInit::Identity => {
                weights.fill(0.0);
                weights.iter_mut().step_by(columns + 1).for_each(|w| *w = 1.0);
                return;
            }
            WeightInit::Normal | WeightInit::XavierFanIn | WeightInit::LecunNormal => normal(1.0 / i),
            WeightInit::Uniform => uniform(1.0 / i.sqrt()),
            WeightInit::Xavier => normal(2.0 / (i + o)),
            WeightInit::XavierUniform | WeightInit::VarScalingUniformFanAvg => uniform((6.0 / (i + o)).sqrt()),
            WeightInit::Relu => normal(2.0 / i),
            WeightInit::ReluUniform => uniform((6.0 / i).sqrt()),
            WeightInit::SigmoidUniform => uniform(4.0 * (6.0 / (i + o)).sqrt()),
            WeightInit::LecunUniform | WeightInit::VarScalingUniformFanIn => uniform((3.0 / i).sqrt()),
            WeightInit::VarScalingNormalFanIn => cut(1.0 / i),
            WeightInit::VarScalingNormalFanOut => cut(1.0 / o),
            WeightInit::VarScalingNormalFanAvg => cut(2.0 / (i + o)),
            WeightInit::VarScalingUniformFanOut => uniform((3.0 / o).sqrt()),
        };
        distribution.fill(weights, columns, stream);
    }
}

impl Distribution {
    fn fill(&self, weights: &mut [f32], columns: usize, stream: Counted) {
        if let Distribution::Orthogonal { gain } = self {
            return fill_orthogonal(weights, columns, *gain, stream);
        }
        for (index, weight) in weights.iter_mut().enumerate() {
            *weight = self.draw(stream, index as u32) as f32;
        }
    }

    fn draw(&self, stream: Counted, index: u32) -> f64 {
        match *self {
            Distribution::Normal { mean, deviation } => mean + deviation * stream.normal(index),
            Distribution::LogNormal { mean, deviation } => (mean + deviation * stream.normal(index)).exp(),
            Distribution::TruncatedNormal { mean, deviation } => {
                // Each try has a stream of its own, so that elements do not depend on each other.
                let tries = (0..).map(|n| Counted::new(u64::from(stream.bits(index)), n, 0, 0).normal(index));
                let draw =
                    tries.into_iter().find(|z| z.abs() <= 2.0).expect("19 of 20 draws are within two deviations");
                mean + deviation * draw
            }
            Distribution::Uniform { lower, upper } => lower + (upper - lower) * f64::from(stream.uniform(index)),
            Distribution::Constant { value } => value,
            Distribution::Binomial { trials, probability } => {
                let own = Counted::new(u64::from(stream.bits(index)), 1, 0, u64::from(index));
                (0..trials).filter(|&n| f64::from(own.uniform(n)) < probability).count() as f64
            }
            Distribution::Orthogonal { .. } => unreachable!("filled as a whole"),
        }
    }
}

/// Gram and Schmidt over normal rows (or columns, if there are fewer of them), in f64.
fn fill_orthogonal(weights: &mut [f32], columns: usize, gain: f64, stream: Counted) {
    let rows = weights.len() / columns;
    let (count, length) = (rows.min(columns), rows.max(columns));
    let mut basis: Vec<Vec<f64>> = Vec::with_capacity(count);
    for v in 0..count {
        let mut vector: Vec<f64> = (0..length).map(|e| stream.normal((v * length + e) as u32)).collect();
        for _ in 0..2 {
            for other in &basis {
                let dot: f64 = vector.iter().zip(other).map(|(a, b)| a * b).sum();
                vector.iter_mut().zip(other).for_each(|(a, b)| *a -= dot * b);
            }
        }
        let norm = vector.iter().map(|a| a * a).sum::<f64>().sqrt();
        vector.iter_mut().for_each(|a| *a /= norm);
        basis.push(vector);
    }
    for (index, weight) in weights.iter_mut().enumerate() {
        let (row, column) = (index / columns, index % columns);
        *weight = (gain * if rows <= columns { basis[row][column] } else { basis[column][row] }) as f32;
    }
}

#[cfg(test)]
mod tests {
    use super::{Counted, Distribution, Fan, WeightInit};

    fn draw(init: &WeightInit) -> Vec<f32> {
        let mut weights = vec![0.0; 200 * 100];
        init.fill(&mut weights, 100, Fan { inputs: 200, outputs: 100 }, Counted::new(1, 2, 3, 4));
        weights
    }

    fn variance(weights: &[f32]) -> f64 {
        weights.iter().map(|w| f64::from(*w).powi(2)).sum::<f64>() / weights.len() as f64
    }

    #[test]
    fn each_kind_has_the_variance_that_its_formula_says() {
        let cases = [
            (WeightInit::Xavier, 2.0 / 300.0),
            (WeightInit::XavierUniform, 2.0 / 300.0),
            (WeightInit::Relu, 2.0 / 200.0),
            (WeightInit::ReluUniform, 2.0 / 200.0),
            (WeightInit::LecunNormal, 1.0 / 200.0),
            (WeightInit::LecunUniform, 1.0 / 200.0),
            (WeightInit::Uniform, 1.0 / 600.0),
            (WeightInit::SigmoidUniform, 16.0 * 2.0 / 300.0),
            (WeightInit::VarScalingUniformFanOut, 1.0 / 100.0),
            // A normal distribution that is cut at two deviations keeps 77.4 % of its variance.
            (WeightInit::VarScalingNormalFanAvg, 0.7737 * 2.0 / 300.0),
            (WeightInit::VarScalingNormalFanOut, 0.7737 / 100.0),
        ];
        for (init, expected) in cases {
            let found = variance(&draw(&init));
            assert!((found / expected - 1.0).abs() < 0.04, "{init:?}: {found} is not {expected}");
        }
    }

    #[test]
    fn orthogonal_columns_have_unit_length_and_right_angles() {
        let weights = draw(&WeightInit::Distribution(Distribution::Orthogonal { gain: 1.0 }));
        let dot = |a: usize, b: usize| (0..200).map(|r| weights[r * 100 + a] * weights[r * 100 + b]).sum::<f32>();
        assert!((dot(3, 3) - 1.0).abs() < 1e-5 && dot(3, 4).abs() < 1e-5);
    }

    #[test]
    fn identity_has_ones_on_its_diagonal_only() {
        let mut weights = vec![5.0; 9];
        WeightInit::Identity.fill(&mut weights, 3, Fan { inputs: 3, outputs: 3 }, Counted::new(0, 0, 0, 0));
        assert_eq!(weights, [1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0]);
    }
}
