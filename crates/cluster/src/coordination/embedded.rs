//! Coordination within one folder: nothing to install, for one machine or a file system that all candidates share.
//!
//! ```text
//! FOLDER/master.lock   locked by the master that leads; holds its process id
//! FOLDER/term          the newest term, in decimal digits and a line feed
//! FOLDER/record.json   what the newest master has published
//! FOLDER/workers/      one locked file for each worker that is there
//! ```
//!
//! Locks go with their process, so that nothing has to be cleaned up after a crash.

use std::fs::{self, File, TryLockError};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::nonce::nonce;
use super::record::check_name;
use super::{Coordination, CoordinationError, Leadership, Loss, RunRecord};

/// Files and locks are looked at so often by those who wait: there is no event to wait for.
const LOOK: Duration = Duration::from_millis(20);
/// A lock that is held for less is somebody who looks whether it is held.
const GLANCE: Duration = Duration::from_millis(300);

/// Coordination by the files of one folder.
#[derive(Debug)]
pub struct Embedded {
    folder: PathBuf,
    waits: bool,
    leading: Option<Leading>,
    /// The last term that this one had, and why it has it no more.
    past: Option<(u64, Loss)>,
    registered: Vec<Registered>,
}

#[derive(Debug)]
struct Leading {
    term: u64,
    /// Locked as long as it is open.
    _lock: File,
}

#[derive(Debug)]
struct Registered {
    path: PathBuf,
    /// Locked as long as it is open.
    _lock: File,
}

impl Drop for Registered {
    fn drop(&mut self) {
        // One that stays is seen to be unlocked, and removed by who looks.
        let _ = fs::remove_file(&self.path);
    }
}

impl Embedded {
    /// The candidate of a folder that only one master may use: `lead` does not wait while another one leads, but fails with
    /// [`CoordinationError::FolderInUse`]. Also for workers on the same machine.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into(), waits: false, leading: None, past: None, registered: Vec::new() }
    }

    /// The candidate of a folder that waits while another one leads.
    pub fn standby(folder: impl Into<PathBuf>) -> Self {
        Self { waits: true, ..Self::new(folder) }
    }

    fn term_file(&self) -> PathBuf {
        self.folder.join("term")
    }

    fn record_file(&self) -> PathBuf {
        self.folder.join("record.json")
    }

    fn lock_file(&self) -> PathBuf {
        self.folder.join("master.lock")
    }

    fn workers_folder(&self) -> PathBuf {
        self.folder.join("workers")
    }

    /// The lock of the master, or nothing when the limit has passed.
    fn lock(&self, limit: Duration) -> Result<Option<File>, CoordinationError> {
        let path = self.lock_file();
        fs::create_dir_all(&self.folder).map_err(CoordinationError::file("make the folder", &self.folder))?;
        let file = File::options().read(true).write(true).create(true).truncate(false).open(&path);
        let mut file = file.map_err(CoordinationError::file("open", &path))?;
        let since = Instant::now();
        while !is_locked_now(&file, &path)? {
            if !self.waits && since.elapsed() > GLANCE {
                let process =
                    fs::read_to_string(&path).ok().map(|text| text.trim().to_owned()).filter(|id| !id.is_empty());
                return Err(CoordinationError::FolderInUse { folder: self.folder.clone(), process });
            }
            if self.waits && since.elapsed() >= limit {
                return Ok(None);
            }
            std::thread::sleep(LOOK);
        }
        let written = file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id()));
        written.map_err(CoordinationError::file("write", &path))?;
        Ok(Some(file))
    }

    /// The newest term; 0 if none was ever taken.
    fn newest(&self) -> Result<u64, CoordinationError> {
        let path = self.term_file();
        let Some(bytes) = read(&path)? else { return Ok(0) };
        let text = String::from_utf8_lossy(&bytes);
        let digits = text.strip_suffix('\n').filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()));
        digits.and_then(|digits| digits.parse().ok()).ok_or_else(|| CoordinationError::BadFile {
            path,
            expected: "a term, in decimal digits and a line feed",
            found: format!("{:?}", text.chars().take(40).collect::<String>()),
        })
    }

    fn record(&self) -> Result<Option<RunRecord>, CoordinationError> {
        let path = self.record_file();
        let Some(bytes) = read(&path)? else { return Ok(None) };
        let bad = |found| CoordinationError::BadFile { path: path.clone(), expected: "a record of a run", found };
        RunRecord::decode(&bytes).map(Some).map_err(bad)
    }

    /// The record of the master that leads now.
    fn led(&self) -> Result<Option<RunRecord>, CoordinationError> {
        let path = self.lock_file();
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(CoordinationError::File { action: "open", path, source }),
        };
        match file.try_lock_shared() {
            Ok(()) => Ok(None),
            Err(TryLockError::WouldBlock) => {
                let newest = self.newest()?;
                Ok(self.record()?.filter(|record| record.term == newest))
            }
            Err(TryLockError::Error(source)) => Err(CoordinationError::File { action: "lock", path, source }),
        }
    }

    /// Why this one does not lead, of what the newest term says and what it remembers.
    fn lost(&self) -> Result<CoordinationError, CoordinationError> {
        let Some((mine, reason)) = self.past else { return Ok(CoordinationError::Lost { reason: Loss::NeverLed }) };
        let newest = self.newest()?;
        if newest > mine {
            Ok(CoordinationError::Fenced { mine, newest })
        } else {
            Ok(CoordinationError::Lost { reason })
        }
    }

    fn step_down(&mut self, reason: impl FnOnce(u64) -> Loss) {
        if let Some(leading) = self.leading.take() {
            self.past = Some((leading.term, reason(leading.term)));
        }
    }
}

