//! All members of a view came the same way to a round that counts.

use paceline_exchange::rounds::{Now, Round};

use super::Watch;

impl Watch {
    pub(crate) fn same_way(&mut self, now: Now, round: Round, ways: Vec<u64>) {
        if ways.windows(2).any(|pair| pair[0] != pair[1]) {
            self.fail(now, format!("members that completed round {round} hold different states"));
        }
    }
}
