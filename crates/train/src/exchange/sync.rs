use std::ops::Range;
use std::sync::{Arc, PoisonError, RwLock};

use paceline_model::{Factors, Model, Part, SharedFactors, SharedFlat, State};

use super::board::Board;
use super::claims::Claims;
use super::{Exchange, Exchanged, Memory};
use crate::Error;
use crate::gate::Gate;
use crate::halt::Halt;

/// Replicas that take every step together: gradients are summed in the order of the replicas, part by part, each part by
/// one of them, who updates it in the one buffer of parameters that all of them read.
///
/// Of layers whose gradient is a product the replicas show each other the factors, and whoever updates a part computes its
/// gradient over all examples: no gradient is written by one to be read by another.
///
/// The bits are those of every other run with as many replicas, whoever updates what.
pub struct Synchronous {
    me: usize,
    team: Arc<Team>,
    halt: Halt,
    stops: bool,
    /// What all replicas have shown in this step.
    shown: Vec<Factors>,
}

/// What all replicas share.
struct Team {
    gate: Arc<Gate>,
    parts: Vec<Part>,
    /// The parts of each replica.
    shares: Vec<Range<u32>>,
    /// By replica: those that are left in this step.
    claims: Vec<Claims>,
    gradients: Board,
    factors: Vec<RwLock<Option<SharedFactors>>>,
    /// What all replicas have a view of, and what the updater remembers. It is written between the two gates of a step, by
    /// each replica in the parts that it has claimed, and otherwise read outside of them.
    parameters: SharedFlat,
    slots: Vec<SharedFlat>,
    running: Board,
}

impl Synchronous {
    /// As many exchanges as there are replicas.
    pub(crate) fn team(
        replicas: usize,
        model: &dyn Model,
        state: &State,
        gate: &Arc<Gate>,
        halt: &Halt,
    ) -> Vec<Synchronous> {
        let parts = model.parts(state.parameters.len());
        let team = Arc::new(Team {
            gate: gate.clone(),
            shares: shares(&parts, replicas),
            parts,
            claims: (0..replicas).map(|_| Claims::default()).collect(),
            gradients: Board::new(replicas),
            factors: (0..replicas).map(|_| RwLock::default()).collect(),
            parameters: state.parameters.clone().into(),
            slots: state.slots.iter().map(|slot| slot.clone().into()).collect(),
            running: Board::new(replicas),
        });
        let member = |me| Self { me, team: team.clone(), halt: halt.clone(), stops: false, shown: Vec::new() };
        (0..replicas).map(member).collect()
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

    fn reduce(&mut self, state: &mut State, weight: f32, factors: Option<SharedFactors>) -> Result<Option<f32>, Error> {
        let team = &self.team;
        team.gradients.swap(self.me, &mut state.gradient, weight);
        *team.factors[self.me].write().unwrap_or_else(PoisonError::into_inner) = factors;
        team.claims[self.me].lay_out(team.shares[self.me].clone());
        self.stops = team.gate.wait(self.halt.is_asked())?;
        self.shown.extend(team.factors.iter().map(|shown| {
            let shown = shown.read().unwrap_or_else(PoisonError::into_inner);
            #[expect(unsafe_code, reason = "what other replicas have computed is read where it lies")]
            // SAFETY: models write what they show when they compute a gradient, outside of the two gates of a step; what is
            // taken here, after the first one, is given up before the second.
            shown.as_ref().map_or_else(Factors::default, |SharedFactors { examples, values }| Factors {
                examples: *examples,
                values: unsafe { values.view() },
            })
        }));
        Ok(Some(team.gradients.weight()))
    }

    fn next_part(&mut self, _: &dyn Model, _: usize, _: usize) -> Option<Part> {
        let claims = &self.team.claims;
        let mut others = (1..claims.len()).map(|away| &claims[(self.me + away) % claims.len()]);
        let claimed = claims[self.me].take_first().or_else(|| others.find_map(Claims::take_last))?;
        Some(self.team.parts[claimed as usize].clone())
    }

    fn factors(&self) -> &[Factors] {
        &self.shown
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
        team.gate.wait(false)?;
        if has_running {
            team.running.mean(0..state.running.len(), &mut state.running);
        }
        Ok(Exchanged::default())
    }

    /// All is one already: parameters and slots are in one buffer, running statistics became their mean after the step.
    fn settle(&mut self, _: &mut State) -> Result<Exchanged, Error> {
        Ok(Exchanged::default())
    }

    fn stops(&mut self) -> Result<bool, Error> {
        Ok(std::mem::take(&mut self.stops))
    }

    fn begin(&mut self, _: &[Memory], state: &mut State) -> Result<(), Error> {
        #[expect(unsafe_code, reason = "one buffer for all replicas")]
        // SAFETY: a replica writes parameters and slots between the two gates of a step only, through `Flat::part_mut` and
        // within parts that nobody else has claimed. All other reading is outside of these gates. A gate that breaks lets
        // nobody into the next step.
        unsafe {
            state.parameters = self.team.parameters.view();
            state.slots = self.team.slots.iter().map(|slot| slot.view()).collect();
        }
        Ok(())
    }
}

/// Gives each replica parts that lie in a row, together about as long as those of each other.
fn shares(parts: &[Part], replicas: usize) -> Vec<Range<u32>> {
    let len = parts.last().map_or(0, |part| part.range.end);
    let first = |replica: usize| parts.partition_point(|part| part.range.start < len * replica / replicas) as u32;
    (0..replicas).map(|replica| first(replica)..first(replica + 1)).collect()
}

#[cfg(test)]
mod tests {
    use paceline_model::Part;

    use super::shares;

    #[test]
    fn shares_hold_every_part_once_and_are_about_as_long_as_each_other() {
        let parts = |lengths: &[usize]| {
            let mut end = 0;
            let part = |len: &usize| {
                end += len;
                Part { range: end - len..end, is_factored: false }
            };
            lengths.iter().map(part).collect::<Vec<_>>()
        };
        assert_eq!(shares(&parts(&[10; 10]), 2), [0..5, 5..10]);
        assert_eq!(shares(&parts(&[60, 30, 10]), 3), [0..1, 1..2, 2..3]);
        assert_eq!(shares(&parts(&[1000]), 3), [0..1, 1..1, 1..1]);
        assert_eq!(shares(&parts(&[]), 2), [0..0, 0..0]);
    }
}
