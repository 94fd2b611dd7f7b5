//! A replica of a run on many machines: it contributes to a round, and applies what the round came to.
//!
//! `sync`: a contribution is the gradient of a slice of the step, summed over its examples, and what batch norm saw of
//! them; the result is one update, the same at every replica. `averaging`: a contribution is the replica after a few
//! steps of its own, times its examples; the result is their mean.
//!
//! What a replica is after a round stays as it was until the next one is applied, whatever it computes meanwhile: it can
//! be given to others, and a round can be taken again.
//!
//! When rounds overlap, a replica takes the steps of the next round before it knows what this one came to. When it does, it
//! moves by as much as the result is away from what it had contributed; then it contributes to the next round.

use std::sync::atomic::{AtomicBool, Ordering};

use paceline_data::{Loader, LoaderOptions, Normaliser};
use paceline_model::{Batch, Flat, Loss, Model, Progress, State};

use crate::health::not_finite;
use crate::threaded::Threaded;
use crate::{AveragingOptions, Error, Outer, Trainer};

/// What an error says of the last checkpoint.
const KEPT: &str = "the master keeps the last checkpoint";

/// What a round is made of.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RoundMode {
    /// One step that all take together.
    Sync,
    /// A few steps that each takes alone, and then the mean.
    Averaging(AveragingOptions),
}

impl RoundMode {
    /// Steps of a round.
    pub fn steps(&self) -> u64 {
        match self {
            RoundMode::Sync => 1,
            RoundMode::Averaging(options) => options.frequency.max(1),
        }
    }

    /// What people call it.
    pub fn name(&self) -> &'static str {
        match self {
            RoundMode::Sync => "sync",
            RoundMode::Averaging(_) => "averaging",
        }
    }
}

/// What a replica gives to a round.
#[derive(Clone, Debug)]
pub struct Contribution {
    /// Numbers that are summed over all replicas.
    pub values: Vec<f32>,
    /// What its examples weigh.
    pub weight: f64,
    /// The loss of its examples.
    pub loss: Loss,
}

/// Steps of a round whose forerunner is still being averaged.
struct Ahead {
    round: u64,
    weight: f64,
    loss: Loss,
}

/// One machine's replica.
pub struct RoundReplica {
    model: Threaded,
    loader: Loader,
    mode: RoundMode,
    /// After the last round.
    base: State,
    /// Where own steps of a round go.
    local: State,
    /// If rounds overlap: what was last contributed.
    given: Option<State>,
    /// What was computed before the result of the round before was here.
    ahead: Option<Ahead>,
    /// The way of the outer optimiser; empty without one.
    velocity: Vec<f32>,
    progress: Progress,
    batch: Batch,
}

impl RoundReplica {
    /// A replica at the start of a run, computed by so many threads.
    pub fn new(
        trainer: &Trainer,
        mode: RoundMode,
        threads: usize,
        normaliser: Option<Normaliser>,
    ) -> Result<Self, Error> {
        let options = trainer.options();
        let loader = Loader::new(
            trainer.train_source().clone(),
            LoaderOptions {
                batch: options.batch,
                shuffle: options.shuffle,
                seed: options.seed,
                prefetch: 0,
                normaliser,
                class_weights: options.class_weights.clone(),
                ..LoaderOptions::default()
            },
        )?;
        let base = trainer.network().initial_state();
        let velocity = match mode {
            RoundMode::Averaging(AveragingOptions { outer: Outer::Nesterov { .. }, .. }) => {
                vec![0.0; base.parameters.len()]
            }
            _ => Vec::new(),
        };
        let overlaps = matches!(mode, RoundMode::Averaging(AveragingOptions { overlap: true, .. }));
        let given = overlaps.then(|| base.clone());
        let model = Threaded::new(trainer.network(), threads);
        Ok(Self {
            model,
            loader,
            mode,
            local: base.clone(),
            given,
            ahead: None,
            base,
            velocity,
            progress: Progress::default(),
            batch: Batch::empty(),
        })
    }

    /// Numbers of a contribution.
    pub fn width(&self) -> usize {
        let (parameters, running) = (self.base.parameters.len(), self.base.running.len());
        match self.mode {
            RoundMode::Sync => parameters + running,
            RoundMode::Averaging(_) => parameters + running + self.averaged_slots() * parameters,
        }
    }

    fn averaged_slots(&self) -> usize {
        match self.mode {
            RoundMode::Averaging(options) if options.averages_updater() => self.base.slots.len(),
            _ => 0,
        }
    }

