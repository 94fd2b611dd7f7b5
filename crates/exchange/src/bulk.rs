//! Bytes that may be too many for memory.

use std::io::{self, Read};
use std::sync::Arc;

use bytes::Bytes;

/// Bytes of which the beginning lies in memory, and the rest, if there is one, elsewhere. A copy of it costs nothing.
#[derive(Clone, Default)]
pub struct Bulk {
    memory: Bytes,
    rest: Option<Rest>,
}

#[derive(Clone)]
struct Rest {
    bytes: Arc<dyn ReadAt>,
    length: u64,
}

/// Bytes that lie elsewhere and do not change.
pub trait ReadAt: Send + Sync {
    /// Reads as many as there is room for.
    fn read_at(&self, from: u64, to: &mut [u8]) -> io::Result<()>;
}

/// Takes bytes that are too many for memory.
pub trait Spool: Send {
    /// Takes more of them.
    fn write(&mut self, bytes: &[u8]) -> io::Result<()>;

    /// All that were written.
    fn finish(self: Box<Self>) -> io::Result<Arc<dyn ReadAt>>;
}

impl Bulk {
    /// Bytes in memory, and so many that lie elsewhere.
    pub fn new(memory: Bytes, rest: Option<(Arc<dyn ReadAt>, u64)>) -> Self {
        Self { memory, rest: rest.map(|(bytes, length)| Rest { bytes, length }) }
    }

    /// How many there are.
    pub fn len(&self) -> u64 {
        self.memory.len() as u64 + self.rest.as_ref().map_or(0, |rest| rest.length)
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Those that lie in memory, which are the first.
    pub fn memory(&self) -> &Bytes {
        &self.memory
    }

    /// Whether all of them lie in memory.
    pub fn is_in_memory(&self) -> bool {
        self.rest.is_none()
    }

    /// The same rest behind another beginning.
    pub fn behind(&self, memory: Bytes) -> Self {
        Self { memory, rest: self.rest.clone() }
    }

    /// All of them, in memory.
    ///
    /// # Errors
    ///
    /// If those that lie elsewhere cannot be read.
    pub fn to_bytes(&self) -> io::Result<Bytes> {
        let Some(Rest { bytes, length }) = &self.rest else { return Ok(self.memory.clone()) };
        let mut all = self.memory.to_vec();
        all.resize(self.memory.len() + *length as usize, 0);
        bytes.read_at(0, &mut all[self.memory.len()..])?;
        Ok(all.into())
    }

    /// Reads as many as there is room for.
    ///
    /// # Errors
    ///
    /// If there are not so many, or those that lie elsewhere cannot be read.
    pub fn read_at(&self, from: u64, mut to: &mut [u8]) -> io::Result<()> {
        if from.saturating_add(to.len() as u64) > self.len() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let near = self.memory.get(from as usize..).unwrap_or_default();
        let count = near.len().min(to.len());
        to[..count].copy_from_slice(&near[..count]);
        to = &mut to[count..];
        match &self.rest {
            Some(rest) if !to.is_empty() => rest.bytes.read_at(from.saturating_sub(self.memory.len() as u64), to),
            _ => Ok(()),
        }
    }

    /// Reads them one after the other.
    pub fn reader(&self) -> BulkReader<'_> {
        BulkReader { bulk: self, at: 0 }
    }
}

/// Reads a [`Bulk`] from its beginning.
pub struct BulkReader<'a> {
    bulk: &'a Bulk,
    at: u64,
}

impl Read for BulkReader<'_> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let left = self.bulk.len() - self.at;
        let count = to.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        self.bulk.read_at(self.at, &mut to[..count])?;
        self.at += count as u64;
        Ok(count)
    }
}

impl From<Bytes> for Bulk {
    fn from(memory: Bytes) -> Self {
        Self { memory, rest: None }
    }
}

impl From<Vec<u8>> for Bulk {
    fn from(memory: Vec<u8>) -> Self {
        Bytes::from(memory).into()
    }
}

impl FromIterator<u8> for Bulk {
    fn from_iter<I: IntoIterator<Item = u8>>(bytes: I) -> Self {
        bytes.into_iter().collect::<Bytes>().into()
    }
}

/// The same bytes in memory; those that lie elsewhere are only compared by where they lie.
impl PartialEq for Bulk {
    fn eq(&self, other: &Self) -> bool {
        let is_same_rest = match (&self.rest, &other.rest) {
            (None, None) => true,
            (Some(one), Some(two)) => Arc::ptr_eq(&one.bytes, &two.bytes) && one.length == two.length,
            _ => false,
        };
        self.memory == other.memory && is_same_rest
    }
}

impl Eq for Bulk {}

/// Tells how many there are, not what they say.
impl std::fmt::Debug for Bulk {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{} bytes", self.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Elsewhere(Vec<u8>);

    impl ReadAt for Elsewhere {
        fn read_at(&self, from: u64, to: &mut [u8]) -> io::Result<()> {
            to.copy_from_slice(&self.0[from as usize..][..to.len()]);
            Ok(())
        }
    }

    #[test]
    fn bytes_are_read_wherever_they_lie() {
        let rest = Arc::new(Elsewhere((3..10).collect()));
        let bulk = Bulk::new(vec![0, 1, 2].into(), Some((rest, 7)));
        assert_eq!((bulk.len(), bulk.is_in_memory()), (10, false));
        assert_eq!(bulk.to_bytes().expect("bytes"), (0..10).collect::<Vec<u8>>());
        for (from, count) in [(0, 10), (0, 2), (1, 4), (3, 1), (5, 5), (10, 0)] {
            let mut read = vec![0u8; count];
            bulk.read_at(from, &mut read).expect("bytes");
            assert_eq!(read, (from as u8..from as u8 + count as u8).collect::<Vec<u8>>());
        }
        assert!(bulk.read_at(5, &mut [0; 6]).is_err(), "there are not so many");
        let mut read: Vec<u8> = Vec::new();
        let mut reader = bulk.reader();
        let mut four = [0; 4];
        while let count @ 1.. = reader.read(&mut four).expect("bytes") {
            read.extend(&four[..count]);
        }
        assert_eq!(read, (0..10).collect::<Vec<u8>>());
        assert_eq!(bulk.behind(vec![9].into()).to_bytes().expect("bytes")[..], [9, 3, 4, 5, 6, 7, 8, 9]);
    }
}
