//! Who is given which examples, and what counts: what another member, or a checkpoint, holds the messages of.

use super::super::message::Order;
use super::{Holding, Incarnation, Lease, Mark, Master, Planted, Stage, Told};
use crate::rounds::{Capacity, Part, Span, slots_of};

impl Master {
    /// Another member, or all others, hold what a member has done up to here.
    pub(super) fn cover(&mut self, member: Incarnation, one: Mark, all: Mark) {
        let Some(holding) = self.holdings.get_mut(&member) else { return };
        if all > holding.all {
            holding.all = all;
            // Everybody has something more of it.
            let members: Vec<Incarnation> = self.members.to_vec();
            members.into_iter().for_each(|peer| self.edges.work(&[member, peer]));
        }
        self.count_up_to(member, one);
    }

    pub(super) fn count_up_to(&mut self, member: Incarnation, mark: Mark) {
        let Some(Holding { leases, one, .. }) = self.holdings.get_mut(&member) else { return };
        if mark <= *one {
            return;
        }
        let before = std::mem::replace(one, mark);
        let parts = |lease: &Lease| {
            let part = lease.part(lease.done_at(before), lease.done_at(mark));
            (!part.is_empty()).then_some((lease.epoch, part, lease.step))
        };
        let counted: Vec<(u64, Vec<Span>, u64)> = leases.iter().filter_map(parts).collect();
        for (epoch, spans, step) in counted {
            self.count(member, epoch, spans, step);
        }
    }

    /// Counts examples of a lease that was given for steps of so many.
    pub(super) fn count(&mut self, member: Incarnation, epoch: u64, spans: Vec<Span>, step: u64) {
        let examples = spans.iter().map(Span::len).sum::<u64>();
        self.counted += examples;
        self.pace.go_on(examples, step);
        self.tell(Told::Shared { member, epoch, spans, counted: self.counted, steps: self.pace.begun() });
        if self.sharing.save_every.is_some_and(|every| self.counted >= self.saving.newest().0 + every) {
            self.save_wanted = true;
        }
    }

    /// Whatever follows from how things are: leases for those that want some, the next epoch, a checkpoint, the end.
    pub(super) fn go_on(&mut self) {
        loop {
            self.grant();
            if !self.epoch_ends() {
                break;
            }
        }
        self.end_if_done();
    }

    fn grant(&mut self) {
        let may = matches!(self.stage, Stage::Running | Stage::Preparing { .. })
            && !self.hold.is_on()
            && self.stop_asked.is_none();
        for member in self.hungry.clone().into_iter().filter(|_| may) {
            // What somebody died with before is taken alone: should it happen again, it is known what it was.
            if self.is_out(member, |lease| lease.is_suspect()) {
                continue;
            }
            // Short leases near the end, so that nobody waits long for the last one.
            let part = self.part_of(member);
            let batch = self.sharing.share.each(part);
            let capacity = self.roster.capacity(member);
            let fair = match self.schedule.is_partitioned() {
                true => self.schedule.left_for(&capacity) / 2,
                false => self.schedule.left() / 2 * part.own / part.all,
            };
            let fair = fair.next_multiple_of(batch);
            // What one that is lost held does not exceed a whole lease; one that is alone has nobody to hold its messages.
            let out = if self.members.len() == 1 { 0 } else { self.examples_out(member) };
            let most = batch.saturating_mul(self.sharing.steps_per_lease).saturating_sub(out).max(batch);
            let wanted = fair.clamp(batch, most);
            let Some(spans) = self.schedule.take_some(wanted, &capacity) else { continue };
            let (id, epoch, iteration) = (self.next_lease + 1, self.schedule.epoch(), self.schedule.steps());
            let lease = Lease { id, epoch, spans, iteration, step: self.step() };
            if lease.is_suspect() && self.is_out(member, |_| true) {
                self.schedule.give_back(&lease.spans, false);
                continue;
            }
            self.hungry.remove(&member);
            self.next_lease = id;
            self.schedule.go_on(lease.examples(), lease.step);
            if let Some(holding) = self.holdings.get_mut(&member) {
                holding.leases.push(lease.clone());
            }
            self.order(member, Order::Lease(lease));
        }
    }

    /// Whether a member has such a lease, and is not known to have lived through it.
    fn is_out(&self, member: Incarnation, is_such: impl Fn(&Lease) -> bool) -> bool {
        let Some(Holding { leases, survived, .. }) = self.holdings.get(&member) else { return false };
        leases.iter().any(|lease| lease.done_at(*survived) < lease.examples() && is_such(lease))
    }

    /// Examples that a member was given and nobody else is known to hold.
    pub(super) fn examples_out(&self, member: Incarnation) -> u64 {
        let Some(Holding { leases, one, .. }) = self.holdings.get(&member) else { return 0 };
        leases.iter().map(|lease| lease.examples() - lease.done_at(*one)).sum()
    }

    fn crew(&self) -> Vec<Capacity> {
        self.members.iter().map(|member| self.roster.capacity(*member)).collect()
    }

    /// What a member takes of a step of those who are there.
    fn part_of(&self, member: Incarnation) -> Part {
        Part::of(&self.crew(), self.members.iter().position(|of| *of == member))
    }

    /// Examples of a step of all of them.
    pub(super) fn step(&self) -> u64 {
        self.sharing.share.together(slots_of(&self.crew()))
    }

    /// An epoch ends when all of it is counted and every member holds every message about it.
    fn epoch_ends(&mut self) -> bool {
        if self.stage != Stage::Running || self.is_done || self.schedule.left() > 0 || !self.lost.is_empty() {
            return false;
        }
        let up_to = |mark: fn(&Holding) -> Mark| {
            let is_done =
                |holding: &Holding| holding.leases.iter().all(|lease| lease.done_at(mark(holding)) == lease.examples());
            self.holdings.values().all(is_done)
        };
        if !up_to(|holding| holding.all) && !self.has(Planted::EndsAnEpochTooSoon) {
            return false;
        }
        if !up_to(|holding| holding.one) {
            // One that is alone has nobody to hold its messages but a checkpoint.
            self.save_wanted |= self.members.len() == 1;
            return false;
        }
        self.tell(Told::EpochDone { epoch: self.schedule.epoch(), round: self.counted });
        let (round, rest) = self.saving.newest();
        self.save_wanted |= round != self.counted || rest.left() > 0;
        self.asked = None;
        self.is_done = !self.schedule.next_epoch();
        self.pace = self.schedule.pace();
        if !self.is_done {
            self.holdings.values_mut().for_each(|holding| holding.leases.clear());
        }
        self.end_if_done();
        !self.is_done
    }
}
