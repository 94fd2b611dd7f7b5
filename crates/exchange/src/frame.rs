//! What every message between machines travels in: who sends it, in which run and term, how long it is, and a checksum.
//!
//! All numbers are little-endian.
//!
//! ```text
//!  byte  0        4       5       6       8        12         16      24      32       40         48
//!        ┌────────┬───────┬───────┬───────┬────────┬──────────┬───────┬───────┬────────┬──────────┬─────
//!        │ "PCLN" │ major │ minor │ kind  │ length │ checksum │  run  │ term  │ origin │ sequence │ body
//!        └────────┴───────┴───────┴───────┴────────┴──────────┴───────┴───────┴────────┴──────────┴─────
//!          4 bytes  u8      u8      u16     u32      u32        u64     u64     u64      u64        `length` bytes
//! ```
//!
//! The checksum is the CRC-32 (IEEE) of bytes 0 to 12, bytes 16 to 48 and the body: every single flipped bit is found.
//! It guards against damage, not against malice; strangers are kept out by TLS.

use crc32fast::Hasher;

use crate::Bulk;

/// One message between machines.
#[derive(Clone, PartialEq, Eq)]
pub struct Frame {
    /// What the body is. [`Frame::GOODBYE`] and [`Frame::PIECE`] belong to the transport.
    pub kind: u16,
    /// The run that it belongs to.
    pub run: u64,
    /// The term of the master under whose rule it was sent.
    pub term: u64,
    /// The incarnation that sent it first.
    pub origin: u64,
    /// Its number among the messages of its origin.
    pub sequence: u64,
    /// The message. A copy of it costs nothing: what goes to several peers lies in memory once.
    pub body: Bulk,
}

impl Frame {
    /// What every frame begins with.
    pub const MAGIC: [u8; 4] = *b"PCLN";
    /// The major version that is written, and the only one that is read.
    pub const MAJOR: u8 = 1;
    /// The minor version that is written. Every minor version of the same major one is read.
    pub const MINOR: u8 = 0;
    /// Bytes before the body.
    pub const HEADER: usize = 48;
    /// The kind by which a transport tells its peer why it closes: the body is the reason.
    pub const GOODBYE: u16 = u16::MAX;

    /// Bytes of the frame on the wire.
    pub fn size(&self) -> usize {
        Self::HEADER + usize::try_from(self.body.len()).unwrap_or(usize::MAX - Self::HEADER)
    }

    /// The bytes before a body that lies in memory.
    ///
    /// # Panics
    ///
    /// If the body has more bytes than a `u32` counts.
    pub fn header(&self) -> [u8; Self::HEADER] {
        self.header_over(self.body.memory())
    }

    /// The header of this frame with another body.
    pub(crate) fn header_over(&self, body: &[u8]) -> [u8; Self::HEADER] {
        let length = u32::try_from(body.len()).expect("what is long goes out in pieces");
        let mut header = [0; Self::HEADER];
        header[0..4].copy_from_slice(&Self::MAGIC);
        header[4] = Self::MAJOR;
        header[5] = Self::MINOR;
        header[6..8].copy_from_slice(&self.kind.to_le_bytes());
        header[8..12].copy_from_slice(&length.to_le_bytes());
        header[16..24].copy_from_slice(&self.run.to_le_bytes());
        header[24..32].copy_from_slice(&self.term.to_le_bytes());
        header[32..40].copy_from_slice(&self.origin.to_le_bytes());
        header[40..48].copy_from_slice(&self.sequence.to_le_bytes());
        let mut hasher = begin_checksum(&header);
        hasher.update(body);
        header[12..16].copy_from_slice(&hasher.finalize().to_le_bytes());
        header
    }

    /// Appends the bytes of a frame whose body lies in memory.
    ///
    /// # Panics
    ///
    /// If the body has more bytes than a `u32` counts.
    pub fn write(&self, bytes: &mut Vec<u8>) {
        bytes.reserve(self.size());
        bytes.extend(self.header());
        bytes.extend(self.body.memory());
    }
}

