use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use paceline_data::{LoaderOptions, NormaliserKind, Source, TargetShape, check_by_length};
use paceline_model::{Progress, State};
use paceline_nn::{Engine, Loss as LossFunction, ModelFile, Network, OutputInfo, Registry};

use crate::normalisers::suiting_targets;
use crate::run::Run;
use crate::run::folder::Lock;
use crate::run::resume::{DataKey, json};
use crate::run::start_from::Begins;
use crate::transfer::Transferred;
use crate::{
    Error, Evaluator, Event, Journal, Metric, Mode, Normalisers, Scores, Stop, TrainOptions, counted, evaluate,
};

/// What a run came to.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The model as it was at the end.
    pub model: ModelFile,
    /// How good it is on the test data.
    pub scores: Option<Scores>,
    /// Whether the run was stopped before its end.
    pub stopped: bool,
    /// Why it ended before its last epoch, by the rules of early stopping.
    pub ended_early: Option<String>,
}

/// Examples that go through the network at once when it is judged.
const JUDGED_AT_A_TIME: usize = 256;

/// Trains a network on a source.
pub struct Trainer {
    pub(crate) network: Network,
    pub(crate) train: Arc<dyn Source>,
    pub(crate) test: Option<Arc<dyn Source>>,
    /// What the normaliser is fitted to.
    pub(crate) fitted_to: Arc<dyn Source>,
    pub(crate) options: TrainOptions,
    pub(crate) registry: Registry,
    pub(crate) stop: Stop,
    pub(crate) data: DataKey,
    /// What it begins with, if that is not a new network.
    pub(crate) begins: Option<Begins>,
    /// What it has taken from a file of weights, to be told.
    pub(crate) transferred: Option<Transferred>,
    /// What keeps other runs out of its folder, if somebody else looks after that.
    pub(crate) lock: Option<Arc<Lock>>,
}

impl Trainer {
    /// A run of this network over this data.
    pub fn new(network: Network, train: Arc<dyn Source>, options: TrainOptions) -> Result<Self, Error> {
        fits(&network, &*train, "training")?;
        let network = match &train.shape().targets {
            TargetShape::Values { names } if network.wants_targets() => network.for_targets(names.len()),
            _ => network,
        };
        options.check()?;
        if network.config().optimiser.searches() && matches!(options.mode, Mode::Shared(_)) {
            let message = "cannot be `shared` for a network whose `optimiser` searches, which has no updates to share: expected `sync` or \
                           `averaging`";
            return Err(Error::Unsuitable { setting: "train.mode", message: message.into() });
        }
        if matches!(options.mode, Mode::Shared(_))
            && network.segments().segments().iter().any(|s| !s.constraints.is_empty())
        {
            let message = "cannot be `shared` for a network with `constraints`, which hold for whole updates: expected `sync` or `averaging`";
            return Err(Error::Unsuitable { setting: "train.mode", message: message.into() });
        }
        if options.by_length {
            check_by_length(&*train, options.shuffle)?;
        }
        if train.examples() == 0 {
            let (found, expected) = ("no examples".into(), "at least one".into());
            return Err(Error::Misfit { what: "training", found, expected });
        }
        let mut options = options;
        options.class_weights = options.class_weights.map(|weights| weights.settled(&*train)).transpose()?;
        let data = DataKey::of(&options, &*train)?;
        let (registry, stop) = (Registry::default(), Stop::default());
        Ok(Self {
            network,
            fitted_to: train.clone(),
            train,
            test: None,
            options,
            registry,
            stop,
            data,
            begins: None,
            transferred: None,
            lock: None,
        })
    }

    /// Judges the model on this data after every epoch.
    pub fn test(mut self, test: Arc<dyn Source>) -> Result<Self, Error> {
        fits(&self.network, &*test, "test")?;
        if test.examples() == 0 {
            let expected =
                "at least one; a larger `data.test_share`, or `train.evaluate = false` with all data to learn from";
            return Err(Error::Misfit { what: "test", found: "no examples".into(), expected: expected.into() });
        }
        self.test = Some(test);
        Ok(self)
    }

    /// Knows the layers and losses of other crates, so that a run with them can be resumed.
    #[must_use]
    pub fn registry(mut self, registry: Registry) -> Self {
        self.registry = registry;
        self
    }

    /// The layers and losses of other crates that it knows.
    pub fn known(&self) -> &Registry {
        &self.registry
    }

    /// What is trained.
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// What is learned from.
    pub fn train_source(&self) -> &Arc<dyn Source> {
        &self.train
    }

    /// What the model is judged on.
    pub fn test_source(&self) -> Option<&Arc<dyn Source>> {
        self.test.as_ref()
    }

    /// How it is trained.
    pub fn options(&self) -> &TrainOptions {
        &self.options
    }

    /// What is done to features and targets, fitted to the training data.
    pub fn fit_normalisers(&self) -> Result<Normalisers, Error> {
        match &self.begins {
            Some(begins) => begins.normalisers.clone().or_of_targets(self, begins.is_pretrained),
            None => Normalisers::fit(self),
        }
    }

