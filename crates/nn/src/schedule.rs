use paceline_model::Progress;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// How a rate changes over a run: a plain number, or a table with one of these names.
///
/// `t` is the number of steps taken so far, or of epochs completed if `per = "epoch"`.
#[derive(Clone, Debug, PartialEq)]
pub enum Schedule {
    /// The same value always.
    Fixed(f64),
    /// One of the rules that change it.
    Changing(Rule),
}

/// The rules by which a rate changes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Rule {
    /// initial · gammaᵗ
    Exponential {
        /// The value at the start.
        initial: f64,
        /// The factor of every step.
        gamma: f64,
        /// What is counted.
        #[serde(default)]
        per: Per,
    },
    /// initial / (1 + gamma · t)^power
    Inverse {
        /// The value at the start.
        initial: f64,
        /// How fast it falls.
        gamma: f64,
        /// The exponent.
        power: f64,
        /// What is counted.
        #[serde(default)]
        per: Per,
    },
    /// The value of the last entry whose start has come; the first entry must start at 0.
    Map {
        /// Pairs of start and value.
        values: Vec<(u64, f64)>,
        /// What is counted.
        #[serde(default)]
        per: Per,
    },
    /// initial · (1 − t / steps)^power, 0 from `steps` on
    Poly {
        /// The value at the start.
        initial: f64,
        /// The exponent.
        power: f64,
        /// When it reaches 0.
        steps: u64,
        /// What is counted.
        #[serde(default)]
        per: Per,
    },
    /// Half a cosine from initial down to `end` during `steps`, then `end` (Loshchilov and Hutter 2016)
    Cosine {
        /// The value at the start.
        initial: f64,
        /// The value at the end.
        #[serde(default)]
        end: f64,
        /// When it gets there.
        steps: u64,
        /// What is counted.
        #[serde(default)]
        per: Per,
    },
    /// One cycle over the whole run (Smith and Topin 2017), as PyTorch has it: up along half a cosine, and down along another
    OneCycle {
        /// The value at the top.
        peak: f64,
        /// The length of the whole.
        steps: u64,
        /// The share of `steps` that goes up.
        #[serde(default = "three_tenths")]
        rise: f64,
        /// The value at the start, as a share of `peak`.
        #[serde(default = "twentyfifth")]
        first: f64,
        /// The value at the end, as a share of that at the start.
        #[serde(default = "ten_thousandth")]
        last: f64,
        /// What is counted.
        #[serde(default)]
        per: Per,
    },
    /// Rises in a line from value / steps to `value` during `steps`, then stays; `value` may change as well
    #[serde(alias = "warm_up")]
    Ramp {
        /// The value at the end: a number, or another schedule.
        value: Box<Schedule>,
        /// How long it rises.
        steps: u64,
        /// What is counted.
        #[serde(default)]
        per: Per,
    },
    /// initial / (1 + e^(gamma · (t − center)))
    Sigmoid {
        /// The value long before the center.
        initial: f64,
        /// How steep it falls.
        gamma: f64,
        /// Where it is half.
        center: u64,
        /// What is counted.
        #[serde(default)]
        per: Per,
    },
    /// initial · decay^⌊t / every⌋
    Step {
        /// The value at the start.
        initial: f64,
        /// The factor of every stair.
        decay: f64,
        /// The length of a stair.
        every: u64,
        /// What is counted.
        #[serde(default)]
        per: Per,
    },
    /// One cycle (Smith 2018): up in a line from initial to peak in the first half of what annealing leaves, down again,
    /// then a tail that falls by the factor `annealing`
    Cycle {
        /// The value at both ends of the cycle.
        initial: f64,
        /// The value in the middle.
        peak: f64,
        /// The length of the whole.
        length: u64,
        /// The length of the tail.
        #[serde(default)]
        tail: u64,
        /// What the tail falls to, as a share of `initial`.
        #[serde(default = "tenth")]
        annealing: f64,
        /// What is counted.
        #[serde(default)]
        per: Per,
    },
}

fn tenth() -> f64 {
    0.1
}
fn three_tenths() -> f64 {
    0.3
}
fn twentyfifth() -> f64 {
    0.04
}
fn ten_thousandth() -> f64 {
    1e-4
}

/// Along half a cosine: `from` at share 0, `to` at share 1.
fn half_a_cosine(from: f64, to: f64, share: f64) -> f64 {
    to + (from - to) * 0.5 * (1.0 + (std::f64::consts::PI * share).cos())
}

/// What a schedule counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Per {
    /// Steps.
    #[default]
    Iteration,
    /// Epochs.
    Epoch,
}

impl Schedule {
    /// The value at this point of a run.
    pub fn at(&self, progress: Progress) -> f64 {
        match self {
            Schedule::Fixed(value) => *value,
            Schedule::Changing(rule) => rule.at(progress),
        }
    }

    /// The values that it starts from, comes to or passes.
    fn levels(&self) -> Vec<f64> {
        match self {
            Schedule::Fixed(value) => vec![*value],
            Schedule::Changing(rule) => rule.levels(),
        }
    }

