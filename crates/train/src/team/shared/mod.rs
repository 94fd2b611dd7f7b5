mod dump;
mod options;
mod sender;
mod traffic;

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crossbeam_channel::{Receiver, Sender, unbounded};
use paceline_exchange::sharing::Encodes;
use paceline_exchange::{add_into, decode_into};
use paceline_model::{Handed, PartwiseModel, State, TakePart};

pub use options::{Combine, Shake, SharedOptions};
pub(crate) use sender::{RESIDUAL, UpdateSender};
pub use traffic::Traffic;

use self::dump::Dump;
use super::board::Board;
use super::gate::Gate;
use super::{Exchange, Exchanged, Memory, Step, StepPlan};
use crate::Error;

/// Replicas that wait only for one that is far behind: each puts its update into a residual, sends what has grown large, and applies
/// what it and the others have sent, as it comes.
///
/// When all have settled, every replica is where it began less all messages ever sent, and what was put in and not sent
/// is in the residuals: nothing is lost.
pub struct Shared {
    me: usize,
    team: Arc<Common>,
    combine: Combine,
    sum_beyond: usize,
    max_ahead: u64,
    sender: UpdateSender,
    inbox: Receiver<Arc<[u8]>>,
    /// The weight of the examples since the replicas were one.
    seen: f32,
}

/// What all replicas share.
struct Common {
    gate: Arc<Gate>,
    inboxes: Vec<Sender<Arc<[u8]>>>,
    /// By replica: the step of the run that it is at.
    positions: Vec<AtomicU64>,
    /// Where messages are written down, if somebody wants them.
    dump: Option<Dump>,
    parameters: Board,
    running: Board,
    slots: Vec<Board>,
}

/// Where a replica stands that takes no more steps in this stretch: nobody is ahead of it.
const AT_THE_END: u64 = u64::MAX;

impl Shared {
    /// As many exchanges as there are replicas.
    pub(crate) fn team(
        replicas: usize,
        options: &SharedOptions,
        state: &State,
        gate: &Arc<Gate>,
    ) -> Result<Vec<Shared>, Error> {
        let (inboxes, receivers): (Vec<_>, Vec<_>) = (0..replicas).map(|_| unbounded()).unzip();
        let board = || Board::new(replicas);
        let team = Arc::new(Common {
            gate: gate.clone(),
            inboxes,
            positions: (0..replicas).map(|_| AtomicU64::new(0)).collect(),
            dump: options.dump.as_ref().map(|folder| Dump::create(folder, replicas, &state.parameters)).transpose()?,
            parameters: board(),
            running: board(),
            slots: state.slots.iter().map(|_| board()).collect(),
        });
        let replica = |(me, inbox)| {
            Ok(Self {
                me,
                team: team.clone(),
                combine: options.combine,
                sum_beyond: options.sum_beyond,
                max_ahead: options.max_ahead,
                sender: UpdateSender::new(options, state.parameters.len())?,
                inbox,
                seen: 0.0,
            })
        };
        receivers.into_iter().enumerate().map(replica).collect()
    }

    /// Says that this replica is at a step of the run now.
    fn tell_position(&self, step: u64) {
        self.team.positions[self.me].store(step, Ordering::Release);
        self.team.gate.nudge();
    }

    /// Applies what has come from the others. `sum` is free to use.
    fn receive(&self, parameters: &mut [f32], sum: &mut [f32]) -> Result<(), Error> {
        if self.inbox.len() <= self.sum_beyond {
            for message in self.inbox.try_iter() {
                decode_into(&message, parameters, 1.0)?;
            }
            return Ok(());
        }
        sum.fill(0.0);
        for message in self.inbox.try_iter() {
            add_into(&message, sum)?;
        }
        parameters.iter_mut().zip(sum).for_each(|(parameter, sum)| *parameter -= *sum);
        Ok(())
    }

    /// Sends the message that was made, and applies it here.
    fn send(&mut self, parameters: &mut [f32]) -> Result<u64, Error> {
        self.sender.apply(parameters)?;
        if let Some(dump) = &self.team.dump {
            dump.write(self.me, self.sender.steps() - 1, self.sender.message())?;
        }
        let message: Arc<[u8]> = self.sender.message().into();
        for (_, inbox) in self.team.inboxes.iter().enumerate().filter(|(peer, _)| *peer != self.me) {
            inbox.send(message.clone()).map_err(|_| Error::Abandoned)?;
        }
        Ok(message.len() as u64)
    }
}