    /// A model file of a state of this run.
    pub fn model_file(&self, normalisers: &Normalisers, state: State, progress: Progress, step: u64) -> ModelFile {
        let mut extra = BTreeMap::new();
        normalisers.keep(&mut extra);
        if let Some(schema) = self.train.schema() {
            extra.insert("schema".into(), json(schema));
        }
        extra.insert("data".into(), json(&self.data));
        ModelFile { network: self.network.clone(), state, progress, step, extra, arrays: BTreeMap::new() }
    }

    /// Fails if early stopping is asked for and nothing can be judged by its rules.
    pub fn can_stop_early(&self) -> Result<(), Error> {
        crate::run::begin::can_stop_early(self)
    }

    /// How good a state is on the test data; none without any.
    pub fn judge(&self, normalisers: &Normalisers, state: &State) -> Result<Option<Scores>, Error> {
        let Some(test) = self.test.clone().filter(|_| self.options.evaluate) else { return Ok(None) };
        let options = LoaderOptions { batch: JUDGED_AT_A_TIME, shuffle: false, ..Default::default() };
        let options = normalisers.clone().into_options(options);
        let mut engine = Engine::new(self.network.clone());
        evaluate(&mut engine, state, &self.network, test, options, self.options.thresholds())
    }

    /// What stops this run from outside.
    pub fn stop(&self) -> Stop {
        self.stop.clone()
    }

    /// Tells what in the data was perhaps not meant so.
    pub fn warn(&self, listener: &mut dyn FnMut(&Event)) {
        // Both parts of a source that is split say the same.
        let mut said: Vec<&String> = Vec::new();
        for message in self.train.remarks().iter().chain(self.test.iter().flat_map(|test| test.remarks())) {
            if !said.contains(&message) {
                listener(&Event::Warning { message: message.clone() });
                said.push(message);
            }
        }
        if let (TargetShape::Classes { names }, 1) = (&self.train.shape().targets, self.network.outputs().count())
            && let outputs @ 2.. = self.network.output().len()
            && self.network.wants_targets()
            && names.len() < outputs
        {
            let message = format!(
                "the network has {outputs} outputs and the data {} classes: no example is of the others; `units = \"auto\"` makes one output \
                 for each class",
                names.len()
            );
            listener(&Event::Warning { message });
        }
        let is_standardised = self.begins.is_none()
            && self.options.target_normaliser.is_none()
            && suiting_targets(self) == NormaliserKind::Standardise;
        if is_standardised {
            let message = "targets are standardised: losses are those of targets with mean 0 and deviation 1, all other figures and \
                           predictions are in the units of the data; `data.target_normaliser = \"none\"` learns them as they are";
            listener(&Event::Note { message: message.into() });
        }
        if self.network.config().optimiser.searches() && self.options.step_examples() < self.train.examples() {
            let (all, there_are) = (self.options.step_examples(), self.train.examples());
            let alone = match self.options.mode {
                Mode::Averaging(_) => all / self.options.workers,
                _ => all,
            };
            let message = format!(
                "`network.optimiser` searches over each batch of {alone} examples by itself, of {there_are} that there are: what it has \
                 learned of one may not hold for the next; set `data.global_batch` to all of them"
            );
            listener(&Event::Warning { message });
        }
        if let Some(Transferred { taken, fresh, unused }) = self.transferred.clone() {
            listener(&Event::Transferred { taken, fresh, unused });
        }
    }

    /// Runs, and tells `listener` what happens.
    pub fn run(&self, listener: &mut dyn FnMut(&Event)) -> Result<Outcome, Error> {
        let mut resumable = false;
        let mut remarks = Vec::new();
        self.warn(&mut |event| {
            listener(event);
            remarks.push(event.clone());
        });
        let mut journal = None;
        let outcome = Run::begin(self).and_then(|mut run| {
            journal = self.journal(run.epochs_done());
            // Remarks on the data come before the folder is there, and belong into its log.
            remarks.iter().for_each(|event| told(event, journal.as_mut(), &mut |_| {}));
            let outcome = run.go(&mut |event| told(event, journal.as_mut(), listener));
            resumable = run.can_be_resumed();
            outcome
        });
        if let (Ok(Outcome { scores: Some(scores), stopped: false, .. }), Some(journal)) = (&outcome, &mut journal) {
            journal.conclude(scores);
        }
        let listener = &mut |event: &Event| told(event, journal.as_mut(), listener);
        match &outcome {
            Err(error) => listener(&Event::Failed { error: error.to_string(), resumable }),
            Ok(Outcome { stopped: true, .. }) => {
                listener(&Event::Failed { error: "stopped before its end, as it was asked to".into(), resumable });
            }
            Ok(_) => {}
        }
        outcome
    }

    /// What it writes down beside its model, behind so many epochs; nothing without a folder.
    fn journal(&self, epochs_done: u64) -> Option<Journal> {
        let folder = self.options.output.as_deref()?;
        Some(Journal::begin(folder, self.told_metrics(), epochs_done))
    }

