//! What is on the disk: one whole checkpoint after the other, each with what is left to do.

use std::path::{Path, PathBuf};

use paceline_exchange::rounds::{Round, Schedule};
use paceline_model::State;
use paceline_nn::{ModelFile, Registry};
use paceline_train::{AveragingOptions, Outer, ReplicaMode, Trainer, adopt_into, snapshot_of};
use serde::{Deserialize, Serialize};

use super::judging;
use crate::ClusterError;

/// Checkpoints that are kept.
const KEPT: usize = 2;
/// The name of the outer optimiser's way among the arrays of a file.
const VELOCITY: &str = "velocity";
/// The name of what is left to do among the metadata of a file.
const ROUNDS: &str = "rounds";

/// The folder of a run.
pub(super) struct Keep {
    folder: PathBuf,
}

/// Where a run stands when a term begins.
pub(super) struct Begun {
    pub run: u64,
    pub round: Round,
    pub rest: Schedule,
    /// What members start from.
    pub state: Vec<u8>,
    /// The file it was read from.
    pub path: Option<PathBuf>,
    /// Whether it goes on.
    pub is_resumed: bool,
    /// What was judged before.
    pub judged: judging::Kept,
}

/// What a checkpoint says beside the model.
#[derive(Serialize, Deserialize)]
struct Rounds {
    run: u64,
    term: u64,
    round: Round,
    rest: Schedule,
    is_finished: bool,
    #[serde(default)]
    judged: judging::Kept,
}

impl Keep {
    pub(super) fn new(folder: &Path) -> Result<Self, ClusterError> {
        std::fs::create_dir_all(folder)
            .map_err(|source| paceline_train::Error::Output { path: folder.into(), source })?;
        Ok(Self { folder: folder.to_owned() })
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    pub(super) fn model_path(&self) -> PathBuf {
        self.folder.join("model.safetensors")
    }

    /// A run that begins.
    pub(super) fn fresh(&self, trainer: &Trainer, mode: &ReplicaMode, rest: Schedule) -> Begun {
        let state = trainer.network().initial_state();
        let velocity = vec![0.0; velocity_length(mode, &state)];
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        let run = (now.as_nanos() as u64) ^ (u64::from(std::process::id()) << 40);
        Begun {
            run,
            round: 0,
            rest,
            state: snapshot_of(&state, &velocity),
            path: None,
            is_resumed: false,
            judged: judging::Kept::default(),
        }
    }

    /// A run that goes on; none if it was finished, or its file is gone.
    pub(super) fn load(&self, trainer: &Trainer, run: u64, path: &Path) -> Result<Option<Begun>, ClusterError> {
        if !path.exists() {
            return Ok(None);
        }
        let bad = |expected: String, found: String| ClusterError::BadCheckpoint { path: path.into(), expected, found };
        let file = ModelFile::load_with_registry(path, &Registry::default())?;
        let rounds = file.extra.get(ROUNDS).ok_or_else(|| bad("what is left to do".into(), "nothing of it".into()))?;
        let rounds: Rounds =
            serde_json::from_str(rounds).map_err(|e| bad("what is left to do".into(), e.to_string()))?;
        if rounds.is_finished || rounds.run != run {
            return Ok(None);
        }
        let (expected, found) = (trainer.network().parameter_count(), file.state.parameters.len());
        if expected != found {
            return Err(bad(format!("{expected} parameters"), found.to_string()));
        }
        let velocity = file.arrays.get(VELOCITY).map_or(&[][..], |values| values);
        Ok(Some(Begun {
            run,
            round: rounds.round,
            rest: rounds.rest,
            state: snapshot_of(&file.state, velocity),
            path: Some(path.to_owned()),
            is_resumed: true,
            judged: rounds.judged,
        }))
    }

    /// The state that bytes from a member hold.
    pub(super) fn state(
        &self,
        trainer: &Trainer,
        mode: &ReplicaMode,
        bytes: &[u8],
    ) -> Result<(State, Vec<f32>), String> {
        let mut state = trainer.network().initial_state();
        let mut velocity = vec![0.0; velocity_length(mode, &state)];
        adopt_into(bytes, &mut state, &mut velocity)?;
        Ok((state, velocity))
    }

    /// Writes a checkpoint under a name of its own: what is published is never written over.
    #[expect(clippy::too_many_arguments, reason = "all of it is one checkpoint")]
    pub(super) fn save(
        &self,
        mut model: ModelFile,
        velocity: Vec<f32>,
        run: u64,
        term: u64,
        round: Round,
        rest: Schedule,
        is_finished: bool,
        judged: judging::Kept,
    ) -> Result<PathBuf, ClusterError> {
        let rounds = Rounds { run, term, round, rest, is_finished, judged };
        model.extra.insert(ROUNDS.into(), serde_json::to_string(&rounds).expect("numbers can be written"));
        if !velocity.is_empty() {
            model.arrays.insert(VELOCITY.into(), velocity);
        }
        let path = self.folder.join(format!("checkpoint-{term}-{round}.safetensors"));
        model.save(&path)?;
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
}

/// Numbers of the outer optimiser's way.
fn velocity_length(mode: &ReplicaMode, state: &State) -> usize {
    match mode {
        ReplicaMode::Averaging(AveragingOptions { outer: Outer::Nesterov { .. }, .. }) => state.parameters.len(),
        _ => 0,
    }
}
