//! Replicas that step on their own and become their mean every few steps.

mod options;
mod replicas;

use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

pub use options::AveragingOptions;
use paceline_model::{FactorSum, Flat, Part, PartwiseModel, SharedFactors, State, TakeFactors};
use replicas::{OuterState, Piece, Replicas};

use super::common_work::CommonWork;
use super::factor_board::WeightedFactors;
use super::gate::Gate;
use super::{Exchange, Exchanged, Memory, Step, StepPlan};
use crate::Error;

/// Replicas that step on their own and become their mean every few steps, weighted by the examples that each has seen
/// since the last time. One that has seen none has no say.
///
/// In the last step before a round replicas show each other the factors of gradients, where a model has them: the replica
/// that averages a part first takes the step of each replica there, while all of it is in the cache, so that nothing is read
/// and written only to be averaged. A piece is averaged as soon as all replicas have passed it.
pub struct Averaging {
    me: usize,
    team: Arc<Replicas>,
    /// The pieces of a round.
    work: CommonWork,
    options: AveragingOptions,
    /// The weight of the examples since the last round.
    seen: f32,
    /// Steps since the last round.
    steps: u64,
    /// The weight of this replica's examples in this step.
    weight: f32,
    /// Whether this replica has shown factors in this step.
    has_shown: bool,
    /// When this step began for this replica.
    began: Instant,
    /// The states of all replicas.
    states: Vec<State>,
    /// Room for the gradient of a factored part.
    room: Flat,
}

impl Averaging {
    /// As many exchanges as there are replicas.
    pub(crate) fn team(
        replicas: usize,
        options: AveragingOptions,
        model: &dyn PartwiseModel,
        state: &State,
        gate: &Arc<Gate>,
    ) -> Vec<Averaging> {
        let team = Arc::new(Replicas::new(replicas, &options, model, state));
        let member = |(me, work)| Self {
            me,
            team: team.clone(),
            work,
            options,
            seen: 0.0,
            steps: 0,
            weight: 0.0,
            has_shown: false,
            began: Instant::now(),
            states: Vec::new(),
            room: Flat::zeros(team.longest_factored()),
        };
        CommonWork::team(replicas, team.piece_lengths(), gate).into_iter().enumerate().map(member).collect()
    }

    /// Whether a round comes after this step.
    fn is_last_step(&self) -> bool {
        self.steps + 1 == self.options.frequency
    }

    /// Whether this step is taken part by part when the parts are averaged.
    fn steps_in_the_round(&self) -> bool {
        self.is_last_step() && self.team.has_factored()
    }

    /// The round behind a step that was computed by factors: every part is stepped, then averaged.
    fn step_and_average(
        &mut self,
        model: &mut dyn PartwiseModel,
        state: &mut State,
        step: &Step<'_>,
    ) -> Result<(), Error> {
        if std::mem::take(&mut self.has_shown) {
            // What has no factors each replica updates by itself.
            for Part { range, .. } in &self.team.unfactored {
                model.update(state, range.clone(), step.weight, step.progress);
                model.apply(state, range.clone());
            }
        } else {
            // Without examples it only attends.
            self.team.factors.show(self.me, step.weight, None);
            self.team.set_seen(self.me, self.seen + step.weight);
        }
        self.work.pass(0);
        self.work.begin()?;
        let weights = self.team.seen();
        #[expect(unsafe_code, reason = "what other replicas have computed is read where it lies")]
        // SAFETY: steps are taken in a part after all replicas have passed it, and what is taken here is given up before the
        // gate at the end of the round.
        let shown: Vec<WeightedFactors> = unsafe { self.team.factors.all() }.collect();
        while let Some(piece) = self.work.next()? {
            match self.team.pieces[piece as usize].clone() {
                Piece::Parameters(Part { range, is_factored: true }) => {
                    self.step_part_of_all(model, &range, &shown, &weights, step);
                }
                piece => self.average(&weights, &piece),
            }
        }
        drop(shown);
        Ok(self.work.end()?)
    }

    /// Takes the step of every replica in a factored part. The last of them leaves each stretch in the cache, where it is
    /// averaged.
    fn step_part_of_all(
        &mut self,
        model: &mut dyn PartwiseModel,
        range: &Range<usize>,
        shown: &[WeightedFactors],
        weights: &[f32],
        step: &Step<'_>,
    ) {
        let Self { team, states, room, .. } = self;
        let mut average = |range| {
            #[expect(unsafe_code, reason = "means are written where they belong, in the buffers of all replicas")]
            // SAFETY: all replicas have passed this piece, so they use nothing of it until the round is over, and nobody else has
            // taken it.
            unsafe {
                team.average_parameters(weights, range);
            }
        };
        let mut left = shown.iter().enumerate().filter(|(_, shown)| shown.factors.examples > 0).peekable();
        if left.peek().is_none() {
            return average(range.clone());
        }
        while let Some((number, WeightedFactors { weight, factors })) = left.next() {
            let (state, gradient) = (&mut states[number], &mut room[..range.len()]);
            let sum = FactorSum { factors: std::slice::from_ref(factors), number };
            model.gradient_of_factors(range.clone(), sum, step.progress.iteration, Some(&*state), gradient);
            let done: &mut dyn FnMut(Range<usize>) = if left.peek().is_some() { &mut |_| {} } else { &mut average };
            model.step_part(state, range.clone(), gradient, (*weight, step.progress), done);
        }
    }

