//! Whether a checkpoint belongs to a run: going on with another network or other batches would be another run.

use std::path::Path;

use paceline_data::{NormaliserKind, Source};
use paceline_nn::{ModelFile, Network};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::run::read_extra;
use crate::{Error, TrainOptions};

/// What the order and content of batches depend on: a resume must find it unchanged.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct DataKey {
    examples: usize,
    batch: usize,
    shuffle: bool,
    seed: u64,
    #[serde(default)]
    normaliser: Option<NormaliserKind>,
    #[serde(default)]
    class_weights: Option<Vec<f32>>,
}

impl DataKey {
    pub(crate) fn of(options: &TrainOptions, source: &dyn Source) -> Self {
        let TrainOptions { shuffle, seed, normaliser, class_weights, .. } = options.clone();
        Self { examples: source.examples(), batch: options.step_examples(), shuffle, seed, normaliser, class_weights }
    }
}

/// Fails with both values of the first thing that differs.
pub(crate) fn same_run(network: &Network, data: &DataKey, saved: &ModelFile, path: &Path) -> Result<(), Error> {
    let other = |(what, expected, found)| Err(Error::OtherRun { path: path.to_owned(), what, expected, found });
    let (ours, theirs) = (tree(network.config()), tree(saved.network.config()));
    if let Some(difference) = difference("network", &ours, &theirs) {
        return other(difference);
    }
    match saved.extra.get("data").map(|json| read_extra::<DataKey>(path, "data", json)).transpose()? {
        None => other(("data".into(), format!("of {} examples", data.examples), "not told".into())),
        Some(theirs) => match difference("data", &tree(data), &tree(&theirs)) {
            Some(difference) => other(difference),
            None => Ok(()),
        },
    }
}

fn tree(value: &impl Serialize) -> Value {
    serde_json::to_value(value).expect("names, numbers and lists can be written")
}

/// The path of the first difference, as `--set` takes it, with our value and theirs.
fn difference(path: &str, ours: &Value, theirs: &Value) -> Option<(String, String, String)> {
    let below = |key: &str| format!("{path}.{key}");
    match (ours, theirs) {
        _ if ours == theirs => None,
        (Value::Object(a), Value::Object(b)) if a.keys().eq(b.keys()) => {
            a.iter().find_map(|(key, ours)| difference(&below(key), ours, &b[key]))
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            let mut pairs = a.iter().zip(b).enumerate();
            pairs.find_map(|(index, (ours, theirs))| difference(&below(&index.to_string()), ours, theirs))
        }
        _ => Some((format!("`{path}`"), ours.to_string(), theirs.to_string())),
    }
}
