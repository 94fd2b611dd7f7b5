use std::ops::Range;

use paceline_model::{
    Batch, Error, FactorSum, Flat, Handed, Loss, Model, Part, PartwiseModel, Progress, SearchTogether, State,
    TakeFactors, TakePart, hand_out_in_turn, train_in_turn,
};

use crate::Network;
use crate::cpu::{Cpu, Instructions};
use crate::executor::{Executor, Take};
use crate::factors::Factored;
use crate::updater::{SegmentTable, UpdaterPart};

/// A network on the processor: what trainers drive.
pub struct Engine {
    executor: Executor<Cpu>,
    segments: SegmentTable,
    /// Where batches are computed in parts.
    micro: Option<MicroBatches>,
}

/// What it takes to compute the gradient of a batch in parts.
struct MicroBatches {
    /// Examples that go through the network at once.
    examples: usize,
    batch: Batch,
    gradient: Flat,
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
        Self { executor: Executor::new(network, Cpu::new(instructions)), segments, micro: None }
    }

    /// In training, lets at most so many examples go through the network at once, which bounds the memory that a batch needs. The
    /// gradients of the parts of a larger batch are added up in their order.
    #[must_use]
    pub fn micro_batch(mut self, examples: Option<usize>) -> Self {
        let micro = |examples: usize| MicroBatches {
            examples: examples.max(1),
            batch: Batch::empty(),
            gradient: Flat::zeros(0),
        };
        self.micro = examples.map(micro);
        self
    }

    /// Multiplies all learning rates by this from now on.
    pub fn scale_rates(&mut self, factor: f64) {
        self.segments.scale_rates(factor);
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

    /// Times that [`Model::gradient`] went through a batch so far, those of an optimiser that searches included.
    pub fn passes(&self) -> u64 {
        self.executor.passes
    }

    /// Bytes that it keeps for the batches that it has seen: of the largest, the values of all layers and their slopes.
    pub fn activation_bytes(&self) -> usize {
        4 * self.executor.arena.len()
    }

    /// Bytes that a training step of so many examples would need for activations; nothing is allocated.
    pub fn step_bytes(&mut self, examples: usize) -> usize {
        self.executor.planned_arena(examples).saturating_mul(4)
    }

    /// The network.
    pub fn network(&self) -> &Network {
        &self.executor.network
    }
}

impl Engine {
    /// Goes through a batch once. One without examples has a gradient of zeros.
    fn look(&mut self, batch: &Batch, state: &mut State, running: &mut Flat) -> Result<Loss, Error> {
        let State { parameters, gradient, .. } = state;
        if batch.examples() == 0 {
            gradient.fill(0.0);
            return Ok(Loss::default());
        }
        self.gradient_of(batch, parameters, running, gradient)
    }

    /// The gradient of a batch, in parts where it is larger than what may go through at once.
    fn gradient_of(
        &mut self,
        batch: &Batch,
        parameters: &[f32],
        running: &mut [f32],
        gradient: &mut [f32],
    ) -> Result<Loss, Error> {
        let Some(micro) = self.micro.as_mut().filter(|micro| micro.examples < batch.examples()) else {
            return self.executor.gradient(batch, parameters, running, gradient);
        };
        if micro.gradient.len() != gradient.len() {
            micro.gradient = Flat::zeros(gradient.len());
        }
        let mut all = Loss::default();
        for start in (0..batch.examples()).step_by(micro.examples) {
            micro.batch.copy_rows(batch, start..batch.examples().min(start + micro.examples));
            let own = if start == 0 { &mut *gradient } else { &mut micro.gradient[..] };
            all.merge(self.executor.gradient(&micro.batch, parameters, running, own)?);
            if start > 0 {
                gradient.iter_mut().zip(micro.gradient.iter()).for_each(|(sum, own)| *sum += own);
            }
        }
        Ok(all)
    }

    /// Whether a step can use each part of the gradient as soon as it is there.
    fn goes_part_by_part(&self) -> bool {
        self.segments.is_element_wise() && self.micro.is_none()
    }

