use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::{Metric, Scores, Traffic, TrainingStatistics, figure};

/// What a run tells. The last event of a run is always `finished` or `failed`.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// The run begins, or goes on after a resume.
    Started {
        /// How replicas stay together.
        mode: &'static str,
        /// Replicas.
        workers: usize,
        /// Trained numbers.
        parameters: usize,
        /// Examples of an epoch.
        examples: usize,
        /// Steps of an epoch.
        steps_per_epoch: u64,
        /// Epochs to run.
        epochs: u64,
        /// Steps of the whole run.
        steps: u64,
        /// Steps that were taken before, by the run that is resumed.
        resumed_at: u64,
        /// Examples of all epochs that are left to take, where a master keeps count of them: steps may be short there.
        #[serde(skip_serializing_if = "Option::is_none")]
        examples_left: Option<u64>,
        /// The vector instructions in use.
        instructions: &'static str,
    },
    /// A phase of a job that pretrains layers begins, or goes on.
    Phase {
        /// Its number, from 1.
        phase: usize,
        /// Phases in all.
        of: usize,
        /// The layer that is pretrained; none where the network learns as a whole.
        #[serde(skip_serializing_if = "Option::is_none")]
        layer: Option<String>,
    },
    /// A phase is over, and another one comes.
    PhaseEnded {
        /// Its number, from 1.
        phase: usize,
        /// Phases in all.
        of: usize,
        /// The layer that was pretrained.
        #[serde(skip_serializing_if = "Option::is_none")]
        layer: Option<String>,
        /// Examples trained on, repeats included.
        examples: u64,
        /// The mean reconstruction error of its last epoch; not a number where a master heard of none.
        score: f64,
        /// What it took.
        seconds: f64,
        /// The model that the next one begins with.
        #[serde(skip_serializing_if = "Option::is_none")]
        model: Option<PathBuf>,
    },
    /// Weights were taken from a file.
    Transferred {
        /// Parameters of the network, and what they are called in the file.
        taken: BTreeMap<String, String>,
        /// Parameters that begin anew.
        fresh: Vec<String>,
        /// Arrays of the file that nobody has asked for.
        unused: Vec<String>,
    },
    /// A choice that the job leaves open, and its effect on figures.
    Note {
        /// A sentence.
        message: String,
    },
    /// Something that was perhaps not meant so, or is not as it should be, and does not stop the run.
    Warning {
        /// A sentence.
        message: String,
    },
    /// Where the time of the workers went, at the end of a run whose master was asked for it.
    Statistics(TrainingStatistics),
    /// Learning rates fall because nothing has improved for a while.
    RatesLowered {
        /// Epochs that were completed.
        epoch: u64,
        /// What all rates are multiplied by from now on.
        factor: f64,
    },
    /// A master waits for workers there.
    Listening {
        /// Where workers join.
        address: String,
        /// What a worker on another machine is given: address, token and key.
        #[serde(skip_serializing_if = "Option::is_none")]
        join: Option<String>,
        /// Where its state is shown over HTTP.
        #[serde(skip_serializing_if = "Option::is_none")]
        status: Option<String>,
        /// The master's term.
        term: u64,
    },
    /// Another master leads; this one takes over when that one is gone.
    Standby {
        /// Where it will listen.
        address: String,
    },
    /// The coordinator does not answer. The run goes on for a while without it, then it holds on until it is back.
    CoordinatorAway {
        /// What was seen.
        reason: String,
    },
    /// The coordinator answers again, and this master leads as before.
    CoordinatorBack,
    /// The master, or a worker that has joined again because of it, stood still: it was stopped, got no processor, or its machine
    /// slept.
    StoodStill {
        /// The worker; none for the master itself.
        #[serde(skip_serializing_if = "Option::is_none")]
        worker: Option<String>,
        /// For how long.
        seconds: f64,
    },
    /// The run has ended before: nothing is left to do.
    AlreadyEnded {
        /// Where its model lies.
        model: String,
    },
    /// A run on many machines has too few workers.
    Waiting {
        /// Workers that are there.
        workers: usize,
        /// Workers that are needed.
        needed: usize,
    },
    /// Nobody who is here has these partitions of the data, and nothing else is left to do.
    WaitingForPartitions {
        /// Which.
        partitions: Vec<u32>,
    },
    /// A worker has other data and may not take part, or was gone before it could.
    WorkerRefused {
        /// Who: its host and its number.
        worker: String,
        /// Where its peers would have reached it.
        address: String,
        /// What differs.
        reason: String,
    },
    /// A worker can be counted on.
    WorkerJoined {
        /// Who: its host and its number.
        worker: String,
        /// Where its peers reach it.
        address: String,
        /// Workers that are there now.
        workers: usize,
    },
    /// A worker is gone.
    WorkerLost {
        /// Who: its host and its number.
        worker: String,
        /// Why it is believed so.
        reason: String,
        /// Workers that are left.
        workers: usize,
        /// In `shared`: the sum of the magnitudes of what it had not sent when it last said so, and that is lost with it.
        residual: Option<f64>,
    },
    /// Other workers than before go on from a round.
    View {
        /// Its number.
        view: u64,
        /// Who is in it.
        workers: Vec<String>,
        /// Its first round.
        round: u64,
        /// Why it was needed.
        reason: String,
    },
    /// A round is taken again without workers that were lost; what they held comes later.
    LeaseRepeated {
        /// The round; in `shared`, the examples that count.
        round: u64,
        /// In `shared`: who had been given what comes again.
        worker: Option<String>,
        /// In `shared`: how many examples.
        examples: Option<u64>,
    },
    /// Examples that were lost with two workers are left out.
    SetAside {
        /// The epoch, from 1.
        epoch: u64,
        /// How many.
        examples: u64,
        /// Their places in the order of the epoch: from, and up to but not with.
        places: Vec<(u64, u64)>,
    },
    /// Nobody is left who holds what came after a checkpoint: it is done again.
    RolledBack {
        /// The last round that had counted.
        from: u64,
        /// The round of the checkpoint.
        to: u64,
    },
    /// No new rounds begin, or they do again.
    OnHold {
        /// Whether they do not.
        paused: bool,
    },
    /// A checkpoint could not be written; the one before stays.
    NotSaved {
        /// The round; in one process, the steps taken in all.
        round: u64,
        /// Why.
        reason: String,
    },
    /// A step was taken; the first one is told, and then one in a while.
    Step {
        /// The epoch, from 1.
        epoch: u64,
        /// The step of the epoch, from 1.
        step: u64,
        /// Steps taken in all.
        iteration: u64,
        /// The mean loss of its minibatch.
        loss: f64,
        /// Speed since the last step that was told.
        examples_per_second: f64,
    },
    /// What a replica sends in mode `shared`; told twice a second, and after the first and the last
    /// step that it takes before the replicas meet.
    Threshold {
        /// The replica: in one process its number, from 1; on many machines its host and its number.
        worker: String,
        /// The epoch, from 1.
        epoch: u64,
        /// The step of the epoch, from 1.
        step: u64,
        /// Steps taken in all.
        iteration: u64,
        /// What it sent since this was last told.
        #[serde(flatten)]
        traffic: Traffic,
    },
    /// An epoch is over.
    Epoch {
        /// The epoch, from 1.
        epoch: u64,
        /// The mean loss of its minibatches; not a number where a master heard of none.
        loss: f64,
        /// What it took.
        seconds: f64,
        /// Its speed.
        examples_per_second: f64,
    },
    /// The model was judged on the test data.
    Evaluation {
        /// The epoch, from 1.
        epoch: u64,
        /// How good it is.
        #[serde(flatten)]
        scores: Scores,
    },
    /// A checkpoint was written.
    Checkpoint {
        /// Steps taken in all.
        iteration: u64,
        /// The file.
        path: PathBuf,
    },
    /// The run stops because it was asked to, and can be resumed.
    Paused {
        /// Steps taken in all.
        iteration: u64,
        /// What to resume from.
        checkpoint: Option<PathBuf>,
    },
    /// The run did what was asked.
    Finished {
        /// How replicas stayed together.
        mode: &'static str,
        /// Replicas.
        workers: usize,
        /// Epochs completed.
        epochs: u64,
        /// Examples trained on, repeats included.
        examples: u64,
        /// Trained numbers.
        parameters: usize,
        /// What it took.
        seconds: f64,
        /// Its speed, evaluation left out.
        examples_per_second: f64,
        /// The loss on the test data; on the training data if there is none.
        score: f64,
        /// On the test data, for classes.
        #[serde(skip_serializing_if = "Option::is_none")]
        accuracy: Option<f64>,
        /// Bytes that went to other machines.
        bytes_sent: u64,
        /// The model file.
        #[serde(skip_serializing_if = "Option::is_none")]
        model: Option<PathBuf>,
        /// Why it ended before its last epoch, by the rules of early stopping.
        #[serde(skip_serializing_if = "Option::is_none")]
        ended_early: Option<String>,
        /// The epoch of the model, where early stopping keeps the best one.
        #[serde(skip_serializing_if = "Option::is_none")]
        kept: Option<KeptEpoch>,
    },
    /// The run ended before it did what was asked.
    Failed {
        /// Why, in a sentence.
        error: String,
        /// Whether `--resume` goes on where it ended.
        resumable: bool,
    },
}

