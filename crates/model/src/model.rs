use crate::{Batch, FactorSum, Part, SharedFactors, State};

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

    /// Writes the sum of the examples' gradients into `state.gradient`, and refreshes `state.running`.
    fn gradient(&mut self, batch: &Batch, state: &mut State) -> Result<Loss, Error>;

    /// Writes the outputs of every example, row after row, into `outputs`; returns the loss if the batch has targets.
    fn predict(&mut self, batch: &Batch, state: &State, outputs: &mut Vec<f32>) -> Result<Option<Loss>, Error>;

    /// Where a part that starts at `start` ends best: parts are updated and applied one after the other, and one that
    /// fits the cache is read from memory once.
    fn part_end(&self, start: usize) -> usize {
        let _ = start;
        usize::MAX
    }

    /// Turns the gradient in `range` into an update and leaves it in `state.gradient`.
    ///
    /// `weight` is what the sum of gradients is divided by; `progress` places the step in the schedules.
    fn update(&mut self, state: &mut State, range: std::ops::Range<usize>, weight: f32, progress: Progress);

    /// Subtracts the update in `range` from the parameters and applies the constraints.
    fn apply(&mut self, state: &mut State, range: std::ops::Range<usize>);

    /// [`Self::update`] and [`Self::apply`] of a range; what is left in the gradient means nothing.
    fn update_and_apply(&mut self, state: &mut State, range: std::ops::Range<usize>, weight: f32, progress: Progress) {
        self.update(state, range.clone(), weight, progress);
        self.apply(state, range);
    }

    /// Cuts all parameters into parts as they are best updated one after the other, by several replicas that share them.
    fn parts(&self, parameters: usize) -> Vec<Part> {
        let (mut parts, mut start) = (Vec::new(), 0);
        while start < parameters {
            let range = start..self.part_end(start).min(parameters);
            start = range.end;
            parts.push(Part { range, is_factored: false });
        }
        parts
    }

    /// [`Self::gradient`], less the parts that are factored ([`Self::parts`]): of these the factors are shown instead.
    ///
    /// On its way back through the parameters it tells `passed` again and again how far it has come. Others may read the
    /// factors of the parts that it has passed, and change these parts, while it goes on. It tells nothing if the loss is
    /// not finite.
    fn factored_gradient(&mut self, batch: &Batch, state: &mut State, passed: &mut Passed<'_>) -> Result<Loss, Error> {
        let _ = passed;
        self.gradient(batch, state)
    }

    /// [`Self::update_and_apply`] of a factored part, of whose gradient replicas have shown their factors. What is in
    /// `state.gradient` means nothing, before and after; it need not be longer than the part.
    ///
    /// Stretch by stretch `done` is told what has been updated: whoever uses it next finds it in the cache then, and may
    /// change it.
    fn update_from_factors(
        &mut self,
        state: &mut State,
        range: std::ops::Range<usize>,
        sum: FactorSum<'_>,
        progress: Progress,
        done: &mut dyn FnMut(std::ops::Range<usize>),
    ) {
        let _ = (state, range, sum, progress, done);
        unreachable!("a model without factored parts");
    }

    /// A whole step of a replica that is alone: the bits of [`train_in_turn`], and as much faster as the model can.
    ///
    /// On its way back it may tell `passed` how far it has come: from there on parameters and slots are done with in this
    /// step, and others may read and change them. A loss that is not finite is returned, changes no parameter and tells
    /// nothing. What is left in `state.gradient` means nothing.
    fn train(
        &mut self,
        batch: &Batch,
        state: &mut State,
        progress: Progress,
        passed: &mut dyn FnMut(usize),
    ) -> Result<Loss, Error> {
        let _ = passed;
        train_in_turn(self, batch, state, progress)
    }

    /// The update of a minibatch, handed out part by part in any order, and not applied: the bits of
    /// [`update_in_turn`], and as much faster as the model can.
    ///
    /// Nothing is handed out if the loss is not finite. What is left in `state.gradient` means nothing.
    fn update_in_parts(
        &mut self,
        batch: &Batch,
        state: &mut State,
        progress: Progress,
        take: &mut dyn TakeUpdate,
    ) -> Result<Loss, Error> {
        update_in_turn(self, batch, state, progress, take)
    }
}

/// Is told what a model shows, and from where on its factored parameters are not read any more in this step.
pub type Passed<'a> = dyn FnMut(&SharedFactors, usize) + 'a;

/// Is handed an update part by part.
pub trait TakeUpdate {
    /// What will be read when this part is taken, so that it can be brought near.
    fn will_read(&self, part: std::ops::Range<usize>) -> &[f32] {
        let _ = part;
        &[]
    }

    /// Takes a part: where it lies, and what it is. What is left of it means nothing.
    fn take(&mut self, part: std::ops::Range<usize>, update: &mut [f32]);
}

impl<F: FnMut(std::ops::Range<usize>, &mut [f32])> TakeUpdate for F {
    fn take(&mut self, part: std::ops::Range<usize>, update: &mut [f32]) {
        self(part, update);
    }
}

/// The gradient, then the update part by part.
pub fn update_in_turn<M: Model + ?Sized>(
    model: &mut M,
    batch: &Batch,
    state: &mut State,
    progress: Progress,
    take: &mut dyn TakeUpdate,
) -> Result<Loss, Error> {
    let loss = model.gradient(batch, state)?;
    if loss.sum.is_finite() {
        let (mut start, end) = (0, state.parameters.len());
        while start < end {
            let part = start..model.part_end(start).min(end);
            start = part.end;
            model.update(state, part.clone(), batch.weight(), progress);
            take.take(part.clone(), &mut state.gradient[part]);
        }
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
    if loss.sum.is_finite() {
        let (mut start, end) = (0, state.parameters.len());
        while start < end {
            let part = start..model.part_end(start).min(end);
            start = part.end;
            model.update(state, part.clone(), batch.weight(), progress);
            model.apply(state, part);
        }
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
