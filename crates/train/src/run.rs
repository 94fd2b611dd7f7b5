//! A run under way: epochs, cut into stretches between which it is judged and saved.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use paceline_data::{Loader, LoaderOptions, Normaliser, Share};
use paceline_model::{Loss, Model, Progress};
use paceline_nn::{Engine, Instructions, ModelFile};

use crate::health::{expect_finite, expect_sane};
use crate::resume::{DataKey, same_run};
use crate::saved::load;
use crate::team::{Member, Stretch, TELL_EVERY, Taken, Team};
use crate::{Error, Event, Mode, Outcome, Scores, Trainer, Worker, evaluate};

const CHECKPOINT: &str = "checkpoint.safetensors";
const MODEL: &str = "model.safetensors";

/// A run under way.
pub(crate) struct Run<'a> {
    trainer: &'a Trainer,
    team: Team,
    normaliser: Option<Normaliser>,
    /// The step of the epoch that comes next.
    step: u64,
    began: Instant,
    /// When a step was last told.
    told: Option<Instant>,
    /// Time that went into judging instead of training.
    judging: Duration,
    examples: u64,
    last_checkpoint: Option<PathBuf>,
}

impl<'a> Run<'a> {
    pub(crate) fn begin(trainer: &'a Trainer) -> Result<Self, Error> {
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
        let model = Engine::new(trainer.network.clone());
        let (mut state, mut progress, mut step) = (model.initial_state(), Progress::default(), 0);
        let (mut losses, mut last_checkpoint) = (Vec::new(), None);
        let normaliser = match saved {
            None => {
                let kind = options.normaliser.unwrap_or(trainer.train.default_normaliser());
                Normaliser::fit(kind, &*trainer.train)?
            }
            Some((saved, path)) => {
                same_run(&trainer.network, &DataKey::of(options, &*trainer.train), &saved, &path)?;
                let normaliser = saved.extra.get("normaliser").map(|json| read_extra(&path, "normaliser", json));
                let kept = saved.extra.get("losses").map(|json| read_extra::<Vec<[u64; 2]>>(&path, "losses", json));
                losses = kept.transpose()?.unwrap_or_default();
                (state, progress, step) = (saved.state, saved.progress, saved.step);
                last_checkpoint = Some(path);
                normaliser.transpose()?
            }
        };
        let (exchanges, gate) = options.mode.team(options.workers, &model, &state, &trainer.stop)?;
        let mut members = Vec::with_capacity(options.workers);
        for (index, exchange) in exchanges.into_iter().enumerate() {
            let loader = Loader::new(
                trainer.train.clone(),
                LoaderOptions {
                    batch: options.step_examples(),
                    share: Share { of: options.workers, index },
                    shuffle: options.shuffle,
                    seed: options.seed,
                    prefetch: options.prefetch,
                    normaliser: normaliser.clone(),
                    class_weights: options.class_weights.clone(),
                },
            )?;
            let bits = losses.get(index).copied().unwrap_or_default();
            let losses = Loss { sum: f64::from_bits(bits[0]), weight: f64::from_bits(bits[1]) };
            let model = Engine::new(trainer.network.clone());
            let worker = Worker { model, state: state.clone(), exchange, progress };
            members.push(Member { worker, loader, losses, bytes_sent: 0 });
        }
        let team = Team::new(members, gate);
        let (began, judging, examples) = (Instant::now(), Duration::ZERO, 0);
        Ok(Self { trainer, team, normaliser, step, began, told: None, judging, examples, last_checkpoint })
    }

    /// Whether `resume` would go on where it is now, or was not long ago.
    pub(crate) fn can_be_resumed(&self) -> bool {
        self.last_checkpoint.is_some()
    }

