//! Every process has a clock of its own: it began at another time, goes a little too fast or too slow, and may jump ahead.

use std::collections::BTreeMap;

use paceline_exchange::rounds::Now;

use crate::network::Pid;

/// By how many thousandths a clock goes too fast at most, or too slow.
const DRIFT: u64 = 2;

/// The clocks of all processes.
#[derive(Default)]
pub(crate) struct Clocks {
    jumped: BTreeMap<Pid, Now>,
}

impl Clocks {
    /// What the clock of a process shows.
    pub(crate) fn shows(&self, pid: Pid, now: Now) -> Now {
        began(pid) + self.jumped(pid) + now * pace(pid) / 1000
    }

    /// When the clock of a process shows a time.
    pub(crate) fn when(&self, pid: Pid, shown: Now) -> Now {
        shown.saturating_sub(began(pid) + self.jumped(pid)).saturating_mul(1000).div_ceil(pace(pid))
    }

    /// As after a machine has slept: the clock of a process is ahead by so much from now on.
    pub(crate) fn jump(&mut self, pid: Pid, by: Now) {
        *self.jumped.entry(pid).or_default() += by;
    }

    fn jumped(&self, pid: Pid) -> Now {
        self.jumped.get(&pid).copied().unwrap_or(0)
    }
}

fn began(pid: Pid) -> Now {
    pid * 7919 % 100_000
}

fn pace(pid: Pid) -> u64 {
    1000 - DRIFT + pid % (2 * DRIFT + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_shows_a_time_when_it_is_told_to() {
        let mut clocks = Clocks::default();
        clocks.jump(7, 5000);
        for pid in 2..20 {
            for now in [0, 1, 999, 12_345, 200_000] {
                let shown = clocks.shows(pid, now);
                assert!(clocks.when(pid, shown) <= now, "{pid} at {now}");
                assert!(clocks.shows(pid, clocks.when(pid, shown)) >= shown, "{pid} at {now}");
            }
        }
        assert_ne!(clocks.shows(3, 1000), clocks.shows(4, 1000));
        assert_eq!(clocks.shows(7, 1000), Clocks::default().shows(7, 1000) + 5000);
    }
}
