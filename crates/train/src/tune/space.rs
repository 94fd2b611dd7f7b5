//! What of a job is varied, and which trial has what.

use std::collections::BTreeMap;
use std::fmt;

use paceline_nn::config::NetworkConfig;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{Error, Job, Metric};

/// How a job is varied to find a better one: the table `tune` of a job file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TuneConfig {
    /// By key of the job file: what it may be. Empty: what suits the job.
    pub vary: BTreeMap<String, Choice>,
    /// Which trials there are.
    pub method: Method,
    /// How many; for `grid` all if not set, else 20, or as many as there is time for.
    pub trials: Option<usize>,
    /// No trial begins after so many seconds, and those that are under way stop.
    pub seconds: Option<f64>,
    /// What trials are compared by, on the test data.
    pub metric: Metric,
    /// What chance goes by.
    pub seed: u64,
}

impl Default for TuneConfig {
    fn default() -> Self {
        let (method, metric) = (Method::default(), Metric::default());
        Self { vary: BTreeMap::new(), method, trials: None, seconds: None, metric, seed: 0 }
    }
}

/// Which trials there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// Each is drawn.
    #[default]
    Random,
    /// Every value of a key with every value of the others.
    Grid,
    /// Each is drawn; all are trained for a few epochs, the best third for three times as many, and so on (Jamieson and Talwalkar 2016).
    Halving,
}

/// What a key may be.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(
    untagged,
    expecting = "a list of values, or `{ log = [from, to] }`, `{ uniform = [from, to] }` or `{ whole = [from, to] }`"
)]
pub enum Choice {
    /// One of these.
    Of(Vec<Value>),
    /// A number of this range.
    Range(Range),
}

/// A range of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Range {
    /// Between these, each tenfold as likely as the next.
    Log([f64; 2]),
    /// Between these.
    Uniform([f64; 2]),
    /// A whole number from the first to the last.
    Whole([i64; 2]),
}

impl Choice {
    /// As it is written on the command line: `16,32`, `log:1e-4..0.1`, `uniform:0..0.5` or `whole:8..128`.
    pub fn parse(text: &str) -> Option<Self> {
        fn ends<T: std::str::FromStr>(text: &str) -> Option<[T; 2]> {
            let (from, to) = text.split_once("..")?;
            Some([from.trim().parse().ok()?, to.trim().parse().ok()?])
        }
        match text.split_once(':') {
            Some(("log", range)) => ends(range).map(|ends| Self::Range(Range::Log(ends))),
            Some(("uniform", range)) => ends(range).map(|ends| Self::Range(Range::Uniform(ends))),
            Some(("whole", range)) => ends(range).map(|ends| Self::Range(Range::Whole(ends))),
            _ if text.is_empty() => None,
            _ => Some(Self::Of(parts(text).into_iter().map(|part| value_of(part.trim())).collect())),
        }
    }

    fn problem(&self) -> Option<&'static str> {
        match self {
            Self::Of(values) if values.is_empty() => Some("at least one value"),
            Self::Range(Range::Log([from, to])) if !(*from > 0.0 && from < to && to.is_finite()) => {
                Some("a range from above 0 to something larger")
            }
            Self::Range(Range::Uniform([from, to])) if !(from < to && from.is_finite() && to.is_finite()) => {
                Some("a range from a number to a larger one")
            }
            Self::Range(Range::Whole([from, to])) if from > to => Some("a range from a number to a larger one"),
            _ => None,
        }
    }

    /// The value at this place between 0 and 1.
    fn at(&self, share: f64) -> Value {
        match self {
            Self::Of(values) => values[((share * values.len() as f64) as usize).min(values.len() - 1)].clone(),
            Self::Range(Range::Log([from, to])) => json!(rounded((from.ln() + share * (to / from).ln()).exp())),
            Self::Range(Range::Uniform([from, to])) => json!(rounded(from + share * (to - from))),
            Self::Range(Range::Whole([from, to])) => {
                let count = to.saturating_sub(*from).saturating_add(1);
                json!(from + ((share * count as f64) as i64).min(count - 1))
            }
        }
    }
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Of(values) => f.write_str(&values.iter().map(Value::to_string).collect::<Vec<String>>().join(",")),
            Self::Range(Range::Log([from, to])) => write!(f, "log:{from}..{to}"),
            Self::Range(Range::Uniform([from, to])) => write!(f, "uniform:{from}..{to}"),
            Self::Range(Range::Whole([from, to])) => write!(f, "whole:{from}..{to}"),
        }
    }
}

