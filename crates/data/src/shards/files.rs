//! The files of a folder, in the order of their names.

use std::fs::File;
use std::path::{Path, PathBuf};

use parquet::file::reader::{FileReader, SerializedFileReader};

use crate::Error;

/// One file, its table of contents read.
pub(super) struct Shard {
    pub(super) path: PathBuf,
    pub(super) reader: SerializedFileReader<File>,
}

impl Shard {
    pub(super) fn rows(&self) -> usize {
        usize::try_from(self.reader.metadata().file_metadata().num_rows()).unwrap_or(0)
    }

    pub(super) fn damaged(&self, source: parquet::errors::ParquetError) -> Error {
        Error::NotParquet { path: self.path.clone(), source: Box::new(source) }
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
        if !name.starts_with(['_', '.']) && name.ends_with(".parquet") {
            found.push(entry);
        }
    }
    // In any order of the system's; names decide.
    found.sort();
    match found.is_empty() {
        true => Err(Error::NothingLeft { path: path.to_owned(), what: "files whose names end with `.parquet`" }),
        false => Ok(found),
    }
}

pub(super) fn open(path: &Path) -> Result<Vec<Shard>, Error> {
    let open_one = |path: PathBuf| {
        let file = File::open(&path).map_err(|source| Error::File { action: "read", path: path.clone(), source })?;
        match SerializedFileReader::new(file) {
            Ok(reader) => Ok(Shard { path, reader }),
            Err(source) => Err(Error::NotParquet { path, source: Box::new(source) }),
        }
    };
    let shards = listed(path)?.into_iter().map(open_one).collect::<Result<Vec<_>, _>>()?;
    match super::rows(&shards) {
        0 => Err(Error::NothingLeft { path: path.to_owned(), what: "rows" }),
        _ => Ok(shards),
    }
}
