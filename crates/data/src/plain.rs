//! Files that many can read from anywhere: as they lie on the disk, unpacked, or kept where they can be read only once.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use flate2::read::MultiGzDecoder;

use crate::Error;

/// What standard input is called where a path is expected.
pub(crate) const STANDARD_INPUT: &str = "-";

/// Bytes of a file, and a place among them.
#[derive(Clone, Debug)]
pub(crate) struct Plain {
    file: Arc<File>,
    at: u64,
}

/// What can be read only once, by device and number, for those who ask later: a table is looked at before it is read.
static READ_ONCE: Mutex<BTreeMap<(u64, u64), Plain>> = Mutex::new(BTreeMap::new());
/// The place of standard input among these.
const OF_STANDARD_INPUT: (u64, u64) = (u64::MAX, u64::MAX);

impl Plain {
    /// Opens a file. What is packed by gzip, whatever its name, and what is no file on a disk, such as standard input or a pipe, is
    /// written to a temporary file without a name first.
    pub(crate) fn open(path: &Path) -> Result<Self, Error> {
        if path == Path::new(STANDARD_INPUT) {
            return Self::once(OF_STANDARD_INPUT, path, || Ok(io::stdin().lock()));
        }
        // Asked by its name first: to open a pipe that nobody writes to any more waits for ever.
        let found = std::fs::metadata(path).map_err(Error::file("open", path))?;
        if !found.is_file() && !found.is_dir() {
            return Self::once((found.dev(), found.ino()), path, || {
                File::open(path).map_err(Error::file("open", path))
            });
        }
        let mut file = File::open(path).map_err(Error::file("open", path))?;
        let mut magic = [0; 2];
        let is_packed = matches!(file.read_at(&mut magic, 0), Ok(2)) && magic == GZIP;
        match is_packed {
            true => Self::kept(path, &mut file),
            false => Ok(Self { file: Arc::new(file), at: 0 }),
        }
    }

    /// Reads what can be read only once, unless it was read before.
    fn once<R: Read>(place: (u64, u64), path: &Path, open: impl FnOnce() -> Result<R, Error>) -> Result<Self, Error> {
        let mut kept = READ_ONCE.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(plain) = kept.get(&place) {
            return Ok(plain.clone());
        }
        let plain = Self::kept(path, &mut open()?)?;
        kept.insert(place, plain.clone());
        Ok(plain)
    }

    /// Reads all there is, and unpacks it if it is packed.
    fn kept(path: &Path, from: &mut dyn Read) -> Result<Self, Error> {
        let mut from = BufReader::with_capacity(1 << 18, from);
        let mut first = Vec::with_capacity(2);
        from.by_ref().take(2).read_to_end(&mut first).map_err(Error::file("read", path))?;
        let is_packed = first == GZIP;
        let all = first.chain(from);
        let no_room = |source| Error::NoRoomToUnpack { path: path.to_owned(), folder: std::env::temp_dir(), source };
        let mut file = BufWriter::with_capacity(1 << 18, tempfile::tempfile().map_err(no_room)?);
        match is_packed {
            true => copy(MultiGzDecoder::new(all), &mut file, Error::file("unpack", path), no_room)?,
            false => copy(all, &mut file, Error::file("read", path), no_room)?,
        }
        let file = file.into_inner().map_err(|error| no_room(error.into_error()))?;
        Ok(Self { file: Arc::new(file), at: 0 })
    }

    /// The line on which the byte at this offset is, counted in the file itself.
    ///
    /// The parser's own count is behind in files with Windows line ends and after empty lines. Only errors ask, so that
    /// reading the file once more costs nothing in a good run; where that fails, the first line is as good as any.
    pub(crate) fn line_at(&self, offset: u64) -> u64 {
        let mut line = 1;
        for (at, byte) in BufReader::new(Self { at: 0, ..self.clone() }).bytes().enumerate() {
            match byte {
                Ok(b'\n') => line += 1,
                Ok(b'\r') => {}
                Ok(_) if (at as u64) < offset => {}
                _ => break,
            }
        }
        line
    }
}

/// How files that gzip has packed begin.
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// Copies all, and tells what could not be read from what could not be written.
fn copy(
    mut from: impl Read,
    to: &mut impl Write,
    unread: impl FnOnce(io::Error) -> Error,
    no_room: impl Fn(io::Error) -> Error,
) -> Result<(), Error> {
    let mut buffer = vec![0; 1 << 18];
    loop {
        match from.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(count) => to.write_all(&buffer[..count]).map_err(&no_room)?,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(unread(error)),
        }
    }
}

impl Read for Plain {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read_at(to, self.at)?;
        self.at += count as u64;
        Ok(count)
    }
}

impl Seek for Plain {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let place = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::Current(by) => self.at.checked_add_signed(by),
            SeekFrom::End(by) => self.file.metadata()?.len().checked_add_signed(by),
        };
        self.at = place.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.at)
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Seek, SeekFrom, Write};

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::Plain;

    fn packed(text: &str) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(text.as_bytes()).expect("memory takes everything");
        encoder.finish().expect("memory takes everything")
    }

    #[test]
    fn packed_and_plain_files_are_read_from_anywhere() {
        let folder = tempfile::tempdir().expect("a folder");
        let text = "one\ntwo\r\nthree\n".repeat(100_000);
        // Two packed files, one behind the other, are one, as `cat` makes it.
        let (first, second) = text.split_at(700);
        let twice = [packed(first), packed(second)].concat();
        for (name, bytes) in [("plain", text.clone().into_bytes()), ("packed", packed(&text)), ("twice", twice)] {
            let path = folder.path().join(name);
            std::fs::write(&path, bytes).expect("a file");
            let mut plain = Plain::open(&path).expect("a file");
            let (mut other, mut found) = (plain.clone(), String::new());
            plain.read_to_string(&mut found).expect("text");
            assert!(found == text, "{name}: {} bytes", found.len());
            let mut some = [0; 5];
            other.seek(SeekFrom::Start(9)).expect("a place");
            other.read_exact(&mut some).expect("bytes");
            assert_eq!((&some, plain.line_at(9)), (b"three", 3));
        }
    }

    #[test]
    fn what_is_cut_short_or_empty_is_told() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("cut.csv.gz");
        let bytes = packed(&"1,2\n".repeat(1000));
        std::fs::write(&path, &bytes[..bytes.len() - 6]).expect("a file");
        let message = Plain::open(&path).expect_err("it is cut").to_string();
        assert!(message.contains("unpack") && message.contains("cut.csv.gz"), "{message}");
        std::fs::write(&path, [0x1f]).expect("a file");
        let mut all = Vec::new();
        Plain::open(&path).expect("a short file").read_to_end(&mut all).expect("a byte");
        assert_eq!(all, [0x1f]);
    }
}
