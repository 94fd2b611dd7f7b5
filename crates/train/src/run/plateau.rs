use serde::{Deserialize, Serialize};

use super::metric::Metric;
use crate::Error;

/// When learning rates fall: the model is judged again and again, and does not get better.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Plateau {
    /// What the model is judged by, on the test data.
    pub metric: Metric,
    /// What rates are multiplied by each time.
    pub factor: f64,
    /// Evaluations in a row without an improvement that are borne; at the next one rates fall.
    pub patience: u64,
    /// The least that counts as an improvement.
    pub improvement: f64,
    /// Evaluations behind a fall that are not counted.
    pub cooldown: u64,
    /// Rates do not fall below this share of what they would be.
    pub least: f64,
}

impl Default for Plateau {
    fn default() -> Self {
        Self { metric: Metric::default(), factor: 0.1, patience: 10, improvement: 1e-4, cooldown: 0, least: 0.0 }
    }
}

impl Plateau {
    /// Fails with the setting that makes no sense.
    pub fn validate(&self) -> Result<(), Error> {
        let bad =
            |setting, expected, found: f64| Err(Error::BadSetting { setting, expected, found: found.to_string() });
        let Self { factor, improvement, least, .. } = *self;
        if !(factor > 0.0 && factor < 1.0) {
            return bad("train.plateau.factor", "above 0 and below 1", factor);
        }
        if !(improvement.is_finite() && improvement >= 0.0) {
            return bad("train.plateau.improvement", "0 or more", improvement);
        }
        if !(0.0..1.0).contains(&least) {
            return bad("train.plateau.least", "0 or more, and below 1", least);
        }
        Ok(())
    }
}

/// How far rates have fallen, and why they may fall again; a checkpoint keeps it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fallen {
    /// What rates are multiplied by, as bits; they have not fallen if there are none.
    factor: Option<u64>,
    /// The best value so far, as bits: a decimal that is read back must be the very number that was written.
    best: Option<u64>,
    /// Evaluations since.
    since: u64,
    /// Evaluations that are not counted.
    cooling: u64,
}

impl Fallen {
    /// What all rates are multiplied by.
    pub fn factor(&self) -> f64 {
        self.factor.map_or(1.0, f64::from_bits)
    }

    /// Takes the metric of another evaluation; says whether rates fall.
    pub fn judge(&mut self, value: f64, rule: &Plateau) -> bool {
        let gain = self.best.map(|best| rule.metric.gain(value, f64::from_bits(best)));
        if !value.is_nan() && gain.is_none_or(|gain| gain > rule.improvement) {
            (self.best, self.since) = (Some(value.to_bits()), 0);
        } else {
            self.since += 1;
        }
        if self.cooling > 0 {
            self.cooling -= 1;
            self.since = 0;
        }
        if self.since <= rule.patience {
            return false;
        }
        (self.since, self.cooling) = (0, rule.cooldown);
        let (before, after) = (self.factor(), (self.factor() * rule.factor).max(rule.least));
        self.factor = Some(after.to_bits());
        after < before
    }
}

#[cfg(test)]
mod tests {
    use super::{Fallen, Metric, Plateau};

    fn factors(rule: Plateau, values: &[f64]) -> Vec<f64> {
        let mut fallen = Fallen::default();
        let after = |value: &f64| {
            fallen.judge(*value, &rule);
            fallen.factor()
        };
        values.iter().map(after).collect()
    }

    /// What `torch.optim.lr_scheduler.ReduceLROnPlateau` (2.11) says with `threshold_mode="abs"`; the script is beside the fixtures of `nn`.
    #[test]
    fn rates_fall_where_those_of_pytorch_do() {
        let file = include_str!("../../tests/fixtures/plateau.json");
        let cases: Vec<(Plateau, Vec<f64>, Vec<f64>)> = serde_json::from_str(file).expect("a fixture");
        assert!(cases.len() > 4);
        for (rule, values, expected) in cases {
            let found = factors(rule, &values);
            assert!(expected.iter().any(|factor| *factor < 1.0));
            let is_near = |(a, b): (&f64, &f64)| (a - b).abs() <= 1e-12 * b;
            assert!(found.iter().zip(&expected).all(is_near), "{rule:?}: {found:?}, not {expected:?}");
        }
    }

    #[test]
    fn what_is_better_is_up_to_the_metric_and_no_number_is_never_better() {
        let rule = Plateau { patience: 0, factor: 0.5, ..Plateau::default() };
        let values = [1.0, 2.0, f64::NAN, 3.0];
        assert_eq!(factors(rule, &values), [1.0, 0.5, 0.25, 0.125]);
        assert_eq!(factors(Plateau { metric: Metric::R2, ..rule }, &values), [1.0, 1.0, 0.5, 0.5]);
        assert_eq!(factors(Plateau { least: 0.3, ..rule }, &values), [1.0, 0.5, 0.3, 0.3]);
    }
}
