//! Replicas that step on their own and become their mean every few steps.

mod marks;
mod options;
mod replicas;

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

pub use options::AveragingOptions;
use paceline_model::{FactorSum, Flat, Model, Part, Progress, SharedFactors, State};
use replicas::{Piece, Replicas, Way};

use super::common_work::CommonWork;
use super::passage::NONE;
use super::shows::Shown;
use super::{Exchange, Exchanged, Memory};
use crate::Error;
use crate::gate::Gate;

/// Replicas that step on their own and become their mean every few steps, weighted by the examples that each has seen
/// since the last time. One that has seen none has no say.
///
/// In the last step before a round replicas show each other the factors of gradients, where a model has them: whoever
/// averages a part first takes the step of each replica there, while all of it is in the cache, so that nothing is read
/// and written only to be averaged. A piece is averaged as soon as all replicas have passed it; who is early takes its own
/// step in pieces before that, as many as it gets to, and does not wait for who is late.
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
    /// Whether this replica has shown factors in this step.
    has_shown: bool,
    /// Parts that this replica has yet to update by itself in this step.
    unfactored: Range<usize>,
    round: Round,
    /// The number of this round, from 1.
    number: u64,
    /// When this step began for this replica.
    began: Option<Instant>,
    /// How long the last one took by itself, if that can be told.
    took: Option<Duration>,
    /// The states of all replicas; gradients are room for those of a part.
    states: Vec<State>,
}

/// What a replica knows of the round that it is coming to.
#[derive(Default)]
struct Round {
    /// What it has shown itself.
    own: Option<Shown>,
    /// Once all are on their way: what each has seen since the last round.
    weights: Vec<f32>,
    /// As soon: what each has shown.
    shown: Vec<Shown>,
    /// By replica: whether its step is to be taken in the factored part that is to be averaged.
    claimed: Vec<bool>,
    /// Pieces that were looked at for a step of its own.
    looked_at: u32,
    /// What it is to do in the factored part that was handed out last.
    turn: Turn,
}

/// What is to be done in a factored part.
#[derive(Default)]
enum Turn {
    /// The step of the replica itself, in a piece that others may not have passed.
    Own(u32),
    /// The steps that were not taken yet, by replica; then it is averaged.
    #[default]
    Round,
}

impl Averaging {
    /// As many exchanges as there are replicas.
    pub(crate) fn team(
        replicas: usize,
        options: AveragingOptions,
        model: &dyn Model,
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
            has_shown: false,
            unfactored: 0..0,
            round: Round::default(),
            number: 1,
            began: None,
            took: None,
            states: Vec::new(),
        };
        CommonWork::team(replicas, team.piece_lengths(), gate).into_iter().enumerate().map(member).collect()
    }

    /// Whether a round comes after this step.
    fn is_last_step(&self) -> bool {
        self.steps + 1 == self.options.frequency
    }

    /// From here on this replica does nothing more for its minibatch alone.
    fn stop_clock(&mut self) {
        self.took = self.began.take().map(|began| began.elapsed());
    }

    /// Averages a piece that was taken.
    fn average(&self, piece: u32) {
        #[expect(unsafe_code, reason = "means are written where they belong, in the buffers of all replicas")]
        // SAFETY: all replicas have passed this piece, so they use nothing of it until the round is over, and nobody else has
        // taken it.
        unsafe {
            self.team.average(&self.round.weights, &self.team.pieces[piece as usize]);
        }
    }

    /// Hands out a factored part.
    fn hand_out(&mut self, piece: u32, turn: Turn) -> Option<Part> {
        self.round.turn = turn;
        match &self.team.pieces[piece as usize] {
            Piece::Parameters(part) => Some(part.clone()),
            Piece::Running => None,
        }
    }

    /// Claims the steps that were not taken yet in a piece that is to be averaged, and waits for those that are being taken.
    fn claim_steps(&mut self, piece: u32) -> Result<(), Error> {
        let Self { team, work, round, number, .. } = self;
        let replicas = 0..team.count();
        round.claimed.clear();
        round.claimed.extend(replicas.clone().map(|replica| team.marks.claim(piece, replica, *number)));
        let is_settled = |replica| round.claimed[replica] || team.marks.is_done(piece, replica, *number);
        Ok(work.wait_until(|| replicas.clone().all(is_settled))?)
    }

    /// A piece for the step of this replica alone, if there is one that nobody has come to: one of its own share before those
    /// of others.
    fn claim_own_step(&mut self) -> Option<u32> {
        let (first, end) = (self.team.first_factored(), self.team.pieces.len() as u32);
        let share = self.work.share();
        let own = share.start.max(first)..share.end.max(first);
        while self.round.looked_at < end - first {
            let at = self.round.looked_at;
            self.round.looked_at += 1;
            // Its own from the last to the first, as it would take them anyway; then the others from the first on, which
            // those who own them take last.
            let piece = match at.checked_sub(own.len() as u32) {
                None => own.end - 1 - at,
                Some(beyond) if first + beyond < own.start => first + beyond,
                Some(_) => first + at,
            };
            if self.team.marks.claim(piece, self.me, self.number) {
                return Some(piece);
            }
        }
        None
    }

    /// Reads what all have told and shown: all are on their way.
    fn look_around(&mut self) {
        let Round { weights, shown, .. } = &mut self.round;
        if weights.is_empty() {
            *weights = self.team.seen();
            #[expect(unsafe_code, reason = "what other replicas have computed is read where it lies")]
            // SAFETY: steps are taken in a part after all replicas have passed it, and what is taken here is given up before
            // the gate at the end of the round.
            shown.extend(unsafe { self.team.shows.all() });
        }
    }

    /// Waits until all have done what they have taken.
    fn close_round(&mut self) -> Result<(), Error> {
        self.round = Round::default();
        self.work.end()?;
        self.number += 1;
        (self.seen, self.steps) = (0.0, 0);
        Ok(())
    }

    /// A round after steps that everybody took alone.
    fn whole_round(&mut self) -> Result<(), Error> {
        self.team.set_seen(self.me, self.seen);
        self.work.pass(0);
        self.work.begin()?;
        self.round.weights = self.team.seen();
        while let Some(piece) = self.work.next()? {
            self.average(piece);
        }
        self.close_round()
    }
}

