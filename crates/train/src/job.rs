use std::path::{Path, PathBuf};
use std::sync::Arc;

use paceline_data::{Division, OpenOptions, Source, open};
use paceline_nn::config::{NetworkConfig, explain};
use paceline_nn::{Network, Registry};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::auto::Auto;
use crate::pretrain::{Phase, PretrainConfig};
use crate::sync::cores;
use crate::{Error, Mode, TrainOptions, Trainer, Transfer, TuneConfig};

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
    pub options: TrainOptions,
    /// How layers are pretrained before that, if they are.
    pub pretrain: Option<PretrainConfig>,
    /// Which of the phases of a job this is, if it is one.
    pub phase: Option<Phase>,
    /// The data that the normaliser is fitted to, if that is not what is learned from: all phases treat features alike.
    pub fitted_to: Option<DataConfig>,
    /// What the network begins with, if that was learned elsewhere.
    pub transfer: Option<Transfer>,
    /// Whether it says neither workers nor a mode: then one process spreads each step over its cores.
    pub is_spread: bool,
    /// The cores that it spreads them over; all that the process may use if not set.
    pub cores: Option<usize>,
    /// How it is varied to find a better one.
    pub tune: Option<TuneConfig>,
    /// Layers and losses of other crates that it may name.
    pub registry: Registry,
    /// What of the network its data says.
    pub(crate) auto: Auto,
    /// The file that it was read from.
    pub(crate) written: Written,
}

/// The text of a job, to say where a mistake stands, and the keys in it that gave way to settings of the command line.
#[derive(Clone, Debug, Default)]
pub(crate) struct Written {
    origin: String,
    /// Only TOML keeps track of lines.
    text: Option<String>,
    displaced: Vec<String>,
}

impl PartialEq for Written {
    /// A job is what it says, wherever that was written.
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Written {
    /// An error of a layer, with the file and the line.
    fn locate(&self, error: paceline_nn::Error) -> Error {
        use paceline_nn::Error as Of;
        let (Of::Layer { index, .. } | Of::Shape { index, .. }) = &error else { return error.into() };
        let text = self.text.as_deref();
        let line = text.and_then(|text| {
            find_line(text, "network.layers", &index.to_string()).or_else(|| find_line(text, "network", "layers"))
        });
        Error::Job { origin: self.origin.clone(), line, message: error.to_string() }
    }
}

/// The text of a job, before it is read.
#[derive(Clone, Debug, PartialEq)]
pub struct JobFile {
    /// The name of the job: that of its file, without its ending.
    pub name: String,
    /// The place where it is written, for messages.
    pub origin: String,
    /// The text.
    pub text: String,
    /// True for JSON, false for TOML.
    pub is_json: bool,
}

impl JobFile {
    /// A file, TOML or JSON by its ending, or either from standard input if the path is `-`.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let is_piped = path == Path::new("-");
        let origin = if is_piped { "standard input".to_owned() } else { format!("`{}`", path.display()) };
        let text = if is_piped { std::io::read_to_string(std::io::stdin()) } else { std::fs::read_to_string(path) };
        let text = text.map_err(|error| {
            let message = format!("cannot be read ({error})");
            Error::Job { origin: origin.clone(), line: None, message }
        })?;
        if is_piped {
            let is_json = text.trim_start().starts_with('{');
            return Ok(Self { name: "job".into(), origin, text, is_json });
        }
        let name = path.file_stem().map_or("job".into(), |stem| stem.to_string_lossy().into_owned());
        let is_json = path.extension().is_some_and(|e| e.eq_ignore_ascii_case("json"));
        Ok(Self { name, origin, text, is_json })
    }

    /// The built-in digits job.
    pub fn digits() -> Self {
        let (name, origin) = ("digits".into(), "the built-in digits job".into());
        Self { name, origin, text: DIGITS_JOB.into(), is_json: false }
    }

