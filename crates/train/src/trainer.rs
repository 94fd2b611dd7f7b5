use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use paceline_data::{Loader, LoaderOptions, Normaliser, NormaliserKind, Source, TargetShape};
use paceline_model::{Batch, Loss, Progress};
use paceline_nn::{Engine, Instructions, ModelFile, Network, Registry};

use crate::resume::{DataKey, same_run};
use crate::saved::load;
use crate::{Error, Event, Exchange, Scores, Solo, Worker, evaluate};

/// How a run goes.
#[derive(Clone, Debug)]
pub struct TrainOptions {
    /// Examples in a minibatch.
    pub batch: usize,
    /// Times that all examples are seen.
    pub epochs: u64,
    /// Ends the run after so many steps, even within an epoch.
    pub steps: Option<u64>,
    /// Whether every epoch has an order of its own.
    pub shuffle: bool,
    /// What the order depends on.
    pub seed: u64,
    /// Batches that are read ahead.
    pub prefetch: usize,
    /// What is done to the features; what suits the source if not set.
    pub normaliser: Option<NormaliserKind>,
    /// What an example of each class weighs.
    pub class_weights: Option<Vec<f32>>,
    /// Whether the model is judged on the test data after every epoch.
    pub evaluate: bool,
    /// Where the model and checkpoints go; nothing is written if not set.
    pub output: Option<PathBuf>,
    /// Writes a checkpoint every so many steps, besides the one after every epoch.
    pub checkpoint_every: Option<u64>,
    /// Goes on from the checkpoint in the output folder.
    pub resume: bool,
}

impl Default for TrainOptions {
    fn default() -> Self {
        Self {
            batch: 128,
            epochs: 1,
            steps: None,
            shuffle: true,
            seed: 0,
            prefetch: 4,
            normaliser: None,
            class_weights: None,
            evaluate: true,
            output: None,
            checkpoint_every: None,
            resume: false,
        }
    }
}

/// Asks a run to stop after the step that it is at. Clones ask the same run.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Asks.
    pub fn ask(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    fn is_asked(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// What a run came to.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The model as it was at the end.
    pub model: ModelFile,
    /// How good it is on the test data.
    pub scores: Option<Scores>,
    /// Whether the run was stopped before its end.
    pub stopped: bool,
}

/// Trains a network on a source.
pub struct Trainer {
    network: Network,
    train: Arc<dyn Source>,
    test: Option<Arc<dyn Source>>,
    options: TrainOptions,
    registry: Registry,
    stop: Stop,
}

/// Steps are told at most this often: a terminal cannot show more, and a log need not.
const TELL_EVERY: Duration = Duration::from_millis(100);

const CHECKPOINT: &str = "checkpoint.safetensors";
const MODEL: &str = "model.safetensors";

impl Trainer {
    /// A run of this network over this data.
    pub fn new(network: Network, train: Arc<dyn Source>, options: TrainOptions) -> Result<Self, Error> {
        fits(&network, &*train, "training")?;
        if options.batch == 0 {
            return Err(Error::BadSetting { setting: "batch", expected: "at least 1", found: "0".into() });
        }
        if train.examples() == 0 {
            let (found, expected) = ("no examples".into(), "at least one".into());
            return Err(Error::Misfit { what: "training", found, expected });
        }
        Ok(Self { network, train, test: None, options, registry: Registry::default(), stop: Stop::default() })
    }

    /// Judges the model on this data after every epoch.
    pub fn test(mut self, test: Arc<dyn Source>) -> Result<Self, Error> {
        fits(&self.network, &*test, "test")?;
        self.test = Some(test);
        Ok(self)
    }

    /// Knows the layers and losses of other crates, so that a run with them can be resumed.
    #[must_use]
    pub fn registry(mut self, registry: Registry) -> Self {
        self.registry = registry;
        self
    }

    /// What stops this run from outside.
    pub fn stop(&self) -> Stop {
        self.stop.clone()
    }

    /// Runs, and tells `listener` what happens.
    pub fn run(&self, listener: &mut dyn FnMut(&Event)) -> Result<Outcome, Error> {
        let mut resumable = false;
        let outcome = Run::begin(self).and_then(|mut run| {
            let outcome = run.go(listener);
            resumable = run.last_checkpoint.is_some();
            outcome
        });
        match &outcome {
            Err(error) => listener(&Event::Failed { error: error.to_string(), resumable }),
            Ok(Outcome { stopped: true, .. }) => {
                listener(&Event::Failed { error: "stopped before its end, as it was asked to".into(), resumable });
            }
            Ok(_) => {}
        }
        outcome
    }

    fn path(&self, name: &str) -> Option<PathBuf> {
        self.options.output.as_ref().map(|folder| folder.join(name))
    }
}

/// A run under way.
struct Run<'a> {
    trainer: &'a Trainer,
    worker: Worker<Engine, Solo>,
    loader: Loader,
    normaliser: Option<Normaliser>,
    /// The step of the epoch that comes next.
    step: u64,
    /// The losses of the epoch so far.
    losses: Loss,
    began: Instant,
    /// When a step was last told.
    told: Option<Instant>,
    /// Time that went into judging instead of training.
    judging: Duration,
    examples: u64,
    last_checkpoint: Option<PathBuf>,
}