fn slice(len: usize, replicas: usize, replica: usize) -> Range<usize> {
    len * replica / replicas..len * (replica + 1) / replicas
}

impl Exchange for Averaging {
    fn mode(&self) -> &'static str {
        "averaging"
    }

    fn begin_step(&mut self, _: &mut State, _: u64) -> Result<(), Error> {
        self.began = Some(Instant::now());
        Ok(())
    }

    fn own_time(&mut self) -> Option<Duration> {
        self.took.take()
    }

    fn steps_alone(&self) -> bool {
        !(self.is_last_step() && self.team.has_factored())
    }

    fn wants_factors(&self) -> bool {
        true
    }

    fn passed(&mut self, weight: f32, factors: Option<&SharedFactors>, from: usize) {
        if !self.is_last_step() {
            return;
        }
        if let Some(factors) = factors.filter(|_| !self.has_shown) {
            self.team.shows.show(self.me, weight, Some(factors));
            self.has_shown = true;
        }
        let is_factored = factors.is_some();
        let is_passed = |piece: &Piece| match piece {
            Piece::Parameters(part) => part.is_factored == is_factored && part.range.start >= from,
            Piece::Running => false,
        };
        let first = self.team.pieces.partition_point(|piece| !is_passed(piece));
        self.team.set_seen(self.me, self.seen + weight);
        self.work.pass(first as u32);
    }

    fn reduce(&mut self, _: &mut State, weight: f32) -> Result<Option<f32>, Error> {
        // Updates of this step are everybody's, so it took less than others do. If there are no others it tells enough.
        if self.options.frequency == 1 {
            self.stop_clock();
        }
        if std::mem::take(&mut self.has_shown) {
            self.unfactored = 0..self.team.unfactored.len();
            #[expect(unsafe_code, reason = "what the model of this replica has computed is read where it lies")]
            // SAFETY: it is on its way back no more, and this is given up before the gate at the end of the round.
            let own = unsafe { self.team.shows.of(self.me) };
            self.round.own = Some(own);
        } else {
            // Without examples it only attends.
            self.team.shows.show(self.me, weight, None);
            self.team.set_seen(self.me, self.seen + weight);
        }
        Ok(Some(weight))
    }

    fn next_part(&mut self, _: &dyn Model, _: usize, _: usize) -> Result<Option<Part>, Error> {
        if let Some(part) = self.unfactored.next() {
            return Ok(Some(self.team.unfactored[part].clone()));
        }
        self.work.pass(0);
        loop {
            let ready = self.work.passed_by_all();
            if ready != NONE {
                self.look_around();
            }
            if let Some(piece) = self.work.take(ready) {
                if self.team.pieces[piece as usize].is_factored() {
                    self.claim_steps(piece)?;
                    return Ok(self.hand_out(piece, Turn::Round));
                }
                self.average(piece);
                continue;
            }
            if self.round.own.is_some()
                && let Some(piece) = self.claim_own_step()
            {
                return Ok(self.hand_out(piece, Turn::Own(piece)));
            }
            // Before all are on their way, what they have may not be laid out yet.
            if ready != NONE && self.work.is_all_taken() {
                return Ok(None);
            }
            self.work.wait_beyond(ready)?;
        }
    }

    fn update_factored(
        &mut self,
        model: &mut dyn Model,
        _: &mut State,
        part: Range<usize>,
        _: f32,
        progress: Progress,
    ) {
        let Self { me, team, round, states, .. } = self;
        let Round { own, weights, shown, claimed, turn, .. } = &*round;
        let mut step = |number: usize, Shown { weight, factors }: &Shown, done: &mut dyn FnMut(Range<usize>)| {
            let sum = FactorSum { factors: std::slice::from_ref(factors), weight: *weight, number };
            model.update_from_factors(&mut states[number], part.clone(), sum, progress, done);
        };
        if let Turn::Own(piece) = turn {
            let own = own.as_ref().expect("who takes a step of its own has shown something");
            step(*me, own, &mut |_| {});
            team.marks.finish(*piece, *me, self.number);
            self.work.nudge();
            return;
        }
        let mut average = |range| {
            #[expect(unsafe_code, reason = "means are written where they belong, in the buffers of all replicas")]
            // SAFETY: as for other pieces: all replicas have passed this one, nobody else has taken it, and whoever was
            // taking a step in it is done, this replica in what it has told.
            unsafe {
                team.average_parameters(weights, range);
            }
        };
        // The last of the steps leaves what is averaged next in the cache.
        let is_left = |(number, shown): &(usize, &Shown)| claimed[*number] && shown.factors.examples > 0;
        let mut left = shown.iter().enumerate().filter(is_left).peekable();
        if left.peek().is_none() {
            return average(part);
        }
        while let Some((number, shown)) = left.next() {
            match left.peek() {
                Some(_) => step(number, shown, &mut |_| {}),
                None => step(number, shown, &mut average),
            }
        }
    }

    fn finish(&mut self, _: &mut State, weight: f32) -> Result<Exchanged, Error> {
        let steps_alone = self.steps_alone();
        self.seen += weight;
        self.steps += 1;
        if !steps_alone {
            self.close_round()?;
            return Ok(Exchanged::default());
        }
        self.stop_clock();
        if self.steps == self.options.frequency {
            self.whole_round()?;
        }
        Ok(Exchanged::default())
    }

    fn settle(&mut self, _: &mut State) -> Result<Exchanged, Error> {
        // All replicas take as many steps, so either all have something left or none has.
        if self.steps > 0 {
            self.whole_round()?;
        }
        Ok(Exchanged::default())
    }

    fn memory(&self, state: &State) -> Memory {
        let mut memory = Memory::new();
        if let Some(Way { velocity, .. }) = &self.team.way {
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

    fn begin(&mut self, kept: &[Memory], state: &mut State) -> Result<(), Error> {
        let (replicas, length) = (self.team.count(), state.parameters.len());
        if let Some(Way { velocity, .. }) = &self.team.way {
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
        let room = Flat::zeros(self.team.longest_factored());
        self.states = vec![State { gradient: room, ..State::default() }; replicas];
        #[expect(unsafe_code, reason = "means are written where they belong, in the buffers of all replicas")]
        // SAFETY: a piece is averaged, and the steps of others taken in it, after all replicas have passed it; they use it
        // again after the round, but for a step of their own that has its mark, which whoever averages waits for. Models that tell what they have passed look at what they need part by part.
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
}

fn slot_name(slot: usize) -> String {
    format!("slot.{slot}")
}
