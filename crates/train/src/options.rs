use std::path::PathBuf;

use paceline_data::{NormaliserKind, Source, class_counts};
use paceline_nn::evaluation::Thresholds;
use serde::Deserialize;

use crate::{CheckpointOptions, EarlyStopping, Error, Mode, Plateau};

/// How a run goes: what a job file says in its tables `data` and `train`, beside where the examples come from.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TrainOptions {
    /// Examples that one worker takes in one step.
    pub batch: usize,
    /// Examples that all workers take in one step together; stands in for `batch`.
    pub global_batch: Option<usize>,
    /// Examples that go through the network at once on one core; the gradients of the parts of a larger share of a step are added up.
    pub micro_batch: Option<usize>,
    /// Replicas, each on a thread of its own.
    pub workers: usize,
    /// How replicas stay together.
    pub mode: Mode,
    /// Times that all examples are seen.
    pub epochs: u64,
    /// Ends the run after so many steps, even within an epoch.
    pub steps: Option<u64>,
    /// Whether every epoch has an order of its own.
    pub shuffle: bool,
    /// Whether sequences of about the same length come together in a step.
    pub by_length: bool,
    /// What the order depends on.
    pub seed: u64,
    /// Batches that are read ahead.
    pub prefetch: usize,
    /// What is done to the features; what suits the source if not set.
    pub normaliser: Option<NormaliserKind>,
    /// What is done to targets that are numbers, and undone in predictions; nothing if not set.
    pub target_normaliser: Option<NormaliserKind>,
    /// What an example of each class weighs.
    pub class_weights: Option<ClassWeights>,
    /// Whether the model is judged on the test data.
    pub evaluate: bool,
    /// Epochs between two evaluations; the last one is judged anyway.
    pub evaluate_every: u64,
    /// Thresholds that areas under curves are approximated by; exact if not set, which keeps the scores of all test data.
    pub auc_thresholds: Option<usize>,
    /// When the run ends before its last epoch.
    pub early_stopping: Option<EarlyStopping>,
    /// When learning rates fall because nothing improves any more.
    pub plateau: Option<Plateau>,
    /// Where the model and checkpoints go; nothing is written if not set.
    #[serde(skip)]
    pub output: Option<PathBuf>,
    /// How often the run is saved, and what is kept.
    pub checkpoint: CheckpointOptions,
    /// Goes on from the checkpoint in the output folder.
    #[serde(skip)]
    pub resume: bool,
    /// Replaces a run that is in the output folder; without it, or `resume`, such a run is left alone and it is an error.
    #[serde(skip)]
    pub overwrite: bool,
    /// Trains although the run needs more memory than this process can have.
    #[serde(skip)]
    pub force: bool,
}

/// What an example of each class weighs.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(untagged, expecting = "a list with a number for each class, or `\"balanced\"`")]
pub enum ClassWeights {
    /// As much as is said.
    Each(Vec<f32>),
    /// The less, the more there are of its class: all classes together weigh the same, and all examples as much as they would.
    Named(Balanced),
}

/// The name of a rule for weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Balanced {
    /// Examples in all, through classes, through examples of the class.
    Balanced,
}

impl ClassWeights {
    /// By the examples that there are of each class.
    pub const BALANCED: Self = Self::Named(Balanced::Balanced);

    /// The numbers, for these examples.
    pub(crate) fn settled(&self, source: &dyn Source) -> Result<Self, Error> {
        let bad = |found: &str| {
            let message = format!(
                "cannot be `balanced` for {found}, whose classes cannot be counted here: give a number for each class"
            );
            Err(Error::Unsuitable { setting: "data.class_weights", message })
        };
        if matches!(self, Self::Each(_)) {
            return Ok(self.clone());
        }
        if source.partitions().is_some() {
            return bad("data that lives with its workers");
        }
        let Some(counts) = class_counts(source)? else { return bad("data without classes") };
        let (all, classes) =
            (counts.iter().sum::<u64>() as f64, counts.iter().filter(|count| **count > 0).count() as f64);
        let weight = |count: &u64| if *count == 0 { 1.0 } else { (all / (classes * *count as f64)) as f32 };
        Ok(Self::Each(counts.iter().map(weight).collect()))
    }

