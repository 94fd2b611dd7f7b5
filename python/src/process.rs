//! What belongs to a process: its threads are not there in a child that was forked from it.

use pyo3::PyResult;

use crate::failure::Error;

/// The process that something was made in.
pub(crate) struct Home(u32);

impl Home {
    pub(crate) fn here() -> Self {
        Self(std::process::id())
    }

    pub(crate) fn is_here(&self) -> bool {
        self.0 == std::process::id()
    }

    /// Fails in a forked child, where waiting for threads of the parent would never end.
    pub(crate) fn expect_here(&self, what: &str) -> PyResult<()> {
        if self.is_here() {
            return Ok(());
        }
        Err(Error::new_err(format!(
            "{what} was started by process {} and cannot be used in its child {}: start another one here",
            self.0,
            std::process::id()
        )))
    }
}
