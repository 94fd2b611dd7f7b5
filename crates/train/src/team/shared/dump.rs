//! All messages of a run in one file, so that somebody else can check that they are all that replicas learn from.
//!
//! Numbers are little-endian. Records stand in the order in which the messages were sent; `step` is the number of steps
//! that the origin had taken before. [`paceline_exchange::Form`] shows the bytes of a message.
//!
//! ```text
//! byte   0          8         12        16         24
//!        ┌──────────┬─────────┬─────────┬──────────┬──────────────────┬───────────
//!        │ PACELINE │ version │ workers │ elements │ first parameters │ records …
//!        │ 8 bytes  │ u32, 1  │   u32   │   u64    │ elements × f32   │
//!        └──────────┴─────────┴─────────┴──────────┴──────────────────┴───────────
//! record ┌──────────┬─────────┬────────────────────┬──────────────────────────────
//!        │  origin  │ length  │        step        │ message
//!        │   u32    │   u32   │        u64         │ length bytes
//!        └──────────┴─────────┴────────────────────┴──────────────────────────────
//! ```

use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::Error;

const MAGIC: &[u8; 8] = b"PACELINE";
const VERSION: u32 = 1;

/// The file of a run, written to by all replicas.
pub(super) struct Dump {
    path: PathBuf,
    file: Mutex<BufWriter<File>>,
}

/// Fails if a file is there that is no dump of an earlier run.
fn expect_own(path: &Path) -> io::Result<()> {
    let Ok(mut file) = File::open(path) else { return Ok(()) };
    let mut magic = [0; MAGIC.len()];
    match file.read_exact(&mut magic) {
        Ok(()) if magic == *MAGIC => Ok(()),
        _ => Err(io::Error::new(io::ErrorKind::AlreadyExists, "the file is there and holds something else")),
    }
}

impl Dump {
    /// Begins `messages.bin` in a folder; one of an earlier run is replaced.
    pub(super) fn create(folder: &Path, workers: usize, parameters: &[f32]) -> Result<Self, Error> {
        let path = folder.join("messages.bin");
        let begin = || {
            std::fs::create_dir_all(folder)?;
            expect_own(&path)?;
            let mut file = BufWriter::new(File::create(&path)?);
            file.write_all(MAGIC)?;
            file.write_all(&VERSION.to_le_bytes())?;
            file.write_all(&(workers as u32).to_le_bytes())?;
            file.write_all(&(parameters.len() as u64).to_le_bytes())?;
            parameters.iter().try_for_each(|parameter| file.write_all(&parameter.to_le_bytes()))?;
            Ok(file)
        };
        match begin() {
            Ok(file) => Ok(Self { path, file: Mutex::new(file) }),
            Err(source) => Err(Error::Dump { path, source }),
        }
    }

    /// Appends a message.
    pub(super) fn write(&self, origin: usize, step: u64, message: &[u8]) -> Result<(), Error> {
        let mut file = self.lock();
        let write = |file: &mut BufWriter<File>| {
            file.write_all(&(origin as u32).to_le_bytes())?;
            file.write_all(&(message.len() as u32).to_le_bytes())?;
            file.write_all(&step.to_le_bytes())?;
            file.write_all(message)
        };
        write(&mut file).map_err(|source| self.failed(source))
    }

    /// Hands everything to the file.
    pub(super) fn flush(&self) -> Result<(), Error> {
        self.lock().flush().map_err(|source| self.failed(source))
    }

    fn lock(&self) -> MutexGuard<'_, BufWriter<File>> {
        self.file.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn failed(&self, source: io::Error) -> Error {
        Error::Dump { path: self.path.clone(), source }
    }
}
