use std::ops::Range;

use crate::{Batch, FactorSum, Flat, Part, SharedFactors, State};

/// Why a model could not do its work.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A batch that does not fit the model.
    #[error("the batch has {what} {found}, but the model expects {expected}")]
    BadBatch {
        /// What does not fit.
        what: &'static str,
        /// What the model expects.
        expected: String,
        /// What the batch has.
        found: String,
    },
    /// A batch that needs more memory than there is.
    #[error("a batch of {examples} examples needs {} MiB for its activations, and there is not that much memory: lower `data.batch`, or make the network smaller", bytes >> 20)]
    OutOfMemory {
        /// Examples in the batch.
        examples: usize,
        /// What was asked for.
        bytes: usize,
    },
    /// A class index that the model has no output for.
    #[error("example {example} has class {class}, but the model has {classes} classes (0 to {})", classes - 1)]
    ClassOutOfRange {
        /// The index of the example in its source.
        example: u64,
        /// The class that it carries.
        class: u32,
        /// The number of classes of the model.
        classes: usize,
    },
}

/// The loss of one minibatch.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Loss {
    /// The weighted sum over the examples.
    pub sum: f64,
    /// The sum of the example weights.
    pub weight: f64,
}

impl Loss {
    /// The weighted mean; 0 for an empty batch.
    pub fn mean(&self) -> f64 {
        if self.weight > 0.0 { self.sum / self.weight } else { 0.0 }
    }

    /// Adds the loss of another part.
    pub fn merge(&mut self, other: Loss) {
        self.sum += other.sum;
        self.weight += other.weight;
    }
}

/// What an engine must do so that Paceline can train it.
pub trait Model: Send {
    /// Parameters as initialised by the model's own seed, with empty gradient and updater slots.
    fn initial_state(&self) -> State;

    /// Says which step of the run is next, for what every step draws anew and all replicas alike.
    fn begin_step(&mut self, progress: Progress) {
        let _ = progress;
    }

    /// Writes the sum of the examples' gradients into `state.gradient`, and refreshes `state.running`.
    fn gradient(&mut self, batch: &Batch, state: &mut State) -> Result<Loss, Error>;

    /// Writes the outputs of every example, row after row, into `outputs`; returns the loss if the batch has targets.
    fn predict(&mut self, batch: &Batch, state: &State, outputs: &mut Vec<f32>) -> Result<Option<Loss>, Error>;

    /// Where a part that starts at `start` ends at the earliest: a part is updated as a whole, for its norm or its constraint.
    fn part_end(&self, start: usize) -> usize {
        let _ = start;
        usize::MAX
    }

    /// Turns the gradient in `range` into an update and leaves it in `state.gradient`.
    ///
    /// `weight` is what the sum of gradients is divided by; `progress` places the step in the schedules.
    fn update(&mut self, state: &mut State, range: Range<usize>, weight: f32, progress: Progress);

    /// Subtracts the update in `range` from the parameters and applies the constraints.
    fn apply(&mut self, state: &mut State, range: Range<usize>);
}

/// A model that computes its step part by part, so that others can use a part while it goes on. All of it can be left as it
/// is: then every part is there when the whole gradient is.
///
/// # Safety
///
/// Replicas on other threads read and change parameters and slots of a state while a model uses the rest. So a model
///
/// - looks at parameters and slots through [`Flat::part`](crate::Flat::part) and its siblings, never as a whole, while it is in
///   [`Self::factored_gradient`];
/// - uses nothing more of what it has told to have passed there until its next step;
/// - does not change what it has shown, in the parts that it has passed, until then;
/// - uses no more than `range` of a state in [`Self::gradient_of_factors`], [`Self::update_part`] and [`Self::step_part`], its
///   `gradient` apart.
#[expect(unsafe_code, reason = "memory that others change rests on what an implementation promises")]
pub unsafe trait PartwiseModel: Model {
    /// Cuts all parameters into parts as they are best updated one after the other, by several replicas that share them.
    fn parts(&self, parameters: usize) -> Vec<Part> {
        let part = |start: usize| Part { range: start..self.part_end(start).min(parameters), is_factored: false };
        let first = (parameters > 0).then(|| part(0));
        std::iter::successors(first, |before| (before.range.end < parameters).then(|| part(before.range.end))).collect()
    }

    /// A whole step of a replica that is alone: the gradient, then update and application of every part.
    ///
    /// A loss that is not finite is returned and changes no parameter. What is left in `state.gradient` means nothing.
    fn train(&mut self, batch: &Batch, state: &mut State, progress: Progress) -> Result<Loss, Error> {
        train_in_turn(self, batch, state, progress)
    }

    /// Whether a step looks at its batch again and again, for the lowest loss along its way. Replicas that take steps together then take
    /// them by [`Self::search`], and nothing is factored.
    fn searches(&self) -> bool {
        false
    }

    /// A step of a model that searches, together with other replicas, over the batches of all. Says what loss this replica's batch had
    /// at the start. If others are gone it ends early: whoever keeps replicas together says so.
    fn search(
        &mut self,
        batch: &Batch,
        state: &mut State,
        progress: Progress,
        together: &mut dyn SearchTogether,
    ) -> Result<Loss, Error> {
        let _ = (batch, state, progress, together);
        unreachable!("a model that does not search");
    }

    /// The gradient of a minibatch, or the update that it makes, handed out part by part in any order and not applied.
    ///
    /// Nothing is handed out if the loss is not finite. What is left in `state.gradient` means nothing.
    fn hand_out(
        &mut self,
        batch: &Batch,
        state: &mut State,
        handed: Handed,
        take: &mut dyn TakePart,
    ) -> Result<Loss, Error> {
        hand_out_in_turn(self, batch, state, handed, take)
    }

