//! Where data lives with workers: who may go because its partition is done, and how long one that nobody holds is waited for.

use super::{Master, Stage};
use crate::membership::{DONE, Fault, Patience, Waiting};
use crate::rounds::{Incarnation, MasterAction, Missing, Now, Schedule, Told};

impl Master {
    /// What is left behind the last round that counts.
    fn left_behind(&self) -> Schedule {
        let of_plan = self.plans.last().filter(|plan| self.stage == Stage::Running && plan.first <= self.counted + 1);
        let Some(plan) = of_plan else { return self.saving.newest().1.clone() };
        let (assignment, mut rest) = plan.at(self.counted + 1);
        assignment.iter().for_each(|assignment| rest.put_back(assignment));
        rest
    }

    /// Whether somebody who has just come brings what is done.
    pub(super) fn comes_too_late(&self, member: Incarnation) -> bool {
        let capacity = self.roster.capacity(member);
        capacity.is_passing() && self.left_behind().is_done_for(&capacity)
    }

    /// Lets those go whose partitions are done for the epoch that they came for. What they know stays with somebody: if nobody
    /// else holds the state, they go when the master does.
    pub(super) fn let_go(&mut self, now: Now) {
        let Some(plan) = self.plans.last().filter(|_| self.stage == Stage::Running && !self.is_done()) else { return };
        let members: Vec<Incarnation> = plan.members.clone();
        if !plan.crew.iter().any(|capacity| capacity.is_passing()) {
            return;
        }
        let left = self.left_behind();
        let is_done = |member: &&Incarnation| left.is_done_for(&self.roster.capacity(**member));
        let going: Vec<Incarnation> = members.iter().filter(is_done).copied().collect();
        let somebody_stays = members.iter().any(|member| !going.contains(member) && self.done(*member) >= self.counted);
        if !going.is_empty() && !somebody_stays && self.saving.newest().0 < self.counted {
            return self.ask_for_the_newest();
        }
        for member in going {
            self.lose(member, DONE.into(), Fault::Goes, now);
        }
    }

    /// Says what a run waits for, and ends it when the limit has passed.
    pub(super) fn wait(&mut self, now: Now) {
        let is_waiting = matches!(self.stage, Stage::Waiting(_));
        if !is_waiting && !self.is_idle() {
            self.idle = None;
            return;
        }
        let missing = Missing::of(&self.options, self.roster.ready().len(), &self.left_behind());
        let waiting = match &mut self.stage {
            Stage::Waiting(waiting) => waiting,
            _ => self.idle.get_or_insert(Waiting::new(now)),
        };
        match waiting.look(&self.options, &missing, now) {
            Patience::Waits => {}
            Patience::Tells => self.actions.push(MasterAction::Tell(Told::Waiting(missing))),
            Patience::Over(error) => self.end(Some(error)),
        }
    }

    /// Whether nobody who is here holds what is left.
    fn is_idle(&self) -> bool {
        let Some(plan) = self.plans.last().filter(|plan| plan.rest.is_partitioned()) else { return false };
        let is_counted = self.stage == Stage::Running && plan.first <= self.counted + 1;
        is_counted && plan.at(self.counted + 1).0.is_none() && !self.is_done()
    }
}
