//! What is on the disk: one whole checkpoint after the other, each with what is left to do, and the model.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use paceline_exchange::Bulk;
use paceline_exchange::rounds::{Round, Schedule};
use paceline_model::{Progress, State};
use paceline_nn::{Array, Error as Unread, ModelFile, ModelOnDisk, Numbers, Presented};
use paceline_train::{
    AveragingOptions, KeptEpoch, Metric, Normalisers, Outer, ReplicaMode, Scores, Snapshot, Trainer, adopt_into,
    write_numbers, write_snapshot,
};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::host::{Begun, Checkpoint, Exported};
use super::judging::{self, best_path};
use crate::ClusterError;
use crate::coordination::RunRecord;
use crate::spool::BulkWriter;
use crate::wire::Version;

/// The model in the folder of a run.
pub(super) const MODEL: &str = "model.safetensors";
/// Checkpoints that are kept at least: the newest may turn out to be damaged.
const FEWEST_KEPT: usize = 2;
/// Numbers of a model that are compared at a time.
const COMPARED: usize = 16 << 10;
/// The name of the outer optimiser's way among the arrays of a file.
const VELOCITY: &str = "velocity";
/// The name of what is left to do among the metadata of a file.
const ROUNDS: &str = "rounds";

/// The folder of a run, and what is needed to write models there.
#[derive(Clone)]
pub(super) struct Disk {
    pub folder: PathBuf,
    pub trainer: Arc<Trainer>,
    pub normalisers: Normalisers,
    pub mode: ReplicaMode,
}

/// The version of what a checkpoint says beside the model.
const CHECKPOINT: Version = Version { major: 1, minor: 0 };

/// What a checkpoint says beside the model.
#[derive(Serialize, Deserialize)]
struct Rounds {
    version: Version,
    run: u64,
    term: u64,
    round: Round,
    rest: Schedule,
    is_finished: bool,
    #[serde(default)]
    judged: judging::Kept,
}

impl Disk {
    pub(super) fn make_folder(&self) -> Result<(), ClusterError> {
        let failed = |source| paceline_train::Error::Output { path: self.folder.clone(), source };
        Ok(std::fs::create_dir_all(&self.folder).map_err(failed)?)
    }

    fn velocity_length(&self) -> usize {
        match &self.mode {
            ReplicaMode::Averaging(AveragingOptions { outer: Outer::Nesterov { .. }, .. }) => {
                self.trainer.network().parameter_count()
            }
            _ => 0,
        }
    }

    /// What a new network starts from.
    pub(super) fn initial_state(&self) -> Result<Bulk, ClusterError> {
        let state = self.trainer.first_state();
        let velocity = vec![0.0; self.velocity_length()];
        let mut out = BulkWriter::default();
        let written = write_snapshot(&state, &velocity, &mut out).and_then(|()| out.finish());
        written
            .map_err(|source| ClusterError::RunFailed { reason: format!("the first state cannot be kept: {source}") })
    }

    /// The state that bytes from a member hold.
    fn state(&self, bytes: &Bulk) -> Result<State, String> {
        let mut state = self.trainer.network().initial_state();
        adopt_into(bytes, &mut state, &mut vec![0.0; self.velocity_length()])?;
        Ok(state)
    }

    /// Writes a state as a model file, from wherever it lies.
    fn write(
        &self,
        path: &Path,
        state: &Bulk,
        progress: Progress,
        rounds: Option<&Rounds>,
        kept: Option<KeptEpoch>,
    ) -> Result<(), String> {
        let velocity = self.velocity_length();
        let numbers = Snapshot::new(state, self.trainer.network(), velocity)?;
        let presented = Presented::new(self.trainer.network(), &numbers, progress);
        let mut model = self.trainer.model_file(&self.normalisers, State::default(), progress, 0);
        kept.iter().for_each(|kept| kept.keep(&mut model.extra));
        let mut beside = Vec::new();
        if let Some(rounds) = rounds {
            model.extra.insert(ROUNDS.into(), serde_json::to_string(rounds).expect("numbers can be written"));
            beside.extend((velocity > 0).then_some((VELOCITY, velocity)));
        }
        // A run goes on from what there is, and is known by what it presents.
        let numbers: &dyn Numbers = if rounds.is_some() { &numbers } else { &presented };
        model.save_with(path, numbers, &beside).map_err(|error| error.to_string())
    }

