//! Layers that learn from what goes into them, one after the other, before the network learns as a whole: each is a phase of a job,
//! which is a job of its own that begins with what the one before came to.

use std::collections::BTreeMap;

use paceline_nn::config::{NetworkConfig, Settings, explain, nearest};
use serde_json::{Map, Value};

use crate::{DataConfig, Job, TrainOptions};

/// What the table `pretrain` of a job says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PretrainConfig {
    /// What holds for every layer that does not say otherwise.
    pub all: Pretraining,
    /// By the name of a layer.
    pub layers: BTreeMap<String, Pretraining>,
}

/// How layers are pretrained.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pretraining {
    /// What is learned from, of which only the features count; `data.train` if not set.
    pub train: Option<String>,
    /// Times that all examples are seen; one if not set.
    pub epochs: Option<u64>,
    /// Examples that one worker takes in one step; as in `data` if not set.
    pub batch: Option<usize>,
    /// What of the settings of the layer is otherwise meanwhile: its rate, above all.
    pub settings: Settings,
}

/// Which part of a job a run is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Phase {
    /// From 1.
    pub number: usize,
    /// Of so many.
    pub of: usize,
    /// The layer that is pretrained; none where the network learns as a whole.
    pub layer: Option<String>,
}

/// Settings of layers that may be otherwise while they are pretrained.
const OF_LAYERS: [&str; 10] = [
    "updater",
    "bias_updater",
    "learning_rate",
    "l1",
    "l2",
    "weight_decay",
    "dropout",
    "gradient_normalisation",
    "constraints",
    "weight_noise",
];
const OF_PHASES: [&str; 3] = ["train", "epochs", "batch"];

/// A key below the table, and what is wrong with it.
pub(crate) type Wrong = (String, String);

impl PretrainConfig {
    /// Reads the table, and the phase that a master asks for.
    pub(crate) fn read(table: Map<String, Value>, network: &NetworkConfig) -> Result<(Self, Option<usize>), Wrong> {
        let mut table = table;
        let phase = match table.remove("phase") {
            None => None,
            Some(value) => match value.as_u64() {
                Some(phase) => Some(phase as usize),
                None => return Err(("phase".into(), format!("`pretrain.phase`: expected a number, found {value}"))),
            },
        };
        let own = match table.remove("layers") {
            None => Map::new(),
            Some(Value::Object(own)) => own,
            Some(other) => {
                let message = format!("`pretrain.layers`: expected a table for each layer by its name, found {other}");
                return Err(("layers".into(), message));
            }
        };
        let mut layers = BTreeMap::new();
        for (name, table) in own {
            let path = format!("pretrain.layers.{name}");
            let Value::Object(table) = table else {
                return Err(("layers".into(), format!("`{path}`: expected a table, found {table}")));
            };
            layers.insert(name, Pretraining::read(&path, table)?);
        }
        let read = Self { all: Pretraining::read("pretrain", table)?, layers };
        read.check(network)?;
        Ok((read, phase))
    }

    fn check(&self, network: &NetworkConfig) -> Result<(), Wrong> {
        let known: Vec<String> = pretrained(network).into_iter().map(|(_, name)| name).collect();
        if known.is_empty() {
            let message = "`pretrain`: expected a layer that can learn from what goes into it, such as `rbm` or `autoencoder`, and \
                           found none";
            return Err((String::new(), message.into()));
        }
        if let Some(unknown) = self.layers.keys().find(|name| !known.contains(name)) {
            let hint = nearest(unknown, known.iter().map(String::as_str));
            let hint = hint.map_or_else(
                || format!("those that can be pretrained are `{}`", known.join("`, `")),
                |near| format!("did you mean `{near}`?"),
            );
            return Err((
                "layers".into(),
                format!("`pretrain.layers`: no layer `{unknown}` can be pretrained; {hint}"),
            ));
        }
        Ok(())
    }

    fn of(&self, layer: &str) -> Pretraining {
        let Pretraining { train, epochs, batch, settings } = self.layers.get(layer).cloned().unwrap_or_default();
        Pretraining {
            train: train.or_else(|| self.all.train.clone()),
            epochs: epochs.or(self.all.epochs),
            batch: batch.or(self.all.batch),
            settings: settings.or(&self.all.settings),
        }
    }
}

