//! A team of cores that acts as one worker.

use std::io::{self, Write};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use paceline_data::{Loader, LoaderOptions};
use paceline_exchange::Bulk;
use paceline_exchange::rounds::{Span, Steps};
use paceline_exchange::sharing::Encodes;
use paceline_model::{Flat, Handed, Loss, Progress, State};

use super::crew::{Crew, Task};
use super::reader::Reader;
use super::snapshot::{adopt_into, write_snapshot};
use super::{Contributed, Layout, Overhead, Parts, Replica, ReplicaMode, SharedStep, Sink, SlotShare};
use crate::team::{Outlet, Purpose, UpdateSender};
use crate::{AveragingOptions, ClassWeights, Error, Normalisers, Outer, SharedOptions, Traffic, Trainer};

/// The cores of one machine as a [`Replica`]: slots that take every step together.
pub struct CoreReplica {
    mode: ReplicaMode,
    crew: Crew,
    reader: Reader,
    /// In `averaging`: what the replica was after the last round, if the crew is ahead of it.
    base: State,
    committed: Committed,
    /// In `averaging`, if rounds overlap: what was last contributed.
    given: Option<State>,
    /// What was computed before the result of the round before was here.
    ahead: Option<Contributed>,
    /// The way of the outer optimiser; empty without one.
    velocity: Vec<f32>,
    /// In `shared`.
    sender: Option<Arc<Residual>>,
    overhead: Overhead,
}

/// Where the state after the last round is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Committed {
    /// In the crew; what is in `base` means nothing.
    Crew,
    /// In `base`; the crew has taken steps since.
    Base,
    /// In both.
    Both,
}

/// Takes the parts of an update from all slots.
struct Residual(Mutex<UpdateSender>);

impl Residual {
    fn lock(&self) -> MutexGuard<'_, UpdateSender> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Outlet for Residual {
    fn put(&self, part: Range<usize>, values: &[f32]) {
        self.lock().take(part, values);
    }
}

/// Numbers that are put into a sink at a time.
const STRETCH: usize = 16 << 10;

impl CoreReplica {
    /// A replica of so many slots at the start of a run.
    pub fn new(trainer: &Trainer, mode: ReplicaMode, slots: usize, normalisers: Normalisers) -> Result<Self, Error> {
        let options = trainer.options();
        let loader = Loader::new(
            trainer.train_source().clone(),
            normalisers.into_options(LoaderOptions {
                batch: options.step_examples(),
                shuffle: options.shuffle,
                by_length: options.by_length,
                seed: options.seed,
                prefetch: 0,
                class_weights: ClassWeights::each(options.class_weights.as_ref()),
                ..LoaderOptions::default()
            }),
        )?;
        let crew = Crew::start(trainer.network(), slots, options.micro_batch)?;
        let parameters = crew.state().parameters.len();
        let (mut base, mut given, mut velocity, mut sender) = (State::default(), None, Vec::new(), None);
        match &mode {
            ReplicaMode::Sync => {}
            ReplicaMode::Averaging(AveragingOptions { overlap, outer, .. }) => {
                base = without_gradient(crew.state());
                given = overlap.then(|| base.clone());
                velocity = if *outer == Outer::None { Vec::new() } else { vec![0.0; parameters] };
            }
            ReplicaMode::Shared(options) => {
                sender = Some(Arc::new(Residual(Mutex::new(UpdateSender::new(options, parameters)?))));
            }
        }
        let reader = Reader::start(loader, slots)?;
        let (committed, ahead) = (Committed::Crew, None);
        let overhead = Overhead::default();
        Ok(Self { mode, crew, reader, base, committed, given, ahead, velocity, sender, overhead })
    }

    /// Takes one step with all slots. Says what the examples weigh, and their loss.
    fn step(&mut self, at: Progress, spans: &[Span], purpose: &Purpose) -> Result<(f32, Loss), Error> {
        self.step_with(at, spans, purpose, |_| {})
    }

