//! Which checkpoints are written, and which are kept.
//!
//! `checkpoint.safetensors` is always the newest and always whole. Older ones that are kept lie beside it as
//! `checkpoint-STEPS.safetensors`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use paceline_nn::ModelFile;
use serde::{Deserialize, Serialize};

use crate::Error;

const NEWEST: &str = "checkpoint.safetensors";
const BEST: &str = "best.safetensors";

/// How often a run is saved, and what is kept.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CheckpointOptions {
    /// Steps between two checkpoints.
    pub steps: Option<u64>,
    /// Minutes between two checkpoints.
    pub minutes: Option<f64>,
    /// Epochs between two checkpoints; 0 for none. A run that is stopped or has ended is saved anyway.
    pub epochs: u64,
    /// The last so many are kept.
    pub keep: usize,
    /// The best model that was judged is kept too, besides. Early stopping that comes to the best model keeps it anyway.
    pub best: bool,
}

impl Default for CheckpointOptions {
    fn default() -> Self {
        Self { steps: None, minutes: None, epochs: 1, keep: 1, best: false }
    }
}

/// So many minutes, or the longest time there is.
pub(crate) fn duration_of(minutes: f64) -> Duration {
    Duration::try_from_secs_f64(60.0 * minutes).unwrap_or(Duration::MAX)
}

impl CheckpointOptions {
    /// Fails with the setting that makes no sense.
    pub fn validate(&self) -> Result<(), Error> {
        let bad = |setting, expected, found: String| Err(Error::BadSetting { setting, expected, found });
        if self.steps == Some(0) {
            return bad("train.checkpoint.steps", "at least 1", "0".into());
        }
        if let Some(minutes) = self.minutes.filter(|m| !(m.is_finite() && *m > 0.0)) {
            return bad("train.checkpoint.minutes", "above 0", minutes.to_string());
        }
        if self.keep == 0 {
            return bad("train.checkpoint.keep", "at least 1: the newest is what a resume needs", "0".into());
        }
        Ok(())
    }

    pub(crate) fn interval(&self) -> Option<Duration> {
        self.minutes.map(duration_of)
    }
}

/// The checkpoints of an output folder.
pub(crate) struct Checkpoints {
    folder: PathBuf,
    keep: usize,
    /// Steps of the newest one, if this run wrote or found it.
    newest: Option<u64>,
    /// What an earlier run left here goes when it is replaced.
    is_first: bool,
}

impl Checkpoints {
    /// Those of a run that begins, or that goes on from the checkpoint of so many steps.
    pub(crate) fn new(folder: &Path, keep: usize, resumed_at: Option<u64>) -> Self {
        Self { folder: folder.to_owned(), keep, newest: resumed_at, is_first: resumed_at.is_none() }
    }

    /// The checkpoint of a folder that a resume goes on from.
    pub(crate) fn newest_in(folder: &Path) -> PathBuf {
        folder.join(NEWEST)
    }

    /// All that is there of a run, but for the model at its end.
    pub(crate) fn all_in(folder: &Path) -> Vec<PathBuf> {
        let is_ours = |name: &str| name == NEWEST || name == BEST || steps_of(name).is_some() || is_of_master(name);
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        let files = entries.filter(|entry| entry.file_name().to_str().is_some_and(is_ours)).map(|entry| entry.path());
        files.filter(|path| path.is_file()).collect()
    }

    /// The best model of a folder.
    pub(crate) fn best_in(folder: &Path) -> PathBuf {
        folder.join(BEST)
    }

    pub(crate) fn newest(&self) -> Option<PathBuf> {
        self.newest.map(|_| Self::newest_in(&self.folder))
    }

    /// Writes the newest one. The one before keeps its place under another name until as many are kept.
    pub(crate) fn write(&mut self, model: &ModelFile) -> Result<PathBuf, Error> {
        let path = Self::newest_in(&self.folder);
        let iteration = model.progress.iteration;
        if let Some(before) = self.newest.filter(|before| self.keep > 1 && *before < iteration) {
            let kept = self.folder.join(older_name(before));
            let fail = |source| Error::Output { path: self.folder.clone(), source };
            // A second name for the same file, so that there is no moment without the newest one.
            if !kept.exists() && std::fs::hard_link(&path, &kept).is_err() {
                std::fs::copy(&path, &kept).map_err(fail)?;
            }
        }
        model.save(&path)?;
        let older = self.older();
        let surplus = if self.is_first { older.len() } else { (older.len() + 1).saturating_sub(self.keep) };
        for (_, old) in &older[..surplus] {
            // One that cannot be removed costs room and nothing else.
            let _ = std::fs::remove_file(old);
        }
        (self.newest, self.is_first) = (Some(iteration), false);
        Ok(path)
    }

    /// The older ones, oldest first.
    fn older(&self) -> Vec<(u64, PathBuf)> {
        let entries = std::fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let mut older: Vec<_> =
            entries.filter_map(|entry| Some((steps_of(entry.file_name().to_str()?)?, entry.path()))).collect();
        older.sort_unstable();
        older
    }
}

fn older_name(iteration: u64) -> String {
    format!("checkpoint-{iteration}.safetensors")
}

/// True for the name of a checkpoint of a master: `checkpoint-TERM-ROUND.safetensors`.
fn is_of_master(name: &str) -> bool {
    let numbers = name.strip_prefix("checkpoint-").and_then(|name| name.strip_suffix(".safetensors"));
    let numbers = numbers.and_then(|numbers| numbers.split_once('-'));
    numbers.is_some_and(|(term, round)| term.parse::<u64>().is_ok() && round.parse::<u64>().is_ok())
}

fn steps_of(name: &str) -> Option<u64> {
    name.strip_prefix("checkpoint-")?.strip_suffix(".safetensors")?.parse().ok()
}
