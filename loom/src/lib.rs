//! Models of what the threads of a team share without locks: [loom](https://docs.rs/loom) runs each in every order that matters,
//! with every value that a load may see.
//!
//! The files are those of `crates/train/src/team`; only `sync` is another here. Each model says what must hold; a test in
//! `tests/models.rs` runs it.

#![expect(clippy::arc_with_non_send_sync, reason = "threads of the checker take turns, and it says when they must not")]

#[path = "../../crates/train/src/team/claims.rs"]
#[allow(dead_code, reason = "the files are used for more elsewhere")]
mod claims;
#[path = "../../crates/train/src/team/common_work.rs"]
mod common_work;
#[path = "../../crates/train/src/team/gate.rs"]
#[allow(dead_code, reason = "the files are used for more elsewhere")]
mod gate;
#[path = "../../crates/train/src/team/passage.rs"]
mod passage;

use std::sync::Arc;

use loom::cell::UnsafeCell;
use loom::model::Builder;
use loom::thread;

use claims::Claims;
use common_work::CommonWork;
use gate::{Broken, Gate};
use sync::{AtomicUsize, Ordering};

/// The kinds of the checker.
mod sync {
    pub(crate) use loom::hint::spin_loop;
    pub(crate) use loom::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence};
    pub(crate) use loom::sync::{Condvar, Mutex, MutexGuard};
    pub(crate) use loom::thread::yield_now;

    /// One look is enough to see something, or nothing and go to sleep.
    pub(crate) const LOOKS: u32 = 1;
    pub(crate) const OFFERS: u32 = 0;

    pub(crate) fn cores() -> usize {
        usize::MAX
    }
}

/// Runs a model in all orders with at most so many switches that no thread asked for: mistakes need few of them.
fn explore(switches: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = Some(switches);
    builder.check(model);
}

/// Two threads that take from both ends take every piece once.
pub fn claims_are_taken_once() {
    explore(4, || {
        let claims = Arc::new(Claims::default());
        claims.lay_out(5..8);
        let helper = {
            let claims = claims.clone();
            thread::spawn(move || std::iter::from_fn(|| claims.take_first(0)).collect::<Vec<_>>())
        };
        let mut taken: Vec<u32> = std::iter::from_fn(|| claims.take_last(0)).collect();
        taken.extend(helper.join().expect("no panic"));
        taken.sort_unstable();
        assert_eq!(taken, [5, 6, 7]);
        assert!(claims.is_empty());
    });
}

/// Nobody passes a gate before all are there, and what was written before it can be read behind it, again and again.
pub fn a_gate_lets_nobody_through_early() {
    explore(3, || {
        let gate = Arc::new(Gate::new(2));
        let cells = Arc::new([UnsafeCell::new(0), UnsafeCell::new(0)]);
        let member = |me: usize| {
            let (gate, cells) = (gate.clone(), cells.clone());
            move || {
                for round in 1..=2 {
                    write(&cells[me], round);
                    gate.wait().expect("a whole gate");
                    assert_eq!(read(&cells[1 - me]), round);
                    gate.wait().expect("a whole gate");
                }
            }
        };
        let other = thread::spawn(member(1));
        member(0)();
        other.join().expect("no panic");
    });
}

/// Whoever waits until something holds is woken by the nudge behind the store that makes it hold, and sees what came before.
pub fn a_nudge_is_never_missed() {
    explore(4, || {
        let gate = Arc::new(Gate::new(2));
        let (stored, cell) = (Arc::new(AtomicUsize::new(0)), Arc::new(UnsafeCell::new(0)));
        let waiting = {
            let (gate, stored, cell) = (gate.clone(), stored.clone(), cell.clone());
            thread::spawn(move || {
                gate.wait_until(|| stored.load(Ordering::Acquire) == 1).expect("a whole gate");
                assert_eq!(read(&cell), 7);
            })
        };
        write(&cell, 7);
        stored.store(1, Ordering::Release);
        gate.nudge();
        waiting.join().expect("no panic");
    });
}

/// A gate that breaks up holds nobody: neither who waits for all nor who waits until something holds.
pub fn a_broken_gate_holds_nobody() {
    explore(3, || {
        let gate = Arc::new(Gate::new(3));
        let waits = [true, false].map(|for_all| {
            let gate = gate.clone();
            thread::spawn(move || if for_all { gate.wait() } else { gate.wait_until(|| false) })
        });
        gate.break_up();
        waits.into_iter().for_each(|waits| assert_eq!(waits.join().expect("no panic"), Err(Broken)));
    });
}

/// The end of a step: every piece is done once, by one thread, after all have passed it; it sees what all have written into it, and
/// in the next step all see what it has written.
pub fn common_work_is_done_once_and_seen_by_all() {
    const PIECES: usize = 2;
    explore(2, || {
        let gate = Arc::new(Gate::new(2));
        // By replica and piece: what the replica gives. By piece: what all have come to.
        let given: Arc<[[UnsafeCell<u32>; PIECES]; 2]> =
            Arc::new([(); 2].map(|()| [(); PIECES].map(|()| UnsafeCell::new(0))));
        let sums: Arc<[UnsafeCell<u32>; PIECES]> = Arc::new([(); PIECES].map(|()| UnsafeCell::new(0)));
        let members = CommonWork::team(2, [1, 1].into_iter(), &gate);
        let run = |(me, mut work): (usize, CommonWork)| {
            let (given, sums) = (given.clone(), sums.clone());
            move || {
                for step in 1..=2 {
                    for piece in (0..PIECES).rev() {
                        // Reads what the last step came to, and writes what it gives to this one.
                        assert_eq!(read(&sums[piece]), 2 * (step - 1));
                        write(&given[me][piece], step);
                        work.pass(piece as u32);
                    }
                    work.begin().expect("a whole gate");
                    while let Some(piece) = work.next().expect("a whole gate") {
                        let piece = piece as usize;
                        let sum = given.iter().map(|of| read(&of[piece])).sum();
                        assert_eq!((read(&sums[piece]), sum), (2 * (step - 1), 2 * step), "piece {piece}, done once");
                        write(&sums[piece], sum);
                    }
                    work.end().expect("a whole gate");
                }
            }
        };
        let mut members = members.into_iter().enumerate();
        let mut first = run(members.next().expect("two of them"));
        let other = thread::spawn(run(members.next().expect("two of them")));
        first();
        other.join().expect("no panic");
    });
}

/// The checker fails if somebody else may be writing.
#[expect(unsafe_code, reason = "the checker is there to find out")]
fn read(cell: &UnsafeCell<u32>) -> u32 {
    // SAFETY: the checker keeps threads apart, and says so if they would not have been.
    cell.with(|value| unsafe { *value })
}

/// The checker fails if somebody else may be reading or writing.
#[expect(unsafe_code, reason = "the checker is there to find out")]
fn write(cell: &UnsafeCell<u32>, value: u32) {
    // SAFETY: the checker keeps threads apart, and says so if they would not have been.
    cell.with_mut(|to| unsafe { *to = value });
}