impl Pretraining {
    fn read(path: &str, table: Map<String, Value>) -> Result<Self, Wrong> {
        let known: Vec<&str> = OF_PHASES.into_iter().chain(OF_LAYERS).collect();
        let below = |key: &str| format!("{path}.{key}").trim_start_matches("pretrain.").to_owned();
        if let Some(unknown) = table.keys().find(|key| !known.contains(&key.as_str())) {
            let expected: Vec<String> = known.iter().map(|key| format!("`{key}`")).collect();
            let message = format!("unknown field `{unknown}`, expected one of {}", expected.join(", "));
            return Err((below(unknown), format!("in `{path}`: {}", explain(&message, &[]))));
        }
        let (own, settings): (Map<_, _>, Map<_, _>) =
            table.into_iter().partition(|(key, _)| OF_PHASES.contains(&key.as_str()));
        let settings: Settings = serde_path_to_error::deserialize(Value::Object(settings)).map_err(|error| {
            let key = error.path().to_string();
            (below(&key), format!("`{path}.{key}`: {}", explain(&error.into_inner().to_string(), &[])))
        })?;
        if let Some(problem) = settings.problem() {
            return Err((below(""), format!("in `{path}`: {problem}")));
        }
        let count = |key: &str| match own.get(key) {
            None => Ok(None),
            Some(value) => match value.as_u64().filter(|count| *count > 0) {
                Some(count) => Ok(Some(count)),
                None => Err((below(key), format!("`{path}.{key}`: expected a number from 1 on, found {value}"))),
            },
        };
        let (epochs, batch) = (count("epochs")?, count("batch")?.map(|batch| batch as usize));
        let train = match own.get("train") {
            None => None,
            Some(Value::String(train)) => Some(train.clone()),
            Some(other) => {
                let message = format!("`{path}.train`: expected where the examples are, as text, found {other}");
                return Err((below("train"), message));
            }
        };
        Ok(Self { train, epochs, batch, settings })
    }
}

/// The layers that are pretrained, with their names.
fn pretrained(network: &NetworkConfig) -> Vec<(usize, String)> {
    let layers = network.layers.iter().enumerate().filter(|(_, layer)| layer.can_be_pretrained());
    layers.map(|(index, layer)| (index, layer.settings().name.clone().unwrap_or_else(|| index.to_string()))).collect()
}

impl Job {
    /// The parts of the job, each a job of its own that begins with what the one before it came to: each layer that is pretrained,
    /// and then the whole network, if it has an end. A job that pretrains nothing is one part.
    pub fn phases(&self) -> Vec<Job> {
        let Some(pretrain) = &self.pretrain else { return vec![self.clone()] };
        let layers = pretrained(&self.network);
        let of = layers.len() + usize::from(self.network.has_end());
        let phase = |number: usize, layer: Option<String>| Some(Phase { number, of, layer });
        let mut phases: Vec<Job> = (layers.into_iter().enumerate())
            .map(|(at, (index, name))| {
                let own = pretrain.of(&name);
                let options = self.options.clone();
                Job {
                    // Examples that are set aside for the test are not learned from in any phase.
                    data: match own.train {
                        Some(train) => {
                            DataConfig { train, test: None, test_share: None, stratified: false, split_seed: None }
                        }
                        None => DataConfig { test: None, ..self.data.clone() },
                    },
                    network: self.network.clone().pretraining(index).laid_over(index, &own.settings),
                    options: TrainOptions {
                        epochs: own.epochs.unwrap_or(1),
                        batch: own.batch.unwrap_or(options.batch),
                        global_batch: options.global_batch.filter(|_| own.batch.is_none()),
                        steps: None,
                        class_weights: None,
                        early_stopping: None,
                        plateau: None,
                        evaluate: false,
                        ..options
                    },
                    pretrain: None,
                    phase: phase(at + 1, Some(name)),
                    ..self.clone()
                }
            })
            .collect();
        if phases.len() < of {
            phases.push(Job { pretrain: None, phase: phase(of, None), ..self.clone() });
        }
        phases.iter_mut().skip(1).for_each(|job| job.transfer = None);
        // What a layer has learned of features holds for features that are treated alike.
        let first = phases[0].data.clone();
        for job in phases.iter_mut().filter(|job| job.data.train != first.train) {
            job.fitted_to = Some(first.clone());
        }
        phases
    }
}