    pub(crate) fn go(&mut self, listener: &mut dyn FnMut(&Event)) -> Result<Outcome, Error> {
        let options = &self.trainer.options;
        let per_epoch = self.steps_per_epoch();
        listener(&Event::Started {
            mode: options.mode.name(),
            workers: options.workers,
            parameters: self.trainer.network.parameter_count(),
            examples: self.trainer.train.examples(),
            steps_per_epoch: per_epoch,
            epochs: options.epochs,
            steps: per_epoch.saturating_mul(options.epochs).min(options.steps.unwrap_or(u64::MAX)),
            resumed_at: self.progress().iteration,
            instructions: Instructions::detect().name(),
        });
        let mut scores = None;
        while self.progress().epoch < options.epochs && !self.is_done() {
            match self.epoch(listener)? {
                Ended::Whole => {
                    scores = self.judge(listener)?;
                    expect_sane(&self.first().state, self.progress(), scores.as_ref(), || self.kept())?;
                }
                Ended::Part => {}
            }
            self.checkpoint(listener)?;
            let goes_on = self.progress().epoch < options.epochs && !self.is_done();
            if self.trainer.stop.is_asked() && goes_on {
                let checkpoint = self.last_checkpoint.clone();
                listener(&Event::Paused { iteration: self.progress().iteration, checkpoint });
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
            mode: options.mode.name(),
            workers: options.workers,
            epochs: self.progress().epoch,
            examples: self.examples,
            parameters: self.trainer.network.parameter_count(),
            seconds,
            examples_per_second: self.examples as f64 / training.max(1e-9),
            score: scores.as_ref().map_or(self.losses().mean(), Scores::score),
            accuracy: scores.as_ref().and_then(Scores::accuracy),
            bytes_sent: self.team.members().iter().map(|member| member.bytes_sent).sum(),
            model: path,
        });
        Ok(Outcome { model, scores, stopped: false })
    }

    /// The rest of one epoch.
    fn epoch(&mut self, listener: &mut dyn FnMut(&Event)) -> Result<Ended, Error> {
        let epoch = self.progress().epoch;
        if self.step == 0 {
            self.team.members_mut().iter_mut().for_each(|member| member.losses = Loss::default());
        }
        let (began, seen) = (Instant::now(), self.examples);
        let per_epoch = self.steps_per_epoch();
        while self.step < per_epoch {
            let until = self.stretch_end();
            let stretch = Stretch { epoch, from: self.step, until };
            self.step = self.stretch(stretch, listener)?;
            if self.step == per_epoch {
                break;
            }
            if self.step < until || self.trainer.stop.is_asked() || self.is_done() {
                return Ok(Ended::Part);
            }
            self.checkpoint(listener)?;
        }
        for member in self.team.members_mut() {
            member.worker.progress.epoch += 1;
        }
        self.step = 0;
        let seconds = began.elapsed().as_secs_f64();
        let examples_per_second = (self.examples - seen) as f64 / seconds.max(1e-9);
        listener(&Event::Epoch { epoch, loss: self.losses().mean(), seconds, examples_per_second });
        Ok(Ended::Whole)
    }

    /// Where the replicas must be together next: for a checkpoint, or because the run or the epoch is over.
    fn stretch_end(&self) -> u64 {
        let (options, iteration) = (&self.trainer.options, self.progress().iteration);
        let left = options.steps.map(|steps| steps.saturating_sub(iteration));
        let saved = options.checkpoint_every.filter(|&n| n > 0).map(|n| n - iteration % n);
        let until = [left, saved].into_iter().flatten().map(|steps| self.step.saturating_add(steps)).min();
        until.unwrap_or(u64::MAX).min(self.steps_per_epoch())
    }

