//! How replicas stay together, one file per mode.

mod averaging;
mod board;
mod buffers;
mod claims;
mod common_work;
mod outer;
mod passage;
mod shared;
mod shows;
mod solo;
mod sync;

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

pub use averaging::{Averaging, AveragingOptions};
pub use outer::Outer;
use paceline_model::{Model, Part, Progress, SharedFactors, State};
pub(crate) use shared::RESIDUAL;
pub(crate) use shared::Tally;
pub use shared::{Combine, Shared, SharedOptions, Traffic};
pub use solo::Solo;
pub use sync::Synchronous;

use crate::Error;

/// How replicas stay together. There are four moments: at the beginning of a step, on the way back through the model, before
/// the updater sees the gradient, and at the end of the step.
pub trait Exchange: Send {
    /// The name of the mode.
    fn mode(&self) -> &'static str;

    /// Makes the parameters ready for a step; as many were taken before, by this replica or by others in its place.
    fn begin_step(&mut self, state: &mut State, iteration: u64) -> Result<(), Error> {
        let _ = (state, iteration);
        Ok(())
    }

    /// Whether a gradient is used by its own replica only, so that its step may be taken in one go.
    fn steps_alone(&self) -> bool;

    /// Whether factors are wanted in place of gradients where a model has them.
    fn wants_factors(&self) -> bool {
        false
    }

    /// Is told on the way back from where on the model is done with parameters in this step: with factored ones, if it shows
    /// factors of their gradients, and else with all that belongs to them. `weight` is that of the minibatch.
    fn passed(&mut self, weight: f32, factors: Option<&SharedFactors>, from: usize) {
        let _ = (weight, factors, from);
    }

    /// Gives the gradient to the others, and waits until all are on their way back. Says what the sum of gradients is divided
    /// by; none if this replica has nothing to update.
    fn reduce(&mut self, state: &mut State, weight: f32) -> Result<Option<f32>, Error>;

    /// The part that this replica updates next, the last one having ended at `after`; waits until it can be updated. None if
    /// there are no more.
    fn next_part(&mut self, model: &dyn Model, after: usize, parameters: usize) -> Result<Option<Part>, Error> {
        let range = after..model.part_end(after).min(parameters);
        Ok((after < parameters).then_some(Part { range, is_factored: false }))
    }

    /// Updates a factored part with what all replicas have shown.
    fn update_factored(
        &mut self,
        model: &mut dyn Model,
        state: &mut State,
        part: Range<usize>,
        weight: f32,
        progress: Progress,
    ) {
        let _ = (model, state, part, weight, progress);
        unreachable!("an exchange that wants no factors");
    }

    /// Sums the gradients of all replicas in a part that is not factored.
    fn gather(&mut self, state: &mut State, part: Range<usize>) {
        let _ = (state, part);
    }

    /// Whether this step's update is wanted in parts as soon as they are there, and not as a whole in [`Self::finish`].
    fn takes_parts(&mut self) -> Result<bool, Error> {
        Ok(false)
    }

    /// What will be read when this part of the update is taken.
    fn will_read(&self, part: Range<usize>) -> &[f32] {
        let _ = part;
        &[]
    }

    /// Takes a part of the update; what is left of it means nothing.
    fn take(&mut self, part: Range<usize>, update: &mut [f32]) {
        let _ = (part, update);
    }

    /// Whether an update is taken off the parameters as it is, and not left to [`Self::finish`].
    fn applies(&self) -> bool {
        true
    }

    /// The step is over but for what concerns all. `weight` is that of the examples of this one.
    fn finish(&mut self, state: &mut State, weight: f32) -> Result<Exchanged, Error>;

    /// Makes all replicas one: whatever was left for later is exchanged now, what the updater remembers included.
    fn settle(&mut self, state: &mut State) -> Result<Exchanged, Error>;

    /// How long this replica took by itself for the last minibatch, where replicas wait for each other and it can be told.
    fn own_time(&mut self) -> Option<Duration> {
        None
    }

    /// What was sent since this was last asked, in modes that send messages. Looks at every parameter: not for every step.
    fn traffic(&mut self) -> Option<Traffic> {
        None
    }

    /// What a settled replica remembers beyond a state that it has in common with the others: a checkpoint keeps it.
    fn memory(&self, state: &State) -> Memory {
        let _ = state;
        Memory::new()
    }

    /// Takes its place before the first step, and goes on with what all replicas of a checkpoint remembered, be they as
    /// many as now or not.
    fn begin(&mut self, kept: &[Memory], state: &mut State) -> Result<(), Error> {
        let _ = (kept, state);
        Ok(())
    }
}

/// Arrays by name.
pub type Memory = BTreeMap<String, Vec<f32>>;

impl Exchange for Box<dyn Exchange> {
    fn mode(&self) -> &'static str {
        (**self).mode()
    }

    fn begin_step(&mut self, state: &mut State, iteration: u64) -> Result<(), Error> {
        (**self).begin_step(state, iteration)
    }

    fn steps_alone(&self) -> bool {
        (**self).steps_alone()
    }

    fn wants_factors(&self) -> bool {
        (**self).wants_factors()
    }

    fn passed(&mut self, weight: f32, factors: Option<&SharedFactors>, from: usize) {
        (**self).passed(weight, factors, from);
    }

    fn reduce(&mut self, state: &mut State, weight: f32) -> Result<Option<f32>, Error> {
        (**self).reduce(state, weight)
    }

    fn next_part(&mut self, model: &dyn Model, after: usize, parameters: usize) -> Result<Option<Part>, Error> {
        (**self).next_part(model, after, parameters)
    }

    fn update_factored(
        &mut self,
        model: &mut dyn Model,
        state: &mut State,
        part: Range<usize>,
        weight: f32,
        progress: Progress,
    ) {
        (**self).update_factored(model, state, part, weight, progress);
    }

    fn gather(&mut self, state: &mut State, part: Range<usize>) {
        (**self).gather(state, part);
    }

    fn takes_parts(&mut self) -> Result<bool, Error> {
        (**self).takes_parts()
    }

    fn will_read(&self, part: Range<usize>) -> &[f32] {
        (**self).will_read(part)
    }

    fn take(&mut self, part: Range<usize>, update: &mut [f32]) {
        (**self).take(part, update);
    }

    fn applies(&self) -> bool {
        (**self).applies()
    }

    fn finish(&mut self, state: &mut State, weight: f32) -> Result<Exchanged, Error> {
        (**self).finish(state, weight)
    }

    fn settle(&mut self, state: &mut State) -> Result<Exchanged, Error> {
        (**self).settle(state)
    }

    fn own_time(&mut self) -> Option<Duration> {
        (**self).own_time()
    }

    fn traffic(&mut self) -> Option<Traffic> {
        (**self).traffic()
    }

    fn memory(&self, state: &State) -> Memory {
        (**self).memory(state)
    }

    fn begin(&mut self, kept: &[Memory], state: &mut State) -> Result<(), Error> {
        (**self).begin(kept, state)
    }
}

/// What an exchange moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Exchanged {
    /// Bytes that went to other machines.
    pub bytes_sent: u64,
}
