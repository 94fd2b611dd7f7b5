//! Where states lie that are too long for memory: in temporary files without a name, which are gone with their last reader.
//!
//! They are made where the system wants temporary files to be (`TMPDIR`, or `/tmp`).

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use paceline_exchange::{Bulk, Frame, ReadAt, Spool};

/// A temporary file.
struct TemporaryFile(File);

impl Spool for TemporaryFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all(bytes)
    }

    fn finish(self: Box<Self>) -> io::Result<Arc<dyn ReadAt>> {
        Ok(Arc::new(*self))
    }
}

impl ReadAt for TemporaryFile {
    fn read_at(&self, from: u64, to: &mut [u8]) -> io::Result<()> {
        self.0.read_exact_at(to, from)
    }
}

/// A new one.
pub(crate) fn open() -> io::Result<Box<dyn Spool>> {
    let told = |error: io::Error| {
        let folder = std::env::temp_dir();
        io::Error::new(error.kind(), format!("{error} (in `{}`; `TMPDIR` names another folder)", folder.display()))
    };
    Ok(Box::new(TemporaryFile(tempfile::tempfile().map_err(told)?)))
}

/// Takes bytes: the first of them into memory, and when those are too many, all into a temporary file.
#[derive(Default)]
pub(crate) struct BulkWriter {
    memory: Vec<u8>,
    file: Option<Box<dyn Spool>>,
    length: u64,
}

impl BulkWriter {
    /// What was written.
    pub(crate) fn finish(self) -> io::Result<Bulk> {
        let Self { memory, file, length } = self;
        match file {
            None => Ok(memory.into()),
            Some(file) => Ok(Bulk::new(Default::default(), Some((file.finish()?, length)))),
        }
    }
}

impl Write for BulkWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.length += bytes.len() as u64;
        if self.file.is_none() && self.length > Frame::IN_MEMORY {
            let mut file = open()?;
            file.write(&std::mem::take(&mut self.memory))?;
            self.file = Some(file);
        }
        match &mut self.file {
            Some(file) => file.write(bytes)?,
            None => self.memory.extend_from_slice(bytes),
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_short_stays_in_memory_and_what_is_long_comes_back_from_a_file() {
        let block: Vec<u8> = (0..1 << 20).map(|n| (n % 251) as u8).collect();
        for blocks in [1, 32, 33, 40] {
            let mut writer = BulkWriter::default();
            (0..blocks).for_each(|_| writer.write_all(&block).expect("room for it"));
            let bulk = writer.finish().expect("bytes");
            assert_eq!((bulk.len(), bulk.is_in_memory()), (blocks << 20, blocks <= 32));
            let mut read = vec![0; block.len()];
            for at in 0..blocks {
                bulk.read_at(at << 20, &mut read).expect("bytes");
                assert!(read == block, "block {at} of {blocks}");
            }
        }
    }
}