    /// Goes down from where the loss of all is known. The error is `None` if others are gone.
    fn go_down(
        &mut self,
        batch: &Batch,
        state: &mut State,
        progress: Progress,
        all: Loss,
        together: &mut dyn SearchTogether,
    ) -> Result<(), Option<Error>> {
        let optimiser = self.network().config().optimiser.clone();
        let start = self.segments.as_mean(state, all);
        optimiser.learn_curvature(state, progress.iteration);
        let mut running = state.running.clone();
        optimiser.step(state, start, progress.iteration, &mut |state: &mut State| {
            if !together.look_again(true) {
                return Err(None);
            }
            let own = self.look(batch, state, &mut running).map_err(Some)?;
            let all = together.sum(&mut state.gradient, own).ok_or(None)?;
            Ok(self.segments.as_mean(state, all))
        })?;
        together.look_again(false);
        Ok(())
    }
}

/// Who searches alone.
struct Alone;

impl SearchTogether for Alone {
    fn leads(&self) -> bool {
        true
    }

    fn sum(&mut self, _: &mut Flat, loss: Loss) -> Option<Loss> {
        Some(loss)
    }

    fn look_again(&mut self, wanted: bool) -> bool {
        wanted
    }
}

impl Model for Engine {
    fn initial_state(&self) -> State {
        self.network().initial_state()
    }

    fn begin_step(&mut self, progress: Progress) {
        self.executor.iteration = progress.iteration;
    }

    fn gradient(&mut self, batch: &Batch, state: &mut State) -> Result<Loss, Error> {
        let State { parameters, running, gradient, .. } = state;
        self.gradient_of(batch, parameters, running, gradient)
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

    fn update(&mut self, state: &mut State, range: Range<usize>, weight: f32, progress: Progress) {
        self.segments.update(state, range, weight, progress);
    }

    fn apply(&mut self, state: &mut State, range: Range<usize>) {
        self.segments.apply(state, range);
    }
}

#[expect(unsafe_code, reason = "replicas that work on one state rest on what is promised here")]
// SAFETY: the executor looks at parameters part by part (`Parameters::part`), and touches no weights of a layer after the
// `passed` that follows its backward pass; what it shows lies in the arena, which only a next step writes. The methods
// for one part use slices of that part alone.
unsafe impl PartwiseModel for Engine {
    fn parts(&self, parameters: usize) -> Vec<Part> {
        let (mut parts, mut start) = (Vec::new(), 0);
        let plain = |start| self.segments.part_end(start) - start;
        // Factored parts are never seen as a whole, so what needs norms and constraints has none.
        let has_factors = self.goes_part_by_part() && !self.searches();
        let factored = if has_factors { self.executor.factored() } else { Vec::new() };
        for Factored { range, part } in factored {
            cut(start, range.start, false, &mut parts, plain);
            cut(range.start, range.end, true, &mut parts, |_| part);
            start = range.end;
        }
        cut(start, parameters, false, &mut parts, plain);
        parts
    }

    fn train(&mut self, batch: &Batch, state: &mut State, progress: Progress) -> Result<Loss, Error> {
        if self.searches() {
            return self.search(batch, state, progress, &mut Alone);
        }
        if !self.goes_part_by_part() {
            return train_in_turn(self, batch, state, progress);
        }
        let State { parameters, gradient, slots, running } = state;
        let mut step = Step { segments: &mut self.segments, slots, weight: batch.weight(), progress };
        self.executor.gradient_in_parts(batch, parameters, running, gradient, &mut step)
    }

    fn searches(&self) -> bool {
        self.network().config().optimiser.searches()
    }

    fn search(
        &mut self,
        batch: &Batch,
        state: &mut State,
        progress: Progress,
        together: &mut dyn SearchTogether,
    ) -> Result<Loss, Error> {
        // Running statistics see the batch once.
        let mut running = std::mem::take(&mut state.running);
        let own = self.look(batch, state, &mut running);
        state.running = running;
        let own = own?;
        let all = together.sum(&mut state.gradient, own);
        match all {
            Some(all) if together.leads() && all.sum.is_finite() => {
                if let Err(Some(error)) = self.go_down(batch, state, progress, all, together) {
                    return Err(error);
                }
            }
            Some(_) => {
                let mut running = state.running.clone();
                while together.look_again(false) {
                    let again = self.look(batch, state, &mut running)?;
                    together.sum(&mut state.gradient, again);
                }
            }
            None => {}
        }
        Ok(own)
    }

