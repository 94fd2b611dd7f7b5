use std::sync::atomic::{AtomicU64, Ordering};

/// What was done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InferenceStatistics {
    /// Requests that were answered, those with an error included.
    pub requests: u64,
    /// Of these, the ones that were answered with an error.
    pub failed: u64,
    /// Requests that `try_…` turned away because all were busy.
    pub refused: u64,
    /// Examples that went through the model.
    pub examples: u64,
    /// Times that a model ran: fewer than requests where these were joined.
    pub passes: u64,
    /// Examples in the largest pass.
    pub largest_pass: u64,
}

#[derive(Default)]
pub(super) struct Counters {
    requests: AtomicU64,
    failed: AtomicU64,
    refused: AtomicU64,
    examples: AtomicU64,
    passes: AtomicU64,
    largest_pass: AtomicU64,
}

impl Counters {
    /// Before the requester hears of it, so that whoever has an answer finds it counted.
    pub(super) fn answered(&self, failed: bool) {
        self.requests.fetch_add(1, Ordering::Relaxed);
        self.failed.fetch_add(u64::from(failed), Ordering::Relaxed);
    }

    pub(super) fn refused(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn passed(&self, examples: usize) {
        self.passes.fetch_add(1, Ordering::Relaxed);
        self.examples.fetch_add(examples as u64, Ordering::Relaxed);
        self.largest_pass.fetch_max(examples as u64, Ordering::Relaxed);
    }

    pub(super) fn read(&self) -> InferenceStatistics {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        InferenceStatistics {
            requests: read(&self.requests),
            failed: read(&self.failed),
            refused: read(&self.refused),
            examples: read(&self.examples),
            passes: read(&self.passes),
            largest_pass: read(&self.largest_pass),
        }
    }
}
