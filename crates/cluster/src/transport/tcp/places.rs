//! Places for strangers. When all are taken, whoever comes gets that of the one who has waited longest: a good peer proves
//! itself at once, and a crowd that says nothing keeps nobody out.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

pub(super) struct Places {
    limit: usize,
    taken: Mutex<Occupied>,
}

#[derive(Default)]
struct Occupied {
    next: u64,
    /// Oldest first. Whoever loses the place hears that the other end is gone.
    places: VecDeque<(u64, oneshot::Sender<()>)>,
}

/// A place, until it is dropped or somebody else gets it.
pub(super) struct Place {
    places: Arc<Places>,
    number: u64,
    taken_away: oneshot::Receiver<()>,
}

impl Places {
    pub(super) fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self { limit: limit.max(1), taken: Mutex::default() })
    }

    pub(super) fn take(self: &Arc<Self>) -> Place {
        let mut taken = self.taken();
        while taken.places.len() >= self.limit {
            taken.places.pop_front();
        }
        let (keep, taken_away) = oneshot::channel();
        taken.next += 1;
        let number = taken.next;
        taken.places.push_back((number, keep));
        Place { places: self.clone(), number, taken_away }
    }

    fn taken(&self) -> MutexGuard<'_, Occupied> {
        // Nothing panics while it is held.
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place {
    /// Waits until somebody else has the place.
    pub(super) async fn is_taken_away(&mut self) {
        // Nothing is ever sent: it ends with the sender.
        let _ = (&mut self.taken_away).await;
    }

    /// What those are told who lose it.
    pub(super) fn reason(&self) -> String {
        let limit = self.places.limit;
        format!("more than {limit} connections wait to prove who they are, and this one has waited longest")
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.places.taken().places.retain(|(number, _)| *number != self.number);
    }
}
