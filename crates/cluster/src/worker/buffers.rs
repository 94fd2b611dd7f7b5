//! The numbers of rounds under way: what was computed here, what came from peers, what was summed.

use std::collections::BTreeMap;

use paceline_exchange::rounds::{Incarnation, Round, ViewNumber};

/// Of a view and a round, from a member.
type Key = (ViewNumber, Round, Incarnation);

/// Numbers and what they weigh.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Weighted {
    pub weight: f64,
    pub values: Vec<f32>,
}

/// What is held; the rules say how long.
#[derive(Default)]
pub(super) struct Buffers {
    own: Option<(Round, Weighted)>,
    contributions: BTreeMap<Key, Weighted>,
    sums: BTreeMap<Key, Weighted>,
    result: Option<(Round, Weighted)>,
    pub fetched_result: Option<(Round, Weighted)>,
    pub fetched_state: Option<(Round, Vec<u8>)>,
}

impl Buffers {
    pub(super) fn set_own(&mut self, round: Round, contribution: Weighted) {
        self.own = Some((round, contribution));
    }

    /// One of so many parts of the own contribution.
    pub(super) fn part(&self, round: Round, part: usize, parts: usize) -> Option<Weighted> {
        let (_, own) = self.own.as_ref().filter(|(of, _)| *of == round)?;
        let width = own.values.len();
        let values = own.values[width * part / parts..width * (part + 1) / parts].to_vec();
        Some(Weighted { weight: own.weight, values })
    }

    pub(super) fn take(&mut self, key: Key, contribution: Weighted) {
        self.contributions.insert(key, contribution);
    }

    pub(super) fn take_sum(&mut self, key: Key, sum: Weighted) {
        self.sums.insert(key, sum);
    }

    /// Sums the contributions in the order of the members, so that everybody would get the same bits.
    pub(super) fn sum(
        &mut self,
        me: Incarnation,
        view: ViewNumber,
        round: Round,
        members: &[Incarnation],
    ) -> Result<(), String> {
        let mut sum: Option<Weighted> = None;
        for member in members {
            let Some(part) = self.contributions.remove(&(view, round, *member)) else {
                return Err(format!("worker {member} contributed nothing to round {round}"));
            };
            match &mut sum {
                None => sum = Some(part),
                Some(sum) if sum.values.len() == part.values.len() => {
                    sum.weight += part.weight;
                    sum.values.iter_mut().zip(&part.values).for_each(|(sum, value)| *sum += value);
                }
                Some(sum) => {
                    let (expected, found) = (sum.values.len(), part.values.len());
                    return Err(format!(
                        "expected {expected} numbers of worker {member} in round {round}, found {found}"
                    ));
                }
            }
        }
        self.sums.insert((view, round, me), sum.unwrap_or_default());
        Ok(())
    }

    pub(super) fn sum_of(&self, key: Key) -> Option<&Weighted> {
        self.sums.get(&key)
    }

    /// Puts the parts together.
    pub(super) fn assemble(
        &mut self,
        view: ViewNumber,
        round: Round,
        members: &[Incarnation],
    ) -> Result<&Weighted, String> {
        let mut result = Weighted::default();
        for member in members {
            let Some(sum) = self.sums.get(&(view, round, *member)) else {
                return Err(format!("the part of worker {member} of round {round} is missing"));
            };
            result.weight = sum.weight;
            result.values.extend(&sum.values);
        }
        Ok(self.keep(round, result))
    }

    pub(super) fn keep(&mut self, round: Round, result: Weighted) -> &Weighted {
        &self.result.insert((round, result)).1
    }

    pub(super) fn result(&self, round: Round) -> Option<&Weighted> {
        self.result.as_ref().filter(|(of, _)| *of == round).map(|(_, result)| result)
    }

    /// The own sum of the last round stays, for peers whose link was down.
    pub(super) fn forget(&mut self, view: ViewNumber, round: Round, me: Incarnation) {
        self.contributions.retain(|(v, r, _), _| *v >= view && *r > round);
        self.sums.retain(|(v, r, member), _| *v >= view && (*r > round || (*r == round && *member == me)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn weighted(weight: f64, values: &[f32]) -> Weighted {
        Weighted { weight, values: values.to_vec() }
    }

    #[test]
    fn parts_are_summed_and_put_together() {
        let mut buffers = Buffers::default();
        buffers.set_own(4, weighted(2.0, &[1.0, 2.0, 3.0]));
        assert_eq!(buffers.part(4, 1, 2), Some(weighted(2.0, &[2.0, 3.0])));
        assert_eq!(buffers.part(5, 0, 2), None);
        let own = buffers.part(4, 0, 2).expect("there");
        buffers.take((1, 4, 8), own);
        buffers.take((1, 4, 9), weighted(1.0, &[10.0]));
        buffers.sum(8, 1, 4, &[8, 9]).expect("both are there");
        buffers.take_sum((1, 4, 9), weighted(3.0, &[5.0, 6.0]));
        assert_eq!(buffers.assemble(1, 4, &[8, 9]), Ok(&weighted(3.0, &[11.0, 5.0, 6.0])));
        buffers.forget(1, 4, 8);
        assert!(buffers.sum_of((1, 4, 8)).is_some(), "said again when a link comes back");
        assert!(buffers.sum_of((1, 4, 9)).is_none());
        assert!(buffers.sum(8, 1, 4, &[8]).is_err(), "what was forgotten is not summed");
    }
}
