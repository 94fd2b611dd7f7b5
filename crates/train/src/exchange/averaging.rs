use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use paceline_model::State;
use serde::{Deserialize, Serialize};

use super::buffers::Buffers;
use super::outer::Outer;
use super::{Exchange, Exchanged, Memory};
use crate::Error;
use crate::gate::Gate;
use crate::halt::Halt;

/// How replicas are averaged.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AveragingOptions {
    /// Steps between two averages.
    pub frequency: u64,
    /// Whether what the updater remembers is averaged too; if not, every replica keeps its own. Without a word here, it is,
    /// unless rounds overlap.
    pub average_updater: Option<bool>,
    /// On many machines: whether a replica goes on while its round is averaged. What it has done meanwhile is added to the mean,
    /// which therefore comes one round late. In one process there is nothing to wait for: rounds stay as they are.
    pub overlap: bool,
    /// What is done with the mean.
    pub outer: Outer,
    /// Whether the loss that steps tell is that of all replicas; if not, it is the first one's.
    pub report_score: bool,
}

impl Default for AveragingOptions {
    fn default() -> Self {
        Self { frequency: 3, average_updater: None, overlap: false, outer: Outer::None, report_score: true }
    }
}

impl AveragingOptions {
    /// Whether what the updater remembers is averaged too.
    pub fn averages_updater(&self) -> bool {
        self.average_updater.unwrap_or(!self.overlap)
    }
}

/// Replicas that step on their own and become their mean every few steps, weighted by the examples that each has seen
/// since the last time. One that has seen none has no say.
pub struct Averaging {
    me: usize,
    team: Arc<Team>,
    options: AveragingOptions,
    /// The weight of the examples since the last round.
    seen: f32,
    /// Steps since the last round.
    steps: u64,
    /// For an outer optimiser, of this replica's slice of the parameters: where all were one, and the last way.
    anchor: Vec<f32>,
    velocity: Vec<f32>,
    halt: Halt,
    stops: bool,
}

/// What all replicas share.
struct Team {
    gate: Arc<Gate>,
    /// What each replica has seen since the last round, as bits.
    seen: Vec<AtomicU32>,
    /// Parameters, running statistics, and what the updater remembers if that is averaged.
    buffers: Vec<Buffers>,
}

/// The place of the parameters in the list of buffers.
const PARAMETERS: usize = 0;

impl Averaging {
    /// As many exchanges as there are replicas.
    pub(crate) fn team(
        replicas: usize,
        options: AveragingOptions,
        state: &State,
        gate: &Arc<Gate>,
        halt: &Halt,
    ) -> Vec<Averaging> {
        let slots = if options.averages_updater() { &state.slots[..] } else { &[] };
        let buffers = [&state.parameters, &state.running].into_iter().chain(slots);
        let team = Arc::new(Team {
            gate: gate.clone(),
            seen: (0..replicas).map(|_| AtomicU32::default()).collect(),
            buffers: buffers.map(|values| Buffers::new(replicas, values)).collect(),
        });
        let replica = |me| {
            let anchor = match options.outer {
                Outer::None => Vec::new(),
                Outer::Nesterov { .. } => state.parameters[slice(state.parameters.len(), replicas, me)].to_vec(),
            };
            let (velocity, team, halt) = (vec![0.0; anchor.len()], team.clone(), halt.clone());
            Self { me, team, options, seen: 0.0, steps: 0, anchor, velocity, halt, stops: false }
        };
        (0..replicas).map(replica).collect()
    }