    fn step_with(
        &mut self,
        at: Progress,
        spans: &[Span],
        purpose: &Purpose,
        begin: impl FnOnce(f32),
    ) -> Result<(f32, Loss), Error> {
        let asked = Instant::now();
        let batches = self.reader.take(at.epoch, spans)?;
        self.overhead.reading += asked.elapsed();
        let weight = batches.iter().map(|batch| batch.weight()).sum();
        begin(weight);
        let tasks = batches.into_iter().map(|batch| Task::Step(batch, at, purpose.clone())).collect();
        let done = self.crew.run(tasks)?;
        let mut loss = Loss::default();
        done.iter().for_each(|done| loss.merge(done.loss));
        self.reader.give_back(done.into_iter().filter_map(|done| done.batch).collect());
        Ok((weight, loss))
    }

    /// Takes steps that change what the crew is; none if they are not wanted any more.
    fn train(&mut self, steps: &Steps, is_void: &dyn Fn() -> bool) -> Result<Option<Contributed>, Error> {
        let (mut loss, mut seen) = (Loss::default(), 0.0f32);
        for (iteration, spans) in (steps.iteration..).zip(&steps.slice) {
            if is_void() {
                return Ok(None);
            }
            if !spans.is_empty() {
                let at = Progress { iteration, epoch: steps.epoch };
                let (weight, of_step) = self.step(at, spans, &Purpose::Train)?;
                seen += weight;
                loss.merge(of_step);
            }
        }
        Ok(Some(Contributed { weight: f64::from(seen), loss }))
    }

    /// The gradient of a step, as a contribution.
    fn contribute_gradient(&mut self, steps: &Steps, out: &Arc<dyn Sink>) -> Result<Contributed, Error> {
        let Some(spans) = steps.slice.first().filter(|spans| !spans.is_empty()) else {
            out.begin(0.0);
            let zeros = [0.0; 1024];
            let width = self.layout().width();
            (0..width).step_by(1024).for_each(|at| out.put(at..width.min(at + 1024), &zeros[..1024.min(width - at)]));
            return Ok(Contributed::default());
        };
        let purpose = Purpose::HandOut(Handed::Gradient, out.clone());
        let at = Progress { iteration: steps.iteration, epoch: steps.epoch };
        let (weight, loss) = self.step_with(at, spans, &purpose, |weight| out.begin(f64::from(weight)))?;
        Ok(Contributed { weight: f64::from(weight), loss })
    }

    /// Puts what the crew has become into a sink.
    fn give(&mut self, contributed: Contributed, out: &Arc<dyn Sink>) -> Contributed {
        let began = Instant::now();
        let slots = self.averaged_slots();
        if let Some(given) = &mut self.given {
            copy_state(self.crew.state(), given);
        }
        out.begin(contributed.weight);
        let mut at = 0;
        for values in flats(self.crew.state(), slots) {
            for (index, stretch) in values.chunks(STRETCH).enumerate() {
                let start = at + index * STRETCH;
                out.put(start..start + stretch.len(), stretch);
            }
            at += values.len();
        }
        self.overhead.encoding += began.elapsed();
        contributed
    }

    fn averaged_slots(&self) -> usize {
        match &self.mode {
            ReplicaMode::Averaging(options) if options.averages_updater() => self.crew.state().slots.len(),
            _ => 0,
        }
    }

    /// Before steps that may not count: what the replica is stays in `base`, and the crew begins from it.
    fn set_base(&mut self) -> Result<(), Error> {
        match self.committed {
            Committed::Crew => copy_state(self.crew.state(), &mut self.base),
            Committed::Base => {
                copy_state(&self.base, self.crew.state_mut());
                self.tell_running()?;
            }
            Committed::Both => {}
        }
        self.committed = Committed::Base;
        Ok(())
    }

    /// All slots have the running statistics of the first.
    fn tell_running(&mut self) -> Result<(), Error> {
        let running: Arc<[f32]> = self.crew.state().running.iter().copied().collect();
        match running.is_empty() || self.crew.slots() == 1 {
            true => Ok(()),
            false => self.crew.run_all(&Task::SetRunning(running)),
        }
    }

