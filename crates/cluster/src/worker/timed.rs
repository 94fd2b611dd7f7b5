//! How the time of the thread that computes is spent.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use paceline_train::{Phases, Spent};

/// What a stretch of the thread's time went into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Doing {
    Compute,
    Apply,
}

/// Nanoseconds by phase since they were last asked for. One thread adds, another asks.
#[derive(Default)]
pub(super) struct Timed {
    split: AtomicU64,
    compute: AtomicU64,
    encode: AtomicU64,
    wait: AtomicU64,
    network: AtomicU64,
    apply: AtomicU64,
    steps: AtomicU64,
    /// When all that this worker adds up was last here, in nanoseconds since `began`.
    all_in: AtomicU64,
}

/// The same, with a clock.
pub(super) struct Stopwatch {
    began: Instant,
    timed: Timed,
}

impl Stopwatch {
    pub(super) fn new() -> Self {
        Self { began: Instant::now(), timed: Timed::default() }
    }

    /// All that this worker adds up in a round is here.
    pub(super) fn all_in(&self) {
        self.timed.all_in.store(self.began.elapsed().as_nanos() as u64, Ordering::Relaxed);
    }

    /// There was nothing to do until now; if a result has come, the last part of it was the network's.
    pub(super) fn idled(&self, from: Instant, is_result: bool) {
        let (from, to) = (from.saturating_duration_since(self.began), self.began.elapsed());
        self.timed.idled(from.as_nanos() as u64, to.as_nanos() as u64, is_result);
    }

    /// Something was done, of which so much was waiting for examples and so much making what is sent.
    pub(super) fn did(&self, what: Doing, took: Duration, reading: Duration, encoding: Duration, steps: u64) {
        let add = |phase: &AtomicU64, time: Duration| phase.fetch_add(time.as_nanos() as u64, Ordering::Relaxed);
        add(&self.timed.split, reading);
        add(&self.timed.encode, encoding);
        let rest = took.saturating_sub(reading).saturating_sub(encoding);
        add(if what == Doing::Compute { &self.timed.compute } else { &self.timed.apply }, rest);
        self.timed.steps.fetch_add(steps, Ordering::Relaxed);
    }

    /// What came together since this was last asked.
    pub(super) fn take(&self) -> Spent {
        let Timed { split, compute, encode, wait, network, apply, steps, .. } = &self.timed;
        let seconds = |phase: &AtomicU64| phase.swap(0, Ordering::Relaxed) as f64 / 1e9;
        let phases = Phases {
            split: seconds(split),
            compute: seconds(compute),
            encode: seconds(encode),
            wait: seconds(wait),
            network: seconds(network),
            apply: seconds(apply),
        };
        Spent { steps: steps.swap(0, Ordering::Relaxed), phases }
    }
}

impl Timed {
    fn idled(&self, from: u64, to: u64, is_result: bool) {
        let all_in = self.all_in.load(Ordering::Relaxed);
        let network = if is_result { to.saturating_sub(all_in.max(from)) } else { 0 };
        self.network.fetch_add(network, Ordering::Relaxed);
        self.wait.fetch_add(to.saturating_sub(from).saturating_sub(network), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_for_a_result_is_for_others_first_and_then_for_the_network() {
        // All was here before it had nothing to do, meanwhile, and never.
        for (all_in, is_result, expected) in
            [(5, true, (0, 20)), (15, true, (5, 15)), (99, true, (20, 0)), (15, false, (20, 0))]
        {
            let timed = Timed::default();
            timed.all_in.store(all_in, Ordering::Relaxed);
            timed.idled(10, 30, is_result);
            let spent = (timed.wait.load(Ordering::Relaxed), timed.network.load(Ordering::Relaxed));
            assert_eq!(spent, expected, "all in at {all_in}");
        }
    }

    #[test]
    fn what_is_told_is_told_once() {
        let watch = Stopwatch::new();
        let ms = Duration::from_millis;
        watch.did(Doing::Compute, ms(10), ms(2), ms(3), 1);
        watch.did(Doing::Apply, ms(4), ms(0), ms(0), 0);
        let Spent { steps, phases } = watch.take();
        assert_eq!((steps, phases.values()), (1, [0.002, 0.005, 0.003, 0.0, 0.0, 0.004]));
        assert_eq!(watch.take(), Spent::default());
    }
}