    /// The job, with settings of the form `path=value` laid over it.
    pub fn job(&self, settings: &[String]) -> Result<Job, Error> {
        Job::from_text(&self.text, self.is_json, &self.name, &self.origin, settings)
    }
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
    /// Whether what is set aside has its share of every class.
    #[serde(default)]
    pub stratified: bool,
    /// The seed by which examples are set aside, and fall into folds; that of the run if not set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub split_seed: Option<u64>,
}

/// What becomes of a run that is in the output folder already.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IfFound {
    /// It is left alone, and the new one is refused.
    #[default]
    Refuse,
    /// It goes on from its checkpoint; without one, that is an error.
    Resume,
    /// It is replaced.
    Overwrite,
}

const SECTIONS: [&str; 6] = ["data", "network", "pretrain", "train", "transfer", "tune"];

/// Keys of the table `data`: those of [`DataConfig`], and those of [`TrainOptions`] that are about the examples of a step.
const OF_SOURCES: [&str; 5] = ["train", "test", "test_share", "stratified", "split_seed"];
const OF_STEPS: [&str; 9] = [
    "batch",
    "global_batch",
    "micro_batch",
    "normaliser",
    "target_normaliser",
    "shuffle",
    "by_length",
    "seed",
    "class_weights",
];
/// Keys of the table `train`.
const OF_TRAINING: [&str; 11] = [
    "epochs",
    "steps",
    "workers",
    "mode",
    "prefetch",
    "evaluate",
    "evaluate_every",
    "auc_thresholds",
    "early_stopping",
    "plateau",
    "checkpoint",
];

impl Job {
    /// Reads a job file, TOML or JSON by its ending, or either from standard input if the path is `-`, with settings of the form `path=value`
    /// laid over it.
    pub fn read(path: &Path, settings: &[String]) -> Result<Self, Error> {
        JobFile::read(path)?.job(settings)
    }

    /// A job that came as text, with the settings that were laid over it; `origin` says where from.
    pub fn from_text(text: &str, is_json: bool, name: &str, origin: &str, settings: &[String]) -> Result<Self, Error> {
        Self::parse_blaming(text, is_json, name, origin, settings)
    }

