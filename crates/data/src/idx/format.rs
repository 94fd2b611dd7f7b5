//! The IDX format of the MNIST files.
//!
//! ```text
//! byte 0   1   2      3      4 … 7          …              4 + 4·rank …
//!      0   0   type   rank   dimension 0    dimension 1 …  the numbers, row after row
//! ```
//!
//! Everything is big-endian. Types: 08 `u8`, 09 `i8`, 0b `i16`, 0c `i32`, 0d `f32`, 0e `f64`.

use std::fs::File;
use std::io::{self, BufReader, Read, Write};
use std::path::Path;

use flate2::read::MultiGzDecoder;

use crate::Error;

/// Deflate cannot shrink data further than this, so that a gzip file bounds what its header may promise.
const BEST_RATIO: u128 = 1032;

/// The content of an IDX file.
#[derive(Clone, Debug, PartialEq)]
pub struct IdxFile {
    /// Its dimensions, examples first; at least one.
    pub dimensions: Vec<usize>,
    /// Its numbers, row after row.
    pub data: IdxData,
}

/// The numbers of an IDX file.
#[derive(Clone, Debug, PartialEq)]
pub enum IdxData {
    /// `u8`, as stored.
    Bytes(Vec<u8>),
    /// `i8`, `i16` and `i32`.
    Integers(Vec<i32>),
    /// `f32` and `f64`.
    Floats(Vec<f32>),
}

impl IdxFile {
    /// Reads a file, gzip or not; its length is compared with its header before memory is taken.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let mut file = File::open(path).map_err(Error::file("open", path))?;
        let length = file.metadata().map_err(Error::file("open", path))?.len();
        let mut start = Vec::new();
        Read::by_ref(&mut file).take(2).read_to_end(&mut start).map_err(Error::file("read", path))?;
        // The two bytes that were looked at go back in front of the rest.
        let reader = io::Cursor::new(start.clone()).chain(BufReader::with_capacity(1 << 16, file));
        match start[..] {
            [0x1f, 0x8b] => Self::read_from(MultiGzDecoder::new(reader), path, Length::Compressed(length)),
            _ => Self::read_from(reader, path, Length::Exact(length)),
        }
    }

    fn read_from(mut reader: impl Read, path: &Path, length: Length) -> Result<Self, Error> {
        let failed = |source: io::Error| match length {
            Length::Exact(_) => Error::File { action: "read", path: path.to_owned(), source },
            Length::Compressed(_) => Error::BrokenGzip { path: path.to_owned(), source },
        };
        let mut magic = Vec::new();
        reader.by_ref().take(4).read_to_end(&mut magic).map_err(failed)?;
        let (kind, rank) = match magic[..] {
            [0, 0, kind @ (8 | 9 | 11..=14), rank @ 1..=4] => (kind, usize::from(rank)),
            _ => return Err(Error::IdxMagic { path: path.to_owned(), found: magic }),
        };
        let mut header = Vec::new();
        reader.by_ref().take(4 * rank as u64).read_to_end(&mut header).map_err(failed)?;
        let dimensions: Vec<u32> = header.as_chunks::<4>().0.iter().map(|bytes| u32::from_be_bytes(*bytes)).collect();
        let size = size_of_kind(kind);
        let numbers = dimensions.iter().map(|dimension| u128::from(*dimension)).try_fold(1u128, u128::checked_mul);
        let expected = numbers.and_then(|count| count.checked_mul(size as u128));
        let wrong = |found: String| Error::IdxLength {
            path: path.to_owned(),
            expected: expected.map_or("more than 2^128".to_owned(), |bytes| (bytes + 4 + 4 * rank as u128).to_string()),
            found,
        };
        let before = 4 + header.len() as u64;
        let bytes = match (length, expected) {
            _ if dimensions.len() < rank => return Err(wrong(before.to_string())),
            (Length::Exact(length), Some(bytes)) if u128::from(length) == bytes + u128::from(before) => bytes,
            (Length::Exact(length), _) => return Err(wrong(length.to_string())),
            (Length::Compressed(length), Some(bytes)) if bytes <= u128::from(length) * BEST_RATIO => bytes,
            (Length::Compressed(length), _) => {
                return Err(wrong(format!("at most {} (compressed: {length})", u128::from(length) * BEST_RATIO)));
            }
        };
        // Both bounds come from the length of a real file, so that this is no more than disk or ratio allows.
        let mut raw = Vec::with_capacity((bytes as usize).min(64 << 20));
        reader.by_ref().take(bytes as u64 + 1).read_to_end(&mut raw).map_err(failed)?;
        if raw.len() as u128 != bytes {
            let found = before + raw.len() as u64;
            return Err(wrong(if raw.len() as u128 > bytes { "more".to_owned() } else { found.to_string() }));
        }
        raw.shrink_to_fit();
        let dimensions = dimensions.into_iter().map(|dimension| dimension as usize).collect();
        Ok(Self { dimensions, data: decoded(kind, raw) })
    }
}

/// What is known about the length of a file before it is read.
#[derive(Clone, Copy)]
enum Length {
    Exact(u64),
    Compressed(u64),
}

fn size_of_kind(kind: u8) -> usize {
    match kind {
        8 | 9 => 1,
        11 => 2,
        12 | 13 => 4,
        _ => 8,
    }
}

fn decoded(kind: u8, raw: Vec<u8>) -> IdxData {
    match kind {
        8 => IdxData::Bytes(raw),
        9 => IdxData::Integers(raw.into_iter().map(|byte| i32::from(byte as i8)).collect()),
        11 => IdxData::Integers(raw.as_chunks().0.iter().map(|b| i32::from(i16::from_be_bytes(*b))).collect()),
        12 => IdxData::Integers(raw.as_chunks().0.iter().map(|b| i32::from_be_bytes(*b)).collect()),
        13 => IdxData::Floats(raw.as_chunks().0.iter().map(|b| f32::from_be_bytes(*b)).collect()),
        _ => IdxData::Floats(raw.as_chunks().0.iter().map(|b| f64::from_be_bytes(*b) as f32).collect()),
    }
}

/// Writes the beginning of an IDX file.
pub(crate) fn write_header(writer: &mut dyn Write, kind: u8, dimensions: &[u32]) -> io::Result<()> {
    writer.write_all(&[0, 0, kind, dimensions.len() as u8])?;
    dimensions.iter().try_for_each(|dimension| writer.write_all(&dimension.to_be_bytes()))
}
