//! The folder of a run: for one run at a time, and not replaced without a word.

use std::fs::{File, TryLockError};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use paceline_data::{OpenOptions, reads};

use crate::run::checkpoint::Checkpoints;
use crate::run::journal::{self, LOG};
use crate::{Error, IfFound, Job};

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

/// The record of a run on many machines, which its masters publish.
const RECORD: &str = "record.json";
/// The term of its newest master.
const TERM: &str = "term";
/// The key and the token of a run on many machines.
const IDENTITY: &str = "identity";
/// The lock of the master that leads.
const MASTER_LOCK: &str = "master.lock";
/// The trials of a search.
pub(crate) const TRIALS: &str = "trials.jsonl";
/// The figures of a cross-validation.
pub(crate) const FOLDS: &str = "cross-validation.json";
/// What a search leaves beside its trials, and a cross-validation beside its figures.
const OF_SEARCH: [&str; 3] = ["best.toml", "best.json", TRIALS];
/// The files of masters.
const OF_MASTERS: [&str; 6] = [RECORD, TERM, "statistics.json", "statistics.html", "run-number", MASTER_LOCK];
const OF_FOLDS: [&str; 2] = ["out-of-fold.csv", FOLDS];

/// True if masters have led a run there: its term is a number, or its record a table with a term, or what they leave lies beside these.
/// A file of such a name may be a user's own.
fn is_led(folder: &Path) -> bool {
    let has = |name: &str| folder.join(name).exists();
    if (has(TERM) || has(RECORD)) && (has(IDENTITY) || !Checkpoints::all_in(folder).is_empty()) {
        return true;
    }
    let text = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap_or_default();
    let has_term = || text(TERM).split_whitespace().next().is_some_and(|term| term.parse::<u64>().is_ok());
    let record = || serde_json::from_str::<serde_json::Value>(&text(RECORD)).unwrap_or_default();
    has_term() || record().get("term").is_some()
}

/// The content of a folder that a new run, search or cross-validation would replace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holds {
    /// A run of one process.
    Run,
    /// A run on many machines.
    MasterRun,
    /// The trials of a search.
    Search,
    /// The folds of a cross-validation.
    Folds,
}

impl Holds {
    /// The content of a folder; none if it holds nothing of that kind.
    pub fn of(folder: &Path) -> Option<Self> {
        let has = |name: &str| folder.join(name).exists();
        let parts = parts(folder);
        let has_part = |prefix: &str| {
            parts.iter().any(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(prefix)))
        };
        match () {
            () if is_led(folder) => Some(Self::MasterRun),
            () if has(TRIALS) || has_part("trial-") => Some(Self::Search),
            () if has(FOLDS) || has_part("fold-") => Some(Self::Folds),
            () if has(super::MODEL) || has(LOG) || !Checkpoints::all_in(folder).is_empty() => Some(Self::Run),
            () => None,
        }
    }

    /// In words.
    pub fn noun(self) -> &'static str {
        match self {
            Self::Run => "a run",
            Self::MasterRun => "a run of `paceline master`",
            Self::Search => "a search of `paceline tune`",
            Self::Folds => "a cross-validation",
        }
    }

    /// In words, with remedies.
    pub(crate) fn sentence(self) -> String {
        let resume = match self {
            Self::Run => "`paceline train --resume` continues it, ",
            Self::MasterRun => "",
            Self::Search => "`paceline tune --resume` continues it, ",
            Self::Folds => "`paceline train --cv` with `--resume` continues it, ",
        };
        format!("{} already: {resume}`--output` chooses another folder, `--overwrite` replaces it", self.noun())
    }
}

/// Fails if a folder holds a run, a search or folds, or a file that a new run would write and no run has written.
pub fn expect_free(folder: &Path) -> Result<(), Error> {
    if let Some(holds) = Holds::of(folder) {
        return Err(Error::RunExists { path: folder.to_owned(), holds });
    }
    let names = journal::FILES.into_iter().chain(OF_SEARCH).chain(OF_FOLDS).chain(OF_MASTERS);
    match names.map(|name| folder.join(name)).find(|path| path.exists()) {
        None => Ok(()),
        Some(path) => Err(Error::FileInTheWay { path }),
    }
}