    fn stretch(&mut self, stretch: Stretch, listener: &mut dyn FnMut(&Event)) -> Result<u64, Error> {
        let kept = self.kept();
        let of_all = match self.trainer.options.mode {
            Mode::Averaging(options) => options.report_score,
            _ => true,
        };
        let mut last = vec![Loss::default(); self.team.members().len()];
        let (mut mark, mut since) = (Instant::now(), 0);
        let Self { team, told, examples, .. } = self;
        team.run(stretch, &kept, &mut |taken: Taken| {
            since += taken.examples;
            *examples += taken.examples as u64;
            last[taken.member] = taken.loss;
            if taken.member == 0 && told.is_none_or(|told| told.elapsed() >= TELL_EVERY) {
                let mut loss = Loss::default();
                last[..if of_all { last.len() } else { 1 }].iter().for_each(|one| loss.merge(*one));
                listener(&Event::Step {
                    epoch: stretch.epoch,
                    step: taken.step,
                    iteration: taken.iteration,
                    loss: loss.mean(),
                    examples_per_second: since as f64 / mark.elapsed().as_secs_f64().max(1e-9),
                });
                (mark, since) = (Instant::now(), 0);
                *told = Some(mark);
            }
            if let Some(traffic) = taken.traffic {
                let Taken { member: worker, step, iteration, .. } = taken;
                listener(&Event::Threshold { worker, epoch: stretch.epoch, step, iteration, traffic });
            }
        })
    }

    fn first(&self) -> &Worker<Engine, Box<dyn crate::Exchange>> {
        &self.team.first().worker
    }

    fn progress(&self) -> Progress {
        self.first().progress
    }

    fn steps_per_epoch(&self) -> u64 {
        self.team.first().loader.steps_per_epoch()
    }

    /// The losses of the epoch so far, in the order of the replicas.
    fn losses(&self) -> Loss {
        let mut losses = Loss::default();
        self.team.members().iter().for_each(|member| losses.merge(member.losses));
        losses
    }

    fn is_done(&self) -> bool {
        self.trainer.options.steps.is_some_and(|steps| self.progress().iteration >= steps)
    }

    fn judge(&mut self, listener: &mut dyn FnMut(&Event)) -> Result<Option<Scores>, Error> {
        let Some(test) = self.trainer.test.as_ref().filter(|_| self.trainer.options.evaluate) else { return Ok(None) };
        let began = Instant::now();
        let outputs = self.trainer.network.output().len();
        let Member { worker, loader, .. } = &mut self.team.members_mut()[0];
        let options = LoaderOptions { share: Share::default(), ..loader.options().clone() };
        let scores = evaluate(&mut worker.model, &worker.state, outputs, test.clone(), options)?;
        self.judging += began.elapsed();
        if let Some(scores) = &scores {
            let epoch = self.progress().epoch.saturating_sub(1);
            listener(&Event::Evaluation { epoch, scores: scores.clone() });
        }
        Ok(scores)
    }

    /// Writes a checkpoint, unless nothing is to be written or what there is would be worth less than the last one.
    fn checkpoint(&mut self, listener: &mut dyn FnMut(&Event)) -> Result<(), Error> {
        let Some(path) = self.trainer.path(CHECKPOINT) else { return Ok(()) };
        expect_finite(&self.first().state, self.progress(), || self.kept())?;
        self.model().save(&path)?;
        listener(&Event::Checkpoint { iteration: self.progress().iteration, path: path.clone() });
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
            let bits = |member: &Member| [member.losses.sum.to_bits(), member.losses.weight.to_bits()];
            extra.insert("losses".into(), json(&self.team.members().iter().map(bits).collect::<Vec<_>>()));
        }
        extra.insert("data".into(), json(&DataKey::of(&self.trainer.options, &*self.trainer.train)));
        let Worker { state, progress, .. } = self.first();
        ModelFile {
            network: self.trainer.network.clone(),
            state: state.clone(),
            progress: *progress,
            step: self.step,
            extra,
        }
    }

    fn kept(&self) -> String {
        match &self.last_checkpoint {
            Some(path) => format!("the last good checkpoint is kept in `{}`", path.display()),
            None => "no checkpoint was written before".into(),
        }
    }
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
