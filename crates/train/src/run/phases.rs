//! A job from its first phase to its last, in one process.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use paceline_data::OpenOptions;
use paceline_model::State;
use paceline_nn::ModelFile;

use crate::pretrain::Phase;
use crate::run::MODEL;
use crate::run::begin::writable;
use crate::run::checkpoint::Checkpoints;
use crate::run::event::Once;
use crate::run::folder::{Lock, clear, expect_free};
use crate::run::resume::same_run;
use crate::saved::load;
use crate::{Error, Event, IfFound, Job, Metric, Outcome, Stop, Take, Trainer};

/// A job, ready to run: its phases with their data.
pub struct PhasedTrainer {
    phases: Vec<(Option<Phase>, Trainer)>,
    output: Option<PathBuf>,
    found: IfFound,
    stop: Stop,
}

/// The folder of a phase before the last, in that of the run.
pub fn phase_folder(output: &Path, number: usize) -> PathBuf {
    output.join(format!("pretrain-{number}"))
}

impl Job {
    /// Opens all data and makes what trains the job in one process, phase by phase. Relative paths are taken from where the program
    /// was started.
    pub fn phased(
        &self,
        output: Option<PathBuf>,
        found: IfFound,
        open_options: &OpenOptions,
    ) -> Result<PhasedTrainer, Error> {
        let (jobs, stop) = (self.phases(), Stop::default());
        let mut phases = Vec::with_capacity(jobs.len());
        for (at, job) in jobs.iter().enumerate() {
            let is_last = at + 1 == jobs.len();
            let folder =
                output.as_ref().map(|folder| if is_last { folder.clone() } else { phase_folder(folder, at + 1) });
            // A job of one phase looks after its folder itself.
            let found = if jobs.len() == 1 { found } else { IfFound::Refuse };
            let trainer = job.trainer(folder, found, open_options)?;
            phases.push((job.phase.clone(), Trainer { stop: stop.clone(), ..trainer }));
        }
        Ok(PhasedTrainer { phases, output, found, stop })
    }
}

impl PhasedTrainer {
    /// Begins with what a model has learned, which has the same layers.
    pub fn begin_with(mut self, model: &ModelFile, take: Take) -> Result<Self, Error> {
        let (phase, first) = self.phases.remove(0);
        self.phases.insert(0, (phase, first.begin_with(model, take)?));
        Ok(self)
    }

    /// The same, stopped from outside by this one.
    #[must_use]
    pub fn stopped_by(mut self, stop: &Stop) -> Self {
        self.stop = stop.clone();
        self.phases.iter_mut().for_each(|(_, trainer)| trainer.stop = stop.clone());
        self
    }

    /// Bytes that the phase which needs most needs at least.
    pub fn memory_needed(&self) -> usize {
        self.phases.iter().map(|(_, trainer)| trainer.memory_needed()).max().unwrap_or(0)
    }

    /// Fails if a phase needs more memory than this process can have.
    pub fn expect_memory(&self) -> Result<(), Error> {
        self.phases.iter().try_for_each(|(_, trainer)| trainer.expect_memory())
    }

    /// What its first phase begins with.
    pub fn first_state(&self) -> State {
        self.phases[0].1.first_state()
    }

    /// What of the test data is told of the model that it comes to.
    pub fn told_metrics(&self) -> Vec<Metric> {
        self.phases.last().map(|(_, trainer)| trainer.told_metrics()).unwrap_or_default()
    }

    /// What stops the run from outside.
    pub fn stop(&self) -> Stop {
        self.stop.clone()
    }

    /// Runs one phase after the other, and tells `listener` what happens.
    pub fn run(self, listener: &mut dyn FnMut(&Event)) -> Result<Outcome, Error> {
        match self.phases.len() {
            1 => self.phases[0].1.run(listener),
            _ => self.run_all(listener),
        }
    }

    fn run_all(self, listener: &mut dyn FnMut(&Event)) -> Result<Outcome, Error> {
        let Self { phases, output, found, .. } = self;
        let folders: Vec<PathBuf> = phases.iter().filter_map(|(_, trainer)| trainer.options.output.clone()).collect();
        let lock = match &output {
            Some(folder) => Some(Arc::new(take_folder(folder, &folders, found)?)),
            None => None,
        };
        let of = phases.len();
        let (mut before, mut once): (Option<ModelFile>, Once) = (None, Once::default());
        for (at, (phase, mut trainer)) in phases.into_iter().enumerate() {
            let (number, layer) = (at + 1, phase.and_then(|phase| phase.layer));
            let folder = trainer.options.output.clone();
            if let (Some(folder), IfFound::Resume, true) = (&folder, found, number < of)
                && folder.join(MODEL).exists()
            {
                let path = folder.join(MODEL);
                let done = load(&path, &trainer.registry)?;
                same_run(&trainer.network, &trainer.data, &done, &path)?;
                before = Some(done);
                continue;
            }
            listener(&Event::Phase { phase: number, of, layer: layer.clone() });
            if let Some(before) = &before {
                trainer = trainer.begin_with(before, Take::Learned)?;
            }
            trainer.options.resume =
                found == IfFound::Resume && folder.is_some_and(|folder| Checkpoints::newest_in(&folder).exists());
            // Whatever is in the folders was looked after above.
            (trainer.options.overwrite, trainer.lock) = (!trainer.options.resume, lock.clone());
            let outcome = trainer.run(&mut |event| match event {
                Event::Finished { examples, seconds, score, model, .. } if number < of => {
                    listener(&Event::PhaseEnded {
                        phase: number,
                        of,
                        layer: layer.clone(),
                        examples: *examples,
                        score: *score,
                        seconds: *seconds,
                        model: model.clone(),
                    })
                }
                event if once.is_new(event) => listener(event),
                _ => {}
            })?;
            if outcome.stopped || number == of {
                return Ok(outcome);
            }
            before = Some(outcome.model);
        }
        unreachable!("the last phase of a job returns")
    }
}

/// Takes the folder of a run for all its phases; refuses one that another run is in, or was, unless that is meant.
fn take_folder(output: &Path, folders: &[PathBuf], found: IfFound) -> Result<Lock, Error> {
    let is_there = |folder: &PathBuf| folder.join(MODEL).exists() || Checkpoints::newest_in(folder).exists();
    if found == IfFound::Resume && !folders.iter().any(is_there) {
        return Err(Error::NothingToResume { path: Checkpoints::newest_in(output) });
    }
    writable(output)?;
    let lock = Lock::take(output)?;
    match found {
        IfFound::Resume => {}
        IfFound::Refuse => folders.iter().try_for_each(|folder| expect_free(folder))?,
        IfFound::Overwrite => {
            // A phase that is found done is not done again: nothing of another run may be left but the last model.
            for folder in folders {
                clear(folder)?;
                let model = folder.join(MODEL);
                if folder != output && model.exists() {
                    std::fs::remove_file(&model).map_err(|source| Error::Output { path: model, source })?;
                }
            }
        }
    }
    Ok(lock)
}
