//! Copies of what a replica is.

use std::io::{self, Write};

use paceline_exchange::{Bulk, reduce};
use paceline_train::Replica;

use crate::spool::BulkWriter;

/// What a replica is; nothing if a number of it is not finite.
pub(super) fn copy_of(replica: &dyn Replica) -> Result<Option<Bulk>, String> {
    let mut out = Checked { out: BulkWriter::default(), largest: 0, cut: Vec::new() };
    let failed = |error: io::Error| format!("the state cannot be copied: {error}");
    replica.snapshot(&mut out).map_err(failed)?;
    let Checked { out, largest, .. } = out;
    let state = out.finish().map_err(failed)?;
    Ok((largest < f32::INFINITY.to_bits()).then_some(state))
}

/// Looks at all numbers on their way.
struct Checked {
    out: BulkWriter,
    /// The bits of the largest number so far, without its sign.
    largest: u32,
    /// The beginning of a number that was cut.
    cut: Vec<u8>,
}

impl Write for Checked {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let missing = if self.cut.is_empty() { 0 } else { (4 - self.cut.len()).min(bytes.len()) };
        self.cut.extend_from_slice(&bytes[..missing]);
        if self.cut.len() == 4 {
            let cut = std::mem::take(&mut self.cut);
            self.look_at(&cut);
        }
        let whole = bytes.len() - (bytes.len() - missing) % 4;
        self.look_at(&bytes[missing..whole]);
        self.cut.extend_from_slice(&bytes[whole..]);
        self.out.write_all(bytes)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Checked {
    fn look_at(&mut self, numbers: &[u8]) {
        let largest = reduce::values(numbers).map(|value| value.abs().to_bits()).max();
        self.largest = self.largest.max(largest.unwrap_or(0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_that_is_not_finite_is_seen_however_the_bytes_are_cut() {
        for (bad, is_finite) in [(1.5f32, true), (f32::NAN, false), (f32::NEG_INFINITY, false)] {
            let bytes: Vec<u8> = [0.5, bad, -2.0, 7.0].iter().flat_map(|value| value.to_le_bytes()).collect();
            for cut in 1..=bytes.len() {
                let mut out = Checked { out: BulkWriter::default(), largest: 0, cut: Vec::new() };
                bytes.chunks(cut).for_each(|part| out.write_all(part).expect("room in memory"));
                assert_eq!(out.largest < f32::INFINITY.to_bits(), is_finite, "{bad} in parts of {cut}");
                assert_eq!(out.out.finish().expect("bytes").memory()[..], bytes);
            }
        }
    }
}