/// What stands between commas that are not within brackets or quotes.
fn parts(text: &str) -> Vec<&str> {
    let (mut depth, mut is_quoted, mut from, mut parts) = (0usize, false, 0, Vec::new());
    for (at, letter) in text.char_indices() {
        match letter {
            '"' => is_quoted = !is_quoted,
            '[' | '{' if !is_quoted => depth += 1,
            ']' | '}' if !is_quoted => depth = depth.saturating_sub(1),
            ',' if !is_quoted && depth == 0 => {
                parts.push(&text[from..at]);
                from = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[from..]);
    parts
}

/// A value of TOML, or text if it is none.
fn value_of(text: &str) -> Value {
    let read = toml::from_str::<toml::Table>(&format!("value = {text}")).ok();
    let value = read.and_then(|mut table| table.remove("value")).and_then(|value| serde_json::to_value(value).ok());
    value.unwrap_or_else(|| json!(text))
}

/// Four digits: more of them say nothing, and nobody could read them.
fn rounded(value: f64) -> f64 {
    format!("{value:.3e}").parse().unwrap_or(value)
}

/// The values of the keys of one trial.
pub type Values = BTreeMap<String, Value>;

impl TuneConfig {
    /// Fails with what makes no sense.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let bad = |setting, expected, found: String| Err(Error::BadSetting { setting, expected, found });
        let cannot = |message: String| Err(Error::Unsuitable { setting: "tune.vary", message });
        for (key, choice) in &self.vary {
            let has_part = |parts: &[&str]| parts.iter().any(|part| key.starts_with(part));
            if !has_part(&["data.", "network.", "pretrain.", "train.", "transfer."]) {
                return cannot(format!(
                    "varies keys of `data`, `network`, `pretrain`, `train` and `transfer`, and `{key}` is none of them"
                ));
            }
            if has_part(&["data.test", "data.stratified", "data.split_seed"]) {
                return cannot(format!("cannot vary `{key}`: trials are compared on the same test data"));
            }
            if self.method == Method::Halving && key == "train.epochs" {
                return cannot(format!("cannot vary `{key}` by halving, which decides on the epochs of trials"));
            }
            if let Some(expected) = choice.problem() {
                return bad("tune.vary", expected, format!("`{key}={choice}`"));
            }
            if self.method == Method::Grid && matches!(choice, Choice::Range(_)) {
                return cannot(format!("needs a list of values for `{key}`: a grid has no ranges"));
            }
        }
        if self.trials == Some(0) {
            return bad("tune.trials", "at least 1", "0".into());
        }
        match self.seconds.filter(|seconds| !(seconds.is_finite() && *seconds > 0.0)) {
            Some(seconds) => bad("tune.seconds", "above 0", seconds.to_string()),
            None => Ok(()),
        }
    }

    /// The same for a job that says nothing of what is varied.
    pub(crate) fn settled(mut self, job: &Job) -> Self {
        if !self.vary.is_empty() {
            return self;
        }
        if let Some(rate) = plain_rate(&job.network) {
            let range = Range::Log([rounded(rate / 10.0), rounded(rate * 10.0)]);
            self.vary.insert("network.learning_rate".into(), Choice::Range(range));
        }
        let batch = job.options.step_examples();
        let sizes = [(batch / 2).max(1), batch, 2 * batch].map(|size| json!(size));
        self.vary.insert("data.batch".into(), Choice::Of(sizes.to_vec()));
        if !job.network.optimiser.searches() {
            self.vary.insert("network.l2".into(), Choice::Range(Range::Log([1e-6, 1e-2])));
        }
        self
    }

    /// Trials that there are in all, where that is known.
    pub(crate) fn count(&self) -> Option<usize> {
        let all = self.vary.values().map(|choice| match choice {
            Choice::Of(values) => values.len(),
            Choice::Range(_) => usize::MAX,
        });
        match self.method {
            // The job as it is comes first.
            Method::Grid => {
                let all = all.fold(1usize, usize::saturating_mul).saturating_add(1);
                Some(self.trials.map_or(all, |trials| trials.min(all)))
            }
            Method::Random if self.seconds.is_some() => self.trials,
            Method::Random | Method::Halving => Some(self.trials.unwrap_or(USUAL_TRIALS)),
        }
    }

    /// What a trial has; the first is the job as it is.
    pub(crate) fn values(&self, trial: usize) -> Values {
        let Some(mut place) = trial.checked_sub(1) else { return Values::new() };
        let value = |(key, choice): (usize, &Choice)| match (self.method, choice) {
            (Method::Grid, Choice::Of(values)) => {
                let value = values[place % values.len()].clone();
                place /= values.len();
                value
            }
            _ => choice.at(chance(self.seed, trial as u64, key as u64)),
        };
        self.vary.keys().cloned().zip(self.vary.values().enumerate().map(value).collect::<Vec<Value>>()).collect()
    }
}

/// Trials that are drawn where nobody says how many.
const USUAL_TRIALS: usize = 20;

/// The rate that the whole network learns by, if that is one number.
fn plain_rate(network: &NetworkConfig) -> Option<f64> {
    let defaults = &network.defaults;
    let schedule = defaults.learning_rate.clone().or_else(|| defaults.updater.as_ref()?.learning_rate().cloned())?;
    match schedule {
        paceline_nn::Schedule::Fixed(rate) if rate > 0.0 => Some(rate),
        _ => None,
    }
}

/// A number from 0 to below 1 that follows from these (Steele, Lea and Flood 2014).
fn chance(seed: u64, trial: u64, key: u64) -> f64 {
    let mut bits = seed;
    for part in [trial, key] {
        bits = bits.wrapping_add(part.wrapping_mul(0x9e37_79b9_7f4a_7c15)).wrapping_add(0x9e37_79b9_7f4a_7c15);
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^= bits >> 31;
    }
    (bits >> 11) as f64 / (1u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::json;

    use super::{Choice, Method, Range, TuneConfig};

    fn config(method: Method, vary: &[(&str, &str)]) -> TuneConfig {
        let choice = |text| Choice::parse(text).expect(text);
        let vary = vary.iter().map(|(key, text)| ((*key).to_owned(), choice(text))).collect();
        TuneConfig { vary, method, ..TuneConfig::default() }
    }

    #[test]
    fn a_grid_has_every_value_with_every_other_one_once() {
        let grid = config(Method::Grid, &[("a", "1,2,3"), ("b", "\"x\",\"y\"")]);
        assert_eq!(grid.count(), Some(7));
        assert!(grid.values(0).is_empty(), "the job as it is");
        let all: BTreeSet<String> = (1..7).map(|trial| json!(grid.values(trial)).to_string()).collect();
        assert_eq!(all.len(), 6);
        assert!(config(Method::Grid, &[("a", "log:1..2")]).check().is_err());
    }

    #[test]
    fn what_is_drawn_lies_in_its_range_and_follows_the_seed() {
        let random = config(
            Method::Random,
            &[("a", "log:1e-4..0.1"), ("b", "whole:8..10"), ("c", "uniform:-1..1"), ("d", "relu,tanh")],
        );
        let mut met = BTreeSet::new();
        let mut small = 0;
        for trial in 1..300 {
            let values = random.values(trial);
            assert_eq!(values, random.values(trial));
            let number = |key: &str| values[key].as_f64().expect("a number");
            assert!((1e-4..=0.1).contains(&number("a")) && (-1.0..=1.0).contains(&number("c")));
            small += usize::from(number("a") < 1e-2);
            met.insert(values["b"].to_string());
            met.insert(values["d"].to_string());
        }
        assert_eq!(met, ["\"relu\"", "\"tanh\"", "10", "8", "9"].map(str::to_owned).into());
        assert!((170..230).contains(&small), "two of three tenfolds are below 0.01: {small}");
        assert_ne!(TuneConfig { seed: 1, ..random.clone() }.values(5), random.values(5));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for bad in ["log:0..1", "uniform:2..1", "whole:3..2"] {
            assert!(config(Method::Random, &[("a", bad)]).check().is_err(), "{bad}");
        }
        for bad in ["log:a..b", "whole:1.5..2", ""] {
            assert!(Choice::parse(bad).is_none(), "{bad}");
        }
        assert_eq!(Choice::parse("whole:1..4"), Some(Choice::Range(Range::Whole([1, 4]))));
        let listed = Choice::parse("adam, { nesterovs = { learning_rate = 0.03, momentum = 0.9 } },[1, 2],\"a,b\"");
        let nesterovs = json!({ "nesterovs": { "learning_rate": 0.03, "momentum": 0.9 } });
        assert_eq!(listed, Some(Choice::Of(vec![json!("adam"), nesterovs, json!([1, 2]), json!("a,b")])));
    }
}
