//! Checkpoints: the state of a member, and what is left to do that its messages do not cover.

use std::cmp::Reverse;

use super::super::message::Order;
use super::{Have, Incarnation, Master, MasterAction, Planted, Round, Schedule, Stage, Told, ViewNumber};

impl Master {
    /// Asks somebody for a state if one is wanted; not twice.
    pub(super) fn ask_for_state(&mut self) {
        if !self.save_wanted || self.asked.is_some() || self.stage != Stage::Running {
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
        // Fewer examples and no more left: some of those that are in the last checkpoint were set aside since.
        let left = |rest: &Schedule| (Reverse(rest.epoch()), rest.left());
        let (found, saved) = (left(&rest), left(&self.saved.1));
        let is_news = round > self.saved.0 || found < saved || (round < self.saved.0 && found == saved);
        if !is_good || !is_news {
            self.actions.push(MasterAction::Discard(round));
            return self.end_if_done();
        }
        for (origin, have) in vector {
            self.count_up_to(*origin, have.covered);
        }
        self.saved_before = std::mem::replace(&mut self.saved, (round, rest.clone()));
        self.save_wanted = false;
        self.actions.push(MasterAction::Persist { round, rest });
        if self.stop_asked {
            return self.end(None);
        }
        self.end_if_done();
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
                    rest.slow_down(examples - done, self.step());
                }
            }
        }
        rest
    }

    pub(super) fn take_failure(&mut self, round: Round, reason: String) {
        if self.saved.0 == round {
            self.saved = self.saved_before.clone();
        }
        self.save_wanted = true;
        self.tell(Told::NotSaved { round, reason });
    }

    /// When everything is done and in the newest checkpoint, that is the model.
    pub(super) fn end_if_done(&mut self) {
        if !self.is_done || self.stage != Stage::Running {
            return;
        }
        if self.saved.0 == self.counted && self.saved.1.left() == 0 {
            self.end(None);
        } else {
            self.save_wanted = true;
        }
    }
}
