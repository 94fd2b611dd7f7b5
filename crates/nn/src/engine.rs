use std::ops::Range;

use paceline_model::{
    Batch, Error, FactorSum, Flat, Loss, Model, Part, Passed, Progress, State, TakeUpdate, train_in_turn,
    update_in_turn,
};

use crate::Network;
use crate::cpu::{Cpu, Instructions};
use crate::executor::{Executor, Take};
use crate::factors::Factored;
use crate::updater::{Place, SegmentTable};

/// A network on the processor: what trainers drive.
pub struct Engine {
    executor: Executor<Cpu>,
    segments: SegmentTable,
}

impl Engine {
    /// An engine for this network.
    pub fn new(network: Network) -> Self {
        Self::with_instructions(network, Instructions::detect())
    }

    /// An engine that uses these instructions and no better ones.
    ///
    /// # Panics
    ///
    /// If they are not among [`Instructions::available`].
    pub fn with_instructions(network: Network, instructions: Instructions) -> Self {
        let segments = network.segments().clone();
        Self { executor: Executor::new(network, Cpu::new(instructions)), segments }
    }

    /// Fills memory with NaN as soon as nobody should read it any more; for tests, it costs time.
    #[must_use]
    pub fn poisoned(mut self) -> Self {
        self.executor.poison();
        self
    }

    /// Takes the time of every layer from now on; see [`Self::layer_seconds`].
    pub fn take_times(&mut self) {
        self.executor.seconds = Some(vec![[0.0; 2]; self.network().layers().len()]);
    }

    /// Seconds that each layer has taken so far, forward and backward; empty unless [`Self::take_times`] was called.
    pub fn layer_seconds(&self) -> &[[f64; 2]] {
        self.executor.seconds.as_deref().unwrap_or_default()
    }

    /// [`Model::gradient`] with parameters that others may read at the same time.
    pub fn gradient_at(
        &mut self,
        parameters: &[f32],
        batch: &Batch,
        running: &mut [f32],
        gradient: &mut [f32],
    ) -> Result<Loss, Error> {
        self.executor.gradient(batch, parameters, running, gradient)
    }

    /// The network.
    pub fn network(&self) -> &Network {
        &self.executor.network
    }
}

impl Model for Engine {
    fn initial_state(&self) -> State {
        self.network().initial_state()
    }

    fn gradient(&mut self, batch: &Batch, state: &mut State) -> Result<Loss, Error> {
        self.executor.gradient(batch, &state.parameters, &mut state.running, &mut state.gradient)
    }

    fn train(
        &mut self,
        batch: &Batch,
        state: &mut State,
        progress: Progress,
        passed: &mut dyn FnMut(usize),
    ) -> Result<Loss, Error> {
        if !self.segments.is_element_wise() {
            return train_in_turn(self, batch, state, progress);
        }
        let State { parameters, gradient, slots, running } = state;
        let mut step = Step { segments: &mut self.segments, slots, weight: batch.weight(), progress };
        self.executor.gradient_in_parts(batch, parameters, running, gradient, &mut step, passed)
    }

    fn update_in_parts(
        &mut self,
        batch: &Batch,
        state: &mut State,
        progress: Progress,
        take: &mut dyn TakeUpdate,
    ) -> Result<Loss, Error> {
        if !self.segments.is_element_wise() {
            return update_in_turn(self, batch, state, progress, take);
        }
        let State { parameters, gradient, slots, running } = state;
        let step = Step { segments: &mut self.segments, slots, weight: batch.weight(), progress };
        self.executor.gradient_in_parts(batch, parameters, running, gradient, &mut HandOut { step, take }, &mut |_| {})
    }

    fn predict(&mut self, batch: &Batch, state: &State, outputs: &mut Vec<f32>) -> Result<Option<Loss>, Error> {
        let (rows, loss) = self.executor.predict(batch, &state.parameters, &state.running)?;
        outputs.clear();
        outputs.extend_from_slice(rows);
        Ok(loss)
    }

    fn part_end(&self, start: usize) -> usize {
        self.segments.part_end(start)
    }

    fn parts(&self, parameters: usize) -> Vec<Part> {
        let (mut parts, mut start) = (Vec::new(), 0);
        let plain = |start| self.segments.part_end(start) - start;
        // Factored parts are never seen as a whole, so what needs norms and constraints has none.
        let factored = if self.segments.is_element_wise() { self.executor.factored() } else { Vec::new() };
        for Factored { range, part } in factored {
            cut(start, range.start, false, &mut parts, plain);
            cut(range.start, range.end, true, &mut parts, |_| part);
            start = range.end;
        }
        cut(start, parameters, false, &mut parts, plain);
        parts
    }

