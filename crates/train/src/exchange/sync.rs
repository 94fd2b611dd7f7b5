use std::ops::Range;
use std::sync::Arc;

use paceline_model::{FactorSum, Factors, Model, Part, Progress, SharedFactors, SharedFlat, State};

use super::board::Board;
use super::common_work::CommonWork;
use super::shows::{Shown, Shows};
use super::{Exchange, Exchanged, Memory};
use crate::Error;
use crate::gate::Gate;

/// Replicas that take every step together: gradients are summed in the order of the replicas, part by part, each part by
/// one of them, who updates it in the one buffer of parameters that all of them read.
///
/// Of layers whose gradient is a product the replicas show each other the factors, and whoever updates a part computes its
/// gradient over all examples: no gradient is written by one to be read by another. Such a part can be updated as soon as
/// all have passed it on their way back, so that who is early does not wait for who is late.
///
/// The bits are those of every other run with as many replicas, whoever updates what.
pub struct Synchronous {
    me: usize,
    team: Arc<Team>,
    /// The parts of the parameters.
    work: CommonWork,
    /// Whether this replica has shown what it has of this step.
    has_shown: bool,
    /// What all replicas have shown in this step.
    shown: Vec<Factors>,
}

/// What all replicas share.
struct Team {
    /// Those that need all gradients first, then those that have factors.
    parts: Vec<Part>,
    gradients: Board,
    shows: Shows,
    /// What all replicas have a view of, and what the updater remembers. A part is written by the replica that has claimed
    /// it, after all have passed it; all other reading is before that, or after the gate at the end of the step.
    parameters: SharedFlat,
    slots: Vec<SharedFlat>,
    running: Board,
}

impl Synchronous {
    /// As many exchanges as there are replicas.
    pub(crate) fn team(replicas: usize, model: &dyn Model, state: &State, gate: &Arc<Gate>) -> Vec<Synchronous> {
        let mut parts = model.parts(state.parameters.len());
        parts.sort_by_key(|part| (part.is_factored, part.range.start));
        let team = Arc::new(Team {
            parts,
            gradients: Board::new(replicas),
            shows: Shows::new(replicas),
            parameters: state.parameters.clone().into(),
            slots: state.slots.iter().map(|slot| slot.clone().into()).collect(),
            running: Board::new(replicas),
        });
        let members = CommonWork::team(replicas, team.parts.iter().map(|part| part.range.len()), gate);
        let member = |(me, work)| {
            let team = team.clone();
            Self { me, team, work, has_shown: false, shown: Vec::new() }
        };
        members.into_iter().enumerate().map(member).collect()
    }

    /// Shows what this replica has of this step, once.
    fn show(&mut self, weight: f32, factors: Option<&SharedFactors>) {
        if !std::mem::replace(&mut self.has_shown, true) {
            self.team.shows.show(self.me, weight, factors);
        }
    }
}

impl Exchange for Synchronous {
    fn mode(&self) -> &'static str {
        "sync"
    }

    fn steps_alone(&self) -> bool {
        false
    }

    fn wants_factors(&self) -> bool {
        true
    }

    fn passed(&mut self, weight: f32, factors: Option<&SharedFactors>, from: usize) {
        self.show(weight, factors);
        let is_before = |part: &Part| !part.is_factored || part.range.start < from;
        self.work.pass(self.team.parts.partition_point(is_before) as u32);
    }

    fn reduce(&mut self, state: &mut State, weight: f32) -> Result<Option<f32>, Error> {
        self.show(weight, None);
        self.team.gradients.swap(self.me, &mut state.gradient);
        self.work.pass(0);
        self.work.begin()?;
        #[expect(unsafe_code, reason = "what other replicas have computed is read where it lies")]
        // SAFETY: a part is updated after all replicas have passed it, and what is taken here is given up before the gate at
        // the end of the step.
        let all = unsafe { self.team.shows.all() };
        let mut total = 0.0;
        self.shown.extend(all.map(|Shown { weight, factors }| {
            total += weight;
            factors
        }));
        Ok(Some(total))
    }

    fn next_part(&mut self, _: &dyn Model, _: usize, _: usize) -> Result<Option<Part>, Error> {
        Ok(self.work.next()?.map(|part| self.team.parts[part as usize].clone()))
    }

    fn update_factored(
        &mut self,
        model: &mut dyn Model,
        state: &mut State,
        part: Range<usize>,
        weight: f32,
        progress: Progress,
    ) {
        let sum = FactorSum { factors: &self.shown, weight, number: 0 };
        model.update_from_factors(state, part, sum, progress, &mut |_| {});
    }

    fn gather(&mut self, state: &mut State, part: Range<usize>) {
        self.team.gradients.sum(part.clone(), &mut state.gradient[part]);
    }

    fn finish(&mut self, state: &mut State, weight: f32) -> Result<Exchanged, Error> {
        self.shown.clear();
        let team = &self.team;
        let has_running = !state.running.is_empty();
        if has_running {
            team.running.show(self.me, &state.running, weight);
        }
        self.work.end()?;
        if has_running {
            team.running.mean(0..state.running.len(), &mut state.running);
        }
        self.has_shown = false;
        Ok(Exchanged::default())
    }

    /// All is one already: parameters and slots are in one buffer, running statistics became their mean after the step.
    fn settle(&mut self, _: &mut State) -> Result<Exchanged, Error> {
        Ok(Exchanged::default())
    }

    fn begin(&mut self, _: &[Memory], state: &mut State) -> Result<(), Error> {
        #[expect(unsafe_code, reason = "one buffer for all replicas")]
        // SAFETY: a replica writes parameters and slots through `Flat::part_mut` only, in a part that nobody else has claimed
        // and that all have passed, which is when their models read it no more. They read it again, part by part, after the
        // gate at the end of the step. A gate that breaks lets nobody into the next step.
        unsafe {
            state.parameters = self.team.parameters.view();
            state.slots = self.team.slots.iter().map(|slot| slot.view()).collect();
        }
        Ok(())
    }
}