    /// What of its test data is told.
    pub fn told_metrics(&self) -> Vec<Metric> {
        let test = self.test.as_ref().filter(|_| self.options.evaluate);
        let evaluator = test
            .and_then(|test| Evaluator::new(&test.shape().targets, &self.network, self.options.thresholds()))
            .map(Evaluator::scores);
        let Some(scores) = evaluator else { return Vec::new() };
        Metric::ALL.into_iter().filter(|metric| metric.is_told_of(&scores)).collect()
    }

    /// Keeps other runs out of its folder.
    pub(crate) fn take(&self, folder: &Path) -> Result<Arc<Lock>, Error> {
        self.lock.clone().map_or_else(|| Lock::take(folder).map(Arc::new), Ok)
    }

    pub(crate) fn path(&self, name: &str) -> Option<PathBuf> {
        self.options.output.as_ref().map(|folder| folder.join(name))
    }
}

/// Writes an event down and tells it.
fn told(event: &Event, journal: Option<&mut Journal>, listener: &mut dyn FnMut(&Event)) {
    if let Some(message) = journal.and_then(|journal| journal.tell(event)) {
        listener(&Event::Warning { message });
    }
    listener(event);
}

/// Whether a source has what a network takes.
pub(crate) fn fits_features(network: &Network, source: &dyn Source, what: &'static str) -> Result<(), Error> {
    let shape = source.shape();
    if shape.width() != network.input().len() {
        let mut found = counted(shape.width() as u64, "feature") + " per example";
        if let [_, _, ..] = shape.features[..] {
            let sizes: Vec<String> = shape.features.iter().map(usize::to_string).collect();
            found += &format!(" ({})", sizes.join(" × "));
        }
        return Err(Error::Misfit { what, found, expected: network.input().to_string() });
    }
    if let (&[steps, features], Some(own)) = (&shape.features[..], network.input().steps())
        && (steps, features) != (own, network.input().channels())
    {
        let found = format!("sequences of {steps} steps of {features}");
        return Err(Error::Misfit { what, found, expected: network.input().to_string() });
    }
    Ok(())
}

/// The first label with texts at an end of the network that does not tell their classes apart: the numbers of classes are no amounts.
fn text_label<'a>(network: &Network, source: &dyn Source, names: &'a [String]) -> Option<&'a str> {
    let classes = &source.schema()?.target_classes;
    let count = |column: usize| classes.get(column).map_or(0, Vec::len);
    let ends = network.targets_of(names.len())?;
    let unsuited = ends.into_iter().zip(network.outputs()).flat_map(|(columns, output)| {
        let tells = match (columns.len(), output.columns.len()) {
            (1, 1) if *output.loss == LossFunction::BinaryCrossEntropy => 2,
            (1, outputs) if outputs > 1 => outputs,
            _ => 0,
        };
        columns.filter(move |column| count(*column) > tells)
    });
    unsuited.into_iter().next().map(|column| names[column].as_str())
}

/// Whether a source has what a network takes and wants.
fn fits(network: &Network, source: &dyn Source, what: &'static str) -> Result<(), Error> {
    fits_features(network, source, what)?;
    let misfit = |found: String, expected: String| Err(Error::Misfit { what, found, expected });
    if !network.wants_targets() {
        return Ok(());
    }
    let outputs = network.output().len();
    match &source.shape().targets {
        TargetShape::None => misfit("no targets".into(), "something to learn: name the label column".into()),
        TargetShape::Classes { .. } if network.outputs().count() > 1 => misfit(
            "one class an example".into(),
            format!(
                "targets for each of its {} ends: name their columns, as in `?label=a,b`",
                network.outputs().count()
            ),
        ),
        TargetShape::Classes { .. } if network.output().steps().is_some() => misfit(
            "one class an example".into(),
            "targets for every step of a sequence, or a layer before its end that gives one row, such as `last_time_step`"
                .into(),
        ),
        TargetShape::Classes { names } if names.len() > outputs.max(if outputs == 1 { 2 } else { 0 }) => {
            misfit(format!("{} classes", names.len()), format!("at most {outputs}, as many as it has outputs"))
        }
        TargetShape::Classes { .. } if network.outputs().any(|output| output.loss.told(output.shape, &[]).is_some()) => {
            misfit("one class an example".into(), "targets that are numbers: name their columns, as in `?label=a,b`".into())
        }
        TargetShape::Values { names } if network.targets_of(names.len()).is_none() => {
            let wanted = |output: OutputInfo<'_>| output.loss.targets(output.shape).unwrap_or(output.columns.len());
            let wanted: usize = network.outputs().map(wanted).sum();
            let why = if wanted == outputs { "as it has outputs" } else { "as its loss wants" };
            let expected = format!("{wanted}, as many {why}");
            misfit(format!("{} target columns", names.len()), expected)
        }
        TargetShape::Values { names } => match text_label(network, source, names) {
            Some(label) => misfit(
                format!("the label `{label}`, whose texts are classes"),
                "numbers there, or fewer classes: give each label an end of its own with `units = \"auto\"`".into(),
            ),
            None => Ok(()),
        },
        TargetShape::Classes { .. } => Ok(()),
    }
}
