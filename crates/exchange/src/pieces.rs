//! Frames that are too long to go out in one go: they travel in pieces, so that what is urgent can go in between, and who
//! waits for one sees it come.
//!
//! A piece is a frame of its own, with the run, term, origin and sequence of the whole one. All numbers are little-endian.
//!
//! ```text
//! body of a piece
//! +-------------------+---------------------------+--------------+
//! | u16               | u64                       | the rest     |
//! | kind of the whole | bytes of its body that    | bytes of it  |
//! |                   | come, with those here     |              |
//! +-------------------+---------------------------+--------------+
//! ```

use std::io;
use std::ops::Range;

use crate::bulk::{Bulk, Spool};
use crate::frame::{Frame, FrameError};

/// Bytes of a piece before those of the frame.
const PREFIX: usize = 10;
/// So many bytes of a frame stay in memory, however long it is: its word is among them.
const BEGINNING: usize = 4 * Frame::WHOLE;

impl Frame {
    /// The kind of frames that are pieces of another one; it belongs to the transport.
    pub const PIECE: u16 = u16::MAX - 1;
    /// The longest body that goes out in one go, and the most bytes of a piece of a longer one.
    pub const WHOLE: usize = 256 << 10;
    /// The longest body of a frame on the wire.
    pub const LONGEST: usize = Self::WHOLE + PREFIX;
    /// The longest body that is put together in memory.
    pub const IN_MEMORY: u64 = 32 << 20;

    /// Appends the bytes of the next piece of this frame, when those of its body before `from` are gone; says which of them
    /// are in it.
    ///
    /// # Errors
    ///
    /// If those of them that do not lie in memory cannot be read.
    pub fn write_piece(&self, from: u64, bytes: &mut Vec<u8>) -> io::Result<Range<u64>> {
        let part = from..self.body.len().min(from + Self::WHOLE as u64);
        let mut prefix = [0; PREFIX];
        prefix[..2].copy_from_slice(&self.kind.to_le_bytes());
        prefix[2..].copy_from_slice(&(self.body.len() - from).to_le_bytes());
        let start = bytes.len();
        let body = start + Self::HEADER;
        bytes.resize(body + PREFIX + (part.end - part.start) as usize, 0);
        bytes[body..body + PREFIX].copy_from_slice(&prefix);
        self.body.read_at(from, &mut bytes[body + PREFIX..])?;
        let Self { run, term, origin, sequence, .. } = *self;
        let piece = Frame { kind: Self::PIECE, run, term, origin, sequence, body: Bulk::default() };
        let header = piece.header_over(&bytes[body..]);
        bytes[start..body].copy_from_slice(&header);
        Ok(part)
    }
}

/// Makes room for a frame that is too long for memory.
pub type OpenSpool = fn() -> io::Result<Box<dyn Spool>>;

/// Puts pieces together again. Memory grows with the bytes that have arrived, up to [`Frame::IN_MEMORY`]: of a longer frame only the
/// beginning stays there, and the rest is written elsewhere.
pub struct Pieces {
    open: OpenSpool,
    whole: Option<Begun>,
}

/// A frame of which not all has come.
struct Begun {
    /// The frame without its body.
    head: Frame,
    arrived: u64,
    memory: Vec<u8>,
    spool: Option<Box<dyn Spool>>,
}

impl Pieces {
    /// What is too long for memory is written to what this opens.
    pub fn new(open: OpenSpool) -> Self {
        Self { open, whole: None }
    }

    /// Takes a piece; gives the frame with its last one.
    ///
    /// # Errors
    ///
    /// If it is no piece, or none of the frame that has begun, or of one with more than `limit` bytes, or cannot be kept. Nothing of
    /// that frame is kept then.
    pub fn take(&mut self, piece: Frame, limit: usize) -> Result<Option<Frame>, FrameError> {
        let begun = self.whole.take();
        let arrived = begun.as_ref().map_or(0, |begun| begun.arrived);
        let bad = |what: &'static str| Err(FrameError::BadPiece { what });
        let Some((prefix, part)) = piece.body.memory().split_first_chunk::<PREFIX>() else {
            return bad("its kind and its length");
        };
        let kind = u16::from_le_bytes([prefix[0], prefix[1]]);
        let left = u64::from_le_bytes(prefix[2..].try_into().expect("eight bytes"));
        let length = arrived.saturating_add(left);
        if length > limit as u64 {
            return Err(FrameError::TooLarge { kind, limit, found: length });
        }
        if kind >= Self::RESERVED || part.is_empty() || part.len() as u64 > left {
            return bad("bytes of a frame, as many as it says or fewer");
        }
        let Frame { run, term, origin, sequence, .. } = piece;
        let head = Frame { kind, run, term, origin, sequence, body: Bulk::default() };
        let mut begun =
            begun.unwrap_or_else(|| Begun { head: head.clone(), arrived: 0, memory: Vec::new(), spool: None });
        if begun.head != head {
            return bad("more of the frame that has begun");
        }
        begun.arrived += part.len() as u64;
        let not_kept = |error: io::Error| FrameError::NotKept { length, reason: error.to_string() };
        match &mut begun.spool {
            Some(spool) => spool.write(part).map_err(not_kept)?,
            None => begun.memory.extend_from_slice(part),
        }
        if begun.spool.is_none() && begun.memory.len() >= BEGINNING && length > Frame::IN_MEMORY {
            begun.spool = Some((self.open)().map_err(not_kept)?);
        }
        if part.len() as u64 == left {
            return begun.finish().map(Some).map_err(not_kept);
        }
        self.whole = Some(begun);
        Ok(None)
    }

