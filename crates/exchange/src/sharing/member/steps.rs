//! Steps over the examples of leases.

use super::super::message::Report;
use super::{Act, Encodes, Issued, Mark, Member, Now, Part, Planted, Stage, ToMaster};

/// Steps that are asked for before they are taken, so that nobody waits for the answer.
const AHEAD: usize = 2;
/// More leases are asked for when no more than so many steps are left.
const LOW: u64 = 4;

impl Member {
    /// Asks for steps while there is a lease and the master is in touch.
    pub(super) fn issue(&mut self, now: Now) {
        let may_work = now < self.touch.lease_until || self.has(Planted::WorksWithoutALease);
        if !self.has_state() || self.touch.paused || !may_work {
            return;
        }
        while self.issued.len() < AHEAD && self.leaving.is_none() && self.is_near() && self.step() {}
        let is_low = self.left() <= LOW * self.batch() && self.leaving.is_none();
        // It may be waited for before more is given.
        let has_news = self.leases.is_empty() && self.issued.is_empty() && self.done > self.told_done;
        if is_low && (!self.has_asked_for_more || has_news) {
            self.has_asked_for_more = true;
            self.told_done = self.done;
            self.report(Report::Wants { done: self.done });
        }
        // What was done while nobody took messages, and no step is left to tell it with.
        if self.is_idle() && self.uncovered > 0 && self.may_send() && !self.has(Planted::NeverTellsTheRest) {
            self.encode(Encodes::Large);
        }
    }

    fn step(&mut self) -> bool {
        let batch = self.batch();
        let Some(lease) = self.leases.front() else { return false };
        let (from, all) = (self.begun, lease.examples());
        let to = (from + batch).min(all);
        let spans = lease.part(from, to);
        let (id, epoch, iteration) = (lease.id, lease.epoch, lease.iteration + from / batch);
        self.issued.push_back(Issued { mark: Mark { lease: id, examples: to }, examples: to - from });
        self.begun = to;
        if to == all {
            self.leases.pop_front();
            self.begun = 0;
        }
        let encodes = if self.may_send() { Encodes::Large } else { Encodes::Nothing };
        self.act(Act::Step { epoch, iteration, spans, encodes });
        true
    }

    fn encode(&mut self, encodes: Encodes) {
        self.issued.push_back(Issued { mark: self.done, examples: 0 });
        self.act(Act::Step { epoch: 0, iteration: 0, spans: Vec::new(), encodes });
    }

    /// Examples of a step.
    fn batch(&self) -> u64 {
        self.options.share.each(Part::of(&self.crew, self.place()))
    }

    /// Examples of leases that were not asked for.
    fn left(&self) -> u64 {
        self.leases.iter().map(|lease| lease.examples()).sum::<u64>() - self.begun
    }

    /// Whether there is nothing to do, and nothing being done.
    pub(super) fn is_idle(&self) -> bool {
        self.issued.is_empty() && (self.leases.is_empty() || self.touch.paused || self.leaving.is_some())
    }

    pub(super) fn stepped(&mut self, bytes: Option<u64>) {
        let Some(Issued { mark, examples }) = self.issued.pop_front() else { return };
        self.done = mark;
        self.has_stepped = true;
        self.uncovered += examples;
        if let Some(bytes) = bytes {
            self.made(bytes);
        }
    }

    /// Goes when all that was done is known to the others; what is left in the residual is sent before, as it is.
    pub(super) fn leave(&mut self, now: Now) {
        let Some(mut leaving) = self.leaving.filter(|leaving| !leaving.is_told) else { return };
        let is_alone = self.others().is_empty() || self.stage != Stage::Working;
        let is_over = now >= leaving.since + self.options.beat_every;
        if !is_alone && !is_over && self.issued.is_empty() && !leaving.has_sent_all {
            leaving.has_sent_all = true;
            self.encode(Encodes::Everything);
        } else if is_alone || is_over || (self.issued.is_empty() && self.all.sequence == self.own.sequence) {
            leaving.is_told = true;
            self.tell(ToMaster::Leave);
        }
        self.leaving = Some(leaving);
    }
}
