//! What is done step after step: the shape of a recurrent layer, and how what it remembers of a batch lies in memory.

use std::ops::Range;

use crate::Activation;

/// A recurrent layer in one direction.
///
/// Its weights are those of what comes in, `inputs` × gates · `units`; then those of what it was before, `units` × gates · `units`; then
/// three rows of `units` if the gates see the cell. What it remembers are the gates of every step of every example, and behind them planes
/// of `units` numbers for every step of every example: the cell, what came out. Gates are in the order of PyTorch: input, forget, cell,
/// output; reset, update, new.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Recurrence {
    pub cell: Cell,
    pub steps: usize,
    pub inputs: usize,
    pub units: usize,
    pub activation: Activation,
    pub gate: Activation,
    /// Whether it begins with the last step.
    pub is_reversed: bool,
    /// Steps that slopes go back at most.
    pub truncate: Option<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cell {
    Simple,
    Lstm { peepholes: bool },
    Gru,
}

/// Where an LSTM remembers its cell, behind its gates.
pub(crate) const CELL: usize = 4;

impl Recurrence {
    pub(crate) fn gates(&self) -> usize {
        match self.cell {
            Cell::Simple => 1,
            Cell::Lstm { .. } => 4,
            Cell::Gru => 3,
        }
    }

    /// What is remembered of a unit, gates included; the last is what came out, of steps that are not there what came out before. A GRU
    /// also remembers what it proposed before the reset.
    pub(crate) fn planes(&self) -> usize {
        match self.cell {
            Cell::Simple => 2,
            Cell::Lstm { .. } => 6,
            Cell::Gru => 5,
        }
    }

    /// Numbers of a bias: the new state of a GRU has a second one, within the reset.
    pub(crate) fn biases(&self) -> usize {
        match self.cell {
            Cell::Gru => 4 * self.units,
            _ => self.gates() * self.units,
        }
    }

    /// Where weights of what comes in, of what was before, and of the cell lie.
    pub(crate) fn parts(&self) -> [Range<usize>; 3] {
        let columns = self.gates() * self.units;
        let (first, second) = (self.inputs * columns, (self.inputs + self.units) * columns);
        let third = match self.cell {
            Cell::Lstm { peepholes: true } => second + 3 * self.units,
            _ => second,
        };
        [0..first, first..second, second..third]
    }

    /// Where the first unit's memory of this kind lies, of a step of an example: the gates are counted first.
    pub(crate) fn place(&self, examples: usize, which: usize, example: usize, step: usize) -> usize {
        let (at, gates) = (example * self.steps + step, self.gates());
        if which < gates { (at * gates + which) * self.units } else { self.plane(examples) * which + at * self.units }
    }

    /// Numbers of a plane for so many examples.
    pub(crate) fn plane(&self, examples: usize) -> usize {
        self.steps * examples * self.units
    }

    /// Numbers for every example that pass from one stretch of steps to the next: what came out, and the cell.
    pub(crate) fn carried(&self) -> usize {
        match self.cell {
            Cell::Lstm { .. } => 2 * self.units,
            _ => self.units,
        }
    }

    /// The step that comes at this turn.
    pub(crate) fn step(&self, turn: usize) -> usize {
        if self.is_reversed { self.steps - 1 - turn } else { turn }
    }

    /// Whether slopes do not go back beyond this turn.
    pub(crate) fn is_cut_before(&self, turn: usize) -> bool {
        self.truncate.is_some_and(|length| turn.is_multiple_of(length))
    }
}
