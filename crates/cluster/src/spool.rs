//! Where states lie that are too long for memory: in temporary files without a name, which are gone with their last reader.
//!
//! They are made where the system wants temporary files to be (`TMPDIR`, or `/tmp`). Where there is no room, states stay in memory.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use paceline_exchange::{Bulk, Frame, ReadAt, Spool};

/// A temporary file; or memory, where there is no room for one.
struct Temporary {
    file: Option<File>,
    length: u64,
    memory: Vec<u8>,
}

impl Temporary {
    fn new(file: Option<File>) -> Self {
        Self { file, length: 0, memory: Vec::new() }
    }

    /// No more can be written to the file: all goes on in memory.
    fn give_up_the_file(&mut self, file: &File) -> io::Result<()> {
        self.memory.resize(self.length as usize, 0);
        file.read_exact_at(&mut self.memory, 0)
    }
}

impl Spool for Temporary {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        if let Some(mut file) = self.file.take() {
            match file.write_all(bytes) {
                Ok(()) => self.file = Some(file),
                Err(_) => self.give_up_the_file(&file)?,
            }
        }
        if self.file.is_none() {
            self.memory.extend_from_slice(bytes);
        }
        self.length += bytes.len() as u64;
        Ok(())
    }

    fn finish(self: Box<Self>) -> io::Result<Arc<dyn ReadAt>> {
        Ok(Arc::new(*self))
    }
}

impl ReadAt for Temporary {
    fn read_at(&self, from: u64, to: &mut [u8]) -> io::Result<()> {
        match &self.file {
            Some(file) => file.read_exact_at(to, from),
            None => {
                let found = self.memory.get(from as usize..).and_then(|rest| rest.get(..to.len()));
                to.copy_from_slice(found.ok_or(io::ErrorKind::UnexpectedEof)?);
                Ok(())
            }
        }
    }
}

/// A new one. A full disk costs memory, and nobody their place.
pub(crate) fn open() -> io::Result<Box<dyn Spool>> {
    Ok(Box::new(Temporary::new(tempfile::tempfile().ok())))
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
    fn without_room_for_a_file_all_goes_on_in_memory() {
        let full = File::options().write(true).open("/dev/full").expect("a disk that is full");
        let read_only = || {
            let mut file = tempfile::NamedTempFile::new().expect("a file");
            file.write_all(b"on we ").expect("room for it");
            File::open(file.path()).expect("it is there")
        };
        let begun = Temporary { length: 6, ..Temporary::new(Some(read_only())) };
        for (mut spool, expected) in
            [(Temporary::new(None), "go"), (Temporary::new(Some(full)), "go"), (begun, "on we go")]
        {
            spool.write(b"g").expect("room in memory");
            spool.write(b"o").expect("room in memory");
            assert!(spool.file.is_none());
            let mut read = vec![0; expected.len()];
            let bytes = Box::new(spool).finish().expect("bytes");
            bytes.read_at(0, &mut read).expect("all of them");
            assert_eq!(read, expected.as_bytes());
            assert!(bytes.read_at(1, &mut read).is_err(), "there are no more");
        }
    }

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