    /// The model or a checkpoint of a run, if there is any.
    pub(super) fn of_another_run(&self) -> Option<PathBuf> {
        let entries = std::fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let is_of_a_run =
            |name: &str| name == MODEL || name.starts_with("checkpoint") && name.ends_with(".safetensors");
        let is_of_a_run =
            |path: &PathBuf| path.is_file() && path.file_name().and_then(|name| name.to_str()).is_some_and(is_of_a_run);
        entries.map(|entry| entry.path()).filter(is_of_a_run).min()
    }

    /// The state that a run goes on from: the newest, or the one before if that file is damaged or gone.
    pub(super) fn load(&self, record: &RunRecord) -> Result<Begun, ClusterError> {
        // Wherever the folder was when it was written, and however its name was typed: it is this one.
        let recorded = PathBuf::from(record.checkpoint.clone().unwrap_or_default());
        let path = recorded.file_name().map_or_else(|| recorded.clone(), |name| self.folder.join(name));
        let bad = |expected: String, found: String| ClusterError::BadCheckpoint { path: path.clone(), expected, found };
        let damage = match self.read(&path, record) {
            _ if !path.exists() => {
                let expected = format!("the checkpoint that the master of term {} has written", record.term);
                let found =
                    "nothing: all masters of a run need the same `--output` folder, or begin anew with `--restart`";
                bad(expected, found.into())
            }
            // What cannot be read now may be read later, and what is newer than this program is not damaged.
            Err(ClusterError::Network(error @ (Unread::File { .. } | Unread::Version { .. }))) => {
                return Err(error.into());
            }
            Err(error @ ClusterError::Network(_)) => error,
            read => return read,
        };
        let older = self.checkpoints().into_iter().rev().filter(|other| *other != path);
        let Some((other, begun)) =
            older.into_iter().find_map(|other| Some((other.clone(), self.read(&other, record).ok()?)))
        else {
            return Err(damage);
        };
        let remark =
            format!("{damage}; going on from `{}` instead: what came between is trained again", other.display());
        Ok(Begun { remark: Some(remark), ..begun })
    }

    fn read(&self, path: &Path, record: &RunRecord) -> Result<Begun, ClusterError> {
        let bad =
            |expected: String, found: String| ClusterError::BadCheckpoint { path: path.to_owned(), expected, found };
        let file = ModelOnDisk::open(path, self.trainer.known())?;
        let rounds = file.extra.get(ROUNDS).ok_or_else(|| bad("what is left to do".into(), "nothing of it".into()))?;
        let rounds: Rounds =
            serde_json::from_str(rounds).map_err(|e| bad("what is left to do".into(), e.to_string()))?;
        if !CHECKPOINT.reads(rounds.version) {
            let expected = format!("version {CHECKPOINT} of a checkpoint or an older minor one");
            return Err(bad(expected, format!("{}: use the program that wrote it, or a newer one", rounds.version)));
        }
        if rounds.run != record.run {
            return Err(bad(format!("a checkpoint of run {:016x}", record.run), format!("run {:016x}", rounds.run)));
        }
        let (expected, found) = (self.trainer.network().parameter_count(), file.network.parameter_count());
        if expected != found {
            return Err(bad(format!("{expected} parameters"), found.to_string()));
        }
        let mut out = BulkWriter::default();
        let written = write_numbers(&file, &file.network, (VELOCITY, file.beside(VELOCITY)), &mut out);
        let state = written.and_then(|()| out.finish()).map_err(|error| bad("a state".into(), error.to_string()))?;
        Ok(Begun {
            run: rounds.run,
            round: rounds.round,
            rest: rounds.rest,
            state,
            judged: rounds.judged,
            path: Some(path.to_owned()),
            is_finished: rounds.is_finished,
            remark: None,
        })
    }

    /// Writes a checkpoint under a name of its own: what is published is never written over.
    pub(super) fn save(&self, checkpoint: Checkpoint) -> Result<PathBuf, String> {
        let Checkpoint { run, term, round, rest, is_finished, judged, state } = checkpoint;
        let progress = Progress { iteration: rest.steps(), epoch: rest.epoch() };
        let rounds = Rounds { version: CHECKPOINT, run, term, round, rest, is_finished, judged };
        let path = self.folder.join(format!("checkpoint-{term}-{round}.safetensors"));
        self.write(&path, &state, progress, Some(&rounds), None)?;
        Ok(path)
    }

