//! What a worker computes and holds: integers, so that sums do not depend on their order.

use std::collections::BTreeMap;

use paceline_exchange::rounds::{Incarnation, Round, Steps, ViewNumber, WorkNumber};

use crate::random::mix;

/// Numbers of a state.
pub(crate) const WIDTH: usize = 5;

/// What an example adds to each number.
pub(crate) fn worth(epoch: u64, place: u64) -> [i64; WIDTH] {
    std::array::from_fn(|n| (mix(epoch << 40 ^ place << 8 ^ n as u64) >> 24) as i64)
}

/// A state, and a digest of every result on the way to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct State {
    pub(crate) values: [i64; WIDTH],
    pub(crate) way: u64,
    /// In `shared`: the messages that are in it, up to a number for each origin.
    pub(crate) applied: BTreeMap<Incarnation, u64>,
}

impl State {
    pub(crate) fn initial() -> Self {
        Self { values: [0; WIDTH], way: 1, applied: BTreeMap::new() }
    }

    fn apply(&mut self, round: Round, result: &[i64]) {
        self.way = mix(self.way ^ round);
        for (value, added) in self.values.iter_mut().zip(result) {
            *value += added;
            self.way = mix(self.way ^ *added as u64);
        }
    }
}

/// A part of somebody's contribution, and the way of the state that it was computed from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Contribution {
    pub(crate) part: Vec<i64>,
    pub(crate) way: u64,
}

#[derive(Clone, Debug)]
struct Ahead {
    work: WorkNumber,
    round: Round,
    sum: [i64; WIDTH],
    is_computed: bool,
}

fn sum_of(steps: &Steps) -> [i64; WIDTH] {
    let mut sum = [0; WIDTH];
    for place in steps.slice.iter().flatten().flat_map(|span| span.start..span.end) {
        sum.iter_mut().zip(worth(steps.epoch, place)).for_each(|(sum, worth)| *sum += worth);
    }
    sum
}

/// The buffers of one incarnation.
#[derive(Clone, Debug)]
pub(crate) struct Numbers {
    pub(crate) state: State,
    own: Option<(Round, [i64; WIDTH], u64)>,
    /// What was computed before the result of the round before was there.
    ahead: Option<Ahead>,
    /// What is taken without others.
    alone: Option<(WorkNumber, Round, [i64; WIDTH])>,
    contributions: BTreeMap<(ViewNumber, Round, Incarnation), Contribution>,
    sums: BTreeMap<(ViewNumber, Round, Incarnation), Vec<i64>>,
    result: Option<(Round, Vec<i64>)>,
    fetched_result: Option<(Round, Vec<i64>)>,
    fetched_state: Option<(Round, State)>,
    /// The ways of the last rounds.
    pub(crate) ways: BTreeMap<Round, u64>,
}

impl Numbers {
    pub(crate) fn new() -> Self {
        Self {
            state: State::initial(),
            own: None,
            ahead: None,
            alone: None,
            contributions: BTreeMap::new(),
            sums: BTreeMap::new(),
            result: None,
            fetched_result: None,
            fetched_state: None,
            ways: BTreeMap::new(),
        }
    }

    pub(crate) fn compute(&mut self, round: Round, steps: &Steps) {
        self.own = Some((round, sum_of(steps), self.state.way));
    }

    pub(crate) fn compute_ahead(&mut self, work: WorkNumber, round: Round, steps: &Steps) {
        self.ahead = Some(Ahead { work, round, sum: sum_of(steps), is_computed: false });
    }

    /// Steps without others change the state when they are taken, whatever the rules think of them by then.
    pub(crate) fn compute_alone(&mut self, work: WorkNumber, round: Round, steps: &Steps) {
        self.alone = Some((work, round, sum_of(steps)));
    }

    pub(crate) fn drop_ahead(&mut self) {
        self.ahead = None;
    }

    /// Whether work that is computed may be told; if it was ahead, only when the result of the round before is worked in.
    pub(crate) fn is_done(&mut self, work: WorkNumber) -> bool {
        if let Some((_, round, sum)) = self.alone.take_if(|(of, ..)| *of == work) {
            self.finish(round, sum.to_vec());
            self.result = None;
        }
        let ahead = self.ahead.as_mut().filter(|ahead| ahead.work == work);
        ahead.is_none_or(|ahead| {
            ahead.is_computed = true;
            false
        })
    }

