//! The files of a folder, in the order of their names.

use std::fs::File;
use std::path::{Path, PathBuf};

use super::arrow_file::ArrowFile;
use super::parquet_file::{self, ParquetFile};
use crate::Error;

/// How the names of files end that are read, by their kind.
const PARQUET: &[&str] = &["parquet"];
const ARROW: &[&str] = &["arrow", "feather"];

/// One file, its table of contents read.
pub(super) struct Shard {
    pub(super) path: PathBuf,
    pub(super) content: Content,
}

/// The kinds of files.
pub(super) enum Content {
    Parquet(ParquetFile),
    Arrow(ArrowFile),
}

impl Shard {
    pub(super) fn rows(&self) -> usize {
        match &self.content {
            Content::Parquet(file) => parquet_file::rows(file),
            Content::Arrow(file) => file.rows(),
        }
    }

    pub(super) fn wrong(&self, column: &str, row: usize, expected: &'static str, found: String) -> Error {
        Error::BadValue { path: self.path.clone(), column: column.to_owned(), row: row as u64, expected, found }
    }
}

/// The files that a folder stands for; a file stands for itself. Names that begin with `_` or `.` are those of other tools.
pub(crate) fn listed(path: &Path) -> Result<Vec<PathBuf>, Error> {
    let failed = |source| Error::File { action: "read", path: path.to_owned(), source };
    if !path.metadata().map_err(failed)?.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut found = Vec::new();
    for entry in path.read_dir().map_err(failed)? {
        let entry = entry.map_err(failed)?.path();
        let name = entry.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if !name.starts_with(['_', '.']) && PARQUET.iter().chain(ARROW).any(|kind| ends_with(&entry, kind)) {
            found.push(entry);
        }
    }
    // In any order of the system's; names decide.
    found.sort();
    match found.is_empty() {
        true => Err(Error::NothingLeft {
            path: path.to_owned(),
            what: "files whose names end with `.parquet`, `.arrow` or `.feather`",
        }),
        false => Ok(found),
    }
}

fn ends_with(path: &Path, kind: &str) -> bool {
    path.extension().is_some_and(|ending| ending == kind)
}

pub(super) fn open(path: &Path) -> Result<Vec<Shard>, Error> {
    let open_one = |path: PathBuf| {
        let file = File::open(&path).map_err(|source| Error::File { action: "read", path: path.clone(), source })?;
        if ARROW.iter().any(|kind| ends_with(&path, kind)) {
            return match ArrowFile::open(file) {
                Ok(file) => Ok(Shard { path, content: Content::Arrow(file) }),
                Err(source) => Err(Error::NotArrow { path, source }),
            };
        }
        match ParquetFile::new(file) {
            Ok(file) => Ok(Shard { path, content: Content::Parquet(file) }),
            Err(source) => Err(Error::NotParquet { path, source: Box::new(source) }),
        }
    };
    let shards = listed(path)?.into_iter().map(open_one).collect::<Result<Vec<_>, _>>()?;
    match super::rows(&shards) {
        0 => Err(Error::NothingLeft { path: path.to_owned(), what: "rows" }),
        _ => Ok(shards),
    }
}