    /// Computes the contribution of the examples at these positions of an epoch's order to a round; none if that is not wanted
    /// any more.
    pub fn compute(
        &mut self,
        round: u64,
        epoch: u64,
        positions: &[u64],
        is_void: &AtomicBool,
    ) -> Result<Option<Contribution>, Error> {
        if is_void.load(Ordering::Relaxed) {
            return Ok(None);
        }
        self.progress = Progress { iteration: (round - 1) * self.mode.steps(), epoch };
        match self.mode {
            RoundMode::Sync => self.gradient(epoch, positions).map(Some),
            RoundMode::Averaging(_) => {
                copy_state(&self.base, &mut self.local);
                let taken = self.steps(epoch, positions, is_void)?;
                Ok(taken.map(|(weight, loss)| self.give(weight, loss)))
            }
        }
    }

    /// Takes the steps of the round behind the one that was last contributed to. The contribution comes out of
    /// [`Self::apply`], when the result of that one is there.
    pub fn compute_ahead(
        &mut self,
        round: u64,
        epoch: u64,
        positions: &[u64],
        is_void: &AtomicBool,
    ) -> Result<(), Error> {
        self.progress = Progress { iteration: (round - 1) * self.mode.steps(), epoch };
        let taken = self.steps(epoch, positions, is_void)?;
        self.ahead = taken.map(|(weight, loss)| Ahead { round, weight, loss });
        Ok(())
    }

    /// Takes back what was computed ahead.
    pub fn drop_ahead(&mut self) {
        self.ahead = None;
        if let Some(given) = &self.given {
            copy_state(given, &mut self.local);
        }
    }

    fn gradient(&mut self, epoch: u64, positions: &[u64]) -> Result<Contribution, Error> {
        let mut values = vec![0.0; self.width()];
        if positions.is_empty() {
            return Ok(Contribution { values, weight: 0.0, loss: Loss::default() });
        }
        self.loader.read(epoch, positions.iter().copied(), &mut self.batch)?;
        let weight = self.batch.weight();
        // Statistics of this batch belong to the round, not to what the replica is.
        let before = self.base.running.clone();
        let loss = self.model.gradient(&self.batch, &mut self.base)?;
        if !loss.sum.is_finite() {
            return Err(not_finite(&self.base, self.progress, &self.batch, loss.mean(), KEPT));
        }
        let parameters = self.base.parameters.len();
        values[..parameters].copy_from_slice(&self.base.gradient);
        values[parameters..].iter_mut().zip(self.base.running.iter()).for_each(|(to, from)| *to = from * weight);
        self.base.running = before;
        Ok(Contribution { values, weight: f64::from(weight), loss })
    }

    fn steps(&mut self, epoch: u64, positions: &[u64], is_void: &AtomicBool) -> Result<Option<(f64, Loss)>, Error> {
        let (mut loss, mut weight) = (Loss::default(), 0.0f64);
        let size = positions.len().div_ceil(self.mode.steps() as usize).max(1);
        for positions in positions.chunks(size) {
            if is_void.load(Ordering::Relaxed) {
                return Ok(None);
            }
            self.loader.read(epoch, positions.iter().copied(), &mut self.batch)?;
            weight += f64::from(self.batch.weight());
            let step = self.model.train(&self.batch, &mut self.local, self.progress, &mut |_| {})?;
            if !step.sum.is_finite() {
                return Err(not_finite(&self.local, self.progress, &self.batch, step.mean(), KEPT));
            }
            loss.merge(step);
            self.progress.iteration += 1;
        }
        Ok(Some((weight, loss)))
    }

    /// What the own steps of a round have come to.
    fn give(&mut self, weight: f64, loss: Loss) -> Contribution {
        if let Some(given) = &mut self.given {
            copy_state(&self.local, given);
        }
        let mut values = Vec::with_capacity(self.width());
        let slots = self.averaged_slots();
        let parts = [&self.local.parameters, &self.local.running].into_iter().chain(&self.local.slots[..slots]);
        parts.for_each(|part| values.extend(part.iter().map(|value| value * weight as f32)));
        Contribution { values, weight, loss }
    }

    /// Applies what a round came to: the sum of all contributions, and of their weights. Gives the contribution to the next
    /// round, if that was computed ahead.
    pub fn apply(&mut self, round: u64, sum: &[f32], weight: f64) -> Option<Contribution> {
        self.progress.iteration = (round - 1) * self.mode.steps();
        let weight = weight as f32;
        let parameters = self.base.parameters.len();
        if weight > 0.0 && sum.len() == self.width() {
            match self.mode {
                RoundMode::Sync => self.update(sum, weight, parameters),
                RoundMode::Averaging(options) => self.average(&options, sum, weight, parameters),
            }
        }
        self.progress.iteration = round * self.mode.steps();
        let Ahead { weight, loss, .. } = self.ahead.take_if(|ahead| ahead.round == round + 1)?;
        if let Some(given) = &self.given {
            // Statistics are of what was seen last, and the updater is each replica's own.
            let way = self.base.parameters.iter().zip(given.parameters.iter()).map(|(to, from)| to - from);
            self.local.parameters.iter_mut().zip(way).for_each(|(value, way)| *value += way);
        }
        Some(self.give(weight, loss))
    }