/// Fails if a folder holds something of another kind than what is to be resumed there.
pub(crate) fn expect_own(folder: &Path, own: Holds) -> Result<(), Error> {
    match Holds::of(folder).filter(|holds| *holds != own) {
        Some(holds) => Err(Error::RunExists { path: folder.to_owned(), holds }),
        None => Ok(()),
    }
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

/// True if a run could go on from what is there.
pub fn has_checkpoint(folder: &Path) -> bool {
    !Checkpoints::all_in(folder).is_empty()
}

/// Fails if a master leads in this folder now.
fn expect_no_master(folder: &Path) -> Result<(), Error> {
    let Ok(file) = File::open(folder.join(MASTER_LOCK)) else { return Ok(()) };
    match file.try_lock() {
        Err(TryLockError::WouldBlock) => {
            Err(Error::FolderInUse { path: folder.to_owned(), by: "a master with another".into() })
        }
        _ => Ok(()),
    }
}

/// How the folder of a fold or a trial is begun that has no checkpoint to go on from: over what a run has left that was killed before its
/// first checkpoint, but over nothing else.
pub(crate) fn begun_anew(folder: &Path) -> IfFound {
    if folder.join(LOG).exists() { IfFound::Overwrite } else { IfFound::Refuse }
}

/// The files of a folder that a run would write or remove.
fn at_stake(folder: &Path) -> Vec<PathBuf> {
    let own = [super::MODEL, TRIALS, FOLDS, RECORD, TERM];
    let names = journal::FILES.into_iter().chain(OF_SEARCH).chain(OF_FOLDS).chain(OF_MASTERS).chain(own);
    let mut files: Vec<PathBuf> = names.map(|name| folder.join(name)).filter(|path| path.is_file()).collect();
    files.extend(Checkpoints::all_in(folder));
    let mut folders = parts(folder);
    while let Some(part) = folders.pop() {
        for entry in std::fs::read_dir(part).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() { folders.push(path) } else { files.push(path) }
        }
    }
    files
}

impl Job {
    /// Fails if a run in this folder would write or remove a file that it reads: its data, or one of these.
    pub fn expect_inputs_safe(&self, folder: &Path, others: &[&Path], options: &OpenOptions) -> Result<(), Error> {
        let phases = self.phases();
        let of_phases = || phases.iter().flat_map(|phase| [Some(&phase.data.train), phase.data.test.as_ref()]);
        let transfer = self.transfer.as_ref().map(|transfer| transfer.from.as_path());
        let others: Vec<&Path> = others.iter().copied().chain(transfer).collect();
        let specs = || [Some(&self.data.train), self.data.test.as_ref()].into_iter().chain(of_phases()).flatten();
        for path in at_stake(folder) {
            let is_other = |other: &&&Path| std::fs::canonicalize(other).ok() == std::fs::canonicalize(&path).ok();
            if let Some(other) = others.iter().find(is_other) {
                return Err(Error::InputInTheWay { path: other.to_path_buf() });
            }
            for spec in specs() {
                if let Some(path) = reads(spec, options, &path)? {
                    return Err(Error::InputInTheWay { path });
                }
            }
        }
        Ok(())
    }
}

/// Removes what is left of a run, or of folds or trials, that is overwritten, but for its model, which stays until there is another.
pub(crate) fn clear(folder: &Path) -> Result<(), Error> {
    let fail = |source| Error::Output { path: folder.to_owned(), source };
    let has = |name: &str| folder.join(name).exists();
    expect_no_master(folder)?;
    // A file of such a name may be somebody's own: it goes only with what it belongs to.
    let mut names: Vec<&str> = Vec::new();
    names.extend(journal::FILES.into_iter().chain([super::MODEL]).filter(|_| has(LOG)));
    names.extend(OF_SEARCH.into_iter().filter(|_| has(TRIALS)));
    names.extend(OF_FOLDS.into_iter().filter(|_| has(FOLDS)));
    names.extend(OF_MASTERS.into_iter().chain([super::MODEL]).filter(|_| is_led(folder)));
    let files = names.into_iter().map(|name| folder.join(name)).filter(|path| path.exists());
    Checkpoints::all_in(folder).into_iter().chain(files).try_for_each(std::fs::remove_file).map_err(fail)?;
    parts(folder).iter().try_for_each(std::fs::remove_dir_all).map_err(fail)
}