    /// Becomes the mean of all replicas.
    fn become_mean(&mut self, outer: Outer, mean: &dyn Parts) -> Result<(), Error> {
        let slots = self.averaged_slots();
        if slots == 0 {
            // What the updater remembers stays each replica's own: as it was when it contributed.
            let own = self.given.as_ref().unwrap_or(self.crew.state());
            self.base.slots.iter_mut().zip(&own.slots).for_each(|(to, from)| to.copy_from_slice(from));
        }
        let keeps_crew = self.ahead.is_some();
        let mut at = 0;
        for (index, (base, crew)) in
            flats_mut(&mut self.base, slots).zip(flats_mut(self.crew.state_mut(), slots)).enumerate()
        {
            let length = base.len();
            for range in (0..length).step_by(STRETCH).map(|start| start..length.min(start + STRETCH)) {
                let part = base.part_mut(range.clone());
                match (index, self.velocity.is_empty()) {
                    (0, false) => {
                        let mut mean_of_part = vec![0.0; range.len()];
                        mean.copy(at + range.start, &mut mean_of_part);
                        outer.step(part, &mut self.velocity[range.clone()], &mut mean_of_part);
                        part.copy_from_slice(&mean_of_part);
                    }
                    _ => mean.copy(at + range.start, part),
                }
                if !keeps_crew {
                    crew.part_mut(range).copy_from_slice(part);
                }
            }
            at += length;
        }
        if keeps_crew {
            return Ok(());
        }
        if slots == 0 && self.given.is_some() {
            let State { slots, .. } = self.crew.state_mut();
            slots.iter_mut().zip(&self.base.slots).for_each(|(to, from)| to.copy_from_slice(from));
        }
        self.committed = Committed::Both;
        self.tell_running()
    }

    fn residual(&self) -> MutexGuard<'_, UpdateSender> {
        self.sender.as_ref().expect("only asked for in `shared`").lock()
    }

    fn shared_options(&self) -> &SharedOptions {
        match &self.mode {
            ReplicaMode::Shared(options) => options,
            _ => unreachable!("only asked for in `shared`"),
        }
    }
}

impl Replica for CoreReplica {
    fn layout(&self) -> Layout {
        let State { parameters, running, .. } = self.crew.state();
        let (parameters, running) = (parameters.len(), running.len());
        match self.mode {
            ReplicaMode::Sync => Layout { summed: parameters, averaged: running },
            _ => Layout { summed: 0, averaged: parameters + running + self.averaged_slots() * parameters },
        }
    }

    fn expect(&mut self, steps: &Steps) {
        self.reader.expect(steps);
    }

    fn step_alone(&mut self, steps: &Steps) -> Result<Loss, Error> {
        // Steps of rounds that came to nothing are not what the replica is.
        if self.committed == Committed::Base {
            self.set_base()?;
        }
        self.committed = Committed::Crew;
        let taken = self.train(steps, &|| false)?;
        Ok(taken.unwrap_or_default().loss)
    }

    fn contribute(&mut self, steps: &Steps, out: &Arc<dyn Sink>) -> Result<Option<Contributed>, Error> {
        if out.is_void() {
            return Ok(None);
        }
        if self.mode == ReplicaMode::Sync {
            return self.contribute_gradient(steps, out).map(Some);
        }
        self.ahead = None;
        self.set_base()?;
        let taken = self.train(steps, &|| out.is_void())?;
        Ok(taken.map(|taken| self.give(taken, out)))
    }

    fn go_ahead(&mut self, steps: &Steps, is_void: &dyn Fn() -> bool) -> Result<(), Error> {
        self.ahead = self.train(steps, is_void)?;
        Ok(())
    }

    fn drop_ahead(&mut self) {
        self.ahead = None;
        if let Some(given) = &self.given {
            copy_state(given, self.crew.state_mut());
            // A slot that is gone is found out by the next step.
            let _ = self.tell_running();
        }
    }

