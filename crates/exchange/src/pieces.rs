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

use std::ops::Range;

use bytes::Bytes;

use crate::frame::{Frame, FrameError};

/// Bytes of a piece before those of the frame.
const PREFIX: usize = 10;

impl Frame {
    /// The kind of frames that are pieces of another one; it belongs to the transport.
    pub const PIECE: u16 = u16::MAX - 1;
    /// The longest body that goes out in one go, and the most bytes of a piece of a longer one.
    pub const WHOLE: usize = 256 << 10;
    /// The longest body of a frame on the wire.
    pub const LONGEST: usize = Self::WHOLE + PREFIX;

    /// Appends the bytes of the next piece of this frame, when those of its body before `from` are gone; says which of them
    /// are in it.
    pub fn write_piece(&self, from: usize, bytes: &mut Vec<u8>) -> Range<usize> {
        let part = from..self.body.len().min(from + Self::WHOLE);
        let mut prefix = [0; PREFIX];
        prefix[..2].copy_from_slice(&self.kind.to_le_bytes());
        prefix[2..].copy_from_slice(&((self.body.len() - from) as u64).to_le_bytes());
        let Self { run, term, origin, sequence, .. } = *self;
        let piece = Frame { kind: Self::PIECE, run, term, origin, sequence, body: Bytes::new() };
        bytes.reserve(Self::HEADER + PREFIX + part.len());
        bytes.extend(piece.header_over(&[&prefix, &self.body[part.clone()]]));
        bytes.extend(prefix);
        bytes.extend(&self.body[part.clone()]);
        part
    }
}

/// Puts pieces together again. Memory grows with the bytes that have arrived.
#[derive(Default)]
pub struct Pieces {
    /// The frame without its body, and what has come of that.
    whole: Option<(Frame, Vec<u8>)>,
}

impl Pieces {
    /// Takes a piece; gives the frame with its last one.
    ///
    /// # Errors
    ///
    /// If it is no piece, or none of the frame that has begun, or of one with more than `limit` bytes. Nothing of that frame is
    /// kept then.
    pub fn take(&mut self, piece: Frame, limit: usize) -> Result<Option<Frame>, FrameError> {
        let begun = self.whole.take();
        let arrived = begun.as_ref().map_or(0, |(_, body)| body.len());
        let bad = |what: &'static str| Err(FrameError::BadPiece { what });
        let Some((prefix, part)) = piece.body.split_first_chunk::<PREFIX>() else {
            return bad("its kind and its length");
        };
        let kind = u16::from_le_bytes([prefix[0], prefix[1]]);
        let left = u64::from_le_bytes(prefix[2..].try_into().expect("eight bytes"));
        let (Frame { run, term, origin, sequence, .. }, left) = (&piece, usize::try_from(left).unwrap_or(usize::MAX));
        if arrived.saturating_add(left) > limit {
            let found = u32::try_from(arrived.saturating_add(left)).unwrap_or(u32::MAX);
            return Err(FrameError::TooLarge { kind, limit, found });
        }
        if kind >= Self::RESERVED || part.is_empty() || part.len() > left {
            return bad("bytes of a frame, as many as it says or fewer");
        }
        let head = Frame { kind, run: *run, term: *term, origin: *origin, sequence: *sequence, body: Bytes::new() };
        let (whole, mut body) = begun.unwrap_or((head.clone(), Vec::new()));
        let is_of_it = whole == head;
        if !is_of_it {
            return bad("more of the frame that has begun");
        }
        body.extend_from_slice(part);
        if part.len() == left {
            return Ok(Some(Frame { body: body.into(), ..whole }));
        }
        self.whole = Some((whole, body));
        Ok(None)
    }

    /// Whether a frame has begun and not ended.
    pub fn is_open(&self) -> bool {
        self.whole.is_some()
    }

    /// Kinds from here on belong to the transport.
    const RESERVED: u16 = Frame::PIECE;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FrameReader;

    fn frame(body: usize) -> Frame {
        Frame { kind: 9, run: 1, term: 2, origin: 3, sequence: 4, body: (0..body).map(|n| (n / 7) as u8).collect() }
    }

    fn pieces(frame: &Frame) -> Vec<Frame> {
        let (mut gone, mut pieces) = (0, Vec::new());
        while gone < frame.body.len() {
            let mut bytes = Vec::new();
            let part = frame.write_piece(gone, &mut bytes);
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
        let mut reader = Pieces::default();
        let mut came: Vec<Option<Frame>> =
            pieces(&whole).into_iter().map(|piece| reader.take(piece, usize::MAX).expect("a piece")).collect();
        assert_eq!(came.len(), 3);
        assert!(came.pop().flatten().is_some_and(|came| came == whole), "the last piece gives the frame");
        assert!(came.iter().all(Option::is_none) && !reader.is_open());
    }

    #[test]
    fn what_does_not_belong_together_is_refused() {
        let whole = frame(2 * Frame::WHOLE);
        let [first, last] = pieces(&whole).try_into().expect("two pieces");
        let mut reader = Pieces::default();
        let large = reader.take(first.clone(), whole.body.len() - 1);
        assert!(matches!(large, Err(FrameError::TooLarge { kind: 9, found: 524_288, .. })), "{large:?}");
        let other = Frame { sequence: 5, ..last.clone() };
        let short = Frame { body: first.body.slice(..9), ..first.clone() };
        let empty = Frame { body: first.body.slice(..10), ..first.clone() };
        for bad in [other, short, empty] {
            reader.take(first.clone(), whole.body.len()).expect("a piece");
            assert!(matches!(reader.take(bad, usize::MAX), Err(FrameError::BadPiece { .. })));
            assert!(!reader.is_open(), "nothing of it is kept");
        }
        let mut body = first.body.to_vec();
        body[..2].copy_from_slice(&Frame::PIECE.to_le_bytes());
        let again = Frame { body: body.into(), ..first };
        assert!(reader.take(again, usize::MAX).is_err(), "pieces of pieces");
    }
}
