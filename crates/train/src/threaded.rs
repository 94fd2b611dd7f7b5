//! A model whose gradients are computed by several threads, each for a part of the batch.

use std::ops::Range;
use std::panic::resume_unwind;

use paceline_model::{Batch, Error, FactorSum, Flat, Loss, Model, Part, Passed, Progress, State, TakeUpdate, Targets};
use paceline_nn::{Engine, Network};

/// One engine per thread. The first works on the thread that asks; with one alone nothing is cut.
pub(crate) struct Threaded {
    engine: Engine,
    own: Batch,
    others: Vec<Other>,
}

/// What another thread works with.
struct Other {
    engine: Engine,
    batch: Batch,
    running: Vec<f32>,
    gradient: Flat,
}

impl Threaded {
    pub(crate) fn new(network: &Network, threads: usize) -> Self {
        let part = |_| Other {
            engine: Engine::new(network.clone()),
            batch: Batch::empty(),
            running: Vec::new(),
            gradient: Flat::zeros(network.parameter_count()),
        };
        Self { engine: Engine::new(network.clone()), own: Batch::empty(), others: (1..threads).map(part).collect() }
    }
}

impl Model for Threaded {
    fn initial_state(&self) -> State {
        self.engine.initial_state()
    }

    /// Gradients are summed in the order of the parts, so that the bits do not depend on who was first.
    fn gradient(&mut self, batch: &Batch, state: &mut State) -> Result<Loss, Error> {
        let (examples, threads) = (batch.examples(), self.others.len() + 1);
        if threads == 1 || examples < threads {
            return self.engine.gradient(batch, state);
        }
        let rows = |part: usize| examples * part / threads..examples * (part + 1) / threads;
        copy_rows(batch, rows(0), &mut self.own);
        for (index, part) in self.others.iter_mut().enumerate() {
            copy_rows(batch, rows(index + 1), &mut part.batch);
            part.running.clear();
            part.running.extend_from_slice(&state.running);
        }
        let State { parameters, running, gradient, .. } = state;
        let parameters: &[f32] = parameters;
        let losses: Vec<Result<Loss, Error>> = std::thread::scope(|scope| {
            let mut threads = Vec::with_capacity(self.others.len());
            for Other { engine, batch, running, gradient } in &mut self.others {
                threads.push(scope.spawn(move || engine.gradient_at(parameters, batch, running, gradient)));
            }
            let first = self.engine.gradient_at(parameters, &self.own, running, gradient);
            let rest = threads.into_iter().map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic)));
            std::iter::once(first).chain(rest).collect()
        });
        let mut loss = Loss::default();
        for part in losses {
            loss.merge(part?);
        }
        let weight = batch.weight().max(f32::MIN_POSITIVE);
        let share = self.own.weight() / weight;
        running.iter_mut().for_each(|value| *value *= share);
        for part in &self.others {
            gradient.iter_mut().zip(part.gradient.iter()).for_each(|(sum, value)| *sum += value);
            let share = part.batch.weight() / weight;
            running.iter_mut().zip(&part.running).for_each(|(mean, value)| *mean += share * value);
        }
        Ok(loss)
    }

    fn predict(&mut self, batch: &Batch, state: &State, outputs: &mut Vec<f32>) -> Result<Option<Loss>, Error> {
        self.engine.predict(batch, state, outputs)
    }

    fn part_end(&self, start: usize) -> usize {
        self.engine.part_end(start)
    }

    fn parts(&self, parameters: usize) -> Vec<Part> {
        let mut parts = self.engine.parts(parameters);
        // Several threads sum their gradients among themselves.
        parts.iter_mut().for_each(|part| part.is_factored &= self.others.is_empty());
        parts
    }

    fn factored_gradient(&mut self, batch: &Batch, state: &mut State, passed: &mut Passed<'_>) -> Result<Loss, Error> {
        match self.others.is_empty() {
            true => self.engine.factored_gradient(batch, state, passed),
            false => self.gradient(batch, state),
        }
    }

    fn update_from_factors(
        &mut self,
        state: &mut State,
        range: Range<usize>,
        sum: FactorSum<'_>,
        progress: Progress,
        done: &mut dyn FnMut(Range<usize>),
    ) {
        self.engine.update_from_factors(state, range, sum, progress, done);
    }

    fn update(&mut self, state: &mut State, range: Range<usize>, weight: f32, progress: Progress) {
        self.engine.update(state, range, weight, progress);
    }

    fn apply(&mut self, state: &mut State, range: Range<usize>) {
        self.engine.apply(state, range);
    }

    fn update_and_apply(&mut self, state: &mut State, range: Range<usize>, weight: f32, progress: Progress) {
        self.engine.update_and_apply(state, range, weight, progress);
    }

    fn train(
        &mut self,
        batch: &Batch,
        state: &mut State,
        progress: Progress,
        passed: &mut dyn FnMut(usize),
    ) -> Result<Loss, Error> {
        match self.others.is_empty() {
            true => self.engine.train(batch, state, progress, passed),
            false => paceline_model::train_in_turn(self, batch, state, progress),
        }
    }

    fn update_in_parts(
        &mut self,
        batch: &Batch,
        state: &mut State,
        progress: Progress,
        take: &mut dyn TakeUpdate,
    ) -> Result<Loss, Error> {
        match self.others.is_empty() {
            true => self.engine.update_in_parts(batch, state, progress, take),
            false => paceline_model::update_in_turn(self, batch, state, progress, take),
        }
    }
}

/// Makes `part` the batch of these rows alone.
fn copy_rows(batch: &Batch, rows: Range<usize>, part: &mut Batch) {
    let wide = |width: usize| rows.start * width..rows.end * width;
    (part.epoch, part.width) = (batch.epoch, batch.width);
    part.indices.clear();
    part.indices.extend_from_slice(&batch.indices[rows.clone()]);
    part.features.clear();
    part.features.extend_from_slice(&batch.features[wide(batch.width)]);
    match (&batch.targets, &mut part.targets) {
        (Targets::Classes(from), Targets::Classes(to)) => {
            to.clear();
            to.extend_from_slice(&from[rows.clone()]);
        }
        (Targets::Values { width, values: from }, Targets::Values { width: to_width, values: to }) => {
            *to_width = *width;
            to.clear();
            to.extend_from_slice(&from[wide(*width)]);
        }
        (Targets::None, to) => *to = Targets::None,
        (Targets::Classes(from), to) => *to = Targets::Classes(from[rows.clone()].to_vec()),
        (Targets::Values { width, values }, to) => {
            *to = Targets::Values { width: *width, values: values[wide(*width)].to_vec() };
        }
    }
    match (&batch.weights, &mut part.weights) {
        (Some(from), Some(to)) => {
            to.clear();
            to.extend_from_slice(&from[rows]);
        }
        (from, to) => *to = from.as_ref().map(|from| from[rows].to_vec()),
    }
}