/// Tells how long the body is, not what it says: some bodies carry secrets.
impl std::fmt::Debug for Frame {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { kind, run, term, origin, sequence, body } = self;
        write!(formatter, "Frame {{ kind: {kind}, run: {run}, term: {term}, origin: {origin}, sequence: {sequence}, ")?;
        write!(formatter, "body: {body:?} }}")
    }
}

/// The checksum of a header; its body is still to come.
fn begin_checksum(header: &[u8; Frame::HEADER]) -> Hasher {
    let mut hasher = Hasher::new();
    hasher.update(&header[..12]);
    hasher.update(&header[16..]);
    hasher
}

/// Why bytes are no frame, or none that is read here.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// Bytes that are no frame.
    #[error("expected a frame, which begins with `PCLN`, found `{}`", found.escape_ascii())]
    WrongMagic {
        /// What there is instead, as far as it has arrived.
        found: Vec<u8>,
    },
    /// A frame of a program that speaks otherwise.
    #[error(
        "the frame has version {}.{}, but this program speaks version {}.{}: run the same release on both sides",
        found.0, found.1, Frame::MAJOR, Frame::MINOR
    )]
    OtherMajor {
        /// The major and the minor version of the frame.
        found: (u8, u8),
    },
    /// A body that is longer than is allowed here.
    #[error("the frame of kind {kind} has a body of {found} bytes, but at most {limit} are allowed here")]
    TooLarge {
        /// The kind of the frame.
        kind: u16,
        /// The largest body that is allowed.
        limit: usize,
        /// Bytes of the body by the header.
        found: u64,
    },
    /// A frame that was damaged on the way.
    #[error(
        "the frame of kind {kind} carries checksum {expected:08x}, but its bytes have {found:08x}: it was damaged on the way"
    )]
    BadChecksum {
        /// The kind of the frame.
        kind: u16,
        /// The checksum by the header.
        expected: u32,
        /// The checksum of the bytes.
        found: u32,
    },
    /// A piece of a frame that does not fit what came before, or is none.
    #[error("expected a piece of a frame: {what}")]
    BadPiece {
        /// What it should have been.
        what: &'static str,
    },
    /// A frame that is too long for memory and cannot be put anywhere else.
    #[error("a frame of {length} bytes is too long for memory, and cannot be written to a temporary file: {reason}")]
    NotKept {
        /// Bytes of its body.
        length: u64,
        /// Why not.
        reason: String,
    },
    /// A stream that ended within a frame.
    #[error("the stream ended within the {part} of a frame, after {found} of {expected} bytes")]
    CutOff {
        /// Where: header or body.
        part: &'static str,
        /// Bytes that the part has.
        expected: usize,
        /// Bytes that came.
        found: usize,
    },
}

/// Bytes that are worth being read to where they belong.
const WORTH_IT: usize = 8 << 10;
/// No more are asked for at once before as many have come.
const MOST_AT_ONCE: usize = 256 << 10;

/// Makes frames of the bytes of a stream, however they were cut on the way.
///
/// A frame is refused as early as its first bytes say that it must be, and a length alone allocates nothing: memory
/// grows with the bytes that have really arrived, to at most twice as many. What is wrong stays wrong: after an error
/// the same error comes again, but for [`FrameError::TooLarge`], which ends when the limit is raised.
pub struct FrameReader {
    limit: usize,
    /// Bytes that have arrived, of which those before `taken` are used up.
    arrived: Vec<u8>,
    taken: usize,
    header: [u8; Frame::HEADER],
    header_bytes: usize,
    body: Vec<u8>,
    /// The checksum of the header and of the body so far, as soon as the header is whole.
    checksum: Option<Hasher>,
}

