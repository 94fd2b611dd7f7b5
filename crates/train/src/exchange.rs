use std::ops::Range;

use paceline_model::{Model, State};

use crate::Error;

/// How replicas stay together. There are two moments: before the updater sees the gradient, and after.
pub trait Exchange: Send {
    /// The name of the mode.
    fn mode(&self) -> &'static str;

    /// Whether there is nobody to exchange with, so that a step may be taken in one go.
    fn is_alone(&self) -> bool {
        false
    }

    /// Sums the gradients of all replicas; says which range this one updates and what the sum is divided by.
    fn reduce(&mut self, state: &mut State, weight: f32) -> Result<Reduced, Error>;

    /// Makes the parameters ready for the next minibatch.
    fn apply(&mut self, model: &mut dyn Model, state: &mut State, range: Range<usize>) -> Result<Exchanged, Error>;
}

/// What a reduction leaves to do.
#[derive(Clone, Debug, PartialEq)]
pub struct Reduced {
    /// The range that this replica updates.
    pub range: Range<usize>,
    /// The sum of the weights of all examples in the gradient.
    pub weight: f32,
}

/// What an exchange moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Exchanged {
    /// Bytes that went to other machines.
    pub bytes_sent: u64,
}

impl std::ops::AddAssign for Exchanged {
    fn add_assign(&mut self, other: Self) {
        self.bytes_sent += other.bytes_sent;
    }
}

/// A replica that is alone: it updates everything, and applies its own update.
#[derive(Clone, Copy, Debug, Default)]
pub struct Solo;

impl Exchange for Solo {
    fn mode(&self) -> &'static str {
        "solo"
    }

    fn is_alone(&self) -> bool {
        true
    }

    fn reduce(&mut self, state: &mut State, weight: f32) -> Result<Reduced, Error> {
        Ok(Reduced { range: 0..state.parameters.len(), weight })
    }

    fn apply(&mut self, model: &mut dyn Model, state: &mut State, range: Range<usize>) -> Result<Exchanged, Error> {
        model.apply(state, range);
        Ok(Exchanged::default())
    }
}
