//! Numbers of any width, packed into bytes from the lowest bit up.

/// Writes numbers bit after bit into zeroed bytes, 32 bits at a time.
pub(crate) struct BitWriter<'a> {
    bytes: &'a mut [u8],
    written: usize,
    accumulator: u64,
    filled: u32,
}

impl<'a> BitWriter<'a> {
    /// Writes to the beginning of `bytes`, which must be zeros.
    pub(crate) fn new(bytes: &'a mut [u8]) -> Self {
        Self { bytes, written: 0, accumulator: 0, filled: 0 }
    }

    /// Appends the lowest `width` bits, at most 32, of a number that has no more.
    #[inline(always)]
    pub(crate) fn push(&mut self, number: u64, width: u32) {
        self.accumulator |= number << self.filled;
        self.filled += width;
        if self.filled >= 32 {
            self.bytes[self.written..self.written + 4].copy_from_slice(&(self.accumulator as u32).to_le_bytes());
            self.written += 4;
            self.accumulator >>= 32;
            self.filled -= 32;
        }
    }

    /// Appends `number` zeros and a one.
    #[inline(always)]
    pub(crate) fn push_unary(&mut self, mut number: u64) {
        while number >= 32 {
            self.push(0, 32);
            number -= 32;
        }
        self.push(1 << number, number as u32 + 1);
    }

    /// Writes what is left, and says how many bytes were written in all.
    pub(crate) fn finish(self) -> usize {
        let rest = self.filled.div_ceil(8) as usize;
        self.bytes[self.written..self.written + rest].copy_from_slice(&self.accumulator.to_le_bytes()[..rest]);
        self.written + rest
    }
}

/// The 64 bits that begin in the byte of bit `at`, shifted so that `at` is the lowest; zeros after the end.
///
/// At least 57 of them are what the bytes hold.
#[inline(always)]
pub(crate) fn bits_at(bytes: &[u8], at: usize) -> u64 {
    let word = match bytes[at / 8..].first_chunk::<8>() {
        Some(chunk) => u64::from_le_bytes(*chunk),
        None => last_word(&bytes[at / 8..]),
    };
    word >> (at % 8)
}

/// Fewer than eight bytes as a number, zeros after the end.
#[inline]
pub(crate) fn last_word(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    word[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(word)
}

/// The bytes as little-endian words, the last one filled up with zeros.
#[inline(always)]
pub(crate) fn words(bytes: &[u8]) -> impl Iterator<Item = u64> {
    let (whole, rest) = bytes.as_chunks::<8>();
    whole.iter().map(|chunk| u64::from_le_bytes(*chunk)).chain((!rest.is_empty()).then(|| last_word(rest)))
}

#[cfg(test)]
mod tests {
    use super::{BitWriter, bits_at, words};

    #[test]
    fn numbers_come_back_at_their_places() {
        let numbers = [(5, 3), (0, 1), (0xffff_ffff, 32), (1, 1), (0x1_2345, 17), (0, 32), (0x7f, 7)];
        let mut bytes = [0; 12];
        let mut writer = BitWriter::new(&mut bytes);
        numbers.iter().for_each(|(number, width)| writer.push(*number, *width));
        assert_eq!(writer.finish(), 12);
        let mut at = 0;
        for (number, width) in numbers {
            assert_eq!(bits_at(&bytes, at) & ((1 << width) - 1), number);
            at += width as usize;
        }
    }

    #[test]
    fn unary_numbers_are_zeros_and_a_one() {
        let mut bytes = [0; 16];
        let mut writer = BitWriter::new(&mut bytes);
        [0, 3, 70, 31].into_iter().for_each(|number| writer.push_unary(number));
        assert_eq!(writer.finish(), 14);
        assert_eq!(words(&bytes).collect::<Vec<_>>(), [1 | 1 << 4, 1 << (75 - 64) | 1 << (107 - 64)]);
    }
}