    /// The work that was ahead and is not any more; none if it is not computed yet.
    pub(crate) fn caught_up(&mut self, round: Round) -> Option<WorkNumber> {
        let ahead = self.ahead.take_if(|ahead| ahead.round == round + 1)?;
        self.own = Some((ahead.round, ahead.sum, self.state.way));
        ahead.is_computed.then_some(ahead.work)
    }

    pub(crate) fn part(&self, round: Round, part: usize, parts: usize) -> Result<Contribution, String> {
        match &self.own {
            Some((of, values, way)) if *of == round => {
                Ok(Contribution { part: values[WIDTH * part / parts..WIDTH * (part + 1) / parts].to_vec(), way: *way })
            }
            other => Err(format!("a contribution to round {round} was to be sent, but there is {other:?}")),
        }
    }

    pub(crate) fn take(&mut self, key: (ViewNumber, Round, Incarnation), contribution: Contribution) {
        self.contributions.insert(key, contribution);
    }

    pub(crate) fn take_sum(&mut self, key: (ViewNumber, Round, Incarnation), sum: Vec<i64>) {
        self.sums.insert(key, sum);
    }

    pub(crate) fn sum(
        &mut self,
        me: Incarnation,
        view: ViewNumber,
        round: Round,
        members: &[Incarnation],
    ) -> Result<(), String> {
        let mut sum: Vec<i64> = Vec::new();
        for member in members {
            let Some(contribution) = self.contributions.get(&(view, round, *member)) else {
                return Err(format!(
                    "the contribution of {member} to round {round} in view {view} was to be summed, but is not there"
                ));
            };
            if contribution.way != self.state.way {
                return Err(format!("the contribution of {member} to round {round} was computed from another state"));
            }
            sum.resize(contribution.part.len(), 0);
            sum.iter_mut().zip(&contribution.part).for_each(|(sum, value)| *sum += value);
        }
        self.sums.insert((view, round, me), sum);
        Ok(())
    }

    pub(crate) fn own_sum(&self, me: Incarnation, view: ViewNumber, round: Round) -> Option<Vec<i64>> {
        self.sums.get(&(view, round, me)).cloned()
    }

    pub(crate) fn apply(&mut self, view: ViewNumber, round: Round, members: &[Incarnation]) -> Result<(), String> {
        let mut result = Vec::new();
        for member in members {
            match self.sums.get(&(view, round, *member)) {
                Some(sum) => result.extend(sum),
                None => return Err(format!("the sum of {member} of round {round} in view {view} is not there")),
            }
        }
        self.finish(round, result);
        Ok(())
    }

    fn finish(&mut self, round: Round, result: Vec<i64>) {
        self.state.apply(round, &result);
        self.ways.insert(round, self.state.way);
        if self.ways.len() > 8 {
            self.ways.pop_first();
        }
        self.result = Some((round, result));
    }

    pub(crate) fn fetch_result(&mut self, round: Round, result: Vec<i64>) {
        self.fetched_result = Some((round, result));
    }

    pub(crate) fn fetch_state(&mut self, round: Round, state: State) {
        self.fetched_state = Some((round, state));
    }

    pub(crate) fn apply_fetched(&mut self, round: Round) -> Result<(), String> {
        match self.fetched_result.take() {
            Some((of, result)) if of == round => self.finish(round, result),
            other => return Err(format!("the result of round {round} was to be applied, but there is {other:?}")),
        }
        Ok(())
    }

    pub(crate) fn adopt(&mut self, round: Round) -> Result<(), String> {
        match self.fetched_state.take() {
            Some((of, state)) if of == round => {
                self.ways.insert(round, state.way);
                self.state = state;
            }
            other => return Err(format!("the state of round {round} was to be adopted, but there is {other:?}")),
        }
        Ok(())
    }

    pub(crate) fn result(&self, round: Round) -> Option<Vec<i64>> {
        self.result.as_ref().filter(|(of, _)| *of == round).map(|(_, result)| result.clone())
    }

    pub(crate) fn forget(&mut self, view: ViewNumber, round: Round) {
        // The own sum of the last round is said again to peers whose link was down.
        self.contributions.retain(|(v, r, _), _| *v >= view && *r > round);
        self.sums.retain(|(v, r, _), _| *v >= view && *r + 1 > round);
    }

    pub(crate) fn held(&self) -> usize {
        self.contributions.len() + self.sums.len()
    }
}
