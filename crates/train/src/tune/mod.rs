//! Finds a better job: trains variants of one, several at a time, and compares what they come to.
//!
//! # Layout
//!
//! - `space`: what is varied, and which trial has what. `book`: what is known of trials, in a file that a later run goes on from.

mod book;
mod space;

use std::collections::HashSet;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use paceline_data::{OpenOptions, Source};
use serde_json::Value;

use crate::job::{DataConfig, laid_over};
use crate::memory;
use crate::run::MODEL;
use crate::run::checkpoint::Checkpoints;
use crate::run::event::counted;
use crate::run::folder::begun_anew;
use crate::run::journal::write_beside;
use crate::run::metric::figure;
use crate::{CheckpointOptions, Error, IfFound, Job, Mode, Outcome, PhasedTrainer, Stop};
pub use book::Trial;
use book::{Book, Heading};
pub use space::{Choice, Method, Range, TuneConfig, Values};

/// A search for a better job.
pub struct Tuning {
    text: String,
    is_json: bool,
    name: String,
    settings: Vec<String>,
    job: Job,
    config: TuneConfig,
    open_options: OpenOptions,
    /// What is learned from, and what is judged on, where trials do not say otherwise.
    sources: [Arc<dyn Source>; 2],
    /// True if trials are trained whatever memory they need.
    force: bool,
}

/// What a search came to.
#[derive(Clone, Debug)]
pub struct Tuned {
    /// All trials that ended, each as far as it came, best first.
    pub trials: Vec<Trial>,
    /// Whether it was stopped from outside before its end.
    pub stopped: bool,
}

/// The trial that is the job as it is.
const OWN: usize = 0;

/// Of trials that are trained for a while so many go on.
const ONE_OF: usize = 3;

impl Tuning {
    /// A search over a job that came as text, with settings laid over it. `config` stands in for its table `tune`.
    pub fn new(
        (text, is_json, name): (&str, bool, &str),
        settings: &[String],
        config: impl FnOnce(TuneConfig) -> TuneConfig,
        open_options: OpenOptions,
    ) -> Result<Self, Error> {
        let job = Job::from_text(text, is_json, name, &format!("`{name}`"), settings)?;
        let config = config(job.tune.clone().unwrap_or_default()).settled(&job);
        config.check()?;
        let (train, test) = job.sources(&open_options)?;
        let Some(test) = test else {
            let message = "needs test data: set `data.test` or `data.test_share`".into();
            return Err(Error::Unsuitable { setting: "tune", message });
        };
        let this = Self {
            text: text.to_owned(),
            is_json,
            name: name.to_owned(),
            settings: settings.to_vec(),
            job,
            config,
            open_options,
            sources: [train, test],
            force: false,
        };
        // What is wrong is told before any trial begins: with the job, with a key, with a value of a list.
        let own = this.trainer(0, None, None, IfFound::Refuse)?;
        let told = own.told_metrics();
        if !told.contains(&this.config.metric) {
            let known: Vec<&str> = told.iter().map(|metric| metric.name()).collect();
            let message = format!(
                "cannot be `{}`, which this data has not: expected one of `{}`",
                this.config.metric.name(),
                known.join("`, `")
            );
            return Err(Error::Unsuitable { setting: "tune.metric", message });
        }
        this.trainable(1).map_err(varied)?;
        for (key, choice) in &this.config.vary {
            let Choice::Of(values) = choice else { continue };
            for value in values {
                let setting = [this.settings.clone(), vec![format!("{key}={}", in_toml(value))]].concat();
                this.parse(&setting).map_err(varied)?;
            }
        }
        Ok(this)
    }

    fn parse(&self, settings: &[String]) -> Result<Job, Error> {
        Job::from_text(&self.text, self.is_json, &self.name, &format!("`{}`", self.name), settings)
    }

    /// What is varied, and how.
    pub fn config(&self) -> &TuneConfig {
        &self.config
    }

    /// The job of a trial.
    fn trainable(&self, trial: usize) -> Result<Job, Error> {
        let mut job = self.parse(&self.settings_of(trial))?;
        // One core each: several are trained at a time.
        (job.options.global_batch, job.options.workers) = (Some(job.options.step_examples()), 1);
        (job.options.mode, job.is_spread, job.options.evaluate) = (Mode::Solo, false, true);
        // A trial is short: to wait for the disk after every epoch takes a quarter of the cores, and saves a minute at most.
        if job.options.checkpoint == CheckpointOptions::default() {
            job.options.checkpoint = CheckpointOptions { epochs: 0, minutes: Some(1.0), ..job.options.checkpoint };
        }
        Ok(job)
    }

