//! No queue and no history grows without bound.

use paceline_exchange::rounds::Now;

use super::Watch;

/// What nobody may hold more of. Views that come faster than a round can be counted leave a plan each.
const MOST: usize = 40;

impl Watch {
    pub(crate) fn queues(&mut self, now: Now, what: &str, held: usize) {
        if held > MOST {
            self.fail(now, format!("{held} {what} are held, expected at most {MOST}"));
        }
    }
}
