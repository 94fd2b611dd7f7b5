//! A replica of a run on many machines in `shared`: it makes a message of every step, and applies those of others.
//!
//! What a replica is after some messages is where it began less all of them, its own included; what its steps have put in and
//! no message has carried is in the residual.

use std::ops::Range;

use paceline_data::{Loader, LoaderOptions, Normaliser};
use paceline_exchange::sharing::Encodes;
use paceline_exchange::{Encoder, Sent, Threshold, add_into, decode_into};
use paceline_model::{Batch, Flat, Loss, Model, Progress, State, TakeUpdate};

use crate::exchange::Tally;
use crate::health::not_finite;
use crate::rounds::{adopt_into, snapshot_of};
use crate::threaded::Threaded;
use crate::{Combine, Error, SharedOptions, Traffic, Trainer};

/// What an error says of the last checkpoint.
const KEPT: &str = "the master keeps the last checkpoint";
/// A threshold that nothing reaches.
const UNREACHED: f32 = f32::MAX;

/// Puts an update into the residual part by part.
struct Absorb<'a> {
    encoder: &'a mut Encoder<Flat>,
    /// What the update counts for.
    share: f32,
}

impl TakeUpdate for Absorb<'_> {
    fn will_read(&self, part: Range<usize>) -> &[f32] {
        &self.encoder.residual()[part]
    }

    fn take(&mut self, part: Range<usize>, update: &mut [f32]) {
        self.encoder.absorb(part.start, update, self.share);
    }
}

/// One machine's replica.
pub struct SharedReplica {
    model: Threaded,
    loader: Loader,
    options: SharedOptions,
    state: State,
    encoder: Encoder<Flat>,
    threshold: Threshold,
    /// Workers that this replica stands for, and those of all replicas.
    own: u32,
    all: u32,
    steps: u64,
    tally: Tally,
    batch: Batch,
    message: Vec<u8>,
}

/// What a step came to.
#[derive(Clone, Debug, Default)]
pub struct SharedStep {
    /// What others must know of it; none if it was to send nothing.
    pub message: Option<Vec<u8>>,
    /// The loss of its examples.
    pub loss: Loss,
}

impl SharedReplica {
    /// A replica at the start of a run, computed by so many threads.
    pub fn new(
        trainer: &Trainer,
        options: SharedOptions,
        threads: usize,
        normaliser: Option<Normaliser>,
    ) -> Result<Self, Error> {
        let train = trainer.options();
        let loader = Loader::new(
            trainer.train_source().clone(),
            LoaderOptions {
                batch: train.batch,
                shuffle: train.shuffle,
                seed: train.seed,
                prefetch: 0,
                normaliser,
                class_weights: train.class_weights.clone(),
                ..LoaderOptions::default()
            },
        )?;
        let state = trainer.network().initial_state();
        let encoder = Encoder::new(Flat::zeros(state.parameters.len()))?;
        let threshold = Threshold::new(options.threshold)?;
        let model = Threaded::new(trainer.network(), threads);
        Ok(Self {
            model,
            loader,
            options,
            state,
            encoder,
            threshold,
            own: 1,
            all: 1,
            steps: 0,
            tally: Tally::default(),
            batch: Batch::empty(),
            message: Vec::new(),
        })
    }

    /// This replica stands for so many of all workers that share what they learn.
    pub fn count_for(&mut self, own: u32, all: u32) {
        (self.own, self.all) = (own.max(1), all.max(own).max(1));
    }

    /// Takes a step over the examples at these positions of an epoch's order; over none, only a message is made.
    pub fn step(
        &mut self,
        epoch: u64,
        iteration: u64,
        positions: &[u64],
        encodes: Encodes,
    ) -> Result<SharedStep, Error> {
        let (loss, sent) = match positions.is_empty() {
            true => (Loss::default(), self.send_the_rest(encodes)?),
            false => self.learn(Progress { iteration, epoch }, positions, encodes)?,
        };
        if encodes == Encodes::Nothing {
            return Ok(SharedStep { message: None, loss });
        }
        self.tally.add(&sent);
        if let Some(limit) = self.options.clipping.and_then(|clipping| clipping.limit_after(self.steps, sent.threshold))
        {
            self.tally.clip(self.encoder.clip(limit));
        }
        self.steps += 1;
        decode_into(&self.message, &mut self.state.parameters, 1.0)?;
        Ok(SharedStep { message: Some(self.message.clone()), loss })
    }

