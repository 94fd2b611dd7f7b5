use std::ops::Range;
use std::sync::Arc;

use paceline_model::{Model, SharedFlat, State};

use super::board::Board;
use super::{Exchange, Exchanged, Memory, Reduced};
use crate::Error;
use crate::gate::Gate;
use crate::halt::Halt;

/// Replicas that take every step together: gradients are summed in the order of the replicas, each replica updates its
/// own slice of the one buffer of parameters that all of them read.
///
/// The bits are those of every other run with as many replicas.
pub struct Synchronous {
    me: usize,
    team: Arc<Team>,
    halt: Halt,
    stops: bool,
}

/// What all replicas share.
struct Team {
    gate: Arc<Gate>,
    /// The range of each replica.
    slices: Vec<Range<usize>>,
    gradients: Board,
    /// What all replicas have a view of. It is written between the two gates of a step, by each replica its own slice,
    /// and read outside of them.
    parameters: SharedFlat,
    running: Board,
    slots: Vec<Board>,
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
        let board = || Board::new(replicas);
        let team = Arc::new(Team {
            gate: gate.clone(),
            slices: slices(model, state.parameters.len(), replicas),
            gradients: board(),
            parameters: state.parameters.clone().into(),
            running: board(),
            slots: state.slots.iter().map(|_| board()).collect(),
        });
        (0..replicas).map(|me| Self { me, team: team.clone(), halt: halt.clone(), stops: false }).collect()
    }

    fn mine(&self) -> Range<usize> {
        self.team.slices[self.me].clone()
    }
}

impl Exchange for Synchronous {
    fn mode(&self) -> &'static str {
        "sync"
    }

    fn steps_alone(&self) -> bool {
        false
    }

    fn reduce(&mut self, state: &mut State, weight: f32) -> Result<Reduced, Error> {
        let (team, mine) = (&self.team, self.mine());
        team.gradients.swap(self.me, &mut state.gradient, weight);
        self.stops = team.gate.wait(self.halt.is_asked())?;
        Ok(Reduced { range: mine, weight: team.gradients.weight() })
    }

    fn gather(&mut self, state: &mut State, part: Range<usize>) {
        self.team.gradients.sum(part.clone(), &mut state.gradient[part]);
    }

    fn finish(&mut self, state: &mut State, weight: f32) -> Result<Exchanged, Error> {
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

    fn settle(&mut self, state: &mut State) -> Result<Exchanged, Error> {
        let (team, mine) = (&self.team, self.mine());
        for (slot, board) in state.slots.iter().zip(&team.slots) {
            board.show(self.me, &slot[mine.clone()], 0.0);
        }
        team.gate.wait(false)?;
        for (slot, board) in state.slots.iter_mut().zip(&team.slots) {
            board.gather(self.me, &team.slices, slot);
        }
        // Nobody shows anything new before all have looked.
        team.gate.wait(false)?;
        Ok(Exchanged::default())
    }

    fn stops(&mut self) -> Result<bool, Error> {
        Ok(std::mem::take(&mut self.stops))
    }

    fn begin(&mut self, _: &[Memory], state: &mut State) -> Result<(), Error> {
        #[expect(unsafe_code, reason = "one buffer of parameters for all replicas")]
        // SAFETY: a replica writes parameters between the two gates of a step only, through `Flat::part_mut` and within
        // its own slice; slices have nothing in common. All reading is outside of these gates. A gate that breaks lets
        // nobody into the next step.
        unsafe {
            state.parameters = self.team.parameters.view();
        }
        Ok(())
    }
}

/// Cuts `0..len` into as many ranges as there are replicas, about as long as each other, where the model allows a cut.
fn slices(model: &dyn Model, len: usize, replicas: usize) -> Vec<Range<usize>> {
    let (mut slices, mut start, mut end) = (Vec::with_capacity(replicas), 0, 0);
    for replica in 1..=replicas {
        let wanted = len * replica / replicas;
        while end < wanted {
            end = model.part_end(end).min(len);
        }
        slices.push(start..end);
        start = end;
    }
    slices
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use paceline_model::{Batch, Error, Loss, Model, Progress, State};

    use super::slices;

    /// Can be cut every so many numbers.
    struct Cuts(usize);

    impl Model for Cuts {
        fn initial_state(&self) -> State {
            State::default()
        }
        fn gradient(&mut self, _: &Batch, _: &mut State) -> Result<Loss, Error> {
            unreachable!("nothing is trained here")
        }
        fn predict(&mut self, _: &Batch, _: &State, _: &mut Vec<f32>) -> Result<Option<Loss>, Error> {
            unreachable!("nothing is predicted here")
        }
        fn part_end(&self, start: usize) -> usize {
            (start + 1).next_multiple_of(self.0)
        }
        fn update(&mut self, _: &mut State, _: Range<usize>, _: f32, _: Progress) {}
        fn apply(&mut self, _: &mut State, _: Range<usize>) {}
    }

    #[test]
    fn slices_cover_everything_once_and_are_cut_where_the_model_allows() {
        assert_eq!(slices(&Cuts(10), 100, 2), [0..50, 50..100]);
        assert_eq!(slices(&Cuts(30), 100, 3), [0..60, 60..90, 90..100]);
        assert_eq!(slices(&Cuts(1000), 100, 3), [0..100, 100..100, 100..100]);
        assert_eq!(slices(&Cuts(7), 0, 2), [0..0, 0..0]);
    }
}
