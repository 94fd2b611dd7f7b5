//! A run under way: epochs, cut into stretches between which it is judged and saved.
//!
//! # Layout
//!
//! - `trainer`: what a run is of, and how it goes. `begin`: how it begins, anew or from its checkpoint (`resume`, `checkpoint`).
//! - `phases`: a job whose layers are pretrained is several runs, one after the other.
//! - `early_stopping`: when it ends before its last epoch. `plateau`: when learning rates fall because nothing improves. `halt`: how it is stopped from outside.
//! - `folder`: for one run at a time. `event`: what it tells. `journal`: what of
//!   that is written down. `health`: what went wrong when a loss is no number.

mod begin;
pub(crate) mod checkpoint;
pub(crate) mod early_stopping;
pub(crate) mod event;
pub(crate) mod folder;
pub(crate) mod halt;
pub(crate) mod health;
pub(crate) mod journal;
pub(crate) mod metric;
pub(crate) mod phases;
pub(crate) mod plateau;
pub(crate) mod resume;
pub(crate) mod start_from;
pub(crate) mod trainer;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use paceline_data::{LoaderOptions, Share};
use paceline_model::{Loss, Progress, State};
use paceline_nn::{Engine, Instructions, ModelFile};

use crate::run::checkpoint::Checkpoints;
use crate::run::early_stopping::Standing;
use crate::run::event::KeptEpoch;
use crate::run::halt::Halt;
use crate::run::health::{expect_finite, expect_sane};
use crate::run::plateau::Fallen;
use crate::run::resume::{Kept, keep};
use crate::team::feed::Deal;
use crate::team::{Member, StepsTaken, Stretch, TELL_EVERY, Team};
use crate::{EarlyStopping, Error, Event, Metric, Mode, Normalisers, Outcome, Scores, Trainer, Worker, evaluate};

pub(crate) const MODEL: &str = "model.safetensors";

/// Between the first two tries to save a run that cannot be saved; each wait is twice the one before.
const FIRST_WAIT: Duration = Duration::from_secs(1);
/// Between any two tries at most.
const LONGEST_WAIT: Duration = Duration::from_secs(30);

/// A run under way.
pub(crate) struct Run<'a> {
    pub trainer: &'a Trainer,
    pub team: Team,
    pub halt: Halt,
    pub normalisers: Normalisers,
    /// The step of the epoch that comes next.
    pub step: u64,
    pub began: Instant,
    /// Time of the run before it was resumed.
    pub before: Duration,
    /// When a step was last told.
    pub told: Option<Instant>,
    /// When the run was last saved, or began.
    pub saved: Instant,
    /// When it could not be saved, and how long until it is tried again.
    pub unsaved: Option<(Instant, Duration)>,
    /// Time that went into judging instead of training.
    pub judging: Duration,
    pub examples: u64,
    /// Where checkpoints go; nothing is written if there is no such place.
    pub checkpoints: Option<Checkpoints>,
    pub record: Standing,
    pub plateau: Fallen,
    /// The best model so far and its scores, where the run comes to the best and not to the last.
    pub best: Option<(ModelFile, Option<Scores>)>,
    /// What the model was last judged to be, after so many steps.
    pub judged: Option<(u64, Scores)>,
    /// Keeps other runs out of the folder.
    _lock: Option<Arc<folder::Lock>>,
}