    fn learn(&mut self, progress: Progress, positions: &[u64], encodes: Encodes) -> Result<(Loss, Sent), Error> {
        self.loader.read(progress.epoch, positions.iter().copied(), &mut self.batch)?;
        let Self { model, state, encoder, threshold, batch, message, .. } = self;
        let share = match self.options.combine {
            Combine::Mean => self.own as f32 / self.all as f32,
            Combine::Sum => self.own as f32,
        };
        let known = if encodes == Encodes::Nothing { Some(UNREACHED) } else { threshold.current() };
        let (loss, sent) = match known {
            Some(reached) => {
                encoder.begin(reached)?;
                let loss = model.update_in_parts(batch, state, progress, &mut Absorb { encoder, share })?;
                if !loss.sum.is_finite() {
                    return Err(not_finite(state, progress, batch, loss.mean(), KEPT));
                }
                (loss, encoder.finish(message)?)
            }
            None => {
                // The first threshold is found from the whole update.
                let mut whole = vec![0.0; state.parameters.len()];
                let loss =
                    model.update_in_parts(batch, state, progress, &mut |part: Range<usize>, update: &mut [f32]| {
                        whole[part].iter_mut().zip(update).for_each(|(whole, update)| *whole = *update * share);
                    })?;
                if !loss.sum.is_finite() {
                    return Err(not_finite(state, progress, batch, loss.mean(), KEPT));
                }
                (loss, encoder.encode(&whole, threshold.for_update(&whole), message)?)
            }
        };
        if encodes == Encodes::Large {
            threshold.observe(&sent);
        }
        if encodes == Encodes::Everything {
            return Ok((loss, self.send_the_rest(encodes)?));
        }
        Ok((loss, sent))
    }

    /// A message without a step: of what has grown large, or of everything.
    fn send_the_rest(&mut self, encodes: Encodes) -> Result<Sent, Error> {
        self.state.gradient.fill(0.0);
        Ok(match (encodes, self.threshold.current()) {
            (Encodes::Everything, _) => self.encoder.encode_dense(&self.state.gradient, &mut self.message)?,
            (_, threshold) => {
                self.encoder.encode(&self.state.gradient, threshold.unwrap_or(UNREACHED), &mut self.message)?
            }
        })
    }

    /// Applies another replica's message.
    pub fn apply(&mut self, message: &[u8]) -> Result<(), Error> {
        decode_into(message, &mut self.state.parameters, 1.0)?;
        Ok(())
    }

    /// What batch norm has seen here; empty without it.
    pub fn running(&self) -> &[f32] {
        &self.state.running
    }

    /// Moves toward what batch norm has seen at another replica, which stands for so many workers.
    pub fn meet_running(&mut self, running: &[f32], of: u32) {
        let share = of.clamp(1, self.all) as f32 / self.all as f32;
        self.state.running.iter_mut().zip(running).for_each(|(own, other)| *own += (other - *own) * share);
    }

    /// What was sent since this was last asked, and what is kept back.
    pub fn traffic(&mut self) -> Option<Traffic> {
        self.tally.take(&self.encoder)
    }

    /// What the replica is, as bytes that [`Self::adopt`] takes.
    pub fn snapshot(&self) -> Vec<u8> {
        snapshot_of(&self.state, &[])
    }

    /// Becomes what another replica was. The residual stays, with messages of its own that do not count any more; without
    /// any list it is emptied.
    pub fn adopt(&mut self, bytes: &[u8], void: Option<&[&[u8]]>) -> Result<(), String> {
        adopt_into(bytes, &mut self.state, &mut [])?;
        let mut residual = match void {
            Some(_) => Flat::from_slice(self.encoder.residual()),
            None => Flat::zeros(self.state.parameters.len()),
        };
        for message in void.unwrap_or_default() {
            add_into(message, &mut residual).map_err(|error| error.to_string())?;
        }
        self.encoder = Encoder::new(residual).map_err(|error| error.to_string())?;
        Ok(())
    }
}
