//! What threads of a team share. The models in `loom/` take the same files with the checker's kinds of these in place of them.

pub(crate) use std::hint::spin_loop;
pub(crate) use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence};
pub(crate) use std::sync::{Condvar, Mutex, MutexGuard};
pub(crate) use std::thread::yield_now;

/// How often a member looks before it goes to sleep. A short while: members of a team that is well matched come at nearly the same
/// time, and a wake-up costs as much as some milliseconds of waiting do.
pub(crate) const LOOKS: u32 = 1000;

/// How often it then offers the core to others who need it, such as the loaders; nobody does most of the time.
pub(crate) const OFFERS: u32 = 10_000;

/// Cores that control groups and affinity leave to this process.
pub(crate) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}
