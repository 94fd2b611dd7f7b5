//! Ctrl-C and the end that a service manager asks for.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use paceline::train::Stop;

use crate::failure::INTERRUPTED;

/// Ctrl-C: before the training begins it ends the program, then it asks the run to stop, and the second time it ends
/// the program at once.
pub(crate) struct Interrupt {
    stop: Arc<std::sync::OnceLock<Stop>>,
}

impl Interrupt {
    pub(crate) fn install() -> Self {
        let stop = Arc::new(std::sync::OnceLock::<Stop>::new());
        let (own, asked) = (stop.clone(), AtomicBool::new(false));
        let handler = move || match own.get() {
            Some(stop) if !asked.swap(true, Ordering::Relaxed) => {
                emit!("\nfinishing the step; press Ctrl-C again to leave at once");
                stop.ask();
            }
            _ => std::process::exit(i32::from(INTERRUPTED)),
        };
        // Without a handler Ctrl-C ends the program, which loses the steps since the last checkpoint and no more.
        if let Err(error) = ctrlc::set_handler(handler) {
            emit!("warning: Ctrl-C will not write a checkpoint ({error})");
        }
        Self { stop }
    }

    pub(crate) fn stops(&self, stop: Stop) {
        // Set once per program: there is one run.
        let _ = self.stop.set(stop);
    }
}
