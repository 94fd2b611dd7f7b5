//! How replicas of one process stay together, one file per mode.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use paceline_model::{Handed, PartwiseModel, Progress, SearchTogether, State, TakeFactors, TakePart};

use super::Traffic;
use crate::Error;

/// How replicas stay together. A step has two moments: its beginning, which says how this replica computes, and its end, when
/// it gives to the others and updates what falls to it.
pub trait Exchange: Send {
    /// Takes its place before the first step, and goes on with what all replicas of a checkpoint remembered, be they as
    /// many as now or not.
    fn begin(&mut self, kept: &[Memory], state: &mut State) -> Result<(), Error> {
        let _ = (kept, state);
        Ok(())
    }

    /// Makes the parameters ready for a step, and says how this replica computes it.
    fn begin_step(&mut self, state: &mut State, step: &Step<'_>) -> Result<StepPlan<'_>, Error>;

    /// This replica has computed: it gives to the others, and updates what falls to it.
    fn end_step(
        &mut self,
        model: &mut dyn PartwiseModel,
        state: &mut State,
        step: &Step<'_>,
    ) -> Result<Exchanged, Error>;

    /// Makes all replicas one: whatever was left for later is exchanged now, what the updater remembers included.
    fn settle(&mut self, state: &mut State) -> Result<(), Error>;

    /// What was sent since this was last asked, in modes that send messages. Looks at every parameter: not for every step.
    fn traffic(&mut self) -> Option<Traffic> {
        None
    }

    /// What a settled replica remembers beyond a state that it has in common with the others: a checkpoint keeps it.
    fn memory(&self, state: &State) -> Memory {
        let _ = state;
        Memory::new()
    }
}

/// A step that begins.
#[derive(Clone, Copy)]
pub struct Step<'a> {
    /// Examples of the minibatch; one without any is a step of the others that this replica only attends.
    pub examples: usize,
    /// The sum of their weights.
    pub weight: f32,
    /// Where it stands in the run.
    pub progress: Progress,
    /// What it is taken for.
    pub purpose: &'a Purpose,
}

/// What replicas that act as one take a step for.
#[derive(Clone)]
pub enum Purpose {
    /// To change the parameters.
    Train,
    /// To hand out the gradient of all their examples, or the update that it makes, for an exchange between machines.
    HandOut(Handed, Arc<dyn Outlet>),
}

/// Is handed a gradient or an update by several replicas at once, each part once.
pub trait Outlet: Send + Sync {
    /// A part is final: where it lies, and what it is.
    fn put(&self, part: Range<usize>, values: &[f32]);
}

/// How a replica computes a step.
pub enum StepPlan<'a> {
    /// Gradient, update and application in one go: nobody else needs any of it.
    Alone,
    /// The gradient or the update in parts, each handed over when it is there.
    InParts(Handed, &'a mut dyn TakePart),
    /// The gradient, less what others can compute from the factors that are shown.
    ByFactors(&'a mut dyn TakeFactors),
    /// A search over the examples of all; one without examples takes part, too.
    Search(&'a mut dyn SearchTogether),
    /// Nothing: it only attends.
    Not,
}

/// What an exchange moved, and what it cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Exchanged {
    /// Bytes that went to other replicas.
    pub bytes_sent: u64,
    /// How long this replica took by itself for the minibatch, where replicas wait for each other and it can be told.
    pub own_time: Option<Duration>,
}

/// Arrays by name.
pub type Memory = BTreeMap<String, Vec<f32>>;

impl Exchange for Box<dyn Exchange> {
    fn begin(&mut self, kept: &[Memory], state: &mut State) -> Result<(), Error> {
        (**self).begin(kept, state)
    }

    fn begin_step(&mut self, state: &mut State, step: &Step<'_>) -> Result<StepPlan<'_>, Error> {
        (**self).begin_step(state, step)
    }

    fn end_step(
        &mut self,
        model: &mut dyn PartwiseModel,
        state: &mut State,
        step: &Step<'_>,
    ) -> Result<Exchanged, Error> {
        (**self).end_step(model, state, step)
    }

    fn settle(&mut self, state: &mut State) -> Result<(), Error> {
        (**self).settle(state)
    }

    fn traffic(&mut self) -> Option<Traffic> {
        (**self).traffic()
    }

    fn memory(&self, state: &State) -> Memory {
        (**self).memory(state)
    }
}
