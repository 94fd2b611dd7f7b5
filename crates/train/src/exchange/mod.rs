//! How replicas stay together, one file per mode.

mod averaging;
mod board;
mod shared;
mod solo;
mod sync;

use std::ops::Range;

pub use averaging::{Averaging, AveragingOptions};
use paceline_model::{Model, State};
pub use shared::{Combine, Shared, SharedOptions, Traffic};
pub use solo::Solo;
pub use sync::Synchronous;

use crate::Error;

/// How replicas stay together. There are three moments: before the updater sees the gradient, after it, and at the end
/// of the step.
pub trait Exchange: Send {
    /// The name of the mode.
    fn mode(&self) -> &'static str;

    /// Whether a gradient is used by its own replica only, so that its step may be taken in one go.
    fn steps_alone(&self) -> bool;

    /// Sums the gradients of all replicas; says which range this one updates and what the sum is divided by.
    fn reduce(&mut self, state: &mut State, weight: f32) -> Result<Reduced, Error>;

    /// Takes an update off the parameters.
    fn apply(&mut self, model: &mut dyn Model, state: &mut State, range: Range<usize>) -> Result<Exchanged, Error> {
        model.apply(state, range);
        Ok(Exchanged::default())
    }

    /// Makes the parameters ready for the next minibatch. `weight` is that of the examples of this one.
    fn finish(&mut self, state: &mut State, weight: f32) -> Result<Exchanged, Error>;

    /// Makes all replicas one: whatever was left for later is exchanged now, what the updater remembers included.
    fn settle(&mut self, state: &mut State) -> Result<Exchanged, Error>;

    /// What was sent since this was last asked, in modes that send messages. Looks at every parameter: not for every step.
    fn traffic(&mut self) -> Option<Traffic> {
        None
    }

    /// Whether this replica ends here because the run was asked to stop. All of them end after as many steps.
    fn stops(&mut self) -> Result<bool, Error>;
}

impl Exchange for Box<dyn Exchange> {
    fn mode(&self) -> &'static str {
        (**self).mode()
    }

    fn steps_alone(&self) -> bool {
        (**self).steps_alone()
    }

    fn reduce(&mut self, state: &mut State, weight: f32) -> Result<Reduced, Error> {
        (**self).reduce(state, weight)
    }

    fn apply(&mut self, model: &mut dyn Model, state: &mut State, range: Range<usize>) -> Result<Exchanged, Error> {
        (**self).apply(model, state, range)
    }

    fn finish(&mut self, state: &mut State, weight: f32) -> Result<Exchanged, Error> {
        (**self).finish(state, weight)
    }

    fn settle(&mut self, state: &mut State) -> Result<Exchanged, Error> {
        (**self).settle(state)
    }

    fn traffic(&mut self) -> Option<Traffic> {
        (**self).traffic()
    }

    fn stops(&mut self) -> Result<bool, Error> {
        (**self).stops()
    }
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
