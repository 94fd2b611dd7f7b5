//! The proof that all masters of a run see the same folder: whoever leads writes the number of the run into a file there, and
//! whoever stands by must find the number that was published.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::ClusterError;

/// The file with the number of the run.
const FILE: &str = "run-number";
/// Network storage shows what others wrote a little later.
const SEEN_WITHIN: Duration = Duration::from_secs(5);

pub(super) struct Storage {
    folder: PathBuf,
    /// The run whose number is written.
    marked: Option<u64>,
    /// The run whose number was not found, and since when.
    missed: Option<(u64, Instant)>,
}

impl Storage {
    pub(super) fn new(folder: PathBuf) -> Self {
        Self { folder, marked: None, missed: None }
    }

    /// Writes the number of the run, before it is published.
    pub(super) fn mark(&mut self, run: u64) -> Result<(), String> {
        if self.marked == Some(run) {
            return Ok(());
        }
        let path = self.folder.join(FILE);
        // A master that takes over finds it there, also on a disk that is full.
        if is_number(&std::fs::read_to_string(&path), run) {
            self.marked = Some(run);
            return Ok(());
        }
        let beside = self.folder.join(format!(".{FILE}.{}", std::process::id()));
        let written = std::fs::write(&beside, format!("{run:016x}\n")).and_then(|()| std::fs::rename(&beside, &path));
        written.map_err(|error| format!("cannot write `{}`: {error}", path.display()))?;
        self.marked = Some(run);
        Ok(())
    }

    /// Fails if the folder has not shown the number of the run for a while.
    pub(super) fn check(&mut self, run: u64) -> Result<(), ClusterError> {
        let path = self.folder.join(FILE);
        let found = std::fs::read_to_string(&path);
        if is_number(&found, run) {
            self.missed = None;
            return Ok(());
        }
        let since = match self.missed {
            Some((missed, since)) if missed == run => since,
            _ => self.missed.insert((run, Instant::now())).1,
        };
        if since.elapsed() < SEEN_WITHIN {
            return Ok(());
        }
        let found = match found {
            Ok(text) => format!("`{}`", text.trim().chars().take(40).collect::<String>()),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => "nothing".to_owned(),
            Err(error) => error.to_string(),
        };
        Err(ClusterError::OtherStorage { path, run: format!("{run:016x}"), found })
    }
}

fn is_number(found: &std::io::Result<String>, run: u64) -> bool {
    found.as_ref().is_ok_and(|text| text.trim() == format!("{run:016x}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_that_is_there_is_not_written_again() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join(FILE), format!("{:016x}\n", 7)).expect("it takes a file");
        // Nothing more can be written.
        std::fs::create_dir(folder.path().join(format!(".{FILE}.{}", std::process::id())))
            .expect("a folder in the way");
        let storage = || Storage::new(folder.path().to_owned());
        assert_eq!(storage().mark(7), Ok(()));
        let refused = storage().mark(8).expect_err("another number must be written");
        assert!(refused.starts_with("cannot write `") && refused.contains(FILE), "{refused}");
    }
}