impl FrameReader {
    /// A reader of frames with bodies of at most `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Self {
            limit,
            arrived: Vec::new(),
            taken: 0,
            header: [0; Frame::HEADER],
            header_bytes: 0,
            body: Vec::new(),
            checksum: None,
        }
    }

    /// Allows bodies of at most `limit` bytes from the next call of [`next`](Self::next) on.
    pub fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
    }

    /// Takes bytes of the stream. Call [`next`](Self::next) until it has no frame before pushing more.
    pub fn push(&mut self, bytes: &[u8]) {
        self.arrived.drain(..self.taken);
        self.taken = 0;
        self.arrived.extend_from_slice(bytes);
    }

    /// The next frame, if all of it has arrived.
    ///
    /// # Errors
    ///
    /// If what comes next can be no frame, or none that is allowed here.
    #[expect(
        clippy::should_implement_trait,
        reason = "an iterator ends for good; this one goes on after the next push"
    )]
    pub fn next(&mut self) -> Result<Option<Frame>, FrameError> {
        self.take_header();
        self.check_header()?;
        if self.header_bytes < Frame::HEADER {
            return Ok(None);
        }
        self.take_body();
        if self.body.len() < self.length() {
            return Ok(None);
        }
        self.check_checksum()?;
        Ok(Some(self.take_frame()))
    }

    /// Where the bytes that come next belong, and how many of them, if that is far into a long body and nothing waits here:
    /// whoever reads them there tells [`arrived`](Self::arrived) how many came, and saves a copy of them.
    pub fn direct(&mut self) -> Option<(&mut Vec<u8>, usize)> {
        let is_in_body = self.header_bytes == Frame::HEADER && self.checksum.is_some();
        if !is_in_body || self.taken < self.arrived.len() || self.length() > self.limit {
            return None;
        }
        let missing = self.length() - self.body.len();
        (missing >= WORTH_IT).then(|| {
            // Memory follows the bytes that arrive.
            let room = missing.min(self.body.len().max(MOST_AT_ONCE));
            self.body.reserve_exact(room);
            (&mut self.body, room)
        })
    }

    /// So many bytes were read to where [`direct`](Self::direct) said.
    pub fn arrived(&mut self, count: usize) {
        let from = self.body.len() - count;
        if let Some(checksum) = &mut self.checksum {
            checksum.update(&self.body[from..]);
        }
    }

    /// Says whether the stream may end here.
    ///
    /// # Errors
    ///
    /// If a frame has begun and not all of it has arrived.
    pub fn finish(&self) -> Result<(), FrameError> {
        let waiting = self.arrived.len() - self.taken;
        if self.header_bytes == Frame::HEADER {
            let (expected, found) = (self.length(), self.body.len() + waiting);
            return Err(FrameError::CutOff { part: "body", expected, found });
        }
        match self.header_bytes + waiting {
            0 => Ok(()),
            found => Err(FrameError::CutOff { part: "header", expected: Frame::HEADER, found }),
        }
    }

    fn take_header(&mut self) {
        let fresh = &self.arrived[self.taken..];
        let count = fresh.len().min(Frame::HEADER - self.header_bytes);
        self.header[self.header_bytes..][..count].copy_from_slice(&fresh[..count]);
        self.header_bytes += count;
        self.taken += count;
    }

    /// Checks what is known of the header so far: nobody has to send all of it to be refused.
    fn check_header(&self) -> Result<(), FrameError> {
        let header = &self.header[..self.header_bytes];
        let magic = &header[..header.len().min(4)];
        if *magic != Frame::MAGIC[..magic.len()] {
            return Err(FrameError::WrongMagic { found: magic.to_vec() });
        }
        if header.len() >= 6 && header[4] != Frame::MAJOR {
            return Err(FrameError::OtherMajor { found: (header[4], header[5]) });
        }
        if header.len() >= 12 && self.length() > self.limit {
            return Err(FrameError::TooLarge { kind: self.kind(), limit: self.limit, found: self.length() as u64 });
        }
        Ok(())
    }

    fn take_body(&mut self) {
        let checksum = self.checksum.get_or_insert_with(|| begin_checksum(&self.header));
        let missing = word(&self.header, 8) as usize - self.body.len();
        let fresh = &self.arrived[self.taken..];
        let fresh = &fresh[..fresh.len().min(missing)];
        if self.body.capacity() - self.body.len() < fresh.len() {
            self.body.reserve_exact(fresh.len().max(self.body.len()).min(missing));
        }
        checksum.update(fresh);
        self.body.extend_from_slice(fresh);
        self.taken += fresh.len();
    }

    fn check_checksum(&self) -> Result<(), FrameError> {
        let (expected, found) = (word(&self.header, 12), self.checksum.clone().unwrap_or_default().finalize());
        if found != expected {
            return Err(FrameError::BadChecksum { kind: self.kind(), expected, found });
        }
        Ok(())
    }

    fn take_frame(&mut self) -> Frame {
        self.header_bytes = 0;
        self.checksum = None;
        let (kind, body) = (self.kind(), Bulk::from(std::mem::take(&mut self.body)));
        let long = |at| long(&self.header, at);
        Frame { kind, run: long(16), term: long(24), origin: long(32), sequence: long(40), body }
    }

    fn kind(&self) -> u16 {
        u16::from_le_bytes([self.header[6], self.header[7]])
    }

    fn length(&self) -> usize {
        word(&self.header, 8) as usize
    }
}

