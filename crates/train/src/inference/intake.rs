use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crossbeam_channel::Receiver;

use super::slot::Slot;

/// A request in the queue.
pub(super) struct Request {
    pub(super) slot: Arc<Slot>,
    pub(super) examples: usize,
    pub(super) version: u64,
    pub(super) arrived: Instant,
    /// Whether it may share a pass with others.
    pub(super) joins: bool,
}

/// The end of the queue where workers take requests, as many at a time as make one pass.
pub(super) struct Intake {
    /// One worker collects at a time: two at once would share out between them what belongs in one batch.
    collector: Mutex<Collector>,
    batch_limit: usize,
    wait: Duration,
}

struct Collector {
    queue: Receiver<Request>,
    /// The first request of the next pass: it did not go with the last one.
    held: Option<Request>,
}

impl Intake {
    pub(super) fn new(queue: Receiver<Request>, batch_limit: usize, wait: Duration) -> Self {
        Self { collector: Mutex::new(Collector { queue, held: None }), batch_limit, wait }
    }

    /// Waits for requests and fills `pass` with those of the next one; nothing is left in it when there will be no more.
    pub(super) fn collect(&self, pass: &mut Vec<Request>) {
        pass.clear();
        let mut collector = self.collector.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(first) = collector.held.take().or_else(|| collector.queue.recv().ok()) else { return };
        let (version, joins, arrived) = (first.version, first.joins, first.arrived);
        let mut room = self.batch_limit.saturating_sub(first.examples);
        pass.push(first);
        while joins && room > 0 {
            let Some(next) = self.next(&collector.queue, arrived) else { return };
            if next.version != version || !next.joins || next.examples > room {
                collector.held = Some(next);
                return;
            }
            room -= next.examples;
            pass.push(next);
        }
    }

    /// What is there, or comes before the window of the first request closes.
    fn next(&self, queue: &Receiver<Request>, arrived: Instant) -> Option<Request> {
        if let Ok(next) = queue.try_recv() {
            return Some(next);
        }
        match arrived.checked_add(self.wait) {
            Some(deadline) if deadline <= Instant::now() => None,
            Some(deadline) => queue.recv_deadline(deadline).ok(),
            // A window without an end closes with a full batch, or with the queue.
            None => queue.recv().ok(),
        }
    }
}
