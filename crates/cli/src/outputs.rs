//! The guard of files that a command writes: never over a file of another kind without `--overwrite`.

use std::fs::File;
use std::io::{BufWriter, Read, Seek, SeekFrom, Write};
use std::path::Path;

use anyhow::{Context, Result, bail};

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
    /// A page of the manual of this program.
    Man,
}

/// The mark of pictures, and of Parquet files.
pub(crate) const MARK: &str = "paceline";
/// Bytes at either end of a file in which its mark stands.
const LOOKED_AT: u64 = 1 << 16;

impl Kind<'_> {
    fn is_of(&self, path: &Path) -> std::io::Result<bool> {
        let mut file = File::open(path)?;
        let (mut head, mut tail) = (Vec::new(), Vec::new());
        (&file).take(LOOKED_AT).read_to_end(&mut head)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(LOOKED_AT)))?;
        file.take(LOOKED_AT).read_to_end(&mut tail)?;
        let has_mark = |bytes: &[u8]| bytes.windows(MARK.len()).any(|window| window == MARK.as_bytes());
        Ok(match self {
            Self::Svg => head.starts_with(b"<svg") && has_mark(&head),
            Self::Png => head.starts_with(b"\x89PNG") && has_mark(&head),
            Self::Html => head.starts_with(b"<!doctype html>") && has_mark(&head),
            Self::Record => head.starts_with(b"{\"master\":") || head.starts_with(b"{\"member\":") || head.is_empty(),
            Self::Man => head.windows(4).any(|window| window == b".TH ") && has_mark(&head),
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

/// Writes into a file beside `path` and renames it when it is whole.
pub(crate) fn write_beside(path: &Path, write: impl FnOnce(&mut (dyn Write + Send)) -> Result<()>) -> Result<()> {
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let cannot = || format!("cannot write `{}`", path.display());
    if !folder.is_dir() {
        bail!("{}: there is no folder `{}`", cannot(), folder.display());
    }
    let mut builder = tempfile::Builder::new();
    // Temporary files are for their owner only; this one becomes a file like any other.
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    let mut file = builder.suffix(".part").tempfile_in(folder).with_context(cannot)?;
    let mut out = BufWriter::new(file.as_file_mut());
    write(&mut out).and_then(|()| Ok(out.flush()?)).map_err(|error| match io_error(&error) {
        Some(_) => error.context(cannot()),
        None => error,
    })?;
    drop(out);
    file.persist(path).with_context(cannot)?;
    Ok(())
}

/// The error of the operating system, where that is the whole error.
pub(crate) fn io_error(error: &anyhow::Error) -> Option<&std::io::Error> {
    let of_table = error.downcast_ref::<csv::Error>().and_then(|error| match error.kind() {
        csv::ErrorKind::Io(error) => Some(error),
        _ => None,
    });
    of_table.or_else(|| error.downcast_ref::<std::io::Error>())
}