fn word(header: &[u8; Frame::HEADER], at: usize) -> u32 {
    u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
}

fn long(header: &[u8; Frame::HEADER], at: usize) -> u64 {
    u64::from(word(header, at)) | u64::from(word(header, at + 4)) << 32
}

#[cfg(test)]
mod tests {
    use super::{Frame, FrameError, FrameReader};

    const SMALL: usize = 1000;

    fn frame() -> Frame {
        Frame { kind: 0x0203, run: 4, term: 5, origin: 6, sequence: 7, body: b"on we go".to_vec().into() }
    }

    fn bytes(frame: &Frame) -> Vec<u8> {
        let mut bytes = Vec::new();
        frame.write(&mut bytes);
        bytes
    }

    fn error(bytes: &[u8]) -> FrameError {
        let mut reader = FrameReader::new(SMALL);
        reader.push(bytes);
        let error = reader.next().expect_err("bytes that are no frame");
        assert_eq!(reader.next().as_ref(), Err(&error), "it stays refused");
        error
    }

    /// The checksum is that of Python's `zlib.crc32` over the same bytes without it.
    #[test]
    fn bytes_are_those_of_the_diagram() {
        #[rustfmt::skip]
        let expected = [
            b'P', b'C', b'L', b'N', 1, 0, 3, 2, 8, 0, 0, 0, 0x70, 0x64, 0x21, 0x72,
            4, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 6, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0,
            b'o', b'n', b' ', b'w', b'e', b' ', b'g', b'o',
        ];
        assert_eq!(bytes(&frame()), expected);
        assert_eq!(frame().size(), expected.len());
    }

    #[test]
    fn garbage_is_refused_at_its_first_wrong_byte() {
        assert_eq!(error(b"G").to_string(), "expected a frame, which begins with `PCLN`, found `G`");
        assert_eq!(
            error(b"GET / HTTP/1.1\r\n").to_string(),
            "expected a frame, which begins with `PCLN`, found `GET `"
        );
        assert_eq!(error(b"PCL\x16\x03").to_string(), "expected a frame, which begins with `PCLN`, found `PCL\\x16`");
    }

    #[test]
    fn another_major_version_is_refused_with_both_and_what_to_do() {
        let mut bytes = bytes(&frame());
        (bytes[4], bytes[5]) = (2, 7);
        assert_eq!(
            error(&bytes[..6]).to_string(),
            "the frame has version 2.7, but this program speaks version 1.0: run the same release on both sides"
        );
    }