    fn settings_of(&self, trial: usize) -> Vec<String> {
        let own = self.config.values(trial).into_iter().map(|(key, value)| format!("{key}={}", in_toml(&value)));
        self.settings.iter().cloned().chain(own).collect()
    }

    /// The settings that make the job the one that a trial has trained: its values, and how it was trained.
    fn settings_as_trained(&self, trial: &Trial) -> Result<Vec<String>, Error> {
        let mut settings = self.settings_of(trial.trial);
        let job = self.parse(&settings)?;
        if job.options.workers > 1 {
            settings.push(format!("data.global_batch={}", job.options.step_examples()));
        }
        settings.push("train.workers=1".into());
        settings.push("train.mode=\"solo\"".into());
        if job.options.epochs != trial.epochs {
            settings.push(format!("train.epochs={}", trial.epochs));
        }
        // Whatever the seed of the trial is, the test data was that of the job.
        let base = self.job.data.split_seed.unwrap_or(self.job.options.seed);
        if job.data.test_share.is_some() && job.data.split_seed.unwrap_or(job.options.seed) != base {
            settings.push(format!("data.split_seed={base}"));
        }
        Ok(settings)
    }

    /// Trains the trials that are missing, as many at a time as there are cores, and leaves in the folder: `trials.jsonl`, what is known of
    /// each; `best.toml`, the best job; `model.safetensors`, its model; and a folder for each trial.
    pub fn run(
        &self,
        folder: &Path,
        found: IfFound,
        at_once: usize,
        stop: &Stop,
        listener: &mut dyn FnMut(&Trial),
    ) -> Result<Tuned, Error> {
        self.expect_memory(at_once)?;
        let heading = Heading { job: self.text.clone(), settings: self.settings.clone(), tune: self.config.clone() };
        let mut book = Book::open(folder, heading, found)?;
        let began = Instant::now();
        let limit = self.config.seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        let deadline = limit.and_then(|limit| began.checked_add(limit));
        // A stop of its own, so that the end of the time is told from a stop from outside.
        let over = Stop::default();
        for epochs in self.rungs() {
            let trials = self.of_rung(&book, epochs);
            self.train_all(trials, epochs, &mut book, (folder, at_once), (stop, &over, deadline), listener)?;
            if stop.is_asked() || over.is_asked() {
                break;
            }
        }
        let tuned = Tuned {
            trials: book.ranked(self.config.metric, self.config.method == Method::Halving),
            stopped: stop.is_asked(),
        };
        if let Some(best) = tuned.trials.iter().find(|trial| trial.value.is_some()) {
            self.keep(best, folder)?;
        }
        Ok(tuned)
    }

    /// Fails if the unchanged job, as often as trials are trained at once, needs more memory than this process can have.
    fn expect_memory(&self, at_once: usize) -> Result<(), Error> {
        if self.force {
            return Ok(());
        }
        let own = self.trainer(OWN, None, None, IfFound::Refuse)?.memory_needed() as u64;
        memory::expect(own.saturating_mul(at_once.max(1) as u64), true)
    }

    /// Trains although trials need more memory than this process can have.
    #[must_use]
    pub fn force(mut self, force: bool) -> Self {
        self.force = force;
        self
    }

    /// Keys of the job that gave way to settings of the command line, a sentence each.
    pub fn notes(&self) -> &[String] {
        self.job.notes()
    }

    /// Warnings on its data, a sentence each.
    pub fn remarks(&self) -> impl Iterator<Item = &String> {
        let [train, test] = &self.sources;
        // Parts of one source say the same.
        let own = |remark: &&String| !train.remarks().contains(remark);
        train.remarks().iter().chain(test.remarks().iter().filter(own))
    }

    /// Epochs that trials are trained for, from the first stop to the last; none are as many as their jobs say.
    fn rungs(&self) -> Vec<Option<u64>> {
        if self.config.method != Method::Halving {
            return vec![None];
        }
        let mut rungs = vec![self.job.options.epochs];
        let mut left = self.config.count().unwrap_or(1) / ONE_OF;
        while left > 0 && rungs[0] >= ONE_OF as u64 {
            rungs.insert(0, rungs[0] / ONE_OF as u64);
            left /= ONE_OF;
        }
        rungs.into_iter().map(Some).collect()
    }

