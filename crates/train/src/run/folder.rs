//! The folder of a run: for one run at a time, and not replaced without a word.

use std::fs::{File, TryLockError};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use crate::Error;
use crate::run::checkpoint::Checkpoints;
use crate::run::journal::{self, LOG};

const LOCK: &str = ".lock";

/// Keeps other runs out of a folder until it is dropped, or its process dies.
#[derive(Debug)]
pub(crate) struct Lock {
    /// Locked, and where it lies; none where nothing can be locked.
    file: Option<(File, PathBuf)>,
}

impl Drop for Lock {
    fn drop(&mut self) {
        if let Some((_, path)) = &self.file {
            // While it is still locked; whoever waits for it finds that it is another one then.
            let _ = std::fs::remove_file(path);
        }
    }
}

impl Lock {
    /// Takes a folder that is there; fails if another run has it.
    pub(crate) fn take(folder: &Path) -> Result<Self, Error> {
        let path = folder.join(LOCK);
        // Whoever cannot write here is told so when it tries to; a file system without locks has none to offer.
        let file = File::options().read(true).write(true).create(true).truncate(false).open(&path);
        let Ok(mut file) = file else { return Ok(Self { file: None }) };
        match file.try_lock() {
            Ok(()) if !is_at(&file, &path) => Self::take(folder),
            Ok(()) => {
                let _ = file.set_len(0).and_then(|()| write!(file, "{}", std::process::id()));
                Ok(Self { file: Some((file, path)) })
            }
            Err(TryLockError::WouldBlock) => {
                let mut holder = String::new();
                let _ = file.read_to_string(&mut holder);
                let by = if holder.is_empty() { "another".into() } else { format!("process {holder}, another") };
                Err(Error::FolderInUse { path: folder.to_owned(), by })
            }
            Err(TryLockError::Error(_)) => Ok(Self { file: None }),
        }
    }
}

/// Whether a file still lies at its place: another run may have removed it at its end, just before it was locked.
#[cfg(unix)]
fn is_at(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let [here, there] = [file.metadata(), std::fs::metadata(path)].map(|found| found.map(|f| (f.dev(), f.ino())).ok());
    here == there
}

#[cfg(not(unix))]
fn is_at(_: &File, path: &Path) -> bool {
    path.exists()
}

/// What tells that there is a run, a search, or a cross-validation.
const TRACES: [&str; 3] = [super::MODEL, TRIALS, FOLDS];
/// The trials of a search.
pub(crate) const TRIALS: &str = "trials.jsonl";
/// The figures of a cross-validation.
pub(crate) const FOLDS: &str = "cross-validation.json";
/// What a search leaves beside its trials, and a cross-validation beside its figures.
const OF_SEARCH: [&str; 3] = ["best.toml", "best.json", TRIALS];
const OF_FOLDS: [&str; 2] = ["out-of-fold.csv", FOLDS];

/// Fails if a run is there already, or what runs were tried for.
pub(crate) fn expect_free(folder: &Path) -> Result<(), Error> {
    let is_free = Checkpoints::all_in(folder).is_empty()
        && parts(folder).is_empty()
        && !TRACES.iter().any(|name| folder.join(name).exists());
    if is_free { Ok(()) } else { Err(Error::RunExists { path: folder.to_owned() }) }
}

/// The folders of its folds and trials: those of that name in which there is a run.
fn parts(folder: &Path) -> Vec<PathBuf> {
    let is_part = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let number = name.strip_prefix("fold-").or_else(|| name.strip_prefix("trial-"));
        let has_run =
            || !Checkpoints::all_in(path).is_empty() || path.join(super::MODEL).exists() || path.join(LOG).exists();
        number.is_some_and(|number| number.parse::<u64>().is_ok()) && has_run()
    };
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    entries.filter(is_part).collect()
}

/// Removes what is left of a run, or of folds or trials, that is overwritten, but for its model, which stays until there is another.
pub(crate) fn clear(folder: &Path) -> Result<(), Error> {
    let fail = |source| Error::Output { path: folder.to_owned(), source };
    let has = |name: &str| folder.join(name).exists();
    // A file of such a name may be somebody's own: it goes only with what it belongs to.
    let mut names: Vec<&str> = Vec::new();
    names.extend(journal::FILES.into_iter().filter(|_| has(LOG)));
    names.extend(OF_SEARCH.into_iter().filter(|_| has(TRIALS)));
    names.extend(OF_FOLDS.into_iter().filter(|_| has(FOLDS)));
    let files = names.into_iter().map(|name| folder.join(name)).filter(|path| path.exists());
    Checkpoints::all_in(folder).into_iter().chain(files).try_for_each(std::fs::remove_file).map_err(fail)?;
    parts(folder).iter().try_for_each(std::fs::remove_dir_all).map_err(fail)
}
