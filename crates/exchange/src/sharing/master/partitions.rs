//! Where data lives with workers: who may go because its partition is done, and how long one that nobody holds is waited for.

use super::{Holding, Incarnation, Mark, Master, Now, Stage, Told};
use crate::membership::{DONE, Fault, Patience, Waiting};
use crate::planted::Planted;
use crate::rounds::Missing;

impl Master {
    /// Whether somebody who has just come brings what is done.
    pub(super) fn comes_too_late(&self, member: Incarnation) -> bool {
        let capacity = self.roster.capacity(member);
        match self.stage {
            Stage::Running if self.lost.is_empty() => self.schedule.is_done_for(&capacity) && !self.is_out_for(member),
            _ => self.saving.newest().1.is_done_for(&capacity),
        }
    }

    /// Whether anybody has been given something that a member holds, too, and it does not count yet.
    fn is_out_for(&self, member: Incarnation) -> bool {
        let capacity = self.roster.capacity(member);
        let is_out = |holding: &Holding| {
            let open = holding.leases.iter().filter(|lease| lease.done_at(holding.one) < lease.examples());
            open.into_iter().any(|lease| lease.spans.iter().any(|span| capacity.holds(lease.epoch, span)))
        };
        self.holdings.values().any(is_out)
    }

    /// Lets those go whose partitions are done for the epoch that they came for, when others hold all that they have said; if
    /// nobody else stays, when the newest state that the master holds has it.
    pub(super) fn let_go(&mut self, now: Now) {
        if self.stage != Stage::Running || !self.lost.is_empty() || self.is_done || !self.schedule.is_partitioned() {
            return;
        }
        let is_done = |member: &Incarnation| self.schedule.is_done_for(&self.roster.capacity(*member));
        let (going, staying): (Vec<Incarnation>, Vec<Incarnation>) = self.members.iter().copied().partition(is_done);
        if going.is_empty() {
            return;
        }
        let up_to = |member: &Incarnation, mark: fn(&Holding) -> Mark| {
            let is_done =
                |holding: &Holding| holding.leases.iter().all(|lease| lease.done_at(mark(holding)) == lease.examples());
            self.holdings.get(member).is_none_or(is_done)
        };
        if staying.iter().any(|member| self.caught_up.contains(member)) {
            let held: Vec<Incarnation> =
                going.into_iter().filter(|member| up_to(member, |holding| holding.all)).collect();
            return held.into_iter().for_each(|member| self.lose(member, DONE.into(), Fault::Goes, now));
        }
        let is_counted = self.members.iter().all(|member| up_to(member, |holding| holding.one));
        match is_counted && self.saving.newest().0 == self.counted {
            true => going.into_iter().for_each(|member| self.lose(member, DONE.into(), Fault::Goes, now)),
            false => self.save_wanted = true,
        }
    }

    /// Says what a run waits for, and ends it when the limit has passed.
    pub(super) fn wait(&mut self, now: Now) {
        let is_idle = self.stage == Stage::Running && self.is_idle();
        if !is_idle && !matches!(self.stage, Stage::Waiting(_)) {
            self.idle = None;
            return;
        }
        let missing = Missing::of(&self.options, self.roster.ready().len(), &self.schedule);
        let waiting = match &mut self.stage {
            Stage::Waiting(waiting) => waiting,
            _ => self.idle.get_or_insert(Waiting::new(now)),
        };
        match waiting.look(&self.options, &missing, now) {
            Patience::Waits => {}
            Patience::Tells => self.tell(Told::Waiting(missing)),
            Patience::Over(error) => self.end(Some(error)),
        }
    }

    /// Whether nobody who is here holds what is left, and all that was given out is done.
    fn is_idle(&mut self) -> bool {
        let could = |member: &Incarnation| self.schedule.left_for(&self.roster.capacity(*member)) > 0;
        if !self.schedule.is_partitioned() || self.schedule.left() == 0 || self.members.iter().any(could) {
            return false;
        }
        let is_out = self.members.iter().any(|member| self.examples_out(*member) > 0);
        // One that is alone has nobody to hold its messages but a checkpoint.
        self.save_wanted |= is_out && self.members.len() == 1;
        self.is_done |= !is_out && self.has(Planted::EndsWhenNobodyHoldsTheRest);
        !is_out
    }
}
