//! The guard of files that a command writes: never over a file of another kind without `--overwrite`.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use anyhow::Result;

use crate::failure::Misuse;

/// The kind of a file that a command writes, by which its own files are known.
pub(crate) enum Kind<'a> {
    /// A picture with the mark of this program.
    Svg,
    /// A picture with the mark of this program.
    Png,
    /// A table whose first line is this one.
    Csv(&'a str),
    /// A Parquet file that this program has written.
    #[cfg(feature = "shards")]
    Parquet,
    /// A page with the mark of this program.
    Html,
    /// Events and actions of the rules of a run.
    Record,
    /// The note of a partition.
    Note,
}

/// The mark of pictures, and of Parquet files.
pub(crate) const MARK: &str = "paceline";
/// Bytes at either end of a file in which its mark stands.
const LOOKED_AT: u64 = 1 << 16;

impl Kind<'_> {
    fn is_of(&self, path: &Path) -> std::io::Result<bool> {
        let mut file = File::open(path)?;
        let (mut head, mut tail) = (Vec::new(), Vec::new());
        file.by_ref().take(LOOKED_AT).read_to_end(&mut head)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(LOOKED_AT)))?;
        file.take(LOOKED_AT).read_to_end(&mut tail)?;
        let has_mark = |bytes: &[u8]| bytes.windows(MARK.len()).any(|window| window == MARK.as_bytes());
        Ok(match self {
            Self::Svg => head.starts_with(b"<svg") && has_mark(&head),
            Self::Png => head.starts_with(b"\x89PNG") && has_mark(&head),
            Self::Html => head.starts_with(b"<!doctype html>") && has_mark(&head),
            Self::Record => head.starts_with(b"{\"master\":") || head.starts_with(b"{\"member\":") || head.is_empty(),
            Self::Note => paceline::data::PartitionNote::read(path).is_ok(),
            Self::Csv(header) => head.starts_with(header.as_bytes()) && head.get(header.len()) == Some(&b'\n'),
            #[cfg(feature = "shards")]
            Self::Parquet => head.starts_with(b"PAR1") && has_mark(&tail),
        })
    }
}

/// Fails if a file is there that an earlier run of the same command has not written, unless it may be overwritten.
pub(crate) fn expect_free_file(option: &str, path: &Path, kind: Kind<'_>, overwrite: bool) -> Result<()> {
    if overwrite || is_free(path, &kind) {
        return Ok(());
    }
    let message = format!(
        "`{option} {}`: the file is there and was not written by this command: choose another name, or add `--overwrite`",
        path.display()
    );
    Err(Misuse(message).into())
}

/// The same of a command that never overwrites other files.
pub(crate) fn expect_own_file(option: &str, path: &Path, kind: Kind<'_>) -> Result<()> {
    if is_free(path, &kind) {
        return Ok(());
    }
    let message = format!(
        "`{option} {}`: the file is there and was not written by this command: choose another name, or remove it",
        path.display()
    );
    Err(Misuse(message).into())
}

/// True if no file is there, or one that an earlier run of the same command has written. A pipe or a terminal has nothing to lose.
fn is_free(path: &Path, kind: &Kind<'_>) -> bool {
    let is_file = std::fs::metadata(path).is_ok_and(|found| found.is_file());
    !is_file || kind.is_of(path).unwrap_or(false)
}