    fn factored_gradient(&mut self, batch: &Batch, state: &mut State, passed: &mut Passed<'_>) -> Result<Loss, Error> {
        if !self.segments.is_element_wise() {
            return self.gradient(batch, state);
        }
        let State { parameters, running, gradient, .. } = state;
        self.executor.factored_gradient(batch, parameters, running, gradient, passed)
    }

    fn update_from_factors(
        &mut self,
        state: &mut State,
        range: Range<usize>,
        sum: FactorSum<'_>,
        progress: Progress,
        done: &mut dyn FnMut(Range<usize>),
    ) {
        let State { parameters, gradient, slots, .. } = state;
        let remembered = slots.first().map_or(&[][..], |slot| slot.part(range.clone()));
        let (next, gradient) = ([parameters.part(range.clone()), remembered], &mut gradient[..range.len()]);
        self.executor.gradient_of_factors(&range, sum, progress.iteration, next, gradient);
        for chunk in chunks(&range) {
            let gradient = &mut gradient[chunk.start - range.start..chunk.end - range.start];
            let parameters = parameters.part_mut(chunk.clone());
            self.segments.step(Place { parameters, gradient, slots, range: chunk.clone() }, sum.weight, progress);
            done(chunk);
        }
    }

    fn update(&mut self, state: &mut State, range: Range<usize>, weight: f32, progress: Progress) {
        self.segments.update(state, range, weight, progress);
    }

    fn apply(&mut self, state: &mut State, range: Range<usize>) {
        self.segments.apply(state, range);
    }

    fn update_and_apply(&mut self, state: &mut State, range: Range<usize>, weight: f32, progress: Progress) {
        if !self.segments.is_element_wise() {
            self.segments.update(state, range.clone(), weight, progress);
            return self.segments.apply(state, range);
        }
        let State { parameters, gradient, slots, .. } = state;
        let (parameters, gradient) = (parameters.part_mut(range.clone()), &mut gradient[range.clone()]);
        self.segments.step(Place { parameters, gradient, slots, range }, weight, progress);
    }
}

/// Cuts from `start` to `end`, each part as long as `len` says for its start.
fn cut(start: usize, end: usize, is_factored: bool, parts: &mut Vec<Part>, len: impl Fn(usize) -> usize) {
    let mut start = start;
    while start < end {
        let range = start..end.min(start + len(start));
        start = range.end;
        parts.push(Part { range, is_factored });
    }
}

/// Updates each part of the parameters as soon as its gradient is there.
struct Step<'a> {
    segments: &'a mut SegmentTable,
    slots: &'a mut [Flat],
    weight: f32,
    progress: Progress,
}

impl Step<'_> {
    /// What the updater remembers of a part; the first of it, if it is more.
    fn remembered(&self, part: Range<usize>) -> &[f32] {
        self.slots.first().map_or(&[], |slot| slot.part(part))
    }
}

impl Take<f32> for Step<'_> {
    fn will_read<'a>(&'a self, parameters: &'a [f32], part: Range<usize>) -> [&'a [f32]; 2] {
        [parameters, self.remembered(part)]
    }

    fn take(&mut self, parameters: &mut [f32], gradient: &mut [f32], part: Range<usize>) {
        if !part.is_empty() {
            let place = Place { parameters, gradient, slots: self.slots, range: part };
            self.segments.step(place, self.weight, self.progress);
        }
    }
}

/// Floats of an update that are handed out at a time: they, what the updater remembers of them and what is read with them
/// stay in the first-level cache.
const HANDED_OUT: usize = 2048;

/// A part in stretches that are handed out at a time.
fn chunks(part: &Range<usize>) -> impl Iterator<Item = Range<usize>> + use<> {
    let Range { start, end } = *part;
    let after = move |start: &usize| Some((start + 1).next_multiple_of(HANDED_OUT));
    let starts = std::iter::successors(Some(start), after).take_while(move |start| *start < end);
    starts.map(move |start| start..end.min((start + 1).next_multiple_of(HANDED_OUT)))
}

/// Hands out the update of each part as soon as its gradient is there.
struct HandOut<'a> {
    step: Step<'a>,
    take: &'a mut dyn TakeUpdate,
}

impl Take<f32> for HandOut<'_> {
    fn will_read<'a>(&'a self, _: &'a [f32], part: Range<usize>) -> [&'a [f32]; 2] {
        [self.take.will_read(part.clone()), self.step.remembered(part)]
    }

    fn take(&mut self, parameters: &mut [f32], gradient: &mut [f32], part: Range<usize>) {
        let Step { segments, slots, weight, progress } = &mut self.step;
        for chunk in chunks(&part) {
            let inner = chunk.start - part.start..chunk.end - part.start;
            let (parameters, gradient) = (&mut parameters[inner.clone()], &mut gradient[inner]);
            let place = Place { parameters, gradient: &mut *gradient, slots, range: chunk.clone() };
            segments.update_place(place, *weight, *progress);
            self.take.take(chunk, gradient);
        }
    }
}