    /// What is wrong with the values, if anything: all must be 0 or more, and less than `below`.
    pub(crate) fn problem(&self, key: &str, below: f64) -> Option<String> {
        if let Some(value) = self.levels().into_iter().find(|value| !(0.0..below).contains(value)) {
            let range = if below == f64::INFINITY { String::new() } else { format!(" and less than {below}") };
            return Some(format!("`{key}` must be 0 or more{range}, found {value}"));
        }
        self.rule_problem().map(|problem| format!("`{key}`: {problem}"))
    }

    fn rule_problem(&self) -> Option<&'static str> {
        match self {
            Schedule::Fixed(_) => None,
            Schedule::Changing(rule) => rule.problem(),
        }
    }
}

impl Rule {
    fn per(&self) -> Per {
        match self {
            Rule::Exponential { per, .. }
            | Rule::Inverse { per, .. }
            | Rule::Map { per, .. }
            | Rule::Poly { per, .. }
            | Rule::Ramp { per, .. }
            | Rule::Sigmoid { per, .. }
            | Rule::Step { per, .. }
            | Rule::Cosine { per, .. }
            | Rule::OneCycle { per, .. }
            | Rule::Cycle { per, .. } => *per,
        }
    }

    fn at(&self, progress: Progress) -> f64 {
        let count = match self.per() {
            Per::Iteration => progress.iteration,
            Per::Epoch => progress.epoch,
        };
        let t = count as f64;
        match *self {
            Rule::Ramp { ref value, steps, .. } => value.at(progress) * ((t + 1.0) / steps as f64).min(1.0),
            Rule::Exponential { initial, gamma, .. } => initial * gamma.powf(t),
            Rule::Inverse { initial, gamma, power, .. } => initial / (1.0 + gamma * t).powf(power),
            Rule::Map { ref values, .. } => {
                values.iter().rev().find(|(start, _)| *start <= count).map_or(0.0, |(_, value)| *value)
            }
            Rule::Poly { initial, power, steps, .. } => initial * (1.0 - t / steps as f64).max(0.0).powf(power),
            Rule::Sigmoid { initial, gamma, center, .. } => initial / (1.0 + (gamma * (t - center as f64)).exp()),
            Rule::Step { initial, decay, every, .. } => initial * decay.powf((count / every.max(1)) as f64),
            Rule::Cosine { initial, end, steps, .. } => half_a_cosine(initial, end, (t / steps as f64).min(1.0)),
            Rule::OneCycle { peak, steps, rise, first, last, .. } => {
                // The first step stands at the start, the last one at the end.
                let (start, end) = (peak * first, peak * first * last);
                let (top, whole) = (rise * steps as f64 - 1.0, steps as f64 - 1.0);
                match t < top {
                    true => half_a_cosine(start, peak, t / top),
                    false => half_a_cosine(peak, end, ((t - top) / (whole - top).max(f64::MIN_POSITIVE)).min(1.0)),
                }
            }
            Rule::Cycle { initial, peak, length, tail, annealing, .. } => {
                let turn = (length.saturating_sub(tail)) as f64 / 2.0;
                if t < turn {
                    initial + (peak - initial) * t / turn
                } else if t < 2.0 * turn {
                    peak - (peak - initial) * (t - turn) / turn
                } else {
                    let into = ((t - 2.0 * turn) / (tail.max(1)) as f64).min(1.0);
                    initial * annealing.powf(into)
                }
            }
        }
    }

    /// The values that it starts from, comes to or passes.
    fn levels(&self) -> Vec<f64> {
        match self {
            Rule::Ramp { value, .. } => value.levels(),
            Rule::Exponential { initial, .. }
            | Rule::Inverse { initial, .. }
            | Rule::Poly { initial, .. }
            | Rule::Sigmoid { initial, .. }
            | Rule::Step { initial, .. } => vec![*initial],
            Rule::Map { values, .. } => values.iter().map(|(_, value)| *value).collect(),
            Rule::Cycle { initial, peak, .. } => vec![*initial, *peak],
            Rule::Cosine { initial, end, .. } => vec![*initial, *end],
            Rule::OneCycle { peak, first, last, .. } => vec![*peak, peak * first, peak * first * last],
        }
    }

