use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use paceline_model::{Flat, SharedFactors, SharedFlat, State};
use serde::{Deserialize, Serialize};

use super::buffers::Buffers;
use super::common_work::CommonWork;
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
///
/// A piece is averaged as soon as all replicas are done with it in the last step before the round, so that who is early
/// does not wait for who is late.
pub struct Averaging {
    me: usize,
    team: Arc<Team>,
    /// The pieces of a round.
    work: CommonWork,
    options: AveragingOptions,
    /// The weight of the examples since the last round.
    seen: f32,
    /// Steps since the last round.
    steps: u64,
    halt: Halt,
    stops: bool,
}

/// What all replicas share.
struct Team {
    /// What each replica has seen since the last round, as bits.
    seen: Vec<AtomicU32>,
    pieces: Vec<Piece>,
    parameters: Buffers,
    running: Buffers,
    /// What the updater remembers, if that is averaged.
    slots: Vec<Buffers>,
    /// What an outer optimiser needs.
    way: Option<Way>,
}

/// What is averaged at a time. Those that all are done with last come first.
enum Piece {
    /// All running statistics.
    Running,
    /// A stretch of the parameters, and what the updater remembers of it.
    Parameters(Range<usize>),
}

/// Floats of a piece.
const PIECE: usize = 8 << 10;

/// What an outer optimiser remembers: where all were one, and the last way. A piece of it is used by who averages it.
struct Way {
    anchor: SharedFlat,
    velocity: SharedFlat,
}

impl Averaging {
    /// As many exchanges as there are replicas.
    pub(crate) fn team(
        replicas: usize,
        options: AveragingOptions,
        state: &State,
        gate: &Arc<Gate>,
        halt: &Halt,
    ) -> Vec<Averaging> {
        let length = state.parameters.len();
        let slots = if options.averages_updater() { &state.slots[..] } else { &[] };
        let buffers = |values| Buffers::new(replicas, values);
        let stretches = (0..length).step_by(PIECE).map(|start| Piece::Parameters(start..length.min(start + PIECE)));
        let way = || Way { anchor: state.parameters.clone().into(), velocity: Flat::zeros(length).into() };
        let team = Arc::new(Team {
            seen: (0..replicas).map(|_| AtomicU32::default()).collect(),
            pieces: std::iter::once(Piece::Running).chain(stretches).collect(),
            parameters: buffers(&state.parameters),
            running: buffers(&state.running),
            slots: slots.iter().map(buffers).collect(),
            way: (options.outer != Outer::None).then(way),
        });
        let lengths = team.pieces.iter().map(|piece| match piece {
            Piece::Running => state.running.len(),
            Piece::Parameters(range) => range.len(),
        });
        let member = |(me, work)| {
            let (team, halt) = (team.clone(), halt.clone());
            Self { me, team, work, options, seen: 0.0, steps: 0, halt, stops: false }
        };
        CommonWork::team(replicas, lengths, gate).into_iter().enumerate().map(member).collect()
    }

    /// Tells the others what this replica has seen, and from which piece on it has done its part of the round.
    fn pass(&mut self, seen: f32, first: u32) {
        self.team.seen[self.me].store(seen.to_bits(), Ordering::Relaxed);
        self.work.pass(first);
    }

    /// Replicas compute the mean piece by piece and write it to all.
    fn round(&mut self) -> Result<(), Error> {
        self.pass(self.seen, 0);
        self.work.begin()?;
        let team = &self.team;
        let weights: Vec<f32> = team.seen.iter().map(|seen| f32::from_bits(seen.load(Ordering::Relaxed))).collect();
        while let Some(piece) = self.work.next()? {
            #[expect(unsafe_code, reason = "means are written where they belong, in the buffers of all replicas")]
            // SAFETY: all replicas have passed this piece, so they use nothing of it until the round is over, and nobody
            // else has taken it.
            unsafe {
                team.average(&weights, &team.pieces[piece as usize], &self.options.outer);
            }
        }
        self.stops = self.work.end(self.halt.is_asked())?;
        (self.seen, self.steps) = (0.0, 0);
        Ok(())
    }
}

