//! How long rounds have waited for others lately, and what is much longer than that.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::rounds::Now;

/// Rounds that are remembered.
const REMEMBERED: usize = 32;
/// Fewer say nothing.
const ENOUGH: usize = 8;
/// So many deviations above the median is much longer.
const DEVIATIONS: Now = 8;
/// A deviation is at least so many milliseconds: what a busy machine or network does to anybody.
const LEAST_DEVIATION: Now = 25;

/// How long the last rounds have waited, in milliseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Lately {
    waits: VecDeque<Now>,
}

impl Lately {
    pub(super) fn waited(&mut self, wait: Now) {
        self.waits.push_back(wait);
        if self.waits.len() > REMEMBERED {
            self.waits.pop_front();
        }
    }

    /// The median and eight deviations; none while too little is known. A deviation is the median distance from the median, and at
    /// least a quarter of it.
    pub(super) fn limit(&self) -> Option<Now> {
        if self.waits.len() < ENOUGH {
            return None;
        }
        let middle = median(self.waits.iter().copied());
        let deviation = median(self.waits.iter().map(|wait| wait.abs_diff(middle)));
        Some(middle + DEVIATIONS * deviation.max(middle / 4).max(LEAST_DEVIATION))
    }
}

fn median(of: impl Iterator<Item = Now>) -> Now {
    let mut all: Vec<Now> = of.collect();
    let middle = all.len() / 2;
    all.select_nth_unstable(middle);
    all[middle]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_follows_what_rounds_have_waited() {
        let mut lately = Lately::default();
        (0..7).for_each(|_| lately.waited(10));
        assert_eq!(lately.limit(), None, "too few");
        lately.waited(5000);
        assert_eq!(lately.limit(), Some(10 + 8 * 25), "one that took long changes nothing");
        (0..32).for_each(|_| lately.waited(1000));
        assert_eq!(lately.limit(), Some(1000 + 8 * 250), "slow rounds are no stragglers");
        assert_eq!(lately.waits.len(), REMEMBERED);
    }
}