    /// The checkpoints that are there, oldest first.
    fn checkpoints(&self) -> Vec<PathBuf> {
        let number = |path: &Path| {
            let name = path.file_name()?.to_str()?.strip_prefix("checkpoint-")?.strip_suffix(".safetensors")?;
            let (term, round) = name.split_once('-')?;
            Some((term.parse::<u64>().ok()?, round.parse::<u64>().ok()?))
        };
        let entries = std::fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let mut all: Vec<_> = entries.filter_map(|entry| Some((number(&entry.path())?, entry.path()))).collect();
        all.sort_unstable();
        all.into_iter().map(|(_, path)| path).collect()
    }

    /// Removes all but the newest checkpoints; one that cannot be removed costs room and nothing else.
    pub(super) fn tidy(&self, newest: &Path) {
        let all = self.checkpoints();
        let kept = self.trainer.options().checkpoint.keep.max(FEWEST_KEPT);
        let surplus = all.len().saturating_sub(kept);
        for path in all.into_iter().take(surplus).filter(|path| path != newest) {
            let _ = std::fs::remove_file(path);
        }
    }

    /// What a state is worth.
    pub(super) fn judge(&self, state: &Bulk, progress: Progress) -> Result<Option<Scores>, ClusterError> {
        let state = self.state(state).map_err(|reason| ClusterError::RunFailed { reason })?;
        let presented = self.trainer.network().presented(&state, progress);
        Ok(self.trainer.judge(&self.normalisers, &presented)?)
    }

    pub(super) fn keep_best(&self, state: &Bulk, progress: Progress) -> Result<(), String> {
        self.write(&best_path(&self.folder), state, progress, None, None)
    }

    /// Writes the model and reads it back.
    pub(super) fn export(
        &self,
        state: &Bulk,
        progress: Progress,
        prefers_best: bool,
        keeps_best: bool,
        kept: Option<KeptEpoch>,
    ) -> Result<Exported, ClusterError> {
        let failed = |reason| ClusterError::RunFailed { reason };
        let path = self.folder.join(MODEL);
        if prefers_best
            && let Ok(mut best) = ModelFile::load_with_registry(&best_path(&self.folder), self.trainer.known())
        {
            let scores = self.trainer.judge(&self.normalisers, &best.state)?;
            let metric = self.trainer.options().early_stopping.map_or(Metric::Score, |stopping| stopping.metric);
            if let Some(value) = scores.as_ref().and_then(|scores| metric.of(scores)) {
                KeptEpoch { epoch: best.progress.epoch, metric, value }.keep(&mut best.extra);
            }
            best.save(&path)?;
            let exported = self.read_back(path, &best, scores)?;
            return Ok(Exported { kept: Some(best.progress.epoch), ..exported });
        }
        if keeps_best {
            self.keep_best(state, progress).map_err(failed)?;
        }
        self.write(&path, state, progress, None, kept).map_err(failed)?;
        let numbers = Snapshot::new(state, self.trainer.network(), self.velocity_length()).map_err(failed)?;
        let exported = self.read_back(path, &Presented::new(self.trainer.network(), &numbers, progress), None)?;
        Ok(Exported { kept: keeps_best.then_some(progress.epoch), ..exported })
    }

    /// Whether the model that was written is what it should be, and what its bytes come to.
    fn read_back(
        &self,
        path: PathBuf,
        numbers: &dyn Numbers,
        scores: Option<Scores>,
    ) -> Result<Exported, ClusterError> {
        let unread = |source| paceline_train::Error::Output { path: path.clone(), source };
        let written = ModelOnDisk::open(&path, self.trainer.known())?;
        let parameters = written.network.parameter_count();
        let (mut one, mut two) = (vec![0.0f32; COMPARED], vec![0.0f32; COMPARED]);
        for from in (0..parameters).step_by(COMPARED) {
            let count = COMPARED.min(parameters - from);
            written.read(Array::Parameters, from, &mut one[..count]).map_err(unread)?;
            numbers.read(Array::Parameters, from, &mut two[..count]).map_err(unread)?;
            if one[..count].iter().zip(&two[..count]).any(|(one, two)| one.to_bits() != two.to_bits()) {
                let (expected, found) = ("the model that was just written".into(), "other numbers".into());
                return Err(ClusterError::BadCheckpoint { path, expected, found });
            }
        }
        let (mut hasher, mut block) = (Sha256::new(), vec![0; 4 * COMPARED]);
        let mut file = File::open(&path).map_err(unread)?;
        while let count @ 1.. = file.read(&mut block).map_err(unread)? {
            hasher.update(&block[..count]);
        }
        let digest = hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(Exported { path, digest, scores, kept: None })
    }
}