    /// The trials that are trained up to so many epochs: all, or of those that have come to the stop before the best.
    fn of_rung(&self, book: &Book, epochs: Option<u64>) -> Trials<'_> {
        let rungs = self.rungs();
        let at = rungs.iter().position(|rung| *rung == epochs).unwrap_or(0);
        let done = |trial: &usize| book.has(*trial, epochs);
        let before = at.checked_sub(1).and_then(|before| rungs[before]);
        match before.map(|before| book.ranked_at(before, self.config.metric)) {
            None => Trials {
                config: &self.config,
                next: 0,
                listed: None,
                end: self.config.count(),
                done: (0..book.most()).filter(done).collect(),
                met: HashSet::new(),
            },
            Some(ranked) => {
                let kept = (ranked.len() / ONE_OF).max(1);
                // The unchanged job is trained to the end, so that the best trial is compared with it at the same length.
                let mut goes_on: Vec<usize> = ranked.iter().copied().take(kept).collect();
                if ranked.contains(&OWN) && !goes_on.contains(&OWN) {
                    goes_on.push(OWN);
                }
                let listed = goes_on.into_iter().filter(|trial| !done(trial)).collect();
                let (config, met) = (&self.config, HashSet::new());
                Trials { config, next: 0, listed: Some(listed), end: None, done: Vec::new(), met }
            }
        }
    }

    fn train_all(
        &self,
        trials: Trials<'_>,
        epochs: Option<u64>,
        book: &mut Book,
        (folder, at_once): (&Path, usize),
        (stop, over, deadline): (&Stop, &Stop, Option<Instant>),
        listener: &mut dyn FnMut(&Trial),
    ) -> Result<(), Error> {
        let trials = Mutex::new(trials);
        let (ended, results) = channel();
        let (halt, is_over) = (Stop::default(), |at: Instant| Instant::now() >= at);
        std::thread::scope(|scope| {
            for _ in 0..at_once.max(1) {
                let (trials, halt, ended) = (&trials, &halt, ended.clone());
                scope.spawn(move || {
                    while !halt.is_asked() {
                        let next = trials.lock().unwrap_or_else(PoisonError::into_inner).next();
                        let Some(trial) = next else { break };
                        if ended.send(self.train(trial, epochs, folder, halt)).is_err() {
                            break;
                        }
                    }
                });
            }
            drop(ended);
            let mut outcome = Ok(());
            loop {
                match results.recv_timeout(Duration::from_millis(50)) {
                    Ok(Ok(Some(trial))) => {
                        let written = book.add(&trial);
                        listener(&trial);
                        if let Err(error) = written {
                            halt.ask();
                            outcome = Err(error);
                        }
                    }
                    // What cannot be written says nothing of the trial.
                    Ok(Err(error)) => {
                        halt.ask();
                        outcome = Err(error);
                    }
                    Ok(Ok(None)) | Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) => break,
                }
                if deadline.is_some_and(is_over) && !over.is_asked() {
                    over.ask();
                }
                if stop.is_asked() || over.is_asked() {
                    halt.ask();
                }
            }
            outcome
        })
    }

    /// Trains one trial; nothing if it was stopped before its end. Fails where a full disk does, and not the trial.
    fn train(&self, trial: usize, epochs: Option<u64>, folder: &Path, stop: &Stop) -> Result<Option<Trial>, Error> {
        let began = Instant::now();
        let values = self.config.values(trial);
        let own_epochs = || self.trainable(trial).map_or(self.job.options.epochs, |job| job.options.epochs);
        let outcome = self.outcome(trial, epochs, &folder_of(folder, trial), stop);
        let epochs = epochs.unwrap_or_else(own_epochs);
        let seconds = began.elapsed().as_secs_f64();
        let (value, error) = match outcome {
            Ok(Outcome { stopped: true, .. }) => return Ok(None),
            Err(error) if error.is_about_writing() => return Err(error),
            Ok(outcome) => {
                let value = outcome.scores.as_ref().and_then(|scores| self.config.metric.of(scores));
                (value.filter(|value| !value.is_nan()), None)
            }
            Err(error) => (None, Some(error.to_string())),
        };
        Ok(Some(Trial { trial, epochs, values, value, seconds, error }))
    }

    fn outcome(&self, trial: usize, epochs: Option<u64>, folder: &Path, stop: &Stop) -> Result<Outcome, Error> {
        // A trial that was stopped, or stood at an earlier stop, goes on.
        let found = if Checkpoints::newest_in(folder).exists() { IfFound::Resume } else { begun_anew(folder) };
        self.trainer(trial, epochs, Some(folder), found)?.stopped_by(stop).run(&mut |_| {})
    }

    fn trainer(
        &self,
        trial: usize,
        epochs: Option<u64>,
        folder: Option<&Path>,
        found: IfFound,
    ) -> Result<PhasedTrainer, Error> {
        let mut job = self.trainable(trial)?;
        job.options.force = self.force;
        job.options.epochs = epochs.unwrap_or(job.options.epochs);
        let mut options = self.open_options.clone();
        // Whatever the seed of a trial is, the test data is that of the job: nothing could be compared otherwise.
        if job.data == self.job.data {
            let [train, test] = &self.sources;
            options.given.insert("learned".into(), train.clone());
            options.given.insert("judged".into(), test.clone());
            job.data = DataConfig {
                train: "given:learned".into(),
                test: Some("given:judged".into()),
                test_share: None,
                stratified: false,
                split_seed: None,
            };
        }
        job.phased(folder.map(Path::to_owned), found, &options)
    }

    /// Writes the best job, and its model.
    fn keep(&self, best: &Trial, folder: &Path) -> Result<(), Error> {
        let fail = |path: &Path| {
            let path = path.to_owned();
            move |source| Error::Output { path, source }
        };
        let text = laid_over(&self.text, self.is_json, &self.settings_as_trained(best)?)?;
        let path = folder.join(if self.is_json { "best.json" } else { "best.toml" });
        let value = best.value.map_or("none".into(), |value| value.to_string());
        let comment = format!(
            "# Trial {} of `{}`: {} {value} after {} on one core, as here; without `workers` and `mode` all cores train it, \
             with other rounding.\n\n",
            best.trial,
            self.name,
            self.config.metric.name(),
            counted(best.epochs, "epoch")
        );
        let text = if self.is_json { text } else { comment + &text };
        write_beside(&path, &text).map_err(fail(&path))?;
        let (from, to) = (folder_of(folder, best.trial).join(MODEL), folder.join(MODEL));
        let beside = folder.join(".model.part");
        std::fs::copy(&from, &beside).and_then(|_| std::fs::rename(&beside, &to)).map_err(fail(&to))
    }
}

