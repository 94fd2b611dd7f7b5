//! What a view is to do, from its first round on.

use serde::{Deserialize, Serialize};

use super::{Assignment, Capacity, Incarnation, Round, Schedule, Span, ViewNumber};

/// A view: who is in it, what its first round is, and how the rounds behind that one follow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// The number of the view.
    pub view: ViewNumber,
    /// Its members, in the order in which contributions are summed.
    pub members: Vec<Incarnation>,
    /// What each of them can take.
    pub crew: Vec<Capacity>,
    /// Its first round.
    pub first: Round,
    /// What the members take in that round; none when there is nothing left to do.
    pub assignment: Option<Assignment>,
    /// What is left behind it.
    pub rest: Schedule,
    /// What was set aside when it was made, with its epoch. That stays so if the plan itself does not come to be.
    pub aside: Vec<(u64, Span)>,
}

impl Plan {
    /// The first plan of a term, before anybody is there: the round after one whose state is known.
    pub fn begin(view: ViewNumber, first: Round, rest: Schedule) -> Self {
        Self { view, members: Vec::new(), crew: Vec::new(), first, assignment: None, rest, aside: Vec::new() }
    }

    /// What is taken in a round that is not before the first, and what is left behind it.
    pub fn at(&self, round: Round) -> (Option<Assignment>, Schedule) {
        let (mut assignment, mut rest) = (self.assignment.clone(), self.rest.clone());
        for _ in self.first..round {
            assignment = rest.take(&self.crew);
            if assignment.is_none() {
                break;
            }
        }
        (assignment, rest)
    }

    /// The plan of other members, with what they can take, from a round on: who stays keeps what they took in it, so that work that is
    /// done is not done again; what the others took comes back, or is set aside. `void` was set aside by plans that did not come
    /// to be; `blame` tells what a member that is gone may have been lost because of.
    pub fn change(
        &self,
        view: ViewNumber,
        crew: &[(Incarnation, Capacity)],
        first: Round,
        void: &[(u64, Span)],
        blame: impl Fn(Incarnation) -> Blame,
    ) -> Plan {
        let (members, crew): (Vec<Incarnation>, Vec<Capacity>) = crew.iter().cloned().unzip();
        let (assignment, mut rest) = self.at(first);
        for (epoch, span) in void {
            rest.mark(*epoch, &[Span { losses: span.losses - 1, ..*span }]);
        }
        let Some(before) = assignment else {
            // Nobody had begun, nobody held what is left, or everything is done.
            let assignment = rest.take(&crew);
            return Plan { view, members, crew, first, assignment, rest, aside: Vec::new() };
        };
        let ahead = self.at(first + 1).0;
        let mut aside = Vec::new();
        let mut slices = vec![vec![Vec::new(); before.steps() as usize]; members.len()];
        for (place, (member, slice)) in self.members.iter().zip(&before.slices).enumerate() {
            let stays = members.iter().position(|m| m == member);
            if let Some(place) = stays.filter(|_| blame(*member) != Blame::Slow) {
                slices[place].clone_from(slice);
                continue;
            }
            let is_ahead = match blame(*member) {
                Blame::Nothing | Blame::Slow => false,
                // Who has nothing to do in a round is at the next one, if rounds overlap.
                Blame::Round { overlap } => overlap && slice.iter().all(Vec::is_empty),
                Blame::Next => true,
            };
            let to_blame = matches!(blame(*member), Blame::Round { .. }) && !is_ahead;
            aside.extend(rest.give_back(&slice.concat(), to_blame).into_iter().map(|span| (before.epoch, span)));
            if let Some(ahead) = ahead.as_ref().filter(|_| is_ahead) {
                aside.extend(
                    rest.mark(ahead.epoch, &ahead.slices[place].concat()).into_iter().map(|span| (ahead.epoch, span)),
                );
            }
        }
        let ends_epoch = rest.left() == 0 && rest.epoch() == before.epoch;
        let kept = Assignment { slices, ends_epoch, ..before };
        // A round in which nobody who is left takes anything need not be held.
        let assignment = match kept.examples() > 0 {
            true => Some(kept),
            false => {
                rest.put_back(&kept);
                rest.take(&crew)
            }
        };
        Plan { view, members, crew, first, assignment, rest, aside }
    }
}