    fn hand_out(
        &mut self,
        batch: &Batch,
        state: &mut State,
        handed: Handed,
        take: &mut dyn TakePart,
    ) -> Result<Loss, Error> {
        if !self.goes_part_by_part() {
            return hand_out_in_turn(self, batch, state, handed, take);
        }
        let State { parameters, gradient, slots, running } = state;
        match handed {
            Handed::Gradient => {
                self.executor.gradient_in_parts(batch, parameters, running, gradient, &mut HandOutGradient(take))
            }
            Handed::Update(progress) => {
                let step = Step { segments: &mut self.segments, slots, weight: batch.weight(), progress };
                self.executor.gradient_in_parts(batch, parameters, running, gradient, &mut HandOut { step, take })
            }
        }
    }

    fn factored_gradient(
        &mut self,
        batch: &Batch,
        state: &mut State,
        passed: &mut dyn TakeFactors,
    ) -> Result<Loss, Error> {
        if !self.goes_part_by_part() {
            return self.gradient(batch, state);
        }
        let State { parameters, running, gradient, .. } = state;
        self.executor.factored_gradient(batch, parameters, running, gradient, passed)
    }

    fn gradient_of_factors(
        &mut self,
        range: Range<usize>,
        sum: FactorSum<'_>,
        iteration: u64,
        next: Option<&State>,
        gradient: &mut [f32],
    ) {
        let next = next.map_or([&[][..]; 2], |State { parameters, slots, .. }| {
            [parameters.part(range.clone()), slots.first().map_or(&[], |slot| slot.part(range.clone()))]
        });
        self.executor.gradient_of_factors(&range, sum, iteration, next, gradient);
    }

    fn update_part(
        &mut self,
        state: &mut State,
        range: Range<usize>,
        gradient: &mut [f32],
        weight: f32,
        progress: Progress,
    ) {
        if !self.segments.is_element_wise() {
            state.gradient[range.clone()].copy_from_slice(gradient);
            self.update(state, range.clone(), weight, progress);
            return gradient.copy_from_slice(&state.gradient[range]);
        }
        let State { parameters, slots, .. } = state;
        let parameters = parameters.part_mut(range.clone());
        self.segments.update_place(UpdaterPart { parameters, gradient, slots, range }, weight, progress);
    }

    fn step_part(
        &mut self,
        state: &mut State,
        range: Range<usize>,
        gradient: &mut [f32],
        (weight, progress): (f32, Progress),
        done: &mut dyn FnMut(Range<usize>),
    ) {
        if !self.segments.is_element_wise() {
            state.gradient[range.clone()].copy_from_slice(gradient);
            self.update(state, range.clone(), weight, progress);
            self.apply(state, range.clone());
            return done(range);
        }
        let State { parameters, slots, .. } = state;
        for chunk in chunks(&range) {
            let gradient = &mut gradient[chunk.start - range.start..chunk.end - range.start];
            let parameters = parameters.part_mut(chunk.clone());
            self.segments.step(UpdaterPart { parameters, gradient, slots, range: chunk.clone() }, weight, progress);
            done(chunk);
        }
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
            let place = UpdaterPart { parameters, gradient, slots: self.slots, range: part };
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
    take: &'a mut dyn TakePart,
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
            let place = UpdaterPart { parameters, gradient: &mut *gradient, slots, range: chunk.clone() };
            segments.update_place(place, *weight, *progress);
            self.take.take(chunk, gradient);
        }
    }
}

/// Hands out the gradient of each part as soon as it is there.
struct HandOutGradient<'a>(&'a mut dyn TakePart);

impl Take<f32> for HandOutGradient<'_> {
    fn will_read<'a>(&'a self, _: &'a [f32], part: Range<usize>) -> [&'a [f32]; 2] {
        [self.0.will_read(part), &[]]
    }

    fn take(&mut self, _: &mut [f32], gradient: &mut [f32], part: Range<usize>) {
        if !part.is_empty() {
            self.0.take(part, gradient);
        }
    }
}
