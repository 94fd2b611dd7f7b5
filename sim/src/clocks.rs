//! Every process has a clock of its own: it began at another time, and goes a little too fast or too slow.

use paceline_exchange::rounds::Now;

use crate::network::Pid;

/// By how many thousandths a clock goes too fast at most, or too slow.
const DRIFT: u64 = 2;

/// What the clock of a process shows.
pub(crate) fn shows(pid: Pid, now: Now) -> Now {
    began(pid) + now * pace(pid) / 1000
}

/// When the clock of a process shows a time.
pub(crate) fn when(pid: Pid, shown: Now) -> Now {
    shown.saturating_sub(began(pid)).saturating_mul(1000).div_ceil(pace(pid))
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
        for pid in 2..20 {
            for now in [0, 1, 999, 12_345, 200_000] {
                let shown = shows(pid, now);
                assert!(when(pid, shown) <= now && shows(pid, when(pid, shown)) >= shown, "{pid} at {now}");
            }
        }
        assert_ne!(shows(3, 1000), shows(4, 1000));
    }
}