    /// The built-in digits job.
    pub fn digits(settings: &[String]) -> Result<Self, Error> {
        JobFile::digits().job(settings)
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
            let table: toml::Table = toml::from_str(text).map_err(|error| {
                let line = error.span().map(|span| line_at(text, span.start));
                wrong(line, error.message().to_owned())
            })?;
            let table = toml::Value::Table(table);
            if let Some((path, found)) = not_finite("", &table) {
                let (section, key) = path.split_once('.').unwrap_or(("", &path));
                let line = find_line(text, section, first_part(key)).or_else(|| find_line(text, "", section));
                return Err(wrong(line, format!("`{path}`: expected a finite number, found {found}")));
            }
            tree_of(table)
        };
        spell_out_mode(&mut tree);
        let mut displaced = Vec::new();
        for setting in settings {
            displaced.extend(lay_over(&mut tree, setting)?);
        }
        spell_out_mode(&mut tree);
        let Value::Object(mut sections) = tree else {
            return Err(wrong(None, "expected the tables `data`, `network` and `train`".into()));
        };
        // Where a key stands in the file; only TOML keeps track of it.
        let line = |section: &str, key: &str| if is_json { None } else { find_line(text, section, key) };
        if let Some(unknown) = sections.keys().find(|key| !SECTIONS.contains(&key.as_str())) {
            let message = format!(
                "unknown field `{unknown}`, expected one of `data`, `network`, `pretrain`, `train`, `transfer`, `tune`"
            );
            return Err(wrong(line("", unknown), explain(&message, &[])));
        }
        let refused =
            |(section, key, message): Refused| wrong(line(&section, &key).or_else(|| line("", &section)), message);
        if !sections.contains_key("data") {
            return Err(wrong(None, "missing table `data`".into()));
        }
        let mut data = table(&mut sections, "data", &[&OF_SOURCES[..], &OF_STEPS].concat()).map_err(refused)?;
        let train = table(&mut sections, "train", &OF_TRAINING).map_err(refused)?;
        if data.contains_key("batch") && data.contains_key("global_batch") {
            let message =
                "`data.batch` is what one worker takes and `data.global_batch` what all take: set one of them";
            return Err(wrong(line("data", "global_batch"), message.into()));
        }
        let [has_seed, has_workers, has_mode] =
            [data.contains_key("seed"), train.contains_key("workers"), train.contains_key("mode")];
        let of_steps = data.iter().filter(|(key, _)| OF_STEPS.contains(&key.as_str()));
        let settings: Map<String, Value> =
            of_steps.map(|(key, value)| (key.clone(), value.clone())).chain(train).collect();
        data.retain(|key, _| OF_SOURCES.contains(&key.as_str()));
        let data: DataConfig = read(data).map_err(refused)?;
        let mut options: TrainOptions = read(settings).map_err(refused)?;
        let mut network = sections.remove("network").ok_or_else(|| wrong(None, "missing table `network`".into()))?;
        let auto = Auto::take(&mut network);
        let network = NetworkConfig::from_value(network).map_err(|error| {
            let at = match &error {
                paceline_nn::Error::Layer { index, .. } => line("network.layers", &index.to_string()),
                other => first_quoted(&other.to_string()).and_then(|key| line("network", key)),
            };
            wrong(at.or_else(|| line("", "network")), error.to_string())
        })?;
        let transfer: Option<Transfer> = match sections.remove("transfer").filter(|value| !value.is_null()) {
            None => None,
            Some(value) => Some(serde_path_to_error::deserialize(value).map_err(|error| {
                let path = error.path().to_string();
                let message = explain(&error.into_inner().to_string(), &[]);
                wrong(line("transfer", &path).or_else(|| line("", "transfer")), format!("in `transfer`: {message}"))
            })?),
        };
        let network = match &transfer {
            None => network,
            Some(transfer) => {
                transfer.check(&network).map_err(|message| wrong(line("", "transfer"), message))?;
                transfer.frozen(network)
            }
        };
        let tune: Option<TuneConfig> = match sections.remove("tune").filter(|value| !value.is_null()) {
            None => None,
            Some(value) => Some(serde_path_to_error::deserialize(value).map_err(|error| {
                let path = error.path().to_string();
                let message = explain(&error.into_inner().to_string(), &[]);
                wrong(line("tune", &path).or_else(|| line("", "tune")), format!("in `tune`: {message}"))
            })?),
        };
        let (pretrain, phase) = match sections.remove("pretrain") {
            None | Some(Value::Null) => (None, None),
            Some(Value::Object(table)) => {
                let table = table.into_iter().filter(|(_, value)| !value.is_null()).collect();
                let (read, phase) = PretrainConfig::read(table, &network).map_err(|(path, message)| {
                    let (above, key) = path.rsplit_once('.').unwrap_or(("", &path));
                    let section = format!("pretrain.{above}");
                    let line = line(section.trim_end_matches('.'), key).or_else(|| line("", "pretrain"));
                    wrong(line, message)
                })?;
                (Some(read), phase)
            }
            Some(other) => {
                return Err(wrong(line("", "pretrain"), format!("in `pretrain`: expected a table, found {other}")));
            }
        };
        if !has_seed {
            options.seed = network.seed;
        }
        match (has_workers, has_mode) {
            (false, true) if options.mode != Mode::Solo => {
                options.workers = cores().min(options.global_batch.unwrap_or(usize::MAX)).max(1);
            }
            (true, false) if options.workers != 1 => options.mode = Mode::Sync,
            _ => {}
        }
        let is_spread = !has_workers && !has_mode;
        let job = Self {
            name: name.into(),
            data,
            network,
            options,
            pretrain,
            phase: None,
            fitted_to: None,
            transfer,
            is_spread,
            cores: None,
            tune,
            registry: Registry::default(),
            auto,
            written: Written { origin: origin.into(), text: (!is_json).then(|| text.to_owned()), displaced },
        };
        job.validate().map_err(refused)?;
        let Some(phase) = phase else { return Ok(job) };
        let mut phases = job.phases();
        match phase.checked_sub(1).filter(|at| *at < phases.len()) {
            Some(at) => Ok(phases.swap_remove(at)),
            None => {
                let message = format!("`pretrain.phase`: expected one of the {} phases, found {phase}", phases.len());
                Err(wrong(line("pretrain", "phase"), message))
            }
        }
    }

    /// Keys of its file that gave way to settings of the command line which cannot hold beside them, a sentence each.
    pub fn notes(&self) -> &[String] {
        &self.written.displaced
    }

    /// How one process trains it.
    fn options_of_process(&self) -> TrainOptions {
        let mut options = self.options.clone();
        if self.is_spread {
            options.spread(self.cores.unwrap_or_else(cores));
        }
        options
    }

    fn validate(&self) -> Result<(), Refused> {
        if self.data.test.is_some() && self.data.test_share.is_some() {
            let message = "`data.test` names the test data and `data.test_share` sets some of the training data aside \
                           for it: set one of them";
            return Err(("data".into(), "test_share".into(), message.into()));
        }
        if let Some(share) = self.data.test_share.filter(|s| !(*s > 0.0 && *s < 1.0)) {
            let message = format!("`data.test_share` must be between 0 and 1, found {share}");
            return Err(("data".into(), "test_share".into(), message));
        }
        self.options_of_process().check().map_err(|error| {
            let setting = match &error {
                Error::BadSetting { setting, .. } | Error::Unsuitable { setting, .. } => setting,
                _ => "train.mode",
            };
            let mut parts = setting.split('.').map(str::to_owned);
            (parts.next().unwrap_or_default(), parts.next().unwrap_or_default(), error.to_string())
        })
    }

    /// Opens the data and makes the trainer of one process. Relative paths are taken from where the program was started.
    pub fn trainer(
        &self,
        output: Option<PathBuf>,
        found: IfFound,
        open_options: &OpenOptions,
    ) -> Result<Trainer, Error> {
        let (resume, overwrite) = (found == IfFound::Resume, found == IfFound::Overwrite);
        self.trainer_of(TrainOptions { output, resume, overwrite, ..self.options_of_process() }, open_options)
    }

    /// As [`Self::trainer`], for a master of a run on many machines: `data.batch` is what one slot of one worker takes, however
    /// many cores there are where.
    pub fn cluster_trainer(&self, output: Option<PathBuf>, open_options: &OpenOptions) -> Result<Trainer, Error> {
        let mode = if self.options.mode == Mode::Solo { Mode::Sync } else { self.options.mode.clone() };
        if self.network.optimiser.searches() && mode == Mode::Sync {
            let message = "cannot be `sync` on many machines for a network whose `optimiser` searches: with `averaging` every worker \
                           searches over its own examples";
            return Err(Error::Unsuitable { setting: "train.mode", message: message.into() });
        }
        if self.options.plateau.is_some() {
            let message = "cannot be used on many machines, which go on while a state is evaluated: a schedule of the learning rate, such \
                           as `cosine` or `step`, falls everywhere at the same step";
            return Err(Error::Unsuitable { setting: "train.plateau", message: message.into() });
        }
        self.trainer_of(TrainOptions { output, workers: 1, mode, ..self.options.clone() }, open_options)
    }

    /// As [`Self::cluster_trainer`], for a worker, which judges nothing: test data is not opened.
    pub fn worker_trainer(&self, open_options: &OpenOptions) -> Result<Trainer, Error> {
        let data = DataConfig { test: None, ..self.data.clone() };
        // What the network begins with comes from the master.
        Self { data, transfer: None, ..self.clone() }.cluster_trainer(None, open_options)
    }

    fn trainer_of(&self, options: TrainOptions, open_options: &OpenOptions) -> Result<Trainer, Error> {
        let network_of =
            |config| Network::with_registry(config, &self.registry).map_err(|error| self.written.locate(error));
        // Shapes first: a wrong network should not wait for a download.
        let known = if self.auto.is_nothing() { Some(network_of(self.network.clone())?) } else { None };
        let (train, test) = self.sources(open_options)?;
        let network = match known {
            Some(network) => network,
            None => network_of(self.auto.settle(self.network.clone(), train.shape(), train.schema())?)?,
        };
        let mut trainer = Trainer::new(network, train, options)?.registry(self.registry.clone());
        if let Some(data) = &self.fitted_to {
            trainer.fitted_to = Self { data: data.clone(), ..self.clone() }.sources(open_options)?.0;
        }
        // A run that goes on has begun already.
        if let Some(transfer) = self.transfer.as_ref().filter(|_| !trainer.options.resume) {
            trainer = trainer.transferred(transfer)?;
        }
        match test {
            Some(test) => trainer.test(test),
            None => Ok(trainer),
        }
    }

    /// How its training data falls into parts: by groups where the source names them, by classes where the job says so.
    pub fn division(&self, train: Arc<dyn Source>) -> Result<Division, Error> {
        let seed = self.data.split_seed.unwrap_or(self.options.seed);
        match train.groups() {
            Some(_) if self.data.stratified => {
                let message = "cannot hold beside the `group` of the source: set one of them".into();
                Err(Error::Unsuitable { setting: "data.stratified", message })
            }
            Some(groups) => Ok(Division::by_group(train, seed, groups)),
            None if self.data.stratified => Ok(Division::by_class(train, seed)?),
            None => Ok(Division::by_chance(train, seed)),
        }
    }

    pub(crate) fn sources(&self, options: &OpenOptions) -> Result<Sources, Error> {
        let train = open(&self.data.train, options)?;
        match (&self.data.test, self.data.test_share) {
            (Some(test), _) => {
                // Columns, categories and classes of the training data hold for the test data too.
                let options = OpenOptions { schema: train.schema().cloned(), ..options.clone() };
                Ok((train, Some(open(test, &options)?)))
            }
            (None, Some(_)) if train.partitions().is_some() => Err(Error::PartitionsAreNotSplit),
            (None, Some(share)) => {
                let (train, test) = self.division(train)?.split(1.0 - share)?;
                Ok((train, Some(test)))
            }
            (None, None) => Ok((train, None)),
        }
    }
}