    /// Each replica computes a slice of the mean and writes it to all.
    fn round(&mut self, state: &State) -> Result<(), Error> {
        let Self { me, team, anchor, velocity, .. } = self;
        team.seen[*me].store(self.seen.to_bits(), Ordering::Relaxed);
        self.stops = team.gate.wait(self.halt.is_asked())?;
        let weights: Vec<f32> = team.seen.iter().map(|seen| f32::from_bits(seen.load(Ordering::Relaxed))).collect();
        let lengths = [&state.parameters, &state.running].into_iter().chain(&state.slots).map(|values| values.len());
        for (n, (buffers, length)) in team.buffers.iter().zip(lengths).enumerate() {
            let outer = &self.options.outer;
            let then = |at: usize, mean: &mut [f32]| {
                if n == PARAMETERS && !anchor.is_empty() {
                    let part = at..at + mean.len();
                    outer.step(&anchor[part.clone()], &mut velocity[part.clone()], mean);
                    anchor[part].copy_from_slice(mean);
                }
            };
            #[expect(unsafe_code, reason = "means are written where they belong, in the buffers of all replicas")]
            // SAFETY: all replicas are between the same two gates, where they do nothing but this, and their slices have
            // nothing in common.
            unsafe {
                buffers.average(&weights, slice(length, weights.len(), *me), then);
            }
        }
        team.gate.wait(false)?;
        (self.seen, self.steps) = (0.0, 0);
        Ok(())
    }
}

fn slice(len: usize, replicas: usize, replica: usize) -> Range<usize> {
    len * replica / replicas..len * (replica + 1) / replicas
}

impl Exchange for Averaging {
    fn mode(&self) -> &'static str {
        "averaging"
    }

    fn steps_alone(&self) -> bool {
        true
    }

    fn reduce(&mut self, _: &mut State, weight: f32) -> Result<Option<f32>, Error> {
        Ok(Some(weight))
    }

    fn finish(&mut self, state: &mut State, weight: f32) -> Result<Exchanged, Error> {
        self.seen += weight;
        self.steps += 1;
        if self.steps == self.options.frequency {
            self.round(state)?;
        }
        Ok(Exchanged::default())
    }

    fn settle(&mut self, state: &mut State) -> Result<Exchanged, Error> {
        // All replicas take as many steps, so either all have something left or none has.
        if self.steps > 0 {
            self.round(state)?;
        }
        Ok(Exchanged::default())
    }

    fn stops(&mut self) -> Result<bool, Error> {
        Ok(std::mem::take(&mut self.stops))
    }

    fn memory(&self, state: &State) -> Memory {
        let mut memory = Memory::new();
        if !self.velocity.is_empty() {
            memory.insert("velocity".into(), self.velocity.clone());
        }
        if !self.options.averages_updater() {
            memory.extend(state.slots.iter().enumerate().map(|(slot, values)| (slot_name(slot), values.to_vec())));
        }
        memory
    }

    fn begin(&mut self, kept: &[Memory], state: &mut State) -> Result<(), Error> {
        let (replicas, length) = (self.team.seen.len(), state.parameters.len());
        if !self.velocity.is_empty() {
            // Slices of as many replicas as there were, one after the other.
            let whole: Vec<f32> = kept.iter().filter_map(|memory| memory.get("velocity")).flatten().copied().collect();
            if whole.len() == length {
                self.velocity.copy_from_slice(&whole[slice(length, replicas, self.me)]);
            }
        }
        if !self.options.averages_updater() && kept.len() == replicas {
            for (slot, values) in state.slots.iter_mut().enumerate() {
                if let Some(own) = kept[self.me].get(&slot_name(slot)).filter(|own| own.len() == values.len()) {
                    values.copy_from_slice(own);
                }
            }
        }
        let State { parameters, running, slots, .. } = state;
        for (values, buffers) in [parameters, running].into_iter().chain(slots).zip(&self.team.buffers) {
            #[expect(unsafe_code, reason = "means are written where they belong, in the buffers of all replicas")]
            // SAFETY: replicas average between the two gates of a round, and do nothing else there.
            unsafe {
                *values = buffers.of(self.me);
            }
        }
        Ok(())
    }
}

fn slot_name(slot: usize) -> String {
    format!("slot.{slot}")
}
