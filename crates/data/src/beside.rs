//! Files are written beside their place and renamed, so that nobody ever sees half of one.

use std::path::Path;

use tempfile::NamedTempFile;

use crate::Error;

/// Moves a finished temporary file to its place, over what is there.
pub(crate) fn put(file: NamedTempFile, path: &Path) -> Result<(), Error> {
    file.as_file().sync_all().map_err(Error::file("write", path))?;
    file.persist(path).map_err(|error| Error::File { action: "write", path: path.to_owned(), source: error.error })?;
    Ok(())
}

/// A temporary file beside `path`.
pub(crate) fn temporary(path: &Path) -> Result<NamedTempFile, Error> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut builder = tempfile::Builder::new();
    // Temporary files are for their owner only; this one becomes a file like any other.
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    builder.prefix(".writing-").tempfile_in(folder).map_err(Error::file("write in", folder))
}
