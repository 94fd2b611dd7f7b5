//! A plan, told as what differs from one that the receiver knows.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Assignment, Incarnation, Plan, Round, Schedule, Slice, ViewNumber};
use crate::membership::Crew;

/// A plan, for a member that knows another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanChange {
    /// The number of the view.
    pub view: ViewNumber,
    /// Who is in it.
    pub crew: Crew,
    /// Its first round.
    pub first: Round,
    /// What is taken in that round; none when there is nothing left to do.
    pub taken: Option<Taken>,
    /// What is left behind it.
    pub rest: Schedule,
}

/// What is taken in the first round.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Taken {
    /// The epoch, from 0.
    pub epoch: u64,
    /// Steps of the run before its first one.
    pub iteration: u64,
    /// Whether nothing of the epoch is left behind it, unless something comes back.
    pub ends_epoch: bool,
    /// By place, of members that do not take what they would have taken in the plan that is known.
    pub slices: Vec<(usize, Slice)>,
}

impl PlanChange {
    /// All of a plan.
    pub fn whole(plan: &Plan) -> Self {
        Self::between(&nobody(plan.first, &plan.rest), plan)
    }

    /// What differs between a plan and one that comes behind it.
    pub fn between(before: &Plan, plan: &Plan) -> Self {
        let kept = Kept::of(before, plan.first);
        let taken = plan.assignment.as_ref().map(|Assignment { epoch, iteration, slices, ends_epoch }| {
            let of = plan.members.iter().zip(slices).enumerate();
            let changed = of.filter(|(_, (member, slice))| kept.slice(**member) != **slice);
            let slices = changed.map(|(place, (_, slice))| (place, slice.clone())).collect();
            Taken { epoch: *epoch, iteration: *iteration, ends_epoch: *ends_epoch, slices }
        });
        let crew = Crew::change((before.view, &before.members), &plan.members, &plan.crew);
        Self { view: plan.view, crew, first: plan.first, taken, rest: plan.rest.clone() }
    }

    /// The plan, for one that knows another; none if it is not the one that this was told for, or it makes no sense.
    pub fn apply(&self, known: Option<&Plan>) -> Option<Plan> {
        let nobody = nobody(self.first, &self.rest);
        let before = if self.crew.base == 0 { &nobody } else { known.filter(|known| known.first <= self.first)? };
        let (members, crew) = self.crew.resolve(Some((before.view, &before.members, &before.crew)))?;
        let mut assignment = None;
        if let Some(Taken { epoch, iteration, ends_epoch, slices: changed }) = &self.taken {
            let kept = Kept::of(before, self.first);
            let mut slices: Vec<Slice> = members.iter().map(|member| kept.slice(*member)).collect();
            for (place, slice) in changed {
                slices.get_mut(*place)?.clone_from(slice);
            }
            assignment = Some(Assignment { epoch: *epoch, iteration: *iteration, slices, ends_epoch: *ends_epoch });
        }
        let (view, first, rest) = (self.view, self.first, self.rest.clone());
        Some(Plan { view, members, crew, first, assignment, rest, aside: Vec::new() })
    }
}

/// A plan that everybody knows.
fn nobody(first: Round, rest: &Schedule) -> Plan {
    Plan::begin(0, first, rest.clone())
}

/// What members take in a round if nothing changes.
struct Kept {
    steps: usize,
    slices: BTreeMap<Incarnation, Slice>,
}

impl Kept {
    fn of(plan: &Plan, round: Round) -> Self {
        let assignment = plan.at(round).0;
        let steps = assignment.as_ref().map_or(0, Assignment::steps) as usize;
        let slices = assignment.map_or_else(Vec::new, |assignment| assignment.slices);
        Self { steps, slices: plan.members.iter().copied().zip(slices).collect() }
    }

    /// Nothing, if the member is new.
    fn slice(&self, member: Incarnation) -> Slice {
        self.slices.get(&member).cloned().unwrap_or_else(|| vec![Vec::new(); self.steps])
    }
}

#[cfg(test)]
mod tests {
    use super::super::plan::Blame;
    use super::super::{Capacity, StepSize};
    use super::*;

    fn plan_of(members: u64) -> Plan {
        let crew: Vec<_> = (1..=members).map(|member| (member, Capacity::of(1))).collect();
        let rest = Schedule::new(members * 100, 2, StepSize::Each(2)).in_rounds_of(2);
        Plan::begin(0, 1, rest).change(1, &crew, 1, &[], |_| Blame::Nothing)
    }

    /// As members have it.
    fn told(plan: Plan) -> Plan {
        Plan { aside: Vec::new(), ..plan }
    }

    #[test]
    fn a_plan_is_found_again_from_what_has_changed() {
        let before = plan_of(40);
        for (leaves, joins, first) in
            [(Some(3), None, 1), (None, Some(41), 2), (Some(40), Some(41), 30), (Some(1), None, 101)]
        {
            let stays = before.members.iter().copied().filter(|member| Some(*member) != leaves);
            let crew: Vec<_> = stays.chain(joins).map(|member| (member, Capacity::of(1))).collect();
            let after = before.change(2, &crew, first, &[], |_| Blame::Round { overlap: false });
            let change = PlanChange::between(&before, &after);
            assert_eq!(change.apply(Some(&before)), Some(told(after.clone())), "{leaves:?} {joins:?}");
            assert_eq!(PlanChange::whole(&after).apply(Some(&before)), Some(told(after.clone())));
            assert_eq!(change.apply(Some(&after)), None, "that is another plan");
            // A member brings its plan up to where it is.
            let (assignment, rest) = before.at(first);
            let brought_up = Plan { assignment, rest, first, ..before.clone() };
            assert_eq!(change.apply(Some(&brought_up)), Some(told(after)));
        }
    }

    #[test]
    fn who_stays_where_it_was_is_not_told_of() {
        let before = plan_of(40);
        let crew: Vec<_> = (1..40).map(|member| (member, Capacity::of(1))).collect();
        let change = PlanChange::between(&before, &before.change(2, &crew, 5, &[], |_| Blame::Nothing));
        assert_eq!((change.crew.places.len(), change.taken.map(|taken| taken.slices.len())), (0, Some(0)));
    }

    #[test]
    fn a_slice_of_nobody_is_refused() {
        let plan = plan_of(3);
        let mut change = PlanChange::whole(&plan);
        change.taken.as_mut().expect("a round").slices.push((3, Slice::new()));
        assert_eq!(change.apply(None), None);
    }
}