impl Run<'_> {
    /// Whether `resume` would go on where it is now, or was not long ago.
    pub(crate) fn can_be_resumed(&self) -> bool {
        self.newest().is_some()
    }

    /// Epochs that are behind it.
    pub(crate) fn epochs_done(&self) -> u64 {
        self.progress().epoch
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
            examples_left: None,
            instructions: Instructions::detect().name(),
        });
        let mut ends = options.early_stopping.as_ref().and_then(|stopping| self.record.ends(stopping));
        while ends.is_none() && !self.is_done() {
            let ended = match self.epoch(listener) {
                Ok(ended) => ended,
                Err(error @ Error::NotFinite { .. }) if self.ends_at_invalid_score() => {
                    // Nothing of this state is worth saving: the best model stands for the run.
                    return self.finish(Some(error.to_string()), listener);
                }
                Err(error) => return Err(error),
            };
            if matches!(ended, Ended::Whole) && self.is_judged_now() {
                ends = self.judge(listener)?;
            }
            ends = ends.or_else(|| self.time_is_over());
            let is_due = matches!(ended, Ended::Part) || self.is_saved_now() || self.is_done() || ends.is_some();
            let is_last = self.is_done() || ends.is_some() || self.trainer.stop.is_asked();
            match is_due {
                true if is_last => self.checkpoint(listener)?,
                true => self.try_checkpoint(listener)?,
                false => {}
            }
            if self.trainer.stop.is_asked() && !self.is_done() && ends.is_none() {
                // A stop is a promise that nothing is lost, however seldom the run is saved.
                if !is_due {
                    self.checkpoint(listener)?;
                }
                listener(&Event::Paused { iteration: self.progress().iteration, checkpoint: self.newest() });
                let (model, scores) = (self.model(), self.scores());
                return Ok(Outcome { model, scores, stopped: true, ended_early: None });
            }
        }
        // A run that was over when it was resumed and has its best model has nothing new to judge.
        if self.scores().is_none() && (self.examples > 0 || self.best.is_none()) {
            // The last steps of a run that ends within an epoch count too.
            self.judge(listener)?;
        }
        self.finish(ends, listener)
    }

    /// Writes the model that the run came to and tells that it is over.
    fn finish(&mut self, ended_early: Option<String>, listener: &mut dyn FnMut(&Event)) -> Result<Outcome, Error> {
        let options = &self.trainer.options;
        let (model, scores) = match self.best.take() {
            // The best model of a run that was resumed was judged before.
            Some((model, None)) => {
                let scores = self.measure(Some(&model.state))?;
                (model, scores)
            }
            Some((model, scores)) => (model, scores),
            None => (self.model(), self.scores()),
        };
        let path = self.trainer.path(MODEL);
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
            bytes_sent: self.team.members.iter().map(|member| member.bytes_sent).sum(),
            model: path,
            ended_early: ended_early.clone(),
            kept: KeptEpoch::of(&model.extra),
        });
        Ok(Outcome { model, scores, stopped: false, ended_early })
    }

    /// The rest of one epoch.
    fn epoch(&mut self, listener: &mut dyn FnMut(&Event)) -> Result<Ended, Error> {
        let epoch = self.progress().epoch;
        if self.step == 0 {
            self.team.members.iter_mut().for_each(|member| member.losses = Loss::default());
        }
        let (began, seen) = (Instant::now(), self.examples);
        let per_epoch = self.steps_per_epoch();
        while self.step < per_epoch {
            let (from, until, pause_at) = (self.step, self.stretch_end(), self.pause_at());
            let stretch = Stretch { epoch, from, until, pause_at };
            let next = self.stretch(stretch, listener);
            self.halt.go_on();
            self.step = next?;
            if self.step == per_epoch {
                break;
            }
            if self.trainer.stop.is_asked() || self.has_taken_its_steps() || self.time_is_over().is_some() {
                return Ok(Ended::Part);
            }
            self.try_checkpoint(listener)?;
        }
        for member in &mut self.team.members {
            member.worker.progress.epoch += 1;
        }
        self.step = 0;
        let seconds = began.elapsed().as_secs_f64();
        let examples_per_second = (self.examples - seen) as f64 / seconds.max(1e-9);
        listener(&Event::Epoch { epoch: epoch + 1, loss: self.losses().mean(), seconds, examples_per_second });
        Ok(Ended::Whole)
    }

    /// Where the replicas must be together next: for a checkpoint, or because the run or the epoch is over.
    fn stretch_end(&self) -> u64 {
        let (options, iteration) = (&self.trainer.options, self.progress().iteration);
        let left = options.steps.map(|steps| self.step.saturating_add(steps.saturating_sub(iteration)));
        let saved = options.checkpoint.steps.map(|n| {
            let due = self.step.saturating_add(n - iteration % n);
            due.checked_next_multiple_of(options.mode.stride()).unwrap_or(due)
        });
        let until = [left, saved].into_iter().flatten().min();
        until.unwrap_or(u64::MAX).min(self.steps_per_epoch())
    }

    /// When the replicas are asked for a pause, to be saved or because the time of the run is over.
    fn pause_at(&self) -> Option<Instant> {
        let options = &self.trainer.options;
        let saved = options.checkpoint.interval().filter(|_| self.checkpoints.is_some());
        let saved = saved.and_then(|interval| self.saved.checked_add(interval));
        let left = options.early_stopping.as_ref().and_then(|stopping| stopping.time_left(self.elapsed()));
        let over = left.and_then(|left| Instant::now().checked_add(left));
        [saved, over].into_iter().flatten().min()
    }

    fn stretch(&mut self, stretch: Stretch, listener: &mut dyn FnMut(&Event)) -> Result<u64, Error> {
        let kept = self.kept();
        let of_all = match self.trainer.options.mode {
            Mode::Averaging(options) => options.report_score,
            _ => true,
        };
        let mut last = vec![Loss::default(); self.team.members.len()];
        let (mut mark, mut since, mut newest) = (Instant::now(), 0, 0);
        // Where each has its own part of every step the first speaks for all; where it may get none, whoever is ahead does.
        let anybody_speaks = matches!(self.team.deal, Deal::Free);
        let Self { team, told, examples, halt, .. } = self;
        team.run(stretch, &kept, &mut |taken: StepsTaken| {
            if stretch.pause_at.is_some_and(|at| Instant::now() >= at) {
                halt.pause();
            }
            since += taken.examples;
            *examples += taken.examples as u64;
            last[taken.member] = taken.loss;
            let speaks = taken.examples > 0 && taken.iteration > newest && (anybody_speaks || taken.member == 0);
            // Replicas keep the pace, but every stretch begins with a step that they tell.
            if speaks && told.is_none_or(|told| told.elapsed() >= TELL_EVERY / 2) {
                let mut loss = Loss::default();
                last[..if of_all { last.len() } else { 1 }].iter().for_each(|one| loss.merge(*one));
                listener(&Event::Step {
                    epoch: stretch.epoch + 1,
                    step: taken.step + 1,
                    iteration: taken.iteration,
                    loss: loss.mean(),
                    examples_per_second: since as f64 / mark.elapsed().as_secs_f64().max(1e-9),
                });
                (mark, since) = (Instant::now(), 0);
                (*told, newest) = (Some(mark), taken.iteration);
            }
            if let Some(traffic) = taken.traffic {
                let StepsTaken { member, step, iteration, .. } = taken;
                let (worker, epoch, step) = ((member + 1).to_string(), stretch.epoch + 1, step + 1);
                listener(&Event::Threshold { worker, epoch, step, iteration, traffic });
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
        self.team.members.iter().for_each(|member| losses.merge(member.losses));
        losses
    }

    fn has_taken_its_steps(&self) -> bool {
        self.trainer.options.steps.is_some_and(|steps| self.progress().iteration >= steps)
    }

    fn is_done(&self) -> bool {
        self.progress().epoch >= self.trainer.options.epochs || self.has_taken_its_steps()
    }

    /// The time of the run, what went before a resume included.
    fn elapsed(&self) -> Duration {
        self.before + self.began.elapsed()
    }

    fn stopping(&self) -> Option<&EarlyStopping> {
        self.trainer.options.early_stopping.as_ref()
    }

    fn time_is_over(&self) -> Option<String> {
        let left = self.stopping()?.time_left(self.elapsed())?;
        left.is_zero().then(|| format!("its {:.2} minutes are over", self.elapsed().as_secs_f64() / 60.0))
    }

    fn ends_at_invalid_score(&self) -> bool {
        self.stopping().is_some_and(|stopping| stopping.invalid_score) && self.best.is_some()
    }

    fn is_judged_now(&self) -> bool {
        self.progress().epoch.is_multiple_of(self.trainer.options.evaluate_every) || self.is_done()
    }

    /// Whether an epoch that is over is one to save.
    fn is_saved_now(&self) -> bool {
        let every = self.trainer.options.checkpoint.epochs;
        every > 0 && self.progress().epoch.is_multiple_of(every)
    }

    /// The scores of the model as it is now.
    fn scores(&self) -> Option<Scores> {
        self.judged.as_ref().filter(|(at, _)| *at == self.progress().iteration).map(|(_, scores)| scores.clone())
    }

    /// The scores of a state, or of the run's own, if there is something to judge it on.
    fn measure(&mut self, state: Option<&State>) -> Result<Option<Scores>, Error> {
        let Some(test) = self.trainer.test.as_ref().filter(|_| self.trainer.options.evaluate) else { return Ok(None) };
        let began = Instant::now();
        let network = &self.trainer.network;
        let Member { worker, loader, .. } = &mut self.team.members[0];
        let options = LoaderOptions { share: Share::default(), ..loader.options().clone() };
        let own;
        let state = match state {
            Some(state) => state,
            None => {
                own = network.presented(&worker.state, worker.progress);
                &*own
            }
        };
        let thresholds = self.trainer.options.thresholds();
        let scores = evaluate(&mut worker.model, state, network, test.clone(), options, thresholds)?;
        self.judging += began.elapsed();
        Ok(scores)
    }

    /// Judges the model, if there is something to judge it on; says why the run ends here, if it does.
    fn judge(&mut self, listener: &mut dyn FnMut(&Event)) -> Result<Option<String>, Error> {
        let Some(scores) = self.measure(None)? else { return Ok(None) };
        listener(&Event::Evaluation { epoch: self.progress().epoch.max(1), scores: scores.clone() });
        let sane = expect_sane(&self.first().state, self.progress(), Some(&scores), || self.kept());
        if let (Err(error), true) = (&sane, self.ends_at_invalid_score()) {
            return Ok(Some(error.to_string()));
        }
        sane?;
        self.judged = Some((self.progress().iteration, scores.clone()));
        self.lower_rates(&scores, listener);
        let stopping = self.stopping().copied();
        let metric = stopping.map_or(Metric::Score, |stopping| stopping.metric);
        let Some(value) = metric.of(&scores) else { return Ok(None) };
        let verdict = self.record.judge(value, &stopping.unwrap_or_default());
        let comes_to_best = stopping.is_some_and(|stopping| stopping.save_best);
        if verdict.is_best && (comes_to_best || self.trainer.options.checkpoint.best) {
            let mut model = self.model();
            KeptEpoch { epoch: self.progress().epoch.max(1), metric, value }.keep(&mut model.extra);
            if let Some(folder) = &self.trainer.options.output
                && let Err(error) = model.save(&Checkpoints::best_in(folder))
            {
                listener(&Event::NotSaved { round: self.progress().iteration, reason: error.to_string() });
            }
            self.best = comes_to_best.then_some((model, Some(scores)));
        }
        Ok(stopping.and(verdict.ends))
    }

    /// Lowers the learning rates if nothing has improved for long enough.
    fn lower_rates(&mut self, scores: &Scores, listener: &mut dyn FnMut(&Event)) {
        let Some(rule) = self.trainer.options.plateau else { return };
        let Some(value) = rule.metric.of(scores) else { return };
        if self.plateau.judge(value, &rule) {
            let factor = self.plateau.factor();
            self.team.members.iter_mut().for_each(|member| member.worker.model.scale_rates(factor));
            listener(&Event::RatesLowered { epoch: self.progress().epoch, factor });
        }
    }

    /// Writes a checkpoint on the way. One that cannot be written is told, and the one before stays until the next attempt.
    fn try_checkpoint(&mut self, listener: &mut dyn FnMut(&Event)) -> Result<(), Error> {
        if self.unsaved.is_some_and(|(failed, wait)| failed.elapsed() < wait) {
            return Ok(());
        }
        match self.checkpoint(listener) {
            Err(error) if error.is_about_writing() => {
                listener(&Event::NotSaved { round: self.progress().iteration, reason: error.to_string() });
                self.saved = Instant::now();
                let wait = self.unsaved.map_or(FIRST_WAIT, |(_, wait)| (2 * wait).min(LONGEST_WAIT));
                self.unsaved = Some((self.saved, wait));
                Ok(())
            }
            other => {
                self.unsaved = None;
                other
            }
        }
    }

    /// Writes a checkpoint, unless nothing is to be written or what there is would be worth less than the last one.
    fn checkpoint(&mut self, listener: &mut dyn FnMut(&Event)) -> Result<(), Error> {
        let Some(mut checkpoints) = self.checkpoints.take() else { return Ok(()) };
        let written = expect_finite(&self.first().state, self.progress(), || kept(checkpoints.newest().as_ref()))
            .and_then(|()| checkpoints.write(&self.whole()));
        self.checkpoints = Some(checkpoints);
        listener(&Event::Checkpoint { iteration: self.progress().iteration, path: written? });
        self.saved = Instant::now();
        Ok(())
    }

    /// The state with all that a run needs to go on from it.
    fn whole(&self) -> ModelFile {
        let Worker { state, progress, .. } = self.first();
        let mut model = self.trainer.model_file(&self.normalisers, state.clone(), *progress, self.step);
        keep(
            &mut model,
            &Kept { seconds: self.elapsed().as_secs_f64(), record: self.record, plateau: self.plateau },
            &self.team.members,
        );
        model
    }

    fn newest(&self) -> Option<PathBuf> {
        self.checkpoints.as_ref().and_then(Checkpoints::newest)
    }

    fn model(&self) -> ModelFile {
        let Worker { state, progress, .. } = self.first();
        let presented = self.trainer.network.presented(state, *progress).into_owned();
        self.trainer.model_file(&self.normalisers, presented, *progress, self.step)
    }

    fn kept(&self) -> String {
        kept(self.newest().as_ref())
    }
}

/// What there is to say of the last checkpoint when a run fails.
fn kept(newest: Option<&PathBuf>) -> String {
    match newest {
        Some(path) => format!("the last good checkpoint is kept in `{}`", path.display()),
        None => "no checkpoint was written before".into(),
    }
}

/// How an epoch ended.
enum Ended {
    /// All its batches were seen.
    Whole,
    /// The run has taken all its steps, its time is over, or somebody asked to stop.
    Part,
}