/// What is learned from, and what the model is judged on.
type Sources = (Arc<dyn Source>, Option<Arc<dyn Source>>);

type Line = Option<usize>;

/// A table, a key of it, and what is wrong with that.
type Refused = (String, String, String);

/// The table of that name, with these keys and no others. What is `null` is not set.
fn table(sections: &mut Map<String, Value>, name: &str, keys: &[&str]) -> Result<Map<String, Value>, Refused> {
    let table = match sections.remove(name) {
        Some(Value::Object(table)) => table,
        Some(other) => {
            return Err((name.into(), String::new(), format!("in `{name}`: expected a table, found {other}")));
        }
        None => Map::new(),
    };
    if let Some(unknown) = table.keys().find(|key| !keys.contains(&key.as_str())) {
        let expected: Vec<String> = keys.iter().map(|key| format!("`{key}`")).collect();
        let message = format!("unknown field `{unknown}`, expected one of {}", expected.join(", "));
        return Err((name.into(), unknown.clone(), format!("in `{name}`: {}", explain(&message, &[]))));
    }
    Ok(table.into_iter().filter(|(_, value)| !value.is_null()).collect())
}

/// Reads what was gathered of the tables.
fn read<T: serde::de::DeserializeOwned>(settings: Map<String, Value>) -> Result<T, Refused> {
    serde_path_to_error::deserialize(Value::Object(settings)).map_err(|error| {
        let path = error.path().to_string();
        let message = explain(&error.into_inner().to_string(), &[]);
        let key = path.split(['.', '[']).next().unwrap_or_default().to_owned();
        let section = if OF_TRAINING.contains(&key.as_str()) { "train" } else { "data" };
        let shown = if message.contains(&format!("`{key}`")) || key.is_empty() || path == "." {
            format!("in `{section}`: {message}")
        } else {
            format!("`{section}.{path}`: {message}")
        };
        (section.to_owned(), key, shown)
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

/// The text of a job file with settings laid over it.
pub(crate) fn laid_over(text: &str, is_json: bool, settings: &[String]) -> Result<String, Error> {
    let wrong = |message: String| Error::Job { origin: "the job".into(), line: None, message };
    let mut tree: Value = match is_json {
        true => serde_json::from_str(text).map_err(|error| wrong(error.to_string()))?,
        false => tree_of(toml::Value::Table(toml::from_str(text).map_err(|error| wrong(error.to_string()))?)),
    };
    spell_out_mode(&mut tree);
    settings.iter().try_for_each(|setting| lay_over(&mut tree, setting).map(drop))?;
    match is_json {
        true => serde_json::to_string_pretty(&tree).map_err(|error| wrong(error.to_string())),
        false => toml::to_string(&tree).map_err(|error| wrong(error.to_string())),
    }
}

/// Lays `path=value` over the tree; the value is read as TOML, or taken as text if it is none. Gives a sentence if another key gives way.
fn lay_over(tree: &mut Value, setting: &str) -> Result<Option<String>, Error> {
    let wrong = |message: String| Error::Setting { setting: setting.into(), message };
    let Some((path, text)) = setting.split_once('=') else {
        return Err(wrong("expected `path=value`, as in `train.epochs=3`".into()));
    };
    let value = toml::from_str::<toml::Table>(&format!("value = {text}"));
    let value = match value.ok().and_then(|mut table| table.remove("value")) {
        Some(value) => {
            if let Some((_, found)) = not_finite("", &value) {
                return Err(wrong(format!("expected a finite number, found {found}")));
            }
            tree_of(value)
        }
        None => Value::String(text.into()),
    };
    // Of two ways to say how many examples a step has, or where the test data is, the one that is laid over counts.
    let ways = [("batch", "global_batch"), ("test", "test_share")];
    let mut displaced = None;
    for (set, other) in ways.into_iter().flat_map(|(one, two)| [(one, two), (two, one)]) {
        if path.trim().strip_prefix("data.") == Some(set)
            && let Some(data) = tree.get_mut("data").and_then(Value::as_object_mut)
            && let Some(old) = data.remove(other)
        {
            displaced = Some(format!("`data.{other} = {old}` of the job gives way to `{setting}`"));
        }
    }
    let mode_of = |value: &Value| match value {
        Value::String(name) => Some(name.clone()),
        Value::Object(table) => table.keys().next().cloned(),
        _ => None,
    };
    if path.trim() == "train.mode"
        && let (Some(old), Some(new)) = (tree.pointer("/train/mode").and_then(mode_of), mode_of(&value))
        && old != new
    {
        displaced = Some(format!("`train.mode = {old:?}` of the job gives way to `{setting}`"));
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
    Ok(displaced)
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

/// The path of the first number that is none; JSON, which the rest is read as, has no word for it.
fn not_finite(path: &str, value: &toml::Value) -> Option<(String, f64)> {
    let below = |key: &str| if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
    match value {
        toml::Value::Float(number) if !number.is_finite() => Some((path.to_owned(), *number)),
        toml::Value::Table(table) => table.iter().find_map(|(key, value)| not_finite(&below(key), value)),
        toml::Value::Array(list) => {
            list.iter().enumerate().find_map(|(index, value)| not_finite(&below(&index.to_string()), value))
        }
        _ => None,
    }
}

fn tree_of(value: toml::Value) -> Value {
    serde_json::to_value(value).expect("keys are text and numbers are finite")
}

fn first_part(path: &str) -> &str {
    path.split('.').next().unwrap_or(path)
}

fn first_quoted(message: &str) -> Option<&str> {
    message.split('`').nth(1).and_then(|quoted| quoted.split(['.', '[']).next())
}