/// Says of a setting of a trial that it was varied, and not set.
fn varied(error: Error) -> Error {
    match error {
        Error::Setting { setting, message } => Error::Varied { setting, message },
        other => other,
    }
}

/// A value as a setting has it.
fn in_toml(value: &Value) -> String {
    match value {
        Value::Object(table) => {
            let entries: Vec<String> =
                table.iter().map(|(key, value)| format!("{key:?} = {}", in_toml(value))).collect();
            format!("{{ {} }}", entries.join(", "))
        }
        Value::Array(list) => format!("[{}]", list.iter().map(in_toml).collect::<Vec<String>>().join(", ")),
        other => other.to_string(),
    }
}

fn folder_of(folder: &Path, trial: usize) -> PathBuf {
    folder.join(format!("trial-{trial}"))
}

/// Trials that are handed out one by one.
struct Trials<'a> {
    config: &'a TuneConfig,
    next: usize,
    /// These and no others.
    listed: Option<Vec<usize>>,
    /// Before this one; none where there is no end.
    end: Option<usize>,
    /// Not these.
    done: Vec<usize>,
    /// Values of those that came before: what is drawn twice is trained once.
    met: HashSet<String>,
}

/// When so many in a row were drawn before, there is nothing else to draw.
const MOST_IN_VAIN: usize = 1000;

impl Trials<'_> {
    fn next(&mut self) -> Option<usize> {
        if let Some(listed) = &self.listed {
            let trial = listed.get(self.next).copied();
            self.next += 1;
            return trial;
        }
        for _ in 0..MOST_IN_VAIN {
            let trial = self.next;
            if self.end.is_some_and(|end| trial >= end) {
                return None;
            }
            self.next += 1;
            let is_new = self.met.insert(serde_json::to_string(&self.config.values(trial)).unwrap_or_default());
            if is_new && !self.done.contains(&trial) {
                return Some(trial);
            }
        }
        None
    }
}

impl fmt::Display for Trial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { trial, epochs, values, value, seconds, error } = self;
        let result = match (value, error) {
            (Some(value), _) => figure(*value),
            (None, Some(error)) => format!("failed: {error}"),
            (None, None) => "not finite".into(),
        };
        let values: Vec<String> = values.iter().map(|(key, value)| format!("{key}={value}")).collect();
        let values = if values.is_empty() { "the job as it is".into() } else { values.join(" ") };
        write!(f, "trial {trial:<4} {result:<10} {:>10} {seconds:>7.1} s   {values}", counted(*epochs, "epoch"))
    }
}
