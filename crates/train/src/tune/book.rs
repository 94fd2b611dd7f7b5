//! What is known of trials, in a file: a line for the search itself, and one for every trial that has come to a stop.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{TuneConfig, Values};
use crate::run::folder::{TRIALS, clear, expect_free};
use crate::{Error, IfFound, Metric};

/// A trial that has come to a stop.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// Its number; 0 is the job as it is.
    pub trial: usize,
    /// Epochs that it was trained for.
    pub epochs: u64,
    /// What its keys were.
    pub values: Values,
    /// What it is compared by; none if it failed.
    pub value: Option<f64>,
    /// What it took, since the stop before.
    pub seconds: f64,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// What all trials are of: a search over something else is another one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Heading {
    pub job: String,
    pub settings: Vec<String>,
    pub tune: TuneConfig,
}

/// All trials of a search.
pub(super) struct Book {
    path: PathBuf,
    file: File,
    trials: Vec<Trial>,
}

impl Book {
    pub(super) fn open(folder: &Path, heading: Heading, found: IfFound) -> Result<Self, Error> {
        let path = folder.join(TRIALS);
        let fail = |source| Error::Output { path: path.clone(), source };
        std::fs::create_dir_all(folder).map_err(fail)?;
        let mut trials = Vec::new();
        match (path.exists(), found) {
            (true, IfFound::Resume) => {
                let text = std::fs::read_to_string(&path).map_err(fail)?;
                let mut lines = text.lines();
                let written: Option<Heading> = lines.next().and_then(|line| serde_json::from_str(line).ok());
                // More time, or more trials, is the same search.
                let of_search = |mut heading: Heading| {
                    (heading.tune.seconds, heading.tune.trials) = (None, None);
                    heading
                };
                if written.map(of_search) != Some(of_search(heading.clone())) {
                    return Err(Error::OtherTuning { path });
                }
                // The last line may have been cut short.
                trials.extend(lines.filter_map(|line| serde_json::from_str(line).ok()));
            }
            (false, IfFound::Resume) => return Err(Error::NothingToResume { path }),
            (_, IfFound::Refuse) => expect_free(folder)?,
            (_, IfFound::Overwrite) => clear(folder)?,
        }
        let mut text = line_of(&heading);
        trials.iter().for_each(|trial| text += &line_of(trial));
        let beside = path.with_extension("part");
        std::fs::write(&beside, text).and_then(|()| std::fs::rename(&beside, &path)).map_err(fail)?;
        let file = File::options().append(true).open(&path).map_err(fail)?;
        Ok(Self { path, file, trials })
    }

    pub(super) fn add(&mut self, trial: &Trial) -> Result<(), Error> {
        self.trials.push(trial.clone());
        let written = self.file.write_all(line_of(trial).as_bytes());
        written.map_err(|source| Error::Output { path: self.path.clone(), source })
    }

    /// Whether a trial has come so far, or as far as its job says.
    pub(super) fn has(&self, trial: usize, epochs: Option<u64>) -> bool {
        self.trials.iter().any(|known| known.trial == trial && epochs.is_none_or(|epochs| known.epochs >= epochs))
    }

    /// Above all numbers of trials.
    pub(super) fn most(&self) -> usize {
        self.trials.iter().map(|known| known.trial + 1).max().unwrap_or(0)
    }

    /// The trials that have come to this stop, best first; those that failed are none.
    pub(super) fn ranked_at(&self, epochs: u64, metric: Metric) -> Vec<usize> {
        let mut at: Vec<&Trial> =
            self.trials.iter().filter(|known| known.epochs == epochs && known.value.is_some()).collect();
        at.sort_by(|a, b| better(metric, a, b));
        at.into_iter().map(|trial| trial.trial).collect()
    }

    /// Every trial as far as it came: those that came farthest first, and of these the best; a score after fewer epochs says nothing of
    /// one after more.
    pub(super) fn ranked(&self, metric: Metric, by_length: bool) -> Vec<Trial> {
        let mut last: BTreeMap<usize, &Trial> = BTreeMap::new();
        for trial in &self.trials {
            let known = last.entry(trial.trial).or_insert(trial);
            if trial.epochs >= known.epochs {
                *known = trial;
            }
        }
        let mut all: Vec<Trial> = last.into_values().cloned().collect();
        match by_length {
            true => all.sort_by(|a, b| {
                b.value.is_some().cmp(&a.value.is_some()).then(b.epochs.cmp(&a.epochs)).then(better(metric, a, b))
            }),
            false => all.sort_by(|a, b| better(metric, a, b)),
        }
        all
    }
}

fn better(metric: Metric, a: &Trial, b: &Trial) -> std::cmp::Ordering {
    match (a.value, b.value) {
        (Some(a), Some(b)) if metric.wants_more() => b.total_cmp(&a),
        (Some(a), Some(b)) => a.total_cmp(&b),
        (a, b) => b.is_some().cmp(&a.is_some()),
    }
}

fn line_of(what: &impl Serialize) -> String {
    serde_json::to_string(what).expect("names and numbers can be written") + "\n"
}
