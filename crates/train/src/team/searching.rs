use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use paceline_model::{Flat, Loss, PartwiseModel, SearchTogether, SharedFlat, State};

use super::board::Board;
use super::gate::Gate;
use super::{Exchange, Exchanged, Memory, Step, StepPlan};
use crate::Error;

/// Replicas that search together: all look at the one buffer of parameters, each with its own examples, and the first one, which is left
/// with the gradient of all, says where to look next.
pub(crate) struct Searching {
    me: usize,
    team: Arc<Common>,
}

/// What all replicas share.
struct Common {
    gate: Arc<Gate>,
    gradients: Board,
    losses: Mutex<Vec<Loss>>,
    looks_again: AtomicBool,
    /// Written by the first replica, while the others wait at the gate.
    parameters: SharedFlat,
    /// The first replica's alone.
    slots: Vec<SharedFlat>,
    running: Board,
}

impl Searching {
    /// As many exchanges as there are replicas.
    pub(crate) fn team(replicas: usize, state: &State, gate: &Arc<Gate>) -> Vec<Searching> {
        let team = Arc::new(Common {
            gate: gate.clone(),
            gradients: Board::new(replicas),
            losses: Mutex::new(vec![Loss::default(); replicas]),
            looks_again: AtomicBool::new(false),
            parameters: state.parameters.clone().into(),
            slots: state.slots.iter().map(|slot| slot.clone().into()).collect(),
            running: Board::new(replicas),
        });
        (0..replicas).map(|me| Self { me, team: team.clone() }).collect()
    }
}

impl SearchTogether for Searching {
    fn leads(&self) -> bool {
        self.me == 0
    }

    fn sum(&mut self, gradient: &mut Flat, loss: Loss) -> Option<Loss> {
        let team = &*self.team;
        team.gradients.swap(self.me, gradient);
        let losses = || team.losses.lock().unwrap_or_else(PoisonError::into_inner);
        losses()[self.me] = loss;
        team.gate.wait().ok()?;
        let mut all = Loss::default();
        if self.leads() {
            losses().iter().for_each(|loss| all.merge(*loss));
            // In the order of the replicas, whoever came first.
            team.gradients.sum(0..gradient.len(), gradient);
        }
        Some(all)
    }

    fn look_again(&mut self, wanted: bool) -> bool {
        if self.leads() {
            // The others see it behind the gate.
            self.team.looks_again.store(wanted, Ordering::Relaxed);
        }
        self.team.gate.wait().is_ok() && self.team.looks_again.load(Ordering::Relaxed)
    }
}

impl Exchange for Searching {
    fn begin(&mut self, _: &[Memory], state: &mut State) -> Result<(), Error> {
        #[expect(unsafe_code, reason = "one buffer for all replicas")]
        // SAFETY: parameters are written by the first replica alone, between a gate behind which the others do not look at them and one
        // that lets them look again; slots are used by the first replica alone. A gate that breaks lets nobody look again.
        unsafe {
            state.parameters = self.team.parameters.view();
            state.slots = self.team.slots.iter().map(|slot| slot.view()).collect();
        }
        Ok(())
    }

    fn begin_step(&mut self, _: &mut State, _: &Step<'_>) -> Result<StepPlan<'_>, Error> {
        Ok(StepPlan::Search(self))
    }

    fn end_step(&mut self, _: &mut dyn PartwiseModel, state: &mut State, step: &Step<'_>) -> Result<Exchanged, Error> {
        let running = &self.team.running;
        if !state.running.is_empty() {
            running.show(self.me, &state.running, step.weight);
        }
        self.team.gate.wait()?;
        if !state.running.is_empty() {
            running.mean(0..state.running.len(), &mut state.running);
        }
        Ok(Exchanged::default())
    }

    fn settle(&mut self, _: &mut State) -> Result<(), Error> {
        Ok(())
    }
}