impl<'a> Run<'a> {
    fn begin(trainer: &'a Trainer) -> Result<Self, Error> {
        let options = &trainer.options;
        // Before the folder is made: a resume that is refused leaves nothing behind.
        let saved = match (options.resume, trainer.path(CHECKPOINT)) {
            (true, Some(path)) if path.exists() => Some((load(&path, &trainer.registry)?, path)),
            (true, path) => return Err(Error::NothingToResume { path: path.unwrap_or_default() }),
            (false, _) => None,
        };
        if let Some(folder) = &options.output {
            writable(folder)?;
        }
        let mut worker = Worker::new(Engine::new(trainer.network.clone()), Solo);
        let (mut step, mut losses, mut last_checkpoint) = (0, Loss::default(), None);
        let normaliser = match saved {
            None => {
                let kind = options.normaliser.unwrap_or(trainer.train.default_normaliser());
                Normaliser::fit(kind, &*trainer.train)?
            }
            Some((saved, path)) => {
                same_run(&trainer.network, &DataKey::of(options, &*trainer.train), &saved, &path)?;
                let normaliser = saved.extra.get("normaliser").map(|json| read_extra(&path, "normaliser", json));
                losses = saved.extra.get("losses").map(|json| read_extra(&path, "losses", json)).transpose()?.map_or(
                    losses,
                    |[sum, weight]: [u64; 2]| Loss { sum: f64::from_bits(sum), weight: f64::from_bits(weight) },
                );
                (worker.state, worker.progress, step) = (saved.state, saved.progress, saved.step);
                last_checkpoint = Some(path);
                normaliser.transpose()?
            }
        };
        let loader = Loader::new(
            trainer.train.clone(),
            LoaderOptions {
                batch: options.batch,
                shuffle: options.shuffle,
                seed: options.seed,
                prefetch: options.prefetch,
                normaliser: normaliser.clone(),
                class_weights: options.class_weights.clone(),
            },
        )?;
        let (began, judging, examples) = (Instant::now(), Duration::ZERO, 0);
        Ok(Self {
            trainer,
            worker,
            loader,
            normaliser,
            step,
            losses,
            began,
            told: None,
            judging,
            examples,
            last_checkpoint,
        })
    }

    fn go(&mut self, listener: &mut dyn FnMut(&Event)) -> Result<Outcome, Error> {
        let options = &self.trainer.options;
        listener(&Event::Started {
            mode: self.worker.exchange.mode(),
            workers: 1,
            parameters: self.trainer.network.parameter_count(),
            examples: self.trainer.train.examples(),
            steps_per_epoch: self.loader.steps_per_epoch(),
            epochs: options.epochs,
            steps: self.loader.steps_per_epoch().saturating_mul(options.epochs).min(options.steps.unwrap_or(u64::MAX)),
            resumed_at: self.worker.progress.iteration,
            instructions: Instructions::detect().name(),
        });
        let mut scores = None;
        while self.worker.progress.epoch < options.epochs && !self.is_done() {
            match self.epoch(listener)? {
                Ended::Whole => {
                    scores = self.judge(listener)?;
                    self.expect_sane(scores.as_ref())?;
                }
                Ended::Part => {}
            }
            self.checkpoint(listener)?;
            let goes_on = self.worker.progress.epoch < options.epochs && !self.is_done();
            if self.trainer.stop.is_asked() && goes_on {
                let checkpoint = self.last_checkpoint.clone();
                listener(&Event::Paused { iteration: self.worker.progress.iteration, checkpoint });
                return Ok(Outcome { model: self.model(), scores, stopped: true });
            }
        }
        if scores.is_none() {
            scores = self.judge(listener)?;
        }
        let path = self.trainer.path(MODEL);
        let model = self.model();
        if let Some(path) = &path {
            model.save(path)?;
        }
        let seconds = self.began.elapsed().as_secs_f64();
        let training = (self.began.elapsed() - self.judging).as_secs_f64();
        listener(&Event::Finished {
            mode: self.worker.exchange.mode(),
            workers: 1,
            epochs: self.worker.progress.epoch,
            examples: self.examples,
            parameters: self.trainer.network.parameter_count(),
            seconds,
            examples_per_second: self.examples as f64 / training.max(1e-9),
            score: scores.as_ref().map_or(self.losses.mean(), Scores::score),
            accuracy: scores.as_ref().and_then(Scores::accuracy),
            bytes_sent: 0,
            model: path,
        });
        Ok(Outcome { model, scores, stopped: false })
    }

