//! The file descriptors of the process: every link takes one, and so does every file that a run writes.

use std::fs::File;
use std::io;

/// Descriptors that strangers leave to the files of the run: its record, its term, a checkpoint, a spool, and what these open beside.
const FOR_FILES: usize = 8;

/// Raises the limit of this process to the most that it may set itself: the usual limit is one of interactive programs.
pub(crate) fn raise_limit() {
    #[cfg(unix)]
    {
        use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
        let limit = getrlimit(Resource::Nofile);
        // A system that refuses leaves the limit as it was.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
    }
}

/// True if the process can open as many files as a run may need at a time.
pub(crate) fn are_left() -> bool {
    let opened: io::Result<Vec<File>> = (0..FOR_FILES).map(|_| File::open("/dev/null")).collect();
    !opened.is_err_and(|error| is_shortage(&error))
}

/// True if a file could not be opened because the process, or the system, has too many open.
pub(crate) fn is_shortage(error: &io::Error) -> bool {
    #[cfg(unix)]
    {
        use rustix::io::Errno;
        let code = error.raw_os_error();
        [Errno::MFILE, Errno::NFILE].into_iter().any(|shortage| code == Some(shortage.raw_os_error()))
    }
    #[cfg(not(unix))]
    {
        let _ = error;
        false
    }
}
