use std::path::{Path, PathBuf};
use std::sync::Arc;

use paceline_data::{NormaliserKind, OpenOptions, Source, open, split};
use paceline_nn::config::{NetworkConfig, explain};
use paceline_nn::{Network, Registry};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{CheckpointOptions, EarlyStopping, Error, Mode, TrainOptions, Trainer};

/// The job that needs neither a file nor a network: the 1,797 digits that are part of the program.
pub const DIGITS_JOB: &str = include_str!("digits.toml");

/// A whole run: data, network and training.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// Its name: the file's, without its ending.
    pub name: String,
    /// Where the examples come from.
    pub data: DataConfig,
    /// What is trained.
    pub network: NetworkConfig,
    /// How.
    pub train: TrainConfig,
}

/// Where the examples come from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DataConfig {
    /// What is learned from, such as `mnist:train`.
    pub train: String,
    /// What the model is judged on.
    #[serde(default)]
    pub test: Option<String>,
    /// Without `test`: the share of the training data that is set aside for it, drawn by the seed.
    #[serde(default)]
    pub test_share: Option<f64>,
    /// Examples that one worker takes in one step; 128 if neither this nor `global_batch` is set.
    #[serde(default)]
    pub batch: Option<usize>,
    /// Examples that all workers take in one step together.
    #[serde(default)]
    pub global_batch: Option<usize>,
    /// What is done to the features; what suits the source if not set.
    #[serde(default)]
    pub normaliser: Option<NormaliserKind>,
    /// Whether every epoch has an order of its own.
    #[serde(default = "yes")]
    pub shuffle: bool,
    /// What the order depends on; the network's seed if not set.
    #[serde(default)]
    pub seed: Option<u64>,
    /// What an example of each class weighs.
    #[serde(default)]
    pub class_weights: Option<Vec<f32>>,
}

/// How a network is trained.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TrainConfig {
    /// Times that all examples are seen.
    pub epochs: u64,
    /// Ends the run after so many steps.
    pub steps: Option<u64>,
    /// Replicas, each on a thread of its own; one for every core that this process may use if not set.
    pub workers: Option<usize>,
    /// How replicas stay together; every step together if not set, or alone if there is one.
    pub mode: Option<Mode>,
    /// Batches that are read ahead.
    pub prefetch: usize,
    /// Whether the model is judged on the test data.
    pub evaluate: bool,
    /// Epochs between two evaluations.
    pub evaluate_every: u64,
    /// When the run ends before its last epoch.
    pub early_stopping: Option<EarlyStopping>,
    /// How often the run is saved, and what is kept.
    pub checkpoint: CheckpointOptions,
}

/// Cores that control groups and affinity leave to this process.
fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// A core gets at least so many examples of a step; fewer cost more than they gain.
const LEAST_FOR_A_CORE: usize = 16;

/// Replicas, how they stay together, and what they take in a step, with what a job leaves open filled in.
#[derive(Clone, Debug, PartialEq)]
struct Crew {
    workers: usize,
    mode: Mode,
    global_batch: Option<usize>,
}

impl Default for TrainConfig {
    fn default() -> Self {
        let defaults = TrainOptions::default();
        Self {
            epochs: defaults.epochs,
            steps: defaults.steps,
            workers: None,
            mode: None,
            prefetch: defaults.prefetch,
            evaluate: defaults.evaluate,
            evaluate_every: defaults.evaluate_every,
            early_stopping: defaults.early_stopping,
            checkpoint: defaults.checkpoint,
        }
    }
}

fn yes() -> bool {
    true
}

/// More batches than these read ahead help nobody, and room for them is made at once.
const MOST_PREFETCH: usize = 65_536;

const SECTIONS: [&str; 3] = ["data", "network", "train"];

impl Job {
    /// Reads a job file, TOML or JSON by its ending, with settings of the form `path=value` laid over it.
    pub fn read(path: &Path, settings: &[String]) -> Result<Self, Error> {
        let origin = format!("`{}`", path.display());
        let text = std::fs::read_to_string(path).map_err(|error| Error::Job {
            origin: origin.clone(),
            line: None,
            message: format!("cannot be read ({error})"),
        })?;
        let name = path.file_stem().map_or("job".into(), |stem| stem.to_string_lossy().into_owned());
        let is_json = path.extension().is_some_and(|e| e.eq_ignore_ascii_case("json"));
        Self::parse_blaming(&text, is_json, &name, &origin, settings)
    }