    fn update(&mut self, sum: &[f32], weight: f32, parameters: usize) {
        self.base.gradient.copy_from_slice(&sum[..parameters]);
        self.base.running.iter_mut().zip(&sum[parameters..]).for_each(|(to, sum)| *to = sum / weight);
        let mut start = 0;
        while start < parameters {
            let part = start..self.model.part_end(start).min(parameters);
            start = part.end;
            self.model.update_and_apply(&mut self.base, part, weight, self.progress);
        }
    }

    fn average(&mut self, options: &AveragingOptions, sum: &[f32], weight: f32, parameters: usize) {
        let mut mean: Vec<f32> = sum.iter().map(|value| value / weight).collect();
        if !self.velocity.is_empty() {
            options.outer.step(&self.base.parameters, &mut self.velocity, &mut mean[..parameters]);
        }
        let slots = self.averaged_slots();
        if slots == 0 {
            // What the updater remembers stays each replica's own: as it was when it contributed.
            let own = self.given.as_ref().unwrap_or(&self.local);
            self.base.slots.iter_mut().zip(&own.slots).for_each(|(to, from)| to.copy_from_slice(from));
        }
        let State { parameters: values, running, slots: remembered, .. } = &mut self.base;
        let mut from = &mean[..];
        for to in [values, running].into_iter().chain(&mut remembered[..slots]) {
            let (part, rest) = from.split_at(to.len());
            to.copy_from_slice(part);
            from = rest;
        }
    }

    /// What the replica is after the last round, as bytes that [`Self::adopt`] takes.
    pub fn snapshot(&self) -> Vec<u8> {
        snapshot_of(&self.base, &self.velocity)
    }

    /// Becomes what another replica was. Says what was expected and found if it is not of this run.
    pub fn adopt(&mut self, bytes: &[u8]) -> Result<(), String> {
        self.ahead = None;
        adopt_into(bytes, &mut self.base, &mut self.velocity)
    }
}

fn copy_state(from: &State, to: &mut State) {
    to.parameters.copy_from_slice(&from.parameters);
    to.running.copy_from_slice(&from.running);
    to.slots.iter_mut().zip(&from.slots).for_each(|(to, from)| to.copy_from_slice(from));
}

/// A state as bytes: parameters, running statistics, what the updater remembers, the outer way; all little-endian `f32`.
pub fn snapshot_of(state: &State, velocity: &[f32]) -> Vec<u8> {
    let parts = [&state.parameters[..], &state.running[..]].into_iter().chain(state.slots.iter().map(|slot| &slot[..]));
    let parts: Vec<&[f32]> = parts.chain([velocity]).collect();
    let mut bytes = vec![0; 4 * parts.iter().map(|part| part.len()).sum::<usize>()];
    let mut rest = &mut bytes[..];
    for part in parts {
        let (room, behind) = rest.split_at_mut(4 * part.len());
        room.as_chunks_mut::<4>().0.iter_mut().zip(part).for_each(|(four, value)| *four = value.to_le_bytes());
        rest = behind;
    }
    bytes
}

/// Reads what [`snapshot_of`] wrote into buffers of the same sizes.
pub fn adopt_into(bytes: &[u8], state: &mut State, velocity: &mut [f32]) -> Result<(), String> {
    let State { parameters, running, slots, .. } = state;
    let mut parts: Vec<&mut [f32]> = vec![&mut parameters[..], &mut running[..]];
    parts.extend(slots.iter_mut().map(|slot: &mut Flat| &mut slot[..]));
    parts.push(velocity);
    let expected = 4 * parts.iter().map(|part| part.len()).sum::<usize>();
    if bytes.len() != expected {
        return Err(format!("expected a state of {expected} bytes, found {}", bytes.len()));
    }
    let mut rest = bytes.as_chunks::<4>().0;
    for part in parts {
        let (values, behind) = rest.split_at(part.len());
        part.iter_mut().zip(values).for_each(|(value, four)| *value = f32::from_le_bytes(*four));
        rest = behind;
    }
    Ok(())
}
