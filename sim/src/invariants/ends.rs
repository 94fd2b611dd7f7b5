//! Every run ends or says why; a run that ends well has done everything.

use paceline_exchange::rounds::{Now, Round};

use super::Watch;
use crate::numbers::State;

impl Watch {
    pub(crate) fn ended(&mut self, now: Now, error: Option<String>, round: Round, state: &State) {
        if let Some(error) = error {
            return self.fail(now, format!("the run failed: {error}"));
        }
        if self.is_sharing() {
            // What is in the last state was looked at when it was published.
            return self.all_once(now);
        }
        if round != self.last_counted() {
            self.fail(
                now,
                format!("the run ended with the state of round {round}, but round {} counts", self.last_counted()),
            );
        }
        if state.values != self.counted_sum(round) {
            self.fail(now, "the last state is not the sum of what was counted".into());
        }
        self.all_once(now);
    }
}