    /// A job that came as text, with the settings that were laid over it; `origin` says where from.
    pub fn from_text(text: &str, is_json: bool, name: &str, origin: &str, settings: &[String]) -> Result<Self, Error> {
        Self::parse_blaming(text, is_json, name, origin, settings)
    }

    /// The built-in digits job.
    pub fn digits(settings: &[String]) -> Result<Self, Error> {
        Self::parse_blaming(DIGITS_JOB, false, "digits", "the built-in digits job", settings)
    }

    /// Parses, and blames the first setting without which all was well, instead of the file.
    fn parse_blaming(text: &str, is_json: bool, name: &str, origin: &str, settings: &[String]) -> Result<Self, Error> {
        let parse = |settings| Self::parse(text, is_json, name, origin, settings);
        let error = match parse(settings) {
            Err(error @ Error::Job { .. }) if !settings.is_empty() => error,
            other => return other,
        };
        for (index, setting) in settings.iter().enumerate() {
            match (parse(&settings[..index]), parse(&settings[..=index])) {
                (Ok(_), Err(Error::Job { message, .. })) => {
                    return Err(Error::Setting { setting: setting.clone(), message });
                }
                (Err(_), _) => break,
                _ => {}
            }
        }
        Err(error)
    }

    fn parse(text: &str, is_json: bool, name: &str, origin: &str, settings: &[String]) -> Result<Self, Error> {
        let wrong = |line, message| Error::Job { origin: origin.into(), line, message };
        let mut tree: Value = if is_json {
            serde_json::from_str(text).map_err(|error| wrong(Some(error.line()), error.to_string()))?
        } else {
            toml::from_str(text).map_err(|error| {
                let line = error.span().map(|span| line_at(text, span.start));
                wrong(line, error.message().to_owned())
            })?
        };
        spell_out_mode(&mut tree);
        for setting in settings {
            lay_over(&mut tree, setting)?;
        }
        spell_out_mode(&mut tree);
        let Value::Object(mut sections) = tree else {
            return Err(wrong(None, "expected the tables `data`, `network` and `train`".into()));
        };
        // Where a key stands in the file; only TOML keeps track of it.
        let line = |section: &str, key: &str| if is_json { None } else { find_line(text, section, key) };
        if let Some(unknown) = sections.keys().find(|key| !SECTIONS.contains(&key.as_str())) {
            let message = format!("unknown field `{unknown}`, expected one of `data`, `network`, `train`");
            return Err(wrong(line("", unknown), explain(&message, &[])));
        }
        let data = read_section(&mut sections, "data", true, &line).map_err(|(line, message)| wrong(line, message))?;
        let train =
            read_section(&mut sections, "train", false, &line).map_err(|(line, message)| wrong(line, message))?;
        let network = sections.remove("network").ok_or_else(|| wrong(None, "missing table `network`".into()))?;
        let network = NetworkConfig::from_value(network).map_err(|error| {
            let at = match &error {
                paceline_nn::Error::Layer { index, .. } => line("network.layers", &index.to_string()),
                other => first_quoted(&other.to_string()).and_then(|key| line("network", key)),
            };
            wrong(at.or_else(|| line("", "network")), error.to_string())
        })?;
        let job = Self { name: name.into(), data, network, train };
        job.validate().map_err(|(section, key, message)| wrong(line(section, key), message))?;
        Ok(job)
    }

    /// Who trains in one process with so many cores. Where a job says neither workers nor a mode, each step is spread over all
    /// cores: the training is the same, only faster.
    fn crew(&self, cores: usize) -> Crew {
        let global_batch = self.data.global_batch;
        match (self.train.workers, self.train.mode.clone()) {
            (None, None) => {
                let step = global_batch.unwrap_or(self.batch());
                let workers = cores.min(step / LEAST_FOR_A_CORE).max(1);
                let mode = if workers == 1 { Mode::Solo } else { Mode::Sync };
                Crew { workers, mode, global_batch: Some(step) }
            }
            (None, Some(Mode::Solo)) | (Some(1), None) => Crew { workers: 1, mode: Mode::Solo, global_batch },
            (None, Some(mode)) => Crew { workers: cores, mode, global_batch },
            (Some(workers), None) => Crew { workers, mode: Mode::Sync, global_batch },
            (Some(workers), Some(mode)) => Crew { workers, mode, global_batch },
        }
    }

    fn batch(&self) -> usize {
        self.data.batch.unwrap_or(TrainOptions::default().batch)
    }