/// The epoch whose model a run ends with, where early stopping keeps the best one.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct KeptEpoch {
    /// Epochs that the model was trained for.
    pub epoch: u64,
    /// The metric that it is the best by.
    pub metric: Metric,
    /// Its value.
    pub value: f64,
}

impl KeptEpoch {
    /// The key of a model file.
    const KEY: &str = "kept_epoch";

    /// Notes it in what lies beside the parameters of a model file.
    pub fn keep(&self, extra: &mut BTreeMap<String, String>) {
        extra.insert(Self::KEY.into(), serde_json::to_string(self).expect("names and numbers can be written"));
    }

    /// The epoch that a model file notes; none if it notes none.
    pub fn of(extra: &BTreeMap<String, String>) -> Option<Self> {
        extra.get(Self::KEY).and_then(|text| serde_json::from_str(text).ok())
    }
}

impl fmt::Display for KeptEpoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = if self.metric == Metric::Score { "test loss" } else { self.metric.name() };
        write!(f, "epoch {} ({name} {})", self.epoch, figure(self.value))
    }
}

/// A number with its noun: `1 epoch`, `2 epochs`.
pub fn counted(number: u64, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
}

/// Passes a warning or a note once, however many phases or folds of a job repeat it.
#[derive(Default)]
pub(crate) struct Once {
    said: HashSet<String>,
}

impl Once {
    /// False for a message that has passed before.
    pub(crate) fn is_new(&mut self, event: &Event) -> bool {
        match event {
            Event::Warning { message } | Event::Note { message } => self.said.insert(message.clone()),
            _ => true,
        }
    }
}
