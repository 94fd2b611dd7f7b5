use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;

use sha2::{Digest, Sha256};
use tempfile::NamedTempFile;

use crate::Error;

/// A file whose bytes we know.
#[derive(Clone, Copy, Debug)]
pub(super) struct KnownFile {
    pub(super) name: &'static str,
    pub(super) bytes: u64,
    pub(super) sha256: &'static str,
}

/// The four MNIST files (LeCun, Cortes, Burges), uncompressed.
pub(super) const MNIST: [KnownFile; 4] = [
    KnownFile {
        name: "train-images-idx3-ubyte",
        bytes: 47_040_016,
        sha256: "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
    },
    KnownFile {
        name: "train-labels-idx1-ubyte",
        bytes: 60_008,
        sha256: "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
    },
    KnownFile {
        name: "t10k-images-idx3-ubyte",
        bytes: 7_840_016,
        sha256: "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
    },
    KnownFile {
        name: "t10k-labels-idx1-ubyte",
        bytes: 10_008,
        sha256: "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
    },
];

impl KnownFile {
    /// Whether the file is there with its size: the cheap check.
    pub(super) fn has_size(&self, folder: &Path) -> bool {
        folder.join(self.name).metadata().is_ok_and(|found| found.len() == self.bytes)
    }

    /// Whether the file is there with its checksum.
    pub(super) fn is_right(&self, folder: &Path) -> Result<bool, Error> {
        if !self.has_size(folder) {
            return Ok(false);
        }
        let path = folder.join(self.name);
        let mut file = File::open(&path).map_err(Error::file("open", &path))?;
        let (_, found) = copy_hashed(&mut file, &mut io::sink()).map_err(Error::file("read", &path))?;
        Ok(found == self.sha256)
    }

    /// Writes the file from a reader: beside its place, checked, then renamed. Nothing is left of a wrong one.
    ///
    /// `broken` says what a failing reader means.
    pub(super) fn store(
        &self,
        reader: impl Read,
        folder: &Path,
        origin: &str,
        broken: impl FnOnce(io::Error) -> Error,
    ) -> Result<(), Error> {
        let mut beside = NamedTempFile::with_prefix_in(self.name, folder).map_err(Error::file("write in", folder))?;
        // One byte more than there should be, so that too long a file shows without filling the disk.
        let (length, found) = copy_hashed(&mut reader.take(self.bytes + 1), &mut beside).map_err(broken)?;
        if length != self.bytes || found != self.sha256 {
            return Err(Error::Checksum {
                file: self.name.to_owned(),
                origin: origin.to_owned(),
                expected: format!("{} of {} bytes", self.sha256, self.bytes),
                found: if length > self.bytes {
                    "of a longer file".into()
                } else {
                    format!("{found} of {length} bytes")
                },
            });
        }
        crate::beside::put(beside, &folder.join(self.name))
    }
}

/// Copies everything; returns the length and the SHA-256 in hexadecimal.
fn copy_hashed(reader: &mut impl Read, writer: &mut impl Write) -> io::Result<(u64, String)> {
    let (mut hash, mut length, mut buffer) = (Sha256::new(), 0, vec![0; 1 << 16]);
    loop {
        let read = match reader.read(&mut buffer) {
            Ok(0) => break,
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        hash.update(&buffer[..read]);
        writer.write_all(&buffer[..read])?;
        length += read as u64;
    }
    Ok((length, hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()))
}
