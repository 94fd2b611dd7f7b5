//! Where workers wait for each other.

use std::sync::PoisonError;

use crate::sync::{
    AtomicBool, AtomicU64, AtomicUsize, Condvar, LOOKS, Mutex, MutexGuard, OFFERS, Ordering, cores, fence, spin_loop,
    yield_now,
};

/// A barrier that can be broken by whoever will never come.
#[derive(Debug)]
pub(crate) struct Gate {
    members: usize,
    /// Looks at the generation before a member goes to sleep; none where members have to share cores.
    looks: u32,
    arrived: Mutex<usize>,
    opened: Condvar,
    /// Times that the gate has opened.
    generation: AtomicU64,
    broken: AtomicBool,
    /// Members that sleep until something holds.
    sleepers: AtomicUsize,
}

/// Somebody will never come; why is known where it happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Broken;

impl Gate {
    pub(crate) fn new(members: usize) -> Self {
        Self {
            members,
            looks: if members <= cores() { LOOKS } else { 0 },
            arrived: Mutex::default(),
            opened: Condvar::new(),
            generation: AtomicU64::new(0),
            broken: AtomicBool::new(false),
            sleepers: AtomicUsize::new(0),
        }
    }

    /// Waits until all members are here.
    pub(crate) fn wait(&self) -> Result<(), Broken> {
        let mut arrived = self.lock();
        let generation = self.generation.load(Ordering::Relaxed);
        *arrived += 1;
        if *arrived == self.members && !self.is_broken() {
            *arrived = 0;
            self.generation.store(generation + 1, Ordering::Release);
            drop(arrived);
            self.opened.notify_all();
            return Ok(());
        }
        drop(arrived);
        let waits = || self.generation.load(Ordering::Acquire) == generation && !self.is_broken();
        if self.lingers(waits) {
            let mut arrived = self.lock();
            while waits() {
                arrived = self.opened.wait(arrived).unwrap_or_else(PoisonError::into_inner);
            }
        }
        // A gate that opened for all has opened, even if it broke since.
        match self.generation.load(Ordering::Acquire) == generation {
            true => Err(Broken),
            false => Ok(()),
        }
    }

    /// Waits until something holds that others make true, each with a `Release` store before a [`Gate::nudge`].
    pub(crate) fn wait_until(&self, holds: impl Fn() -> bool) -> Result<(), Broken> {
        let waits = || !holds() && !self.is_broken();
        if self.lingers(waits) {
            let mut arrived = self.lock();
            // Either who nudges sees this, or the next look sees what was stored before the nudge.
            self.sleepers.fetch_add(1, Ordering::Relaxed);
            fence(Ordering::SeqCst);
            while waits() {
                arrived = self.opened.wait(arrived).unwrap_or_else(PoisonError::into_inner);
            }
            self.sleepers.fetch_sub(1, Ordering::Relaxed);
        }
        if self.is_broken() { Err(Broken) } else { Ok(()) }
    }

    /// Waits a while without sleeping; whether there is still something to wait for.
    fn lingers(&self, waits: impl Fn() -> bool) -> bool {
        let mut looks = self.looks;
        while looks > 0 && waits() {
            spin_loop();
            looks -= 1;
        }
        let mut offers = if self.looks > 0 { OFFERS } else { 0 };
        while offers > 0 && waits() {
            yield_now();
            offers -= 1;
        }
        waits()
    }

    /// Lets those look again who wait until something holds. Takes no lock while nobody does.
    pub(crate) fn nudge(&self) {
        fence(Ordering::SeqCst);
        if self.sleepers.load(Ordering::Relaxed) > 0 {
            drop(self.lock());
            self.opened.notify_all();
        }
    }

    /// Lets everybody go who waits, now and ever after, with nothing to wait for.
    pub(crate) fn break_up(&self) {
        let arrived = self.lock();
        self.broken.store(true, Ordering::Release);
        drop(arrived);
        self.opened.notify_all();
    }

    fn is_broken(&self) -> bool {
        self.broken.load(Ordering::Acquire)
    }

    fn lock(&self) -> MutexGuard<'_, usize> {
        // Nothing in here can panic halfway.
        self.arrived.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::{Broken, Gate};

    #[test]
    fn nobody_passes_before_all_are_there() {
        for members in [1, 2, 5] {
            let (gate, arrived) = (Gate::new(members), AtomicUsize::new(0));
            std::thread::scope(|scope| {
                for _ in 0..members {
                    let (gate, arrived) = (&gate, &arrived);
                    scope.spawn(move || {
                        for round in 0..500 {
                            arrived.fetch_add(1, Ordering::SeqCst);
                            assert_eq!(gate.wait(), Ok(()), "round {round}");
                            assert!(arrived.load(Ordering::SeqCst) >= (round + 1) * members);
                        }
                    });
                }
            });
        }
    }

    #[test]
    fn who_waits_until_something_holds_sees_every_step_toward_it() {
        let (gate, steps) = (Gate::new(2), [AtomicUsize::new(0), AtomicUsize::new(0)]);
        std::thread::scope(|scope| {
            for me in 0..2 {
                let (gate, steps) = (&gate, &steps);
                scope.spawn(move || {
                    for step in 1..=2000 {
                        steps[me].store(step, Ordering::SeqCst);
                        gate.nudge();
                        let follows = || steps[1 - me].load(Ordering::SeqCst) + 1 >= step;
                        gate.wait_until(follows).expect("a whole gate");
                        assert!(follows());
                    }
                });
            }
        });
    }

    #[test]
    fn a_broken_gate_holds_nobody() {
        let gate = Gate::new(3);
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| gate.wait());
            let following = scope.spawn(|| gate.wait_until(|| false));
            gate.break_up();
            assert_eq!(following.join().expect("no panic"), Err(Broken));
            assert_eq!(waiting.join().expect("no panic"), Err(Broken));
            assert_eq!(gate.wait(), Err(Broken));
            assert_eq!(gate.wait(), Err(Broken), "not even with enough who come");
        });
    }
}