    /// The rest of one epoch.
    fn epoch(&mut self, listener: &mut dyn FnMut(&Event)) -> Result<Ended, Error> {
        let epoch = self.worker.progress.epoch;
        if self.step == 0 {
            self.losses = Loss::default();
        }
        let began = Instant::now();
        let (mut mark, mut since, mut seen) = (began, 0, 0);
        let mut batches = self.loader.epoch(epoch, self.step);
        while let Some(batch) = batches.next() {
            let batch = batch?;
            let report = self.worker.step(&batch)?;
            if !report.loss.sum.is_finite() {
                return Err(self.not_finite(&batch, report.loss.mean()));
            }
            self.losses.merge(report.loss);
            self.step += 1;
            since += batch.examples();
            seen += batch.examples();
            self.examples += batch.examples() as u64;
            batches.recycle(batch);
            if self.told.is_none_or(|told| told.elapsed() >= TELL_EVERY) {
                listener(&Event::Step {
                    epoch,
                    step: self.step - 1,
                    iteration: self.worker.progress.iteration,
                    loss: report.loss.mean(),
                    examples_per_second: since as f64 / mark.elapsed().as_secs_f64().max(1e-9),
                });
                (mark, since) = (Instant::now(), 0);
                self.told = Some(mark);
            }
            let whole = self.step == self.loader.steps_per_epoch();
            if (self.trainer.stop.is_asked() || self.is_done()) && !whole {
                return Ok(Ended::Part);
            }
            let every = self.trainer.options.checkpoint_every.filter(|&n| n > 0 && !whole);
            if every.is_some_and(|n| self.worker.progress.iteration.is_multiple_of(n)) {
                self.checkpoint(listener)?;
            }
        }
        self.worker.progress.epoch += 1;
        self.step = 0;
        let seconds = began.elapsed().as_secs_f64();
        let examples_per_second = seen as f64 / seconds.max(1e-9);
        listener(&Event::Epoch { epoch, loss: self.losses.mean(), seconds, examples_per_second });
        Ok(Ended::Whole)
    }

    fn is_done(&self) -> bool {
        self.trainer.options.steps.is_some_and(|steps| self.worker.progress.iteration >= steps)
    }

    fn judge(&mut self, listener: &mut dyn FnMut(&Event)) -> Result<Option<Scores>, Error> {
        let Some(test) = self.trainer.test.as_ref().filter(|_| self.trainer.options.evaluate) else { return Ok(None) };
        let began = Instant::now();
        let options = LoaderOptions { normaliser: self.normaliser.clone(), ..self.loader.options().clone() };
        let outputs = self.trainer.network.output().len();
        let scores = evaluate(&mut self.worker.model, &self.worker.state, outputs, test.clone(), options)?;
        self.judging += began.elapsed();
        if let Some(scores) = &scores {
            let epoch = self.worker.progress.epoch.saturating_sub(1);
            listener(&Event::Evaluation { epoch, scores: scores.clone() });
        }
        Ok(scores)
    }

    /// Writes a checkpoint, unless nothing is to be written or what there is would be worth less than the last one.
    fn checkpoint(&mut self, listener: &mut dyn FnMut(&Event)) -> Result<(), Error> {
        let Some(path) = self.trainer.path(CHECKPOINT) else { return Ok(()) };
        if !self.worker.state.parameters.iter().all(|p| p.is_finite()) {
            return Err(Error::NotFinite {
                loss: f64::NAN,
                step: self.worker.progress.iteration,
                epoch: self.worker.progress.epoch,
                cause: "the last update made a parameter infinite: the learning rate is most likely too high".into(),
                checkpoint: self.kept(),
            });
        }
        self.model().save(&path)?;
        listener(&Event::Checkpoint { iteration: self.worker.progress.iteration, path: path.clone() });
        self.last_checkpoint = Some(path);
        Ok(())
    }

    fn model(&self) -> ModelFile {
        let mut extra = BTreeMap::new();
        if let Some(normaliser) = &self.normaliser {
            extra.insert("normaliser".into(), json(normaliser));
        }
        if let Some(schema) = self.trainer.train.schema() {
            extra.insert("schema".into(), json(schema));
        }
        if self.step > 0 {
            // As bits: a decimal that is read back must be the very number that was written.
            extra.insert("losses".into(), json(&[self.losses.sum.to_bits(), self.losses.weight.to_bits()]));
        }
        extra.insert("data".into(), json(&DataKey::of(&self.trainer.options, &*self.trainer.train)));
        ModelFile {
            network: self.trainer.network.clone(),
            state: self.worker.state.clone(),
            progress: self.worker.progress,
            step: self.step,
            extra,
        }
    }

