//! What takes replicas out of a stretch before its end.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Asks a run to stop after the step that it is at. Clones ask the same run.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Asks.
    pub fn ask(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether somebody has.
    pub fn is_asked(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Asks the replicas to end their stretch after the step that they are at: for good, because the run was asked to stop,
/// or to be saved or judged, after which they go on.
#[derive(Clone, Debug, Default)]
pub(crate) struct Halt {
    pub stop: Stop,
    pause: Arc<AtomicBool>,
}

impl Halt {
    pub(crate) fn new(stop: Stop) -> Self {
        Self { stop, pause: Arc::default() }
    }

    /// Asks for a pause.
    pub(crate) fn pause(&self) {
        self.pause.store(true, Ordering::Relaxed);
    }

    /// The pause is over.
    pub(crate) fn go_on(&self) {
        self.pause.store(false, Ordering::Relaxed);
    }

    pub(crate) fn is_asked(&self) -> bool {
        self.stop.is_asked() || self.pause.load(Ordering::Relaxed)
    }
}