    fn validate(&self) -> Result<(), (&'static str, &'static str, String)> {
        if self.data.batch == Some(0) {
            return Err(("data", "batch", "`data.batch` must be at least 1".into()));
        }
        if self.data.batch.is_some() && self.data.global_batch.is_some() {
            let message =
                "`data.batch` is what one worker takes and `data.global_batch` what all take: set one of them";
            return Err(("data", "global_batch", message.into()));
        }
        if let Some(share) = self.data.test_share.filter(|s| !(*s > 0.0 && *s < 1.0)) {
            return Err(("data", "test_share", format!("`data.test_share` must be between 0 and 1, found {share}")));
        }
        let Crew { workers, mode, .. } = self.crew(cores());
        mode.check(workers).map_err(|error| {
            let of_mode = workers > 0 && mode != Mode::Solo;
            ("train", if of_mode { "mode" } else { "workers" }, error.to_string())
        })?;
        let of_train = |key| move |error: Error| ("train", key, error.to_string());
        self.train.checkpoint.validate().map_err(of_train("checkpoint"))?;
        self.train
            .early_stopping
            .as_ref()
            .map_or(Ok(()), EarlyStopping::validate)
            .map_err(of_train("early_stopping"))?;
        if self.train.evaluate_every == 0 {
            let message = "`train.evaluate_every` must be at least 1; `train.evaluate = false` is for never";
            return Err(("train", "evaluate_every", message.into()));
        }
        if let Some(found) = self.data.global_batch.filter(|&batch| batch < workers) {
            let message =
                format!("`data.global_batch` must be at least {workers}, one for every worker, found {found}");
            return Err(("data", "global_batch", message));
        }
        if self.train.prefetch > MOST_PREFETCH {
            let message = format!("`train.prefetch` must be at most {MOST_PREFETCH}, found {}", self.train.prefetch);
            return Err(("train", "prefetch", message));
        }
        Ok(())
    }

    /// Opens the data and makes the trainer of one process. Relative paths are taken from where the program was started.
    pub fn trainer(&self, output: Option<PathBuf>, resume: bool, open_options: &OpenOptions) -> Result<Trainer, Error> {
        self.trainer_of(self.crew(cores()), output, resume, open_options)
    }

    /// As [`Self::trainer`], for a master or a worker of a run on many machines: `data.batch` is what one slot of one worker
    /// takes, however many cores there are where.
    pub fn cluster_trainer(&self, output: Option<PathBuf>, open_options: &OpenOptions) -> Result<Trainer, Error> {
        let mode = self.train.mode.clone().filter(|mode| *mode != Mode::Solo).unwrap_or(Mode::Sync);
        self.trainer_of(Crew { workers: 1, mode, global_batch: self.data.global_batch }, output, false, open_options)
    }

    fn trainer_of(
        &self,
        crew: Crew,
        output: Option<PathBuf>,
        resume: bool,
        open_options: &OpenOptions,
    ) -> Result<Trainer, Error> {
        // Shapes first: a wrong network should not wait for a download.
        let network = Network::with_registry(self.network.clone(), &Registry::default())?;
        let (train, test) = self.sources(open_options)?;
        let Crew { workers, mode, global_batch } = crew;
        let options = TrainOptions {
            batch: self.batch(),
            global_batch,
            workers,
            mode,
            epochs: self.train.epochs,
            steps: self.train.steps,
            shuffle: self.data.shuffle,
            seed: self.data.seed.unwrap_or(self.network.seed),
            prefetch: self.train.prefetch,
            normaliser: self.data.normaliser,
            class_weights: self.data.class_weights.clone(),
            evaluate: self.train.evaluate,
            evaluate_every: self.train.evaluate_every,
            early_stopping: self.train.early_stopping,
            output,
            checkpoint: self.train.checkpoint,
            resume,
        };
        let trainer = Trainer::new(network, train, options)?;
        match test {
            Some(test) => trainer.test(test),
            None => Ok(trainer),
        }
    }

    fn sources(&self, options: &OpenOptions) -> Result<Sources, Error> {
        let train = open(&self.data.train, options)?;
        match (&self.data.test, self.data.test_share) {
            (Some(test), _) => {
                // Columns, categories and classes of the training data hold for the test data too.
                let options = OpenOptions { schema: train.schema().cloned(), ..options.clone() };
                Ok((train, Some(open(test, &options)?)))
            }
            (None, Some(share)) => {
                let (rest, test) = (1.0 - share, self.data.seed.unwrap_or(self.network.seed));
                let (train, test) = split(train, rest, test)?;
                Ok((train, Some(test)))
            }
            (None, None) => Ok((train, None)),
        }
    }
}

/// What is learned from, and what the model is judged on.
type Sources = (Arc<dyn Source>, Option<Arc<dyn Source>>);

