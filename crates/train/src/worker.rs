use std::ops::Range;

use paceline_model::{Batch, Loss, Model, Part, Progress, State, TakeUpdate};

use crate::{Error, Exchange, Exchanged};

/// A replica: a model, its state, and how it stays together with others.
pub struct Worker<M, E> {
    /// Computes gradients and updates.
    pub model: M,
    /// What the replica is.
    pub state: State,
    /// How it stays together with others.
    pub exchange: E,
    /// Where it stands in the run.
    pub progress: Progress,
}

/// What one step did.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StepReport {
    /// The loss of the minibatch, before the update.
    pub loss: Loss,
    /// What was exchanged.
    pub moved: Exchanged,
}

impl<M: Model, E: Exchange> Worker<M, E> {
    /// A replica at the start of a run.
    pub fn new(model: M, exchange: E) -> Self {
        let state = model.initial_state();
        Self { model, state, exchange, progress: Progress::default() }
    }

    /// Everything that happens to one minibatch. One without examples is a step of the others that this replica only
    /// attends.
    ///
    /// A loss that is not finite is reported and changes no parameter; running statistics have seen the batch.
    pub fn step(&mut self, batch: &Batch) -> Result<StepReport, Error> {
        let (attends, weight) = (batch.examples() == 0, batch.weight());
        self.exchange.begin_step(&mut self.state, self.progress.iteration)?;
        let takes = !attends && self.exchange.takes_parts()?;
        let loss = if attends {
            self.state.gradient.fill(0.0);
            Loss::default()
        } else if self.exchange.steps_alone() {
            let Self { model, state, exchange, progress } = self;
            model.train(batch, state, *progress, &mut |from| exchange.passed(weight, None, from))?
        } else if takes {
            let Self { model, state, exchange, progress } = self;
            model.update_in_parts(batch, state, *progress, &mut Taker(exchange))?
        } else if self.exchange.wants_factors() {
            let Self { model, state, exchange, .. } = self;
            model.factored_gradient(batch, state, &mut |factors, from| exchange.passed(weight, Some(factors), from))?
        } else {
            self.model.gradient(batch, &mut self.state)?
        };
        if !loss.sum.is_finite() {
            return Ok(StepReport { loss, moved: Exchanged::default() });
        }
        if !self.exchange.steps_alone()
            && !takes
            && let Some(weight) = self.exchange.reduce(&mut self.state, weight)?
        {
            let (mut after, parameters) = (0, self.state.parameters.len());
            while let Some(Part { range, is_factored }) = self.exchange.next_part(&self.model, after, parameters)? {
                after = range.end;
                self.update_part(range, is_factored, weight);
            }
        }
        let moved = self.exchange.finish(&mut self.state, weight)?;
        self.progress.iteration += 1;
        Ok(StepReport { loss, moved })
    }

    /// Updates a part with what the gradients of all replicas come to.
    fn update_part(&mut self, part: Range<usize>, is_factored: bool, weight: f32) {
        let Self { model, state, exchange, progress } = self;
        if is_factored {
            return exchange.update_factored(model, state, part, weight, *progress);
        }
        exchange.gather(state, part.clone());
        if exchange.applies() {
            model.update_and_apply(state, part, weight, *progress);
        } else {
            model.update(state, part, weight, *progress);
        }
    }
}

/// An exchange that is handed an update in parts.
struct Taker<'a, E>(&'a mut E);

impl<E: Exchange> TakeUpdate for Taker<'_, E> {
    fn will_read(&self, part: Range<usize>) -> &[f32] {
        self.0.will_read(part)
    }

    fn take(&mut self, part: Range<usize>, update: &mut [f32]) {
        self.0.take(part, update);
    }
}