    /// A round after steps that everybody took alone.
    fn average_all(&mut self) -> Result<(), Error> {
        self.team.set_seen(self.me, self.seen);
        self.work.pass(0);
        self.work.begin()?;
        let weights = self.team.seen();
        while let Some(piece) = self.work.next()? {
            self.average(&weights, &self.team.pieces[piece as usize]);
        }
        Ok(self.work.end()?)
    }

    /// Averages a piece that this replica has taken.
    fn average(&self, weights: &[f32], piece: &Piece) {
        #[expect(unsafe_code, reason = "means are written where they belong, in the buffers of all replicas")]
        // SAFETY: all replicas have passed this piece, so they use nothing of it until the round is over, and nobody else has
        // taken it.
        unsafe {
            self.team.average(weights, piece);
        }
    }
}

impl TakeFactors for Averaging {
    fn passed(&mut self, factors: &SharedFactors, from: usize) {
        if !std::mem::replace(&mut self.has_shown, true) {
            self.team.factors.show(self.me, self.weight, Some(factors));
            self.team.set_seen(self.me, self.seen + self.weight);
        }
        let is_passed = |piece: &Piece| match piece {
            Piece::Parameters(part) => part.is_factored && part.range.start >= from,
            Piece::Running => false,
        };
        self.work.pass(self.team.pieces.partition_point(|piece| !is_passed(piece)) as u32);
    }
}

fn slice(len: usize, replicas: usize, replica: usize) -> Range<usize> {
    len * replica / replicas..len * (replica + 1) / replicas
}

impl Exchange for Averaging {
    fn begin(&mut self, kept: &[Memory], state: &mut State) -> Result<(), Error> {
        let (replicas, length) = (self.team.count(), state.parameters.len());
        if let Some(OuterState { velocity, .. }) = &self.team.outer_state {
            // Slices of as many replicas as there were, one after the other.
            let whole: Vec<f32> = kept.iter().filter_map(|memory| memory.get("velocity")).flatten().copied().collect();
            if whole.len() == length {
                let slice = slice(length, replicas, self.me);
                #[expect(unsafe_code, reason = "what all replicas share")]
                // SAFETY: no round has begun, and each replica writes a slice of its own.
                let velocity = unsafe { velocity.part_mut(slice.clone()) };
                velocity.copy_from_slice(&whole[slice]);
            }
        }
        self.states = vec![State::default(); replicas];
        #[expect(unsafe_code, reason = "means are written where they belong, in the buffers of all replicas")]
        // SAFETY: a piece is averaged, and the steps of others taken in it, after all replicas have passed it; they use it
        // again after the round. Models that tell what they have passed look at what they need part by part.
        unsafe {
            self.team.place(self.me, state);
            self.states.iter_mut().enumerate().for_each(|(replica, state)| self.team.place(replica, state));
        }
        if !self.options.averages_updater() && kept.len() == replicas {
            for (slot, values) in state.slots.iter_mut().enumerate() {
                if let Some(own) = kept[self.me].get(&slot_name(slot)).filter(|own| own.len() == values.len()) {
                    values.copy_from_slice(own);
                }
            }
        }
        Ok(())
    }

    fn begin_step(&mut self, _: &mut State, step: &Step<'_>) -> Result<StepPlan<'_>, Error> {
        (self.began, self.weight) = (Instant::now(), step.weight);
        Ok(match step.examples {
            0 => StepPlan::Not,
            _ if self.steps_in_the_round() => StepPlan::ByFactors(self),
            _ => StepPlan::Alone,
        })
    }

    fn end_step(
        &mut self,
        model: &mut dyn PartwiseModel,
        state: &mut State,
        step: &Step<'_>,
    ) -> Result<Exchanged, Error> {
        let in_the_round = self.steps_in_the_round();
        // Updates of the last step are everybody's, so it took less than others do. If there are no others it tells enough.
        let tells = !in_the_round || self.options.frequency == 1;
        let own_time = tells.then(|| self.began.elapsed());
        let is_last = self.is_last_step();
        if in_the_round {
            self.step_and_average(model, state, step)?;
        }
        self.seen += step.weight;
        self.steps += 1;
        if is_last {
            if !in_the_round {
                self.average_all()?;
            }
            (self.seen, self.steps) = (0.0, 0);
        }
        Ok(Exchanged { bytes_sent: 0, own_time })
    }

    fn settle(&mut self, _: &mut State) -> Result<(), Error> {
        // All replicas take as many steps, so either all have something left or none has.
        if self.steps > 0 {
            self.average_all()?;
            (self.seen, self.steps) = (0.0, 0);
        }
        Ok(())
    }

    fn memory(&self, state: &State) -> Memory {
        let mut memory = Memory::new();
        if let Some(OuterState { velocity, .. }) = &self.team.outer_state {
            let slice = slice(state.parameters.len(), self.team.count(), self.me);
            #[expect(unsafe_code, reason = "what all replicas share")]
            // SAFETY: replicas are settled, and write it in a round only.
            let velocity = unsafe { velocity.part(slice) };
            memory.insert("velocity".into(), velocity.to_vec());
        }
        if !self.options.averages_updater() {
            memory.extend(state.slots.iter().enumerate().map(|(slot, values)| (slot_name(slot), values.to_vec())));
        }
        memory
    }
}

fn slot_name(slot: usize) -> String {
    format!("slot.{slot}")
}
