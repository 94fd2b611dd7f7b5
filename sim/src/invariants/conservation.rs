//! A published state is the sum of all that was counted up to its round: nothing is missing, nothing is in it twice.

use paceline_exchange::rounds::{Now, Round, Schedule};

use super::Watch;
use crate::numbers::State;

impl Watch {
    pub(crate) fn published(&mut self, now: Now, round: Round, state: &State, rest: &Schedule) {
        self.count("a checkpoint was published");
        if round > self.last_counted() {
            self.fail(
                now,
                format!(
                    "the state of round {round} was published when round {} was the last that counts",
                    self.last_counted()
                ),
            );
        } else if state.values != self.counted_sum(round) {
            self.fail(now, format!("the published state of round {round} is not the sum of what was counted"));
        } else {
            self.all_in_checkpoint(now, round, rest);
        }
    }
}
