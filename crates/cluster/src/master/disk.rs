//! What is on the disk: one whole checkpoint after the other, each with what is left to do, and the model.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use paceline_data::Normaliser;
use paceline_exchange::rounds::{Round, Schedule};
use paceline_model::{Progress, State};
use paceline_nn::{ModelFile, Registry};
use paceline_train::{AveragingOptions, Outer, ReplicaMode, Scores, Trainer, adopt_into, snapshot_of};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::host::{Begun, Checkpoint, Exported};
use super::judging::{self, best_path};
use crate::ClusterError;
use crate::coordination::RunRecord;
use crate::wire::Version;

/// Checkpoints that are kept.
const KEPT: usize = 2;
/// The name of the outer optimiser's way among the arrays of a file.
const VELOCITY: &str = "velocity";
/// The name of what is left to do among the metadata of a file.
const ROUNDS: &str = "rounds";

/// The folder of a run, and what is needed to write models there.
#[derive(Clone)]
pub(super) struct Disk {
    pub folder: PathBuf,
    pub trainer: Arc<Trainer>,
    pub normaliser: Option<Normaliser>,
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

    fn velocity_length(&self, state: &State) -> usize {
        match &self.mode {
            ReplicaMode::Averaging(AveragingOptions { outer: Outer::Nesterov { .. }, .. }) => state.parameters.len(),
            _ => 0,
        }
    }

    /// What a new network starts from.
    pub(super) fn initial_state(&self) -> Bytes {
        let state = self.trainer.network().initial_state();
        let velocity = vec![0.0; self.velocity_length(&state)];
        snapshot_of(&state, &velocity).into()
    }

    /// The state that bytes from a member hold.
    fn state(&self, bytes: &[u8]) -> Result<(State, Vec<f32>), String> {
        let mut state = self.trainer.network().initial_state();
        let mut velocity = vec![0.0; self.velocity_length(&state)];
        adopt_into(bytes, &mut state, &mut velocity)?;
        Ok((state, velocity))
    }

    fn model(&self, bytes: &[u8], progress: Progress) -> Result<ModelFile, String> {
        let (state, _) = self.state(bytes)?;
        Ok(self.trainer.model_file(self.normaliser.as_ref(), state, progress, 0))
    }

    /// The state that a run goes on from.
    pub(super) fn load(&self, record: &RunRecord) -> Result<Begun, ClusterError> {
        let path = PathBuf::from(record.checkpoint.clone().unwrap_or_default());
        let bad = |expected: String, found: String| ClusterError::BadCheckpoint { path: path.clone(), expected, found };
        if !path.exists() {
            let expected = format!("the checkpoint that the master of term {} has written", record.term);
            let found = "nothing: all masters of a run need the same `--output` folder, or begin anew with `--restart`";
            return Err(bad(expected, found.into()));
        }
        let file = ModelFile::load_with_registry(&path, &Registry::default())?;
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
        let (expected, found) = (self.trainer.network().parameter_count(), file.state.parameters.len());
        if expected != found {
            return Err(bad(format!("{expected} parameters"), found.to_string()));
        }
        let velocity = file.arrays.get(VELOCITY).map_or(&[][..], |values| values);
        Ok(Begun {
            run: rounds.run,
            round: rounds.round,
            rest: rounds.rest,
            state: snapshot_of(&file.state, velocity).into(),
            judged: rounds.judged,
            path: Some(path),
            is_finished: rounds.is_finished,
        })
    }

    /// Writes a checkpoint under a name of its own: what is published is never written over.
    pub(super) fn save(&self, checkpoint: Checkpoint) -> Result<PathBuf, String> {
        let Checkpoint { run, term, round, rest, is_finished, judged, state } = checkpoint;
        let (state, velocity) = self.state(&state)?;
        let progress = Progress { iteration: rest.steps(), epoch: rest.epoch() };
        let mut model = self.trainer.model_file(self.normaliser.as_ref(), state, progress, 0);
        let rounds = Rounds { version: CHECKPOINT, run, term, round, rest, is_finished, judged };
        model.extra.insert(ROUNDS.into(), serde_json::to_string(&rounds).expect("numbers can be written"));
        if !velocity.is_empty() {
            model.arrays.insert(VELOCITY.into(), velocity);
        }
        let path = self.folder.join(format!("checkpoint-{term}-{round}.safetensors"));
        model.save(&path).map_err(|error| error.to_string())?;
        Ok(path)
    }

    /// Removes all but the newest checkpoints; one that cannot be removed costs room and nothing else.
    pub(super) fn tidy(&self, newest: &Path) {
        let number = |path: &Path| {
            let name = path.file_name()?.to_str()?.strip_prefix("checkpoint-")?.strip_suffix(".safetensors")?;
            let (term, round) = name.split_once('-')?;
            Some((term.parse::<u64>().ok()?, round.parse::<u64>().ok()?))
        };
        let entries = std::fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let mut all: Vec<_> = entries.filter_map(|entry| Some((number(&entry.path())?, entry.path()))).collect();
        all.sort_unstable();
        let surplus = all.len().saturating_sub(KEPT);
        for (_, path) in all.into_iter().take(surplus).filter(|(_, path)| path != newest) {
            let _ = std::fs::remove_file(path);
        }
    }

    /// What a state is worth.
    pub(super) fn judge(&self, state: &[u8]) -> Result<Option<Scores>, ClusterError> {
        let (state, _) = self.state(state).map_err(|reason| ClusterError::RunFailed { reason })?;
        Ok(self.trainer.judge(self.normaliser.as_ref(), &state)?)
    }

    pub(super) fn keep_best(&self, state: &[u8], progress: Progress) -> Result<(), String> {
        self.model(state, progress)?.save(&best_path(&self.folder)).map_err(|error| error.to_string())
    }

    /// Writes the model and reads it back.
    pub(super) fn export(
        &self,
        state: &[u8],
        progress: Progress,
        prefers_best: bool,
        keeps_best: bool,
    ) -> Result<Exported, ClusterError> {
        let mut model = self.model(state, progress).map_err(|reason| ClusterError::RunFailed { reason })?;
        let mut scores = None;
        if prefers_best && let Ok(best) = ModelFile::load_with_registry(&best_path(&self.folder), &Registry::default())
        {
            scores = self.trainer.judge(self.normaliser.as_ref(), &best.state)?;
            model = best;
        } else if keeps_best {
            model.save(&best_path(&self.folder))?;
        }
        let path = self.folder.join("model.safetensors");
        model.save(&path)?;
        let read = |source| paceline_train::Error::Output { path: path.clone(), source };
        let bytes = std::fs::read(&path).map_err(read)?;
        let written = ModelFile::load_with_registry(&path, &Registry::default())?;
        if written.state.parameters != model.state.parameters {
            let (expected, found) = ("the model that was just written".into(), "other numbers".into());
            return Err(ClusterError::BadCheckpoint { path, expected, found });
        }
        let digest = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(Exported { path, digest, scores })
    }
}