    #[test]
    fn a_newer_minor_version_is_read() {
        let mut header = frame().header();
        header[5] = 9;
        let mut checksum = super::begin_checksum(&header);
        checksum.update(frame().body.memory());
        header[12..16].copy_from_slice(&checksum.finalize().to_le_bytes());
        let mut reader = FrameReader::new(SMALL);
        reader.push(&header);
        reader.push(frame().body.memory());
        assert_eq!(reader.next(), Ok(Some(frame())));
    }

    #[test]
    fn a_length_of_4_gib_is_refused_before_the_rest_of_the_header_and_allocates_nothing() {
        let mut bytes = bytes(&frame());
        bytes[8..12].fill(0xff);
        let mut reader = FrameReader::new(SMALL);
        reader.push(&bytes[..12]);
        assert_eq!(
            reader.next().expect_err("a length of 4 GiB").to_string(),
            "the frame of kind 515 has a body of 4294967295 bytes, but at most 1000 are allowed here"
        );
        assert_eq!(reader.body.capacity(), 0);
    }

    #[test]
    fn a_raised_limit_lets_a_large_frame_through() {
        let mut reader = FrameReader::new(7);
        reader.push(&bytes(&frame()));
        assert_eq!(reader.next(), Err(FrameError::TooLarge { kind: 0x0203, limit: 7, found: 8 }));
        reader.set_limit(8);
        assert_eq!(reader.next(), Ok(Some(frame())));
        assert_eq!(reader.next(), Ok(None));
    }

    #[test]
    fn memory_follows_the_bytes_that_arrive() {
        let length = 100_000_000;
        let mut header = frame().header();
        header[8..12].copy_from_slice(&100_000_000u32.to_le_bytes());
        let mut reader = FrameReader::new(length);
        reader.push(&header);
        let chunk = [0; 1000];
        for arrived in (1..=100).map(|chunks| chunks * chunk.len()) {
            reader.push(&chunk);
            assert_eq!(reader.next(), Ok(None));
            assert!(reader.body.capacity() <= 2 * arrived, "{} for {arrived} bytes", reader.body.capacity());
            assert!(reader.arrived.capacity() <= 4 * chunk.len());
        }
    }

    #[test]
    fn bytes_that_are_read_to_where_they_belong_make_the_same_frame() {
        let long = Frame { body: (0..200_000u32).map(|n| (n / 7) as u8).collect(), ..frame() };
        let bytes = bytes(&long);
        for first in [Frame::HEADER, Frame::HEADER + 1, 9000] {
            let mut reader = FrameReader::new(bytes.len());
            reader.push(&bytes[..first]);
            assert_eq!(reader.next(), Ok(None));
            let mut at = first;
            while let Some((body, room)) = reader.direct() {
                let count = room.min(70_000);
                body.extend_from_slice(&bytes[at..at + count]);
                reader.arrived(count);
                at += count;
            }
            reader.push(&bytes[at..]);
            assert_eq!(reader.next(), Ok(Some(long.clone())));
            assert!(reader.direct().is_none(), "between two frames");
        }
    }

    #[test]
    fn a_stream_that_ends_within_a_frame_is_told_where() {
        let bytes = bytes(&frame());
        let after = |count: usize| {
            let mut reader = FrameReader::new(SMALL);
            reader.push(&bytes[..count]);
            while let Ok(Some(_)) = reader.next() {}
            reader.finish().map_err(|error| error.to_string())
        };
        assert_eq!(after(0), Ok(()));
        assert_eq!(after(bytes.len()), Ok(()));
        assert_eq!(after(5), Err("the stream ended within the header of a frame, after 5 of 48 bytes".to_owned()));
        assert_eq!(after(50), Err("the stream ended within the body of a frame, after 2 of 8 bytes".to_owned()));
    }

    #[test]
    fn bodies_do_not_show_in_logs() {
        let shown = format!("{:?}", frame());
        assert_eq!(shown, "Frame { kind: 515, run: 4, term: 5, origin: 6, sequence: 7, body: 8 bytes }");
    }
}
