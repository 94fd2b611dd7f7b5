use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};

use paceline_model::{Flat, Part, PartwiseModel, SharedFlat, State};

use super::AveragingOptions;
use crate::team::Outer;
use crate::team::buffers::Buffers;
use crate::team::factor_board::FactorBoard;

/// What all replicas share: the buffers of each of them, and what is averaged of them at a time.
pub(super) struct Replicas {
    pub(super) pieces: Vec<Piece>,
    /// The parts that each replica updates by itself, in every step.
    pub(super) unfactored: Vec<Part>,
    /// What is shown in the last step before a round.
    pub(super) factors: FactorBoard,
    /// What each has seen since the last round, as bits.
    seen: Vec<AtomicU32>,
    parameters: Buffers,
    running: Buffers,
    slots: Vec<Buffers>,
    averages_slots: bool,
    outer: Outer,
    /// What an outer optimiser needs.
    pub(super) outer_state: Option<OuterState>,
}

/// What is averaged at a time. Those that all are done with last come first.
#[derive(Clone)]
pub(super) enum Piece {
    /// All running statistics.
    Running,
    /// A stretch of the parameters, and what the updater remembers of it.
    Parameters(Part),
}

impl Piece {
    pub(super) fn is_factored(&self) -> bool {
        matches!(self, Piece::Parameters(part) if part.is_factored)
    }
}

/// Floats of a piece that is not factored.
const PIECE: usize = 8 << 10;

/// What an outer optimiser remembers: where all were one, and the last way. The replica that averages a piece uses it there.
pub(super) struct OuterState {
    anchor: SharedFlat,
    pub(super) velocity: SharedFlat,
}

impl Replicas {
    /// As many copies of a state as there are replicas.
    pub(super) fn new(replicas: usize, options: &AveragingOptions, model: &dyn PartwiseModel, state: &State) -> Self {
        let length = state.parameters.len();
        let (factored, unfactored): (Vec<Part>, Vec<Part>) =
            model.parts(length).into_iter().partition(|part| part.is_factored);
        let buffers = |values| Buffers::new(replicas, values);
        let outer_state =
            || OuterState { anchor: state.parameters.clone().into(), velocity: Flat::zeros(length).into() };
        let stretches = unfactored.iter().flat_map(|Part { range, .. }| {
            let end = range.end;
            range.clone().step_by(PIECE).map(move |start| start..end.min(start + PIECE))
        });
        let parts = stretches.map(|range| Part { range, is_factored: false }).chain(factored);
        let pieces: Vec<Piece> = std::iter::once(Piece::Running).chain(parts.map(Piece::Parameters)).collect();
        Self {
            pieces,
            unfactored,
            factors: FactorBoard::new(replicas),
            seen: (0..replicas).map(|_| AtomicU32::default()).collect(),
            parameters: buffers(&state.parameters),
            running: buffers(&state.running),
            slots: state.slots.iter().map(buffers).collect(),
            averages_slots: options.averages_updater(),
            outer: options.outer,
            outer_state: (options.outer != Outer::None).then(outer_state),
        }
    }

    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.seen.len()
    }

    /// What each piece costs.
    pub(super) fn piece_lengths(&self) -> impl Iterator<Item = usize> {
        self.pieces.iter().map(|piece| match piece {
            Piece::Running => self.running.len(),
            Piece::Parameters(part) => part.range.len(),
        })
    }

    /// Whether any parameters have factors.
    pub(super) fn has_factored(&self) -> bool {
        self.pieces.last().is_some_and(Piece::is_factored)
    }

    /// The numbers of the longest factored part.
    pub(super) fn longest_factored(&self) -> usize {
        let factored = self.pieces.iter().zip(self.piece_lengths()).filter(|(piece, _)| piece.is_factored());
        factored.map(|(_, length)| length).max().unwrap_or(0)
    }

    /// Remembers what a replica has seen since the last round.
    pub(super) fn set_seen(&self, replica: usize, weight: f32) {
        // Who reads it has been told otherwise that it is there.
        self.seen[replica].store(weight.to_bits(), Ordering::Relaxed);
    }

    /// What each has seen since the last round.
    pub(super) fn seen(&self) -> Vec<f32> {
        self.seen.iter().map(|seen| f32::from_bits(seen.load(Ordering::Relaxed))).collect()
    }

    /// Makes a state one of a replica: what all see of it lies here.
    ///
    /// # Safety
    ///
    /// Nobody may use a range of it while somebody else writes that, be it by averaging; who uses the rest meanwhile must look
    /// at parts, see [`SharedFlat::view`].
    #[expect(unsafe_code, reason = "the promise is the caller's")]
    pub(super) unsafe fn place(&self, replica: usize, state: &mut State) {
        // SAFETY: as promised.
        unsafe {
            state.parameters = self.parameters.of(replica);
            state.running = self.running.of(replica);
            state.slots = self.slots.iter().map(|slot| slot.of(replica)).collect();
        }
    }

    /// Writes the mean of a piece to all replicas.
    ///
    /// # Safety
    ///
    /// Meanwhile nobody else may use anything of the piece.
    #[expect(unsafe_code, reason = "the promise is the caller's")]
    pub(super) unsafe fn average(&self, weights: &[f32], piece: &Piece) {
        // SAFETY: as promised.
        unsafe {
            match piece {
                Piece::Running => self.running.average(weights, 0..self.running.len()),
                Piece::Parameters(part) => self.average_parameters(weights, part.range.clone()),
            }
        }
    }

    /// Writes the mean of a stretch of the parameters to all replicas, and that of what the updater remembers of it.
    ///
    /// # Safety
    ///
    /// Meanwhile nobody else may use anything of it.
    #[expect(unsafe_code, reason = "the promise is the caller's")]
    pub(super) unsafe fn average_parameters(&self, weights: &[f32], range: Range<usize>) {
        let slots = if self.averages_slots { &self.slots[..] } else { &[] };
        // SAFETY: as promised.
        unsafe {
            match &self.outer_state {
                None => self.parameters.average(weights, range.clone()),
                Some(OuterState { anchor, velocity }) => {
                    self.parameters.average_and_then(weights, range.clone(), |part, mean| {
                        let (anchor, velocity) = (anchor.part_mut(part.clone()), velocity.part_mut(part));
                        self.outer.step(anchor, velocity, mean);
                        anchor.copy_from_slice(mean);
                    })
                }
            }
            slots.iter().for_each(|slot| slot.average(weights, range.clone()));
        }
    }
}