    /// [`Model::gradient`], less the parts that are factored ([`Self::parts`]): of these the factors are shown instead.
    ///
    /// On its way back through the parameters it tells `passed` again and again how far it has come. Others may read the
    /// factors of the parts that it has passed, and change these parts, while it goes on. It tells nothing if the loss is
    /// not finite.
    fn factored_gradient(
        &mut self,
        batch: &Batch,
        state: &mut State,
        passed: &mut dyn TakeFactors,
    ) -> Result<Loss, Error> {
        let _ = passed;
        self.gradient(batch, state)
    }

    /// Writes the gradient of a factored part, over all examples whose factors are in `sum`. `iteration` tells one step's factors
    /// from another's; `next` is a state of which the part is changed next.
    fn gradient_of_factors(
        &mut self,
        range: Range<usize>,
        sum: FactorSum<'_>,
        iteration: u64,
        next: Option<&State>,
        gradient: &mut [f32],
    ) {
        let _ = (range, sum, iteration, next, gradient);
        unreachable!("a model without factored parts");
    }

    /// Turns the gradient of a part into an update and leaves it in `gradient`.
    fn update_part(
        &mut self,
        state: &mut State,
        range: Range<usize>,
        gradient: &mut [f32],
        weight: f32,
        progress: Progress,
    ) {
        state.gradient[range.clone()].copy_from_slice(gradient);
        self.update(state, range.clone(), weight, progress);
        gradient.copy_from_slice(&state.gradient[range]);
    }

    /// Updates a part with its gradient and applies the update; what is left in `gradient` means nothing.
    ///
    /// Stretch by stretch `done` is told what has been updated: whoever uses it next finds it in the cache then, and may
    /// change it.
    fn step_part(
        &mut self,
        state: &mut State,
        range: Range<usize>,
        gradient: &mut [f32],
        (weight, progress): (f32, Progress),
        done: &mut dyn FnMut(Range<usize>),
    ) {
        state.gradient[range.clone()].copy_from_slice(gradient);
        self.update(state, range.clone(), weight, progress);
        self.apply(state, range.clone());
        done(range);
    }
}

/// What is handed out of a minibatch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handed {
    /// The sum of the examples' gradients.
    Gradient,
    /// What the updater makes of it at this step.
    Update(Progress),
}

/// Is told what a model shows, and from where on its factored parameters are not read any more in this step.
pub trait TakeFactors {
    /// The model has passed all factored parameters from `from` on.
    fn passed(&mut self, factors: &SharedFactors, from: usize);
}

/// How replicas with one set of parameters search together: one of them leads and changes the parameters, and all look.
pub trait SearchTogether {
    /// Whether this replica leads.
    fn leads(&self) -> bool;

    /// Gives what this replica has seen, and waits for the others. The one that leads is left with the gradient of all examples, and told
    /// their loss; for the others both mean nothing. None if somebody is gone.
    fn sum(&mut self, gradient: &mut Flat, loss: Loss) -> Option<Loss>;

    /// Whether all look again, at the parameters as they are now: it is the one that leads who says so, and the others wait for that. Not
    /// if somebody is gone.
    fn look_again(&mut self, wanted: bool) -> bool;
}

/// Is handed a gradient or an update part by part.
pub trait TakePart {
    /// What will be read when this part is taken, so that it can be brought near.
    fn will_read(&self, part: Range<usize>) -> &[f32] {
        let _ = part;
        &[]
    }

    /// Takes a part: where it lies, and what it is. What is left of it means nothing.
    fn take(&mut self, part: Range<usize>, values: &mut [f32]);
}

impl<F: FnMut(Range<usize>, &mut [f32])> TakePart for F {
    fn take(&mut self, part: Range<usize>, values: &mut [f32]) {
        self(part, values);
    }
}

/// The part that begins at `start`, if that is not the end.
fn part_at<M: Model + ?Sized>(model: &M, start: usize, state: &State) -> Option<Range<usize>> {
    let parameters = state.parameters.len();
    (start < parameters).then(|| start..model.part_end(start).min(parameters))
}

/// The gradient, then what is handed out of it part by part.
pub fn hand_out_in_turn<M: Model + ?Sized>(
    model: &mut M,
    batch: &Batch,
    state: &mut State,
    handed: Handed,
    take: &mut dyn TakePart,
) -> Result<Loss, Error> {
    let loss = model.gradient(batch, state)?;
    let mut next = if loss.sum.is_finite() { part_at(model, 0, state) } else { None };
    while let Some(part) = next {
        next = part_at(model, part.end, state);
        if let Handed::Update(progress) = handed {
            model.update(state, part.clone(), batch.weight(), progress);
        }
        take.take(part.clone(), &mut state.gradient[part]);
    }
    Ok(loss)
}

/// The gradient, then the update and its application part by part.
pub fn train_in_turn<M: Model + ?Sized>(
    model: &mut M,
    batch: &Batch,
    state: &mut State,
    progress: Progress,
) -> Result<Loss, Error> {
    let loss = model.gradient(batch, state)?;
    let mut next = if loss.sum.is_finite() { part_at(model, 0, state) } else { None };
    while let Some(part) = next {
        next = part_at(model, part.end, state);
        model.update(state, part.clone(), batch.weight(), progress);
        model.apply(state, part);
    }
    Ok(loss)
}

/// Where a step stands in a run: what schedules and bias corrections are computed from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Steps taken before this one.
    pub iteration: u64,
    /// Epochs completed before this one.
    pub epoch: u64,
}
