//! Checkpoints: the state of a member, and what is left to do that its messages do not cover.

use std::cmp::Reverse;

use super::super::message::Order;
use super::{Have, Incarnation, Master, MasterAction, Now, Planted, Round, Schedule, Stage, Told, ViewNumber};

impl Master {
    /// Asks somebody for a state if one is wanted; not twice.
    pub(super) fn ask_for_state(&mut self) {
        if !self.save_wanted || self.asked.is_some() || self.stage != Stage::Running || self.saving.is_under_way() {
            return;
        }
        if let Some(member) = self.caught_up.first().copied() {
            self.asked = Some(member);
            self.order(member, Order::Save { epoch: self.schedule.epoch() });
        }
    }

    /// A state is here. It is good if it is of this view and this epoch: otherwise what it lacks is not known.
    pub(super) fn take_state(
        &mut self,
        member: Incarnation,
        view: ViewNumber,
        epoch: u64,
        round: Round,
        vector: &[(Incarnation, Have)],
    ) {
        if self.asked == Some(member) {
            self.asked = None;
        }
        let is_current = view == self.view && epoch == self.schedule.epoch() && self.stage == Stage::Running;
        let is_good =
            (is_current && self.caught_up.contains(&member)) || self.has(Planted::PublishesAStateOfAnotherView);
        let rest = self.rest_behind(vector);
        // Fewer examples and no more left: some of those that are in the newest state were set aside since.
        let left = |rest: &Schedule| (Reverse(rest.epoch()), rest.left());
        let (of, saved) = self.saving.newest();
        let saved = left(saved);
        let found = left(&rest);
        let is_news = round > of || found < saved || (round < of && found == saved);
        if !is_good || !is_news || self.saving.is_under_way() {
            self.actions.push(MasterAction::Discard(round));
            if is_good && self.stop_asked.is_some() && !self.saving.is_busy() {
                // Nobody who is left holds more than the last checkpoint.
                self.count_the_checkpoint();
                return self.end(None);
            }
            return self.end_if_done();
        }
        for (origin, have) in vector {
            self.count_up_to(*origin, have.covered);
        }
        self.save_wanted = false;
        let is_last = self.is_done || self.stop_asked.is_some();
        self.actions.push(self.saving.begin(round, rest, is_last));
    }

    /// What is left to do behind a state that has these messages in it: what nobody was given, and what they do not cover.
    fn rest_behind(&self, vector: &[(Incarnation, Have)]) -> Schedule {
        let mut rest = self.schedule.clone();
        for (origin, holding) in &self.holdings {
            let have = vector.iter().find(|(of, _)| of == origin).map_or(Have::default(), |(_, have)| *have);
            for lease in holding.leases.iter().rev() {
                let (done, examples) = (lease.done_at(have.covered), lease.examples());
                if done < examples && !self.has(Planted::SavesWithoutWhatIsOut) {
                    rest.give_back(&lease.part(done, examples), false);
                    rest.slow_down(examples - done, lease.step);
                }
            }
        }
        rest
    }

    pub(super) fn take_persisted(&mut self, round: Round) {
        if self.saving.persisted(round) {
            match self.stage {
                Stage::Waiting(_) => self.end_if_saved(),
                _ if self.stop_asked.is_some_and(|asked| round >= asked.min(self.counted)) => self.end(None),
                _ if self.stop_asked.is_some() => self.save_wanted = true,
                _ => self.end_if_done(),
            }
        }
    }

    pub(super) fn take_failure(&mut self, round: Round, reason: String, now: Now) {
        if !self.saving.failed(round, now) {
            return;
        }
        self.tell(Told::NotSaved { round, reason: reason.clone() });
        let is_last = self.stop_asked.is_some() || self.is_done;
        if is_last && self.saving.is_hopeless() {
            self.end(Some(format!("the last state, of {round} examples, could not be saved: {reason}")));
        }
    }

    /// What counts is what the checkpoint has, whatever was lost since with all who held it.
    fn count_the_checkpoint(&mut self) {
        let (to, from, aside) = (self.saving.round(), self.counted, self.saving.rest().set_aside());
        if to != from {
            self.tell(Told::RolledBack { to, from, aside });
            (self.counted, self.pace) = (to, self.saving.rest().pace());
        }
    }

    /// Too few are here. Ends if the newest checkpoint is the last, or if the end was asked for and the master holds no newer state.
    pub(super) fn end_if_saved(&mut self) {
        if self.saving.rest().is_done() {
            self.count_the_checkpoint();
        }
        if self.saving.rest().is_done() || (self.stop_asked.is_some() && !self.saving.is_busy()) {
            self.end(None);
        }
    }

    /// When everything is done and in the newest checkpoint, that is the model.
    pub(super) fn end_if_done(&mut self) {
        if self.stage != Stage::Running {
            return;
        }
        if self.stop_asked.is_some() && self.saving.round() == self.counted {
            // Nobody holds more than the last checkpoint.
            return self.end(None);
        }
        if !self.is_done {
            return;
        }
        let (round, rest) = self.saving.newest();
        if round != self.counted || rest.left() > 0 {
            self.save_wanted = true;
        } else if !self.saving.is_busy() {
            self.end(None);
        }
    }
}