    fn commit(
        &mut self,
        at: Progress,
        result: &Arc<dyn Parts>,
        weight: f64,
        ahead: Option<&Arc<dyn Sink>>,
    ) -> Result<Option<Contributed>, Error> {
        match &self.mode {
            // Nobody had anything to give.
            _ if weight <= 0.0 => {}
            ReplicaMode::Averaging(options) => {
                let outer = options.outer;
                self.become_mean(outer, &**result)?;
            }
            _ => {
                let update = Task::Update { at, gradient: result.clone(), weight: weight as f32 };
                self.crew.run_all(&update)?;
            }
        }
        let (Some(taken), Some(out), Some(given)) = (self.ahead.take(), ahead, &self.given) else { return Ok(None) };
        // Statistics are of what was seen last, and the updater is each replica's own.
        let way = self.base.parameters.iter().zip(given.parameters.iter()).map(|(to, from)| to - from);
        self.crew.state_mut().parameters.iter_mut().zip(way).for_each(|(value, way)| *value += way);
        Ok(Some(self.give(taken, out)))
    }

    fn share(&mut self, steps: &Steps, part: SlotShare, encodes: Encodes) -> Result<SharedStep, Error> {
        let share = self.shared_options().combine.share(part.own.max(1), part.all.max(part.own).max(1));
        let sender = self.sender.clone().expect("only asked for in `shared`");
        let began;
        let (loss, sent) = match steps.slice.first().filter(|spans| !spans.is_empty()) {
            None => {
                began = Instant::now();
                (Loss::default(), Some(sender.lock().send_the_rest(encodes)?))
            }
            Some(spans) => {
                sender.lock().begin(share, encodes)?;
                let at = Progress { iteration: steps.iteration, epoch: steps.epoch };
                let (_, loss) = self.step(at, spans, &Purpose::HandOut(Handed::Update(at), sender.clone()))?;
                began = Instant::now();
                (loss, sender.lock().end(encodes)?)
            }
        };
        let mut message = None;
        if sent.is_some() {
            let sender = sender.lock();
            sender.apply(&mut self.crew.state_mut().parameters)?;
            message = Some(sender.message().to_vec());
        }
        self.overhead.encoding += began.elapsed();
        Ok(SharedStep { message, loss })
    }

    fn take(&mut self, message: &[u8]) -> Result<(), Error> {
        paceline_exchange::decode_into(message, &mut self.crew.state_mut().parameters, 1.0)?;
        Ok(())
    }

    fn running(&self) -> &[f32] {
        &self.crew.state().running
    }

    fn meet_running(&mut self, values: &[f32], part: SlotShare) {
        let share = part.own.clamp(1, part.all.max(1)) as f32 / part.all.max(1) as f32;
        let running = &mut self.crew.state_mut().running;
        running.iter_mut().zip(values).for_each(|(own, other)| *own += (other - *own) * share);
        // A slot that is gone is found out by the next step.
        let _ = self.tell_running();
    }

    fn overhead(&mut self) -> Overhead {
        std::mem::take(&mut self.overhead)
    }

    fn traffic(&mut self) -> Option<Traffic> {
        self.residual().traffic()
    }

    fn snapshot(&self, out: &mut dyn Write) -> io::Result<()> {
        let state = if self.committed == Committed::Base { &self.base } else { self.crew.state() };
        write_snapshot(state, &self.velocity, out)
    }

    fn adopt(&mut self, state: &Bulk, void: Option<&[&[u8]]>) -> Result<(), String> {
        self.ahead = None;
        adopt_into(state, self.crew.state_mut(), &mut self.velocity)?;
        self.committed = Committed::Crew;
        let running = self.tell_running();
        let taken_back = match &self.sender {
            Some(sender) => sender.lock().take_back(void),
            None => Ok(()),
        };
        running.and(taken_back).map_err(|error| error.to_string())
    }
}

fn without_gradient(state: &State) -> State {
    State { gradient: Flat::default(), ..state.clone() }
}

/// Parameters, running statistics, and so many slots: the order of a contribution.
pub(super) fn flats(state: &State, slots: usize) -> impl Iterator<Item = &Flat> {
    [&state.parameters, &state.running].into_iter().chain(&state.slots[..slots])
}

pub(super) fn flats_mut(state: &mut State, slots: usize) -> impl Iterator<Item = &mut Flat> {
    let State { parameters, running, slots: remembered, .. } = state;
    [parameters, running].into_iter().chain(&mut remembered[..slots])
}

fn copy_state(from: &State, to: &mut State) {
    let slots = from.slots.len();
    flats_mut(to, slots).zip(flats(from, slots)).for_each(|(to, from)| to.copy_from_slice(from));
}