type Line = Option<usize>;

fn read_section<T: serde::de::DeserializeOwned>(
    sections: &mut Map<String, Value>,
    name: &str,
    required: bool,
    line: &dyn Fn(&str, &str) -> Line,
) -> Result<T, (Line, String)> {
    let section = match sections.remove(name) {
        Some(section) => section,
        None if required => return Err((None, format!("missing table `{name}`"))),
        None => Value::Object(Map::new()),
    };
    serde_path_to_error::deserialize(section).map_err(|error| {
        let path = error.path().to_string();
        let message = error.into_inner().to_string();
        let key = path.split(['.', '[']).next().unwrap_or_default().to_owned();
        let at = line(name, &key).or_else(|| line("", name));
        let message = explain(&message, &[]);
        let shown = if message.contains(&format!("`{key}`")) || key.is_empty() || path == "." {
            format!("in `{name}`: {message}")
        } else {
            format!("`{name}.{path}`: {message}")
        };
        (at, shown)
    })
}

/// What has options may be given by its name alone.
fn spell_out_mode(tree: &mut Value) {
    if let Some(mode) = tree.pointer_mut("/train/mode")
        && let Some(name @ ("averaging" | "shared")) = mode.as_str()
    {
        *mode = serde_json::json!({ name: {} });
    }
    if let Some(outer) = tree.pointer_mut("/train/mode/averaging/outer")
        && let Some(name @ "nesterov") = outer.as_str()
    {
        *outer = serde_json::json!({ name: {} });
    }
}

/// Lays `path=value` over the tree; the value is read as TOML, or taken as text if it is none.
fn lay_over(tree: &mut Value, setting: &str) -> Result<(), Error> {
    let wrong = |message: String| Error::Setting { setting: setting.into(), message };
    let Some((path, text)) = setting.split_once('=') else {
        return Err(wrong("expected `path=value`, as in `train.epochs=3`".into()));
    };
    let value = toml::from_str::<Map<String, Value>>(&format!("value = {text}"))
        .ok()
        .and_then(|mut table| table.remove("value"))
        .unwrap_or_else(|| Value::String(text.into()));
    // Of the two ways to say how many examples a step has, the one that is laid over counts.
    for (set, other) in [("data.batch", "global_batch"), ("data.global_batch", "batch")] {
        if path.trim() == set
            && let Some(data) = tree.get_mut("data").and_then(Value::as_object_mut)
        {
            data.remove(other);
        }
    }
    let mut at = tree;
    for part in path.trim().split('.') {
        at = match at {
            Value::Array(list) if list.is_empty() => {
                return Err(wrong(format!("`{part}` cannot be looked up in an empty list")));
            }
            Value::Array(list) => {
                let length = list.len();
                let index = part.parse::<usize>().ok().filter(|i| *i < length);
                let index =
                    index.ok_or_else(|| wrong(format!("`{part}` is not one of the indices 0 to {}", length - 1)))?;
                &mut list[index]
            }
            Value::Object(table) => table.entry(part).or_insert_with(|| Value::Object(Map::new())),
            other => return Err(wrong(format!("`{part}` cannot be looked up in {other}"))),
        };
    }
    // The name of what is there already, with its options, changes nothing.
    if !value
        .as_str()
        .is_some_and(|name| at.as_object().is_some_and(|table| table.len() == 1 && table.contains_key(name)))
    {
        *at = value;
    }
    Ok(())
}

fn line_at(text: &str, offset: usize) -> usize {
    1 + text.as_bytes()[..offset.min(text.len())].iter().filter(|b| **b == b'\n').count()
}

/// The line of a key of a table, or of an element of a list, both named by a path.
fn find_line(text: &str, section: &str, key: &str) -> Line {
    use toml::de::{DeTable, DeValue};

    let table = DeTable::parse(text).ok()?;
    let mut at: &DeTable<'_> = table.get_ref();
    let mut parts = section.split('.').filter(|part| !part.is_empty()).peekable();
    while let Some(part) = parts.next() {
        match at.get(part)?.get_ref() {
            DeValue::Table(inner) => at = inner,
            DeValue::Array(list) if parts.peek().is_none() => {
                return Some(line_at(text, list.get(key.parse::<usize>().ok()?)?.span().start));
            }
            _ => return None,
        }
    }
    at.iter().find(|(name, _)| name.get_ref() == key).map(|(name, _)| line_at(text, name.span().start))
}

fn first_quoted(message: &str) -> Option<&str> {
    message.split('`').nth(1).and_then(|quoted| quoted.split(['.', '[']).next())
}