    /// What is wrong with the settings, if anything.
    pub(crate) fn problem(&self) -> Option<&'static str> {
        let at_least_0 = |value: f64| (0.0..f64::INFINITY).contains(&value);
        match self {
            Rule::Exponential { gamma, .. } if !at_least_0(*gamma) => Some("`gamma` must be 0 or more"),
            Rule::Inverse { gamma, power, .. } if !(at_least_0(*gamma) && power.is_finite()) => {
                Some("`gamma` must be 0 or more and `power` a number")
            }
            Rule::Poly { power, .. } if !at_least_0(*power) => Some("`power` must be 0 or more"),
            Rule::Sigmoid { gamma, .. } if !gamma.is_finite() => Some("`gamma` must be a number"),
            Rule::Step { decay, .. } if !at_least_0(*decay) => Some("`decay` must be 0 or more"),
            Rule::Cycle { annealing, .. } if !at_least_0(*annealing) => Some("`annealing` must be 0 or more"),
            Rule::Map { values, .. } if values.first().is_none_or(|(start, _)| *start != 0) => {
                Some("the first entry of a `map` schedule must start at 0")
            }
            Rule::Map { values, .. } if values.windows(2).any(|w| w[0].0 >= w[1].0) => {
                Some("the starts of a `map` schedule must rise")
            }
            Rule::Ramp { value, .. } if value.rule_problem().is_some() => value.rule_problem(),
            Rule::Poly { steps: 0, .. } | Rule::Ramp { steps: 0, .. } | Rule::Cosine { steps: 0, .. } => {
                Some("`steps` must be at least 1")
            }
            Rule::OneCycle { steps: 0 | 1, .. } => Some("`steps` must be at least 2"),
            Rule::OneCycle { rise, .. } if !(0.0..=1.0).contains(rise) => Some("`rise` must be from 0 to 1"),
            Rule::OneCycle { first, last, .. } if !at_least_0(*first) || !at_least_0(*last) => {
                Some("`first` and `last` must be 0 or more")
            }
            Rule::Step { every: 0, .. } => Some("`every` must be at least 1"),
            Rule::Cycle { length, tail, .. } if tail >= length => Some("`tail` must be shorter than `length`"),
            _ => None,
        }
    }
}

impl From<f64> for Schedule {
    fn from(value: f64) -> Self {
        Schedule::Fixed(value)
    }
}

impl From<Rule> for Schedule {
    fn from(rule: Rule) -> Self {
        Schedule::Changing(rule)
    }
}

impl Serialize for Schedule {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Schedule::Fixed(value) => value.serialize(serializer),
            Schedule::Changing(rule) => rule.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Schedule {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        use serde::de::Error;
        let value = serde_json::Value::deserialize(deserializer)?;
        if let Some(number) = value.as_f64() {
            return Ok(Schedule::Fixed(number));
        }
        let rule: Rule = serde_json::from_value(value).map_err(D::Error::custom)?;
        match rule.problem() {
            Some(problem) => Err(D::Error::custom(problem)),
            None => Ok(Schedule::Changing(rule)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Progress, Schedule};

    fn at(json: &str, iteration: u64) -> f64 {
        let schedule: Schedule = serde_json::from_str(json).expect("a schedule");
        schedule.at(Progress { iteration, epoch: iteration / 10 })
    }

    fn close(a: f64, b: f64) {
        assert!((a - b).abs() < 1e-12, "{a} is not {b}");
    }

    #[test]
    fn each_rule_has_the_values_of_its_formula() {
        close(at("0.5", 7), 0.5);
        close(at(r#"{"exponential":{"initial":1,"gamma":0.5}}"#, 3), 0.125);
        close(at(r#"{"inverse":{"initial":1,"gamma":1,"power":2}}"#, 3), 1.0 / 16.0);
        close(at(r#"{"map":{"values":[[0,1.0],[5,0.1]]}}"#, 4), 1.0);
        close(at(r#"{"map":{"values":[[0,1.0],[5,0.1]]}}"#, 5), 0.1);
        close(at(r#"{"poly":{"initial":2,"power":2,"steps":10}}"#, 5), 0.5);
        close(at(r#"{"poly":{"initial":2,"power":2,"steps":10}}"#, 50), 0.0);
        close(at(r#"{"ramp":{"value":1,"steps":4}}"#, 1), 0.5);
        close(at(r#"{"ramp":{"value":1,"steps":4}}"#, 9), 1.0);
        let nested = r#"{"ramp":{"value":{"step":{"initial":2,"decay":0.1,"every":10}},"steps":4}}"#;
        close(at(nested, 1), 1.0);
        close(at(nested, 9), 2.0);
        close(at(nested, 25), 0.02);
        close(at(r#"{"sigmoid":{"initial":1,"gamma":0.1,"center":8}}"#, 8), 0.5);
        close(at(r#"{"step":{"initial":1,"decay":0.1,"every":10}}"#, 25), 0.01);
        close(at(r#"{"step":{"initial":1,"decay":0.1,"every":1,"per":"epoch"}}"#, 25), 0.01);
        let cycle = r#"{"cycle":{"initial":0.1,"peak":1,"length":24,"tail":4}}"#;
        close(at(cycle, 0), 0.1);
        close(at(cycle, 10), 1.0);
        close(at(cycle, 20), 0.1);
        close(at(cycle, 24), 0.01);
    }

    #[test]
    fn impossible_settings_are_refused() {
        for json in [
            r#"{"map":{"values":[[3,1.0]]}}"#,
            r#"{"ramp":{"value":1,"steps":0}}"#,
            r#"{"ramp":{"value":{"ramp":{"value":1,"steps":0}},"steps":2}}"#,
        ] {
            assert!(serde_json::from_str::<Schedule>(json).is_err(), "{json}");
        }
    }
}