    /// The numbers, once they are settled.
    pub(crate) fn each(weights: Option<&Self>) -> Option<Vec<f32>> {
        match weights {
            Some(Self::Each(weights)) => Some(weights.clone()),
            Some(Self::Named(_)) | None => None,
        }
    }
}

impl Default for TrainOptions {
    fn default() -> Self {
        Self {
            batch: 128,
            global_batch: None,
            micro_batch: None,
            workers: 1,
            mode: Mode::Solo,
            epochs: 1,
            steps: None,
            shuffle: true,
            by_length: false,
            seed: 0,
            prefetch: 4,
            normaliser: None,
            target_normaliser: None,
            class_weights: None,
            evaluate: true,
            evaluate_every: 1,
            auc_thresholds: None,
            early_stopping: None,
            plateau: None,
            output: None,
            checkpoint: CheckpointOptions::default(),
            resume: false,
            overwrite: false,
            force: false,
        }
    }
}

impl TrainOptions {
    /// Fails with the setting that makes no sense.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let bad = |setting, expected, found: String| Err(Error::BadSetting { setting, expected, found });
        self.mode.check(self.workers)?;
        self.checkpoint.validate()?;
        self.early_stopping.as_ref().map_or(Ok(()), EarlyStopping::validate)?;
        self.plateau.as_ref().map_or(Ok(()), Plateau::validate)?;
        if self.epochs == 0 {
            return bad("train.epochs", "at least 1", "0".into());
        }
        if self.steps == Some(0) {
            return bad("train.steps", "at least 1; left out for all steps of all epochs", "0".into());
        }
        if self.evaluate_every == 0 {
            return bad("train.evaluate_every", "at least 1; `train.evaluate = false` for never", "0".into());
        }
        if let Some(thresholds) = self.auc_thresholds.filter(|n| !(1..=MOST_THRESHOLDS).contains(n)) {
            return bad("train.auc_thresholds", "1 to 1,000,000", thresholds.to_string());
        }
        if self.prefetch > MOST_PREFETCH {
            return bad("train.prefetch", "at most 65,536", self.prefetch.to_string());
        }
        if self.workers > MOST_WORKERS {
            return bad("train.workers", "at most 1,024", self.workers.to_string());
        }
        if self.batch == 0 {
            return bad("data.batch", "at least 1", "0".into());
        }
        if self.micro_batch == Some(0) {
            return bad(
                "data.micro_batch",
                "at least 1; left out to compute a worker's share of a step at once",
                "0".into(),
            );
        }
        match self.global_batch.filter(|step| *step < self.workers) {
            Some(step) => bad("data.global_batch", "at least one example for every worker", step.to_string()),
            None => Ok(()),
        }
    }

    /// The thresholds that areas under curves distinguish.
    pub(crate) fn thresholds(&self) -> Thresholds {
        Thresholds::of(self.auc_thresholds)
    }

    /// Examples that all workers take in one step together.
    pub fn step_examples(&self) -> usize {
        self.global_batch.unwrap_or(self.batch.saturating_mul(self.workers))
    }

    /// Each step is spread over so many cores: the training is the same, only faster.
    pub(crate) fn spread(&mut self, cores: usize) {
        let step = self.global_batch.unwrap_or(self.batch);
        self.workers = cores.min(step / LEAST_FOR_A_CORE).max(1);
        self.mode = if self.workers == 1 { Mode::Solo } else { Mode::Sync };
        self.global_batch = Some(step);
    }
}

/// More batches than these read ahead help nobody, and room for them is made at once.
const MOST_PREFETCH: usize = 65_536;

/// More threads than any machine has cores.
const MOST_WORKERS: usize = 1024;

/// More thresholds than these are better exact.
const MOST_THRESHOLDS: usize = 1_000_000;

/// A core gets at least so many examples of a step; fewer cost more than they gain.
const LEAST_FOR_A_CORE: usize = 16;