impl Team {
    /// # Safety
    ///
    /// Meanwhile nobody else may use anything of the piece.
    #[expect(unsafe_code, reason = "the promise is the caller's")]
    unsafe fn average(&self, weights: &[f32], piece: &Piece, outer: &Outer) {
        let Piece::Parameters(range) = piece else {
            // SAFETY: as promised.
            return unsafe { self.running.average(weights, 0..self.running.len(), |_, _| {}) };
        };
        let then = |part: Range<usize>, mean: &mut [f32]| {
            if let Some(Way { anchor, velocity }) = &self.way {
                // SAFETY: as promised.
                let (anchor, velocity) = unsafe { (anchor.part_mut(part.clone()), velocity.part_mut(part)) };
                outer.step(anchor, velocity, mean);
                anchor.copy_from_slice(mean);
            }
        };
        // SAFETY: as promised.
        unsafe {
            self.parameters.average(weights, range.clone(), then);
            self.slots.iter().for_each(|slot| slot.average(weights, range.clone(), |_, _| {}));
        }
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

    fn passed(&mut self, weight: f32, _: Option<&SharedFactors>, from: usize) {
        if self.steps + 1 == self.options.frequency {
            let is_passed = |piece: &Piece| matches!(piece, Piece::Parameters(range) if range.start >= from);
            let first = self.team.pieces.partition_point(|piece| !is_passed(piece));
            self.pass(self.seen + weight, first as u32);
        }
    }

    fn finish(&mut self, _: &mut State, weight: f32) -> Result<Exchanged, Error> {
        self.seen += weight;
        self.steps += 1;
        if self.steps == self.options.frequency {
            self.round()?;
        }
        Ok(Exchanged::default())
    }

    fn settle(&mut self, _: &mut State) -> Result<Exchanged, Error> {
        // All replicas take as many steps, so either all have something left or none has.
        if self.steps > 0 {
            self.round()?;
            // The stretch is over as it is.
            self.stops = false;
        }
        Ok(Exchanged::default())
    }

    fn stops(&mut self) -> Result<bool, Error> {
        Ok(std::mem::take(&mut self.stops))
    }

    fn memory(&self, state: &State) -> Memory {
        let mut memory = Memory::new();
        if let Some(Way { velocity, .. }) = &self.team.way {
            let slice = slice(state.parameters.len(), self.team.seen.len(), self.me);
            #[expect(unsafe_code, reason = "what all replicas share")]
            // SAFETY: replicas are settled, and write it in a round only.
            let velocity = unsafe { velocity.part(slice) };
            memory.insert("velocity".into(), velocity.to_vec());
        }
        if !self.options.averages_updater() {
            memory.extend(state.slots.iter().enumerate().map(|(slot, values)| (slot_name(slot), values.to_vec())));
        }
        memory
    }

    fn begin(&mut self, kept: &[Memory], state: &mut State) -> Result<(), Error> {
        let (replicas, length) = (self.team.seen.len(), state.parameters.len());
        if let Some(Way { velocity, .. }) = &self.team.way {
            // Slices of as many replicas as there were, one after the other.
            let whole: Vec<f32> = kept.iter().filter_map(|memory| memory.get("velocity")).flatten().copied().collect();
            if whole.len() == length {
                let slice = slice(length, replicas, self.me);
                #[expect(unsafe_code, reason = "what all replicas share")]
                // SAFETY: no round has begun, and each replica writes a slice of its own.
                let velocity = unsafe { velocity.part_mut(slice.clone()) };
                velocity.copy_from_slice(&whole[slice]);
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
        let Team { parameters: all_parameters, running: all_running, slots: all_slots, .. } = &*self.team;
        let shared =
            [(parameters, all_parameters), (running, all_running)].into_iter().chain(slots.iter_mut().zip(all_slots));
        for (values, buffers) in shared {
            #[expect(unsafe_code, reason = "means are written where they belong, in the buffers of all replicas")]
            // SAFETY: a piece is averaged after all replicas have passed it; they use it again after the round, and models
            // that tell what they have passed look at what they need part by part.
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
