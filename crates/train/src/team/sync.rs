use std::sync::Arc;

use paceline_model::{
    FactorSum, Factors, Flat, Handed, Part, PartwiseModel, SharedFactors, SharedFlat, State, TakeFactors,
};

use super::board::Board;
use super::common_work::CommonWork;
use super::factor_board::{FactorBoard, WeightedFactors};
use super::gate::Gate;
use super::{Exchange, Exchanged, Memory, Purpose, Step, StepPlan};
use crate::Error;

/// Replicas that take every step together: gradients are summed in the order of the replicas, part by part, each part by
/// one of them, which updates it in the one buffer of parameters that all of them read, or hands it out.
///
/// Of layers whose gradient is a product the replicas show each other the factors, and the replica that takes a part computes
/// its gradient over all examples: no gradient is written by one to be read by another. Such a part can be taken as soon as
/// all have passed it on their way back, so that a replica that is early does not wait for one that is late.
///
/// The bits are those of every other run with as many replicas, whichever takes what.
pub struct Synchronous {
    me: usize,
    team: Arc<Common>,
    /// The parts of the parameters.
    work: CommonWork,
    /// The weight of this replica's examples in this step.
    weight: f32,
    /// Whether this replica has shown what it has of this step.
    has_shown: bool,
    /// What all replicas have shown in this step.
    shown: Vec<Factors>,
    /// Room for the gradient of a part.
    room: Flat,
}

/// What all replicas share.
struct Common {
    /// Those that need all gradients first, then those that have factors.
    parts: Vec<Part>,
    gradients: Board,
    factors: FactorBoard,
    /// What all replicas have a view of, and what the updater remembers. A part is written by the replica that has claimed
    /// it, after all have passed it; all other reading is before that, or after the gate at the end of the step.
    parameters: SharedFlat,
    slots: Vec<SharedFlat>,
    running: Board,
}

impl Synchronous {
    /// As many exchanges as there are replicas.
    pub(crate) fn team(
        replicas: usize,
        model: &dyn PartwiseModel,
        state: &State,
        gate: &Arc<Gate>,
    ) -> Vec<Synchronous> {
        let mut parts = model.parts(state.parameters.len());
        parts.sort_by_key(|part| (part.is_factored, part.range.start));
        let longest = parts.iter().map(|part| part.range.len()).max().unwrap_or(0);
        let team = Arc::new(Common {
            parts,
            gradients: Board::new(replicas),
            factors: FactorBoard::new(replicas),
            parameters: state.parameters.clone().into(),
            slots: state.slots.iter().map(|slot| slot.clone().into()).collect(),
            running: Board::new(replicas),
        });
        let members = CommonWork::team(replicas, team.parts.iter().map(|part| part.range.len()), gate);
        let member = |(me, work)| Self {
            me,
            team: team.clone(),
            work,
            weight: 0.0,
            has_shown: false,
            shown: Vec::new(),
            room: Flat::zeros(longest),
        };
        members.into_iter().enumerate().map(member).collect()
    }

    /// Shows what this replica has of this step, once.
    fn show(&mut self, factors: Option<&SharedFactors>) {
        if !std::mem::replace(&mut self.has_shown, true) {
            self.team.factors.show(self.me, self.weight, factors);
        }
    }

    /// Gives the own gradient to the others and waits until all are on their way back. Says what all examples weigh.
    fn meet(&mut self, gradient: &mut Flat) -> Result<f32, Error> {
        self.show(None);
        self.team.gradients.swap(self.me, gradient);
        self.work.pass(0);
        self.work.begin()?;
        #[expect(unsafe_code, reason = "what other replicas have computed is read where it lies")]
        // SAFETY: a part is updated after all replicas have passed it, and what is taken here is given up before the gate at
        // the end of the step.
        let all = unsafe { self.team.factors.all() };
        let mut total = 0.0;
        self.shown.extend(all.map(|WeightedFactors { weight, factors }| {
            total += weight;
            factors
        }));
        Ok(total)
    }
}

impl TakeFactors for Synchronous {
    fn passed(&mut self, factors: &SharedFactors, from: usize) {
        self.show(Some(factors));
        let is_before = |part: &Part| !part.is_factored || part.range.start < from;
        self.work.pass(self.team.parts.partition_point(is_before) as u32);
    }
}

impl Exchange for Synchronous {
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

    fn begin_step(&mut self, state: &mut State, step: &Step<'_>) -> Result<StepPlan<'_>, Error> {
        self.weight = step.weight;
        if step.examples == 0 {
            state.gradient.fill(0.0);
            return Ok(StepPlan::Not);
        }
        Ok(StepPlan::ByFactors(self))
    }

    fn end_step(
        &mut self,
        model: &mut dyn PartwiseModel,
        state: &mut State,
        step: &Step<'_>,
    ) -> Result<Exchanged, Error> {
        let weight = self.meet(&mut state.gradient)?;
        while let Some(part) = self.work.next()? {
            let Part { range, is_factored } = self.team.parts[part as usize].clone();
            let gradient = &mut self.room[..range.len()];
            if is_factored {
                let sum = FactorSum { factors: &self.shown, number: 0 };
                let next = matches!(step.purpose, Purpose::Train).then_some(&*state);
                model.gradient_of_factors(range.clone(), sum, step.progress.iteration, next, gradient);
            } else {
                self.team.gradients.sum(range.clone(), gradient);
            }
            match step.purpose {
                Purpose::Train => model.step_part(state, range, gradient, (weight, step.progress), &mut |_| {}),
                Purpose::HandOut(Handed::Gradient, outlet) => outlet.put(range, gradient),
                Purpose::HandOut(Handed::Update(progress), outlet) => {
                    model.update_part(state, range.clone(), gradient, weight, *progress);
                    outlet.put(range, gradient);
                }
            }
        }
        self.shown.clear();
        let has_running = !state.running.is_empty();
        if has_running {
            self.team.running.show(self.me, &state.running, step.weight);
        }
        self.work.end()?;
        if has_running {
            self.team.running.mean(0..state.running.len(), &mut state.running);
        }
        self.has_shown = false;
        Ok(Exchanged::default())
    }

    /// All is one already: parameters and slots are in one buffer, running statistics became their mean after the step.
    fn settle(&mut self, _: &mut State) -> Result<(), Error> {
        Ok(())
    }
}
