use paceline_model::{Batch, Loss, PartwiseModel, Progress, State};

use super::{Exchange, Exchanged, Purpose, Step, StepPlan};
use crate::Error;

/// A replica on one core: a model, its state, and how it stays together with others.
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

impl<M: PartwiseModel, E: Exchange> Worker<M, E> {
    /// A replica at the start of a run.
    pub fn new(model: M, exchange: E) -> Self {
        let state = model.initial_state();
        Self { model, state, exchange, progress: Progress::default() }
    }

    /// Takes a step that changes the parameters.
    pub fn step(&mut self, batch: &Batch) -> Result<StepReport, Error> {
        self.step_for(batch, &Purpose::Train)
    }

    /// Everything that happens to one minibatch, in every mode, on one machine and on many. One without examples is a step of
    /// the others that this replica only attends.
    ///
    /// A loss that is not finite is reported and changes no parameter; running statistics have seen the batch.
    pub fn step_for(&mut self, batch: &Batch, purpose: &Purpose) -> Result<StepReport, Error> {
        let Self { model, state, exchange, progress } = self;
        let step = Step { examples: batch.examples(), weight: batch.weight(), progress: *progress, purpose };
        model.begin_step(*progress);
        let loss = match exchange.begin_step(state, &step)? {
            StepPlan::Alone => model.train(batch, state, *progress)?,
            StepPlan::InParts(handed, take) => model.hand_out(batch, state, handed, take)?,
            StepPlan::ByFactors(passed) => model.factored_gradient(batch, state, passed)?,
            StepPlan::Search(together) => model.search(batch, state, *progress, together)?,
            StepPlan::Not => Loss::default(),
        };
        if !loss.sum.is_finite() {
            return Ok(StepReport { loss, moved: Exchanged::default() });
        }
        let moved = exchange.end_step(model, state, &step)?;
        progress.iteration += 1;
        Ok(StepReport { loss, moved })
    }
}