impl Coordination for Embedded {
    fn lead(&mut self, limit: Duration) -> Result<Option<Leadership>, CoordinationError> {
        let lock = match self.leading.take() {
            Some(leading) => {
                self.past = Some((leading.term, Loss::Resigned { term: leading.term }));
                leading._lock
            }
            None => match self.lock(limit)? {
                Some(lock) => lock,
                None => return Ok(None),
            },
        };
        let found = self.record()?;
        // A term file that somebody removed must not bring old terms back.
        let floor = [found.as_ref().map(|record| record.term), self.past.map(|(term, _)| term)];
        let newest = floor.into_iter().flatten().fold(self.newest()?, u64::max);
        let term = newest.checked_add(1).ok_or_else(|| CoordinationError::BadFile {
            path: self.term_file(),
            expected: "a term that another one can follow",
            found: newest.to_string(),
        })?;
        write(&self.term_file(), format!("{term}\n").as_bytes())?;
        self.leading = Some(Leading { term, _lock: lock });
        Ok(Some(Leadership { term, found }))
    }

    fn publish(&mut self, record: &RunRecord) -> Result<(), CoordinationError> {
        let Some(leading) = &self.leading else { return Err(self.lost()?) };
        let mine = leading.term;
        if record.term != mine {
            return Err(CoordinationError::OtherTerm { mine, found: record.term });
        }
        let text = record.encode()?;
        let newest = self.newest()?;
        if newest > mine {
            self.step_down(|mine| Loss::Fenced { mine, newest });
            return Err(CoordinationError::Fenced { mine, newest });
        }
        write(&self.record_file(), &text)
    }

    fn check(&mut self) -> Result<(), CoordinationError> {
        let Some(leading) = &self.leading else {
            let reason = self.past.map_or(Loss::NeverLed, |(_, reason)| reason);
            return Err(CoordinationError::Lost { reason });
        };
        let (mine, newest) = (leading.term, self.newest()?);
        if newest > mine {
            let reason = Loss::Fenced { mine, newest };
            self.step_down(|_| reason);
            return Err(CoordinationError::Lost { reason });
        }
        Ok(())
    }

    /// A folder is never silent: who lost it was succeeded.
    fn regain(&mut self, _limit: Duration) -> Result<(), CoordinationError> {
        if self.leading.is_some() { self.check() } else { Err(self.lost()?) }
    }

    fn find(&mut self, after: u64, limit: Duration) -> Result<Option<RunRecord>, CoordinationError> {
        let since = Instant::now();
        loop {
            if let Some(record) = self.led()?.filter(|record| record.term > after) {
                return Ok(Some(record));
            }
            if since.elapsed() >= limit {
                return Ok(None);
            }
            std::thread::sleep(LOOK);
        }
    }

    fn register(&mut self, name: &str) -> Result<(), CoordinationError> {
        check_name(name)?;
        let folder = self.workers_folder();
        fs::create_dir_all(&folder).map_err(CoordinationError::file("make the folder", &folder))?;
        let path = folder.join(format!("{}~{name}", nonce()));
        // It gets its name when it is locked, so that nobody takes it for one that was left behind.
        let beside = folder.join(format!(".{}", nonce()));
        let file = File::create_new(&beside).map_err(CoordinationError::file("write", &beside))?;
        file.lock().map_err(CoordinationError::file("lock", &beside))?;
        fs::rename(&beside, &path).map_err(CoordinationError::file("name", &path))?;
        self.registered.push(Registered { path, _lock: file });
        Ok(())
    }

    fn workers(&mut self) -> Result<Vec<String>, CoordinationError> {
        let folder = self.workers_folder();
        let entries = match fs::read_dir(&folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(source) => return Err(CoordinationError::File { action: "read the folder", path: folder, source }),
        };
        let mut names = Vec::new();
        for entry in entries {
            let entry = entry.map_err(CoordinationError::file("read the folder", &folder))?;
            let file_name = entry.file_name();
            let Some((_, name)) = file_name.to_str().and_then(|file_name| file_name.split_once('~')) else { continue };
            match File::open(entry.path()).map(|file| file.try_lock_shared()) {
                Ok(Err(TryLockError::WouldBlock)) => names.push(name.to_owned()),
                // Its worker is gone; that the file stays would cost room and nothing else.
                Ok(Ok(())) => drop(fs::remove_file(entry.path())),
                // It left while we looked, or is not ours to read.
                Ok(Err(TryLockError::Error(_))) | Err(_) => {}
            }
        }
        names.sort_unstable();
        names.dedup();
        Ok(names)
    }

    fn resign(&mut self) {
        self.step_down(|term| Loss::Resigned { term });
    }
}

/// Takes the lock unless somebody else has it.
fn is_locked_now(file: &File, path: &Path) -> Result<bool, CoordinationError> {
    match file.try_lock() {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(source)) => {
            Err(CoordinationError::File { action: "lock", path: path.to_owned(), source })
        }
    }
}

fn read(path: &Path) -> Result<Option<Vec<u8>>, CoordinationError> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(CoordinationError::File { action: "read", path: path.to_owned(), source }),
    }
}

/// Writes a file beside and renames it; when this returns, the file is on the disk under its name.
fn write(path: &Path, bytes: &[u8]) -> Result<(), CoordinationError> {
    let folder = path.parent().expect("every file here lies in the folder");
    let beside = path.with_extension("writing");
    let written = File::create(&beside).and_then(|mut file| {
        file.write_all(bytes)?;
        file.sync_all()
    });
    written.map_err(CoordinationError::file("write", &beside))?;
    fs::rename(&beside, path).map_err(CoordinationError::file("write", path))?;
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(CoordinationError::file("write", folder))
}