    /// Whether a frame has begun and not ended.
    pub fn is_open(&self) -> bool {
        self.whole.is_some()
    }

    /// Whether what comes next is written elsewhere.
    pub fn is_spooling(&self) -> bool {
        self.whole.as_ref().is_some_and(|begun| begun.spool.is_some())
    }

    /// Kinds from here on belong to the transport.
    const RESERVED: u16 = Frame::PIECE;
}

impl Begun {
    fn finish(self) -> io::Result<Frame> {
        let length = self.arrived - self.memory.len() as u64;
        let rest = self.spool.map(Spool::finish).transpose()?.map(|rest| (rest, length));
        Ok(Frame { body: Bulk::new(self.memory.into(), rest), ..self.head })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{FrameReader, ReadAt};

    /// Stands for a file.
    #[derive(Default)]
    struct Elsewhere(Vec<u8>);

    impl Spool for Elsewhere {
        fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
            self.0.extend(bytes);
            Ok(())
        }

        fn finish(self: Box<Self>) -> io::Result<Arc<dyn ReadAt>> {
            Ok(Arc::new(*self))
        }
    }

    impl ReadAt for Elsewhere {
        fn read_at(&self, from: u64, to: &mut [u8]) -> io::Result<()> {
            to.copy_from_slice(&self.0[from as usize..][..to.len()]);
            Ok(())
        }
    }

    fn nowhere() -> Pieces {
        Pieces::new(|| Err(io::ErrorKind::StorageFull.into()))
    }

    fn frame(body: usize) -> Frame {
        Frame { kind: 9, run: 1, term: 2, origin: 3, sequence: 4, body: (0..body).map(|n| (n / 7) as u8).collect() }
    }

    fn pieces(frame: &Frame) -> Vec<Frame> {
        let (mut gone, mut pieces) = (0, Vec::new());
        while gone < frame.body.len() {
            let mut bytes = Vec::new();
            let part = frame.write_piece(gone, &mut bytes).expect("bytes in memory");
            assert_eq!(part.start, gone);
            gone = part.end;
            let mut reader = FrameReader::new(Frame::LONGEST);
            reader.push(&bytes);
            pieces.push(reader.next().expect("a frame").expect("all of it"));
        }
        pieces
    }

    #[test]
    fn a_frame_comes_back_from_its_pieces() {
        let whole = frame(2 * Frame::WHOLE + 5);
        let mut reader = nowhere();
        let mut came: Vec<Option<Frame>> =
            pieces(&whole).into_iter().map(|piece| reader.take(piece, usize::MAX).expect("a piece")).collect();
        assert_eq!(came.len(), 3);
        assert!(came.pop().flatten().is_some_and(|came| came == whole), "the last piece gives the frame");
        assert!(came.iter().all(Option::is_none) && !reader.is_open());
    }

    #[test]
    fn a_frame_that_is_too_long_for_memory_is_written_elsewhere_and_goes_on_from_there() {
        let whole = frame(Frame::IN_MEMORY as usize + 3);
        let arrive = |frame: &Frame| {
            let mut reader = Pieces::new(|| Ok(Box::<Elsewhere>::default()));
            let came = pieces(frame).into_iter().filter_map(|piece| reader.take(piece, usize::MAX).expect("a piece"));
            came.last().expect("a frame")
        };
        let came = arrive(&whole);
        assert_eq!((came.body.memory().len(), came.body.len()), (BEGINNING, whole.body.len()));
        let again = arrive(&came);
        assert!(!again.body.is_in_memory());
        assert!(again.body.to_bytes().expect("bytes") == *whole.body.memory(), "the same bytes");
        let mut reader = nowhere();
        let refused = pieces(&whole).into_iter().find_map(|piece| reader.take(piece, usize::MAX).err());
        let said = refused.expect("no room").to_string();
        assert!(said.starts_with("a frame of 33554435 bytes is too long for memory, and cannot"), "{said}");
    }

    #[test]
    fn what_does_not_belong_together_is_refused() {
        let whole = frame(2 * Frame::WHOLE);
        let [first, last] = pieces(&whole).try_into().expect("two pieces");
        let mut reader = nowhere();
        let length = whole.body.len() as usize;
        let large = reader.take(first.clone(), length - 1);
        assert!(matches!(large, Err(FrameError::TooLarge { kind: 9, found: 524_288, .. })), "{large:?}");
        let other = Frame { sequence: 5, ..last.clone() };
        let short = Frame { body: first.body.memory().slice(..9).into(), ..first.clone() };
        let empty = Frame { body: first.body.memory().slice(..10).into(), ..first.clone() };
        for bad in [other, short, empty] {
            reader.take(first.clone(), length).expect("a piece");
            assert!(matches!(reader.take(bad, usize::MAX), Err(FrameError::BadPiece { .. })));
            assert!(!reader.is_open(), "nothing of it is kept");
        }
        let mut body = first.body.memory().to_vec();
        body[..2].copy_from_slice(&Frame::PIECE.to_le_bytes());
        let again = Frame { body: body.into(), ..first };
        assert!(reader.take(again, usize::MAX).is_err(), "pieces of pieces");
    }
}
