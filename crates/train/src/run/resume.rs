//! What a checkpoint keeps of a run beside the model, and whether it belongs to a run: going on with another network or
//! other batches would be another run.

use std::path::Path;

use paceline_data::{NormaliserKind, Order, Source, fingerprint};
use paceline_model::Loss;
use paceline_nn::{ModelFile, Network};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::run::early_stopping::Standing;
use crate::run::plateau::Fallen;
use crate::team::Member;
use crate::team::Memory;
use crate::{ClassWeights, Error, TrainOptions};

/// What is kept of a run as a whole.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Kept {
    /// The time that it took so far.
    pub seconds: f64,
    pub record: Standing,
    /// How far learning rates have fallen because nothing improved.
    #[serde(default)]
    pub plateau: Fallen,
}

/// Adds what a run needs to go on to the model that it is saved with.
pub(crate) fn keep(model: &mut ModelFile, kept: &Kept, members: &[Member]) {
    model.extra.insert("run".into(), json(kept));
    if model.step > 0 {
        // As bits: a decimal that is read back must be the very number that was written.
        let bits = |member: &Member| [member.losses.sum.to_bits(), member.losses.weight.to_bits()];
        model.extra.insert("losses".into(), json(&members.iter().map(bits).collect::<Vec<_>>()));
    }
    for (index, Member { worker, .. }) in members.iter().enumerate() {
        let memory = worker.exchange.memory(&worker.state);
        model.arrays.extend(memory.into_iter().map(|(name, values)| (format!("{index}.{name}"), values)));
    }
}

/// What each replica remembered, in their order.
pub(crate) fn memories(model: &ModelFile) -> Vec<Memory> {
    let mut memories: Vec<Memory> = Vec::new();
    for (name, values) in &model.arrays {
        let Some((index, name)) = name.split_once('.') else { continue };
        // Every replica has an array of its own, so the file bounds how many there can be.
        let Some(index) = index.parse().ok().filter(|index: &usize| *index < model.arrays.len()) else { continue };
        memories.resize(memories.len().max(index + 1), Memory::new());
        memories[index].insert(name.to_owned(), values.clone());
    }
    memories
}

/// What each replica had seen of an epoch that was not completed.
pub(crate) fn losses(model: &ModelFile, path: &Path) -> Result<Vec<Loss>, Error> {
    let bits: Option<Vec<[u64; 2]>> = read_extra(model, path, "losses")?;
    let loss = |[sum, weight]: [u64; 2]| Loss { sum: f64::from_bits(sum), weight: f64::from_bits(weight) };
    Ok(bits.unwrap_or_default().into_iter().map(loss).collect())
}

/// Reads what was kept under a key of a model file's metadata, if it was.
pub(crate) fn read_extra<T: serde::de::DeserializeOwned>(
    model: &ModelFile,
    path: &Path,
    key: &'static str,
) -> Result<Option<T>, Error> {
    let read = |json: &String| serde_json::from_str(json);
    model.extra.get(key).map(read).transpose().map_err(|error| {
        let (expected, found) = (format!("a readable `{key}` in its metadata"), error.to_string());
        Error::Network(paceline_nn::Error::ModelFile { path: path.to_owned(), expected, found })
    })
}

pub(crate) fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("names, numbers and lists can be written")
}

/// What the order and content of batches depend on: a resume must find it unchanged.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct DataKey {
    examples: usize,
    /// Of their numbers, in hexadecimal; not there for examples that can only be read once.
    #[serde(default)]
    fingerprint: Option<String>,
    batch: usize,
    shuffle: bool,
    #[serde(default)]
    by_length: bool,
    seed: u64,
    #[serde(default)]
    normaliser: Option<NormaliserKind>,
    #[serde(default)]
    target_normaliser: Option<NormaliserKind>,
    #[serde(default)]
    class_weights: Option<Vec<f32>>,
}

impl DataKey {
    pub(crate) fn of(options: &TrainOptions, source: &dyn Source) -> Result<Self, Error> {
        let TrainOptions { shuffle, by_length, seed, normaliser, target_normaliser, class_weights, .. } =
            options.clone();
        let class_weights = ClassWeights::each(class_weights.as_ref());
        let (examples, batch) = (source.examples(), options.step_examples());
        let fingerprint = match source.order() {
            Order::Sequential => None,
            Order::Any | Order::Blocks { .. } => Some(format!("{:016x}", fingerprint(source)?)),
        };
        Ok(Self {
            examples,
            fingerprint,
            batch,
            shuffle,
            by_length,
            seed,
            normaliser,
            target_normaliser,
            class_weights,
        })
    }
}

/// Fails with both values of the first thing that differs.
pub(crate) fn same_run(network: &Network, data: &DataKey, saved: &ModelFile, path: &Path) -> Result<(), Error> {
    let other = |(what, expected, found)| Err(Error::OtherRun { path: path.to_owned(), what, expected, found });
    let (ours, theirs) = (tree(network.config()), tree(saved.network.config()));
    if let Some(difference) = difference("network", &ours, &theirs) {
        return other(difference);
    }
    match read_extra::<DataKey>(saved, path, "data")? {
        None => other(("data".into(), format!("of {} examples", data.examples), "not told".into())),
        Some(theirs) => {
            // Files of earlier versions have none.
            let fingerprint = data.fingerprint.clone().filter(|_| theirs.fingerprint.is_some());
            if let (Some(ours), Some(found)) = (&fingerprint, &theirs.fingerprint)
                && data.examples == theirs.examples
                && ours != found
            {
                return other(("fingerprint of the examples".into(), ours.clone(), found.clone()));
            }
            let data = DataKey { fingerprint, ..data.clone() };
            difference("data", &tree(&data), &tree(&theirs)).map_or(Ok(()), other)
        }
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