/// What a member that is gone may have been lost because of, or why one that stays gives back what it took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blame {
    /// It stays, but the round does not wait for what it took.
    Slow,
    /// It left, or was sent away.
    Nothing,
    /// What it took in the round; if rounds overlap and that was nothing, in the next one.
    Round {
        /// Whether rounds overlap.
        overlap: bool,
    },
    /// It had contributed to the round: what it took in the next one.
    Next,
}

#[cfg(test)]
mod tests {
    use super::super::StepSize;
    use super::*;

    fn plan_of(members: &[Incarnation], rest: Schedule) -> Plan {
        Plan::begin(0, 1, rest).change(1, &crew(members), 1, &[], |_| Blame::Nothing)
    }

    fn crew(members: &[Incarnation]) -> Vec<(Incarnation, Capacity)> {
        members.iter().map(|member| (*member, Capacity::of(1))).collect()
    }

    fn taken(assignment: &Option<Assignment>) -> Vec<Vec<(u64, u64)>> {
        let slices = assignment.iter().flat_map(|a| &a.slices);
        slices.map(|slice| slice.iter().flatten().map(|s| (s.start, s.end)).collect()).collect()
    }

    #[test]
    fn who_stays_keeps_what_they_took_and_the_rest_comes_back() {
        let plan = plan_of(&[7, 8, 9], Schedule::new(30, 1, StepSize::Each(2)));
        let changed = plan.change(2, &crew(&[7, 9, 12]), 3, &[], |_| Blame::Round { overlap: false });
        assert_eq!(changed.aside, []);
        assert_eq!(taken(&changed.assignment), [vec![(12, 14)], vec![(16, 18)], vec![]]);
        assert_eq!(taken(&changed.at(4).0), [vec![(14, 16)], vec![(18, 20)], vec![(20, 22)]]);
    }

    #[test]
    fn who_had_contributed_is_blamed_for_the_next_round() {
        let plan = plan_of(&[7, 8], Schedule::new(30, 1, StepSize::Each(2)));
        let changed = plan.change(2, &crew(&[7]), 1, &[], |_| Blame::Next);
        assert_eq!((taken(&changed.assignment), &changed.aside), (vec![vec![(0, 2)]], &vec![]));
        let next = changed.at(2).0.expect("a round").slices;
        assert_eq!(next, [[[Span { start: 2, end: 4, losses: 0 }]]], "what it gave is given back without blame");
        let marked = changed.at(4).0.expect("a round").slices;
        assert_eq!(marked, [[[Span { start: 6, end: 8, losses: 1 }]]], "what it took ahead is not");
    }

    #[test]
    fn a_straggler_stays_and_gives_back_what_it_took() {
        let plan = plan_of(&[7, 8], Schedule::new(8, 1, StepSize::Each(2)));
        let blame = |member| if member == 8 { Blame::Slow } else { Blame::Nothing };
        let changed = plan.change(2, &crew(&[7, 8]), 1, &[], blame);
        assert_eq!(taken(&changed.assignment), [vec![(0, 2)], vec![]]);
        assert_eq!(taken(&changed.at(2).0), [vec![(2, 4)], vec![(4, 6)]]);
    }

    #[test]
    fn what_was_set_aside_stays_so_when_its_plan_does_not_come_to_be() {
        let plan = plan_of(&[7], Schedule::new(8, 1, StepSize::Each(2)));
        let changed = plan.change(3, &crew(&[8]), 1, &[(0, Span { start: 2, end: 6, losses: 2 })], |_| Blame::Nothing);
        assert_eq!(taken(&changed.assignment), [vec![(0, 2)]]);
        assert_eq!(taken(&changed.at(2).0), [vec![(6, 8)]]);
        assert_eq!(changed.aside, [], "it was told before");
    }

    #[test]
    fn a_round_that_nobody_holds_any_more_begins_anew() {
        let plan = plan_of(&[7], Schedule::new(4, 1, StepSize::Each(2)));
        let changed = plan.change(2, &crew(&[8]), 1, &[], |_| Blame::Nothing);
        assert_eq!(taken(&changed.assignment), [vec![(0, 2)]], "nothing is taken from what nobody lost");
        assert_eq!(taken(&changed.at(3).0), Vec::<Vec<(u64, u64)>>::new());
    }
}