impl Combine {
    /// What the update of a replica counts for that stands for `own` of `all` workers.
    pub(crate) fn share(self, own: u32, all: u32) -> f32 {
        match self {
            Combine::Mean => own as f32 / all as f32,
            Combine::Sum => own as f32,
        }
    }
}

impl TakePart for Shared {
    fn will_read(&self, part: Range<usize>) -> &[f32] {
        self.sender.residual_of(part)
    }

    fn take(&mut self, part: Range<usize>, update: &mut [f32]) {
        self.sender.take(part, update);
    }
}

impl Exchange for Shared {
    fn begin(&mut self, kept: &[Memory], _: &mut State) -> Result<(), Error> {
        self.sender.resume(kept, self.me, self.team.inboxes.len())
    }

    fn begin_step(&mut self, state: &mut State, step: &Step<'_>) -> Result<StepPlan<'_>, Error> {
        let iteration = step.progress.iteration;
        self.tell_position(iteration);
        let team = &self.team;
        let slowest = || team.positions.iter().map(|position| position.load(Ordering::Acquire)).min().unwrap_or(0);
        team.gate.wait_until(|| iteration <= slowest().saturating_add(self.max_ahead))?;
        self.receive(&mut state.parameters, &mut state.gradient)?;
        if step.examples == 0 {
            // A replica without examples has no update, not even that of its momentum.
            return Ok(StepPlan::Not);
        }
        self.sender.begin(self.combine.share(1, self.team.inboxes.len() as u32), Encodes::Large)?;
        Ok(StepPlan::InParts(Handed::Update(step.progress), self))
    }

    fn end_step(&mut self, _: &mut dyn PartwiseModel, state: &mut State, step: &Step<'_>) -> Result<Exchanged, Error> {
        let sent = if step.examples > 0 { self.sender.end(Encodes::Large)? } else { None };
        self.seen += step.weight;
        let bytes_sent = match sent {
            Some(sent) if sent.count > 0 => self.send(&mut state.parameters)?,
            _ => 0,
        };
        Ok(Exchanged { bytes_sent, own_time: None })
    }

    fn settle(&mut self, state: &mut State) -> Result<(), Error> {
        self.tell_position(AT_THE_END);
        let team = &self.team;
        // When all are here nobody sends any more, so what waits is all there is.
        team.gate.wait()?;
        team.positions[self.me].store(0, Ordering::Release);
        self.receive(&mut state.parameters, &mut state.gradient)?;
        // Messages came in different orders, so replicas differ by roundings: all become the first.
        if self.me == 0 {
            team.dump.as_ref().map_or(Ok(()), Dump::flush)?;
            team.parameters.show(0, &state.parameters, self.seen);
        }
        team.running.show(self.me, &state.running, self.seen);
        for (slot, board) in state.slots.iter().zip(&team.slots) {
            board.show(self.me, slot, self.seen);
        }
        team.gate.wait()?;
        if self.me != 0 {
            team.parameters.copy(0, &mut state.parameters);
        }
        team.running.mean(0..state.running.len(), &mut state.running);
        for (slot, board) in state.slots.iter_mut().zip(&team.slots) {
            board.mean(0..slot.len(), slot);
        }
        team.gate.wait()?;
        self.seen = 0.0;
        Ok(())
    }

    fn traffic(&mut self) -> Option<Traffic> {
        self.sender.traffic()
    }

    fn memory(&self, _: &State) -> Memory {
        self.sender.memory()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::Ordering;

    use paceline_exchange::{Clipping, ThresholdPolicy};
    use paceline_model::{Batch, Error, Flat, Loss, Model, PartwiseModel, Progress, State};

    use super::{Combine, Exchange, Exchanged, Gate, Shared, SharedOptions, Step, StepPlan};
    use crate::team::Purpose;

    const LENGTH: usize = 1000;
    const STEPS: usize = 200;

    /// The update of a replica at a step: a few elements that move one way, and small noise.
    fn update(replica: usize, step: usize, at: usize) -> f32 {
        let wave = (at * 31 + step * 17 + replica * 7) as f32;
        if at % 50 == replica { 0.01 } else { 0.001 * wave.sin() }
    }

    fn state() -> State {
        let parameters = Flat::from_slice(&(0..LENGTH).map(|i| (i as f32).cos()).collect::<Vec<_>>());
        State { parameters, gradient: Flat::zeros(LENGTH), slots: Vec::new(), running: Flat::zeros(0) }
    }

    /// Computes nothing: the tests bring their updates.
    struct NoModel;

    impl Model for NoModel {
        fn initial_state(&self) -> State {
            unreachable!("the tests bring their states")
        }

        fn gradient(&mut self, _: &Batch, _: &mut State) -> Result<Loss, Error> {
            unreachable!("the tests bring their updates")
        }

        fn predict(&mut self, _: &Batch, _: &State, _: &mut Vec<f32>) -> Result<Option<Loss>, Error> {
            unreachable!("nothing is predicted")
        }

        fn update(&mut self, _: &mut State, _: std::ops::Range<usize>, _: f32, _: Progress) {}

        fn apply(&mut self, _: &mut State, _: std::ops::Range<usize>) {}
    }

    #[expect(unsafe_code, reason = "it touches nothing")]
    // SAFETY: it touches nothing.
    unsafe impl PartwiseModel for NoModel {}

    fn step_at(iteration: u64) -> Step<'static> {
        let progress = Progress { iteration, epoch: 0 };
        Step { examples: 1, weight: 1.0, progress, purpose: &Purpose::Train }
    }

    /// Takes a step whose update is what is in the gradient.
    fn take_step(exchange: &mut Shared, state: &mut State, iteration: u64) -> Exchanged {
        let mut update = state.gradient.to_vec();
        match exchange.begin_step(state, &step_at(iteration)).expect("a whole gate") {
            StepPlan::InParts(_, take) => take.take(0..LENGTH, &mut update),
            _ => panic!("an update is taken in parts"),
        }
        exchange.end_step(&mut NoModel, state, &step_at(iteration)).expect("a finite update")
    }

    #[test]
    fn settled_replicas_are_one_and_nothing_put_in_is_lost() {
        for (replicas, combine, sum_beyond) in [(2, Combine::Mean, 8), (3, Combine::Sum, 0), (4, Combine::Mean, 0)] {
            let threshold = ThresholdPolicy::Fixed { threshold: 0.004 };
            let options = SharedOptions { threshold, combine, sum_beyond, ..SharedOptions::default() };
            let gate = Arc::new(Gate::new(replicas));
            let team = Shared::team(replicas, &options, &state(), &gate).expect("a good threshold");
            let settled: Vec<(State, Vec<f32>, u64)> = std::thread::scope(|scope| {
                let work = |(me, mut exchange): (usize, Shared)| {
                    scope.spawn(move || {
                        let (mut state, mut bytes) = (state(), 0);
                        for step in 0..STEPS {
                            state.gradient.iter_mut().enumerate().for_each(|(at, g)| *g = update(me, step, at));
                            bytes += take_step(&mut exchange, &mut state, step as u64).bytes_sent;
                        }
                        exchange.settle(&mut state).expect("all are there");
                        (state, exchange.sender.residual().to_vec(), bytes)
                    })
                };
                let threads: Vec<_> = team.into_iter().enumerate().map(work).collect();
                threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
            });
            let share = if combine == Combine::Mean { 1.0 / replicas as f64 } else { 1.0 };
            let mut moved = 0.0f64;
            for at in 0..LENGTH {
                let put_in = |me| (0..STEPS).map(|step| share * f64::from(update(me, step, at))).sum::<f64>();
                let put_in: f64 = (0..replicas).map(put_in).sum();
                let kept: f64 = settled.iter().map(|(_, residual, _)| f64::from(residual[at])).sum();
                let applied = f64::from(state().parameters[at]) - f64::from(settled[0].0.parameters[at]);
                assert!((applied + kept - put_in).abs() < 1e-4, "element {at}: {applied} and {kept} of {put_in}");
                moved = moved.max(applied.abs());
            }
            assert!(moved > 0.1, "only {moved} was applied");
            for (state, _, bytes) in &settled {
                assert!(state.parameters == settled[0].0.parameters);
                assert!(*bytes > 0 && *bytes < (STEPS * LENGTH) as u64, "{bytes} bytes");
            }
        }
    }

    #[test]
    fn a_step_begins_with_all_that_the_others_have_sent() {
        for sum_beyond in [8, 0] {
            let threshold = ThresholdPolicy::Fixed { threshold: 0.004 };
            let options = SharedOptions { threshold, sum_beyond, ..SharedOptions::default() };
            let mut team = Shared::team(2, &options, &state(), &Arc::new(Gate::new(2))).expect("a good threshold");
            let (mut sends, mut takes) = (state(), state());
            sends.gradient.iter_mut().enumerate().for_each(|(at, g)| *g = update(0, 0, at));
            assert!(take_step(&mut team[0], &mut sends, 0).bytes_sent > 0);
            team[1].begin_step(&mut takes, &step_at(0)).expect("nobody is behind");
            assert!(sends.parameters != state().parameters && takes.parameters == sends.parameters, "{sum_beyond}");
        }
    }

    #[test]
    fn what_is_clipped_is_told_and_is_all_that_is_missing() {
        let threshold = ThresholdPolicy::Fixed { threshold: 0.004 };
        let clipping = Some(Clipping { every: 5, thresholds: 2.0 });
        let options = SharedOptions { threshold, clipping, combine: Combine::Sum, ..SharedOptions::default() };
        let gate = Arc::new(Gate::new(1));
        let mut team = Shared::team(1, &options, &state(), &gate).expect("good options");
        let (mut state, mut put_in) = (state(), vec![0.0; LENGTH]);
        let first = state.parameters.clone();
        for step in 0..STEPS {
            state.gradient.iter_mut().enumerate().for_each(|(at, g)| *g = update(0, step, at));
            put_in.iter_mut().enumerate().for_each(|(at, sum)| *sum += f64::from(update(0, step, at)));
            take_step(&mut team[0], &mut state, step as u64);
        }
        let kept = |at: usize| f64::from(first[at] - state.parameters[at]) + f64::from(team[0].sender.residual()[at]);
        let missing: f64 = (0..LENGTH).map(|at| (put_in[at] - kept(at)).abs()).sum();
        let told = team[0].traffic().expect("steps were taken").clipped;
        assert!(told > 1.0 && (told - missing).abs() < 0.01 * told, "{told} was told, {missing} is missing");
    }

    #[test]
    fn nobody_is_further_ahead_of_the_slowest_than_allowed_and_the_end_is_not_slow() {
        for max_ahead in [0, 3] {
            let gate = Arc::new(Gate::new(3));
            let options = SharedOptions { max_ahead, ..SharedOptions::default() };
            let team = Shared::team(3, &options, &state(), &gate).expect("a good threshold");
            let everybody = team[0].team.clone();
            let at = |replica: usize| everybody.positions[replica].load(Ordering::SeqCst);
            std::thread::scope(|scope| {
                for (me, mut exchange) in team.into_iter().enumerate() {
                    scope.spawn(move || {
                        let mut state = state();
                        // One of them is always late, and one has nothing to do in the end.
                        for stretch in [0..100, 100..200] {
                            let end = stretch.end - if me == 1 { 30 } else { 0 };
                            for step in stretch.start..end {
                                if me == 0 {
                                    std::thread::yield_now();
                                }
                                exchange.begin_step(&mut state, &step_at(step)).expect("a whole gate");
                                let slowest = (0..3).map(at).min().expect("three replicas");
                                assert!(slowest + max_ahead >= step, "{me} begins {step}, the slowest {slowest}");
                                exchange.end_step(&mut NoModel, &mut state, &step_at(step)).expect("a message");
                            }
                            exchange.settle(&mut state).expect("an end together");
                        }
                    });
                }
            });
        }
    }

    #[test]
    fn replicas_that_go_on_share_out_what_was_kept_of_more_of_them() {
        let team = |replicas| {
            let gate = Arc::new(Gate::new(replicas));
            Shared::team(replicas, &SharedOptions::default(), &state(), &gate).expect("a good threshold")
        };
        let (mut kept, mut whole) = (Vec::new(), vec![0.0; LENGTH]);
        for (replica, exchange) in team(3).iter_mut().enumerate() {
            let mut state = state();
            state.gradient.iter_mut().enumerate().for_each(|(at, value)| *value = update(replica, 0, at));
            take_step(exchange, &mut state, 0);
            kept.push(exchange.memory(&state));
            whole.iter_mut().zip(exchange.sender.residual()).for_each(|(sum, rest)| *sum += rest);
        }
        for replicas in [1, 2, 3, 5] {
            let mut sum = vec![0.0; LENGTH];
            for exchange in &mut team(replicas) {
                exchange.begin(&kept, &mut state()).expect("finite residuals");
                sum.iter_mut().zip(exchange.sender.residual()).for_each(|(sum, rest)| *sum += rest);
                assert_eq!(exchange.sender.has_threshold(), exchange.me < 3);
            }
            assert!(sum.iter().zip(&whole).all(|(a, b)| (a - b).abs() <= 1e-9), "{replicas} replicas");
        }
    }
}