    fn not_finite(&self, batch: &Batch, loss: f64) -> Error {
        let largest = self.largest_parameter();
        let cause = if let Some(at) = batch.features.iter().position(|x| !x.is_finite()) {
            let example = batch.indices[at / batch.width];
            format!("example {example} holds a feature that is not finite: clean the data")
        } else if largest.is_nan() || largest >= WILD {
            too_high(largest)
        } else if batch.features.iter().any(|x| x.abs() > WILD) {
            "features go beyond 1,000: set `data.normaliser`".into()
        } else {
            "the learning rate is most likely too high: lower it, or clip gradients".into()
        };
        let Progress { iteration: step, epoch } = self.worker.progress;
        Error::NotFinite { loss, step, epoch, cause, checkpoint: self.kept() }
    }

    /// Parameters that the last update of an epoch ruined must not replace the last good checkpoint. The next loss would
    /// show it, but comes too late; the score on the test data shows it in time.
    fn expect_sane(&self, scores: Option<&Scores>) -> Result<(), Error> {
        let Some(loss) = scores.map(Scores::score).filter(|score| !score.is_finite()) else { return Ok(()) };
        let largest = self.largest_parameter();
        // Some losses are infinite for some targets, whatever the network says.
        if loss.is_infinite() && largest < WILD {
            return Ok(());
        }
        let Progress { iteration: step, epoch } = self.worker.progress;
        let (epoch, cause) = (epoch.saturating_sub(1), too_high(largest));
        Err(Error::NotFinite { loss, step, epoch, cause, checkpoint: self.kept() })
    }

    /// NaN if any of them is.
    fn largest_parameter(&self) -> f32 {
        let parameters = self.worker.state.parameters.iter();
        parameters.fold(0.0, |top: f32, p| if p.is_nan() || top.is_nan() { f32::NAN } else { top.max(p.abs()) })
    }

    fn kept(&self) -> String {
        match &self.last_checkpoint {
            Some(path) => format!("the last good checkpoint is kept in `{}`", path.display()),
            None => "no checkpoint was written before".into(),
        }
    }
}

/// Parameters and features of a run that goes well stay below this.
const WILD: f32 = 1e3;

fn too_high(largest: f32) -> String {
    format!(
        "the largest parameter is {largest:.0}, so the learning rate is most likely too high: lower it, or clip gradients"
    )
}

/// How an epoch ended.
enum Ended {
    /// All its batches were seen.
    Whole,
    /// The run has taken all its steps, or somebody asked to stop.
    Part,
}

pub(crate) fn read_extra<T: serde::de::DeserializeOwned>(
    path: &Path,
    key: &'static str,
    json: &str,
) -> Result<T, Error> {
    serde_json::from_str(json).map_err(|error| {
        let (expected, found) = (format!("a readable `{key}` in its metadata"), error.to_string());
        Error::Network(paceline_nn::Error::ModelFile { path: path.to_owned(), expected, found })
    })
}

fn json(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).expect("names, numbers and lists can be written")
}

/// Makes the folder and tries to write to it, before hours of work depend on it.
fn writable(folder: &Path) -> Result<(), Error> {
    let fail = |source| Error::Output { path: folder.to_owned(), source };
    std::fs::create_dir_all(folder).map_err(fail)?;
    let probe = folder.join(format!(".probe-{}", std::process::id()));
    std::fs::write(&probe, b"").and_then(|()| std::fs::remove_file(&probe)).map_err(fail)
}

/// Whether a source has what a network takes.
pub(crate) fn fits_features(network: &Network, source: &dyn Source, what: &'static str) -> Result<(), Error> {
    let shape = source.shape();
    if shape.width() != network.input().len() {
        let found = format!("{} features per example ({:?})", shape.width(), shape.features);
        return Err(Error::Misfit { what, found, expected: network.input().to_string() });
    }
    Ok(())
}

/// Whether a source has what a network takes and wants.
fn fits(network: &Network, source: &dyn Source, what: &'static str) -> Result<(), Error> {
    fits_features(network, source, what)?;
    let misfit = |found: String, expected: String| Err(Error::Misfit { what, found, expected });
    let outputs = network.output().len();
    match &source.shape().targets {
        TargetShape::None => misfit("no targets".into(), "something to learn: name the label column".into()),
        TargetShape::Classes { names } if names.len() > outputs.max(if outputs == 1 { 2 } else { 0 }) => {
            misfit(format!("{} classes", names.len()), format!("at most {outputs}, as many as it has outputs"))
        }
        TargetShape::Values { names } if names.len() != outputs => {
            misfit(format!("{} target columns", names.len()), format!("{outputs}, as many as it has outputs"))
        }
        _ => Ok(()),
    }
}
