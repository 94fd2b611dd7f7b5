//! Golomb-Rice coded gaps, with a sign each.
//!
//! A gap g of random places with density p is geometric, and Rice's code of it, g mod 2ᵏ in k bits and ⌊g / 2ᵏ⌋ in
//! unary, is within 1 % of its entropy if k is the one that Golomb's rule gives: the smallest with (1 − p)^(2ᵏ) ≤ φ − 1
//! (Kiely 2004, "Selecting the Golomb parameter in Rice coding").
//!
//! The parts of fixed width stand first and the unary parts after them, which costs no bit. A field can then be read
//! without knowing where the one before it ended, and the indices are known to be in range before any of them is
//! decoded: the last one is the number of zeros in the unary part times 2ᵏ, plus the sum of the fields, plus `sent` - 1.

use super::Form;
use crate::MessageError;
use crate::bits::{BitWriter, bits_at, words};
use crate::header::{Header, LARGEST_RICE_PARAMETER};
use crate::marks::Marks;

/// Golomb's rule for `sent` of `elements` at random places.
///
/// (1 − p)^(2ᵏ) ≤ φ − 1 is 2ᵏ ≥ ln(φ) · −1 / ln(1 − p), and −1 / ln(1 − p) is 1 / p − 1/2 but for a few percent at p = 1/2.
pub(crate) fn rice_parameter(elements: u32, sent: u32) -> u8 {
    const LOGARITHM_OF_GOLDEN_RATIO: f64 = 0.481_211_825_059_603_4;
    let goal = LOGARITHM_OF_GOLDEN_RATIO * (f64::from(elements) / f64::from(sent.max(1)) - 0.5);
    (0..LARGEST_RICE_PARAMETER).find(|k| f64::from(1u32 << k) >= goal).unwrap_or(LARGEST_RICE_PARAMETER)
}

/// The most bits that the payload can have: as many unary zeros as all gaps together allow.
pub(crate) fn most_bits(elements: u32, sent: u32, rice_parameter: u8) -> u64 {
    let (fields, unary) = section_bits(elements, sent, rice_parameter);
    fields + unary
}

fn section_bits(elements: u32, sent: u32, rice_parameter: u8) -> (u64, u64) {
    let fields = u64::from(sent) * (u64::from(rice_parameter) + 1);
    let most_zeros = u64::from(elements - sent) >> rice_parameter;
    (fields, u64::from(sent) + most_zeros)
}

/// Appends the payload of what `marks` hold, which is nothing any more then.
pub(crate) fn write(header: &Header, marks: &mut Marks, message: &mut Vec<u8>) {
    let rice_parameter = u32::from(header.rice_parameter);
    let (fields, unary) = section_bits(header.elements, header.sent, header.rice_parameter);
    let start = message.len();
    let split = start + fields.div_ceil(8) as usize;
    message.resize(split + unary.div_ceil(8) as usize, 0);

    let (before, unary) = message.split_at_mut(split);
    let mut fields = BitWriter::new(&mut before[start..]);
    let mut quotients = BitWriter::new(unary);
    let low_bits = (1u64 << rice_parameter) - 1;
    let mut next = 0;
    marks.take_sent(
        #[inline(always)]
        |index, is_negative| {
            let gap = (index - next) as u64;
            next = index + 1;
            fields.push((gap & low_bits) << 1 | u64::from(is_negative), rice_parameter + 1);
            quotients.push_unary(gap >> rice_parameter);
        },
    );
    fields.finish();
    let end = split + quotients.finish();
    message.truncate(end);
}

/// Whether the payload is as the header says, and every index in range. Reads each byte once and decodes no index.
pub(crate) fn check(header: &Header, payload: &[u8]) -> Result<(), MessageError> {
    let form = Form::Sparse;
    let (sent, found) = (header.sent as usize, payload.len() as u64);
    let (field_bits, _) = section_bits(header.elements, header.sent, header.rice_parameter);
    let field_bytes = field_bits.div_ceil(8);
    let shortest = field_bytes + u64::from(header.sent).div_ceil(8);
    if found < shortest {
        return Err(MessageError::WrongLength { form, expected: shortest, found });
    }
    let (fields, unary) = payload.split_at(field_bytes as usize);
    let ones: usize = words(unary).map(|word| word.count_ones() as usize).sum();
    if ones != sent {
        return Err(MessageError::WrongSentCount { form, expected: sent, found: ones });
    }
    let ends_with_a_one = unary.last().is_none_or(|byte| *byte != 0);
    if !ends_with_a_one {
        let used = unary.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        return Err(MessageError::WrongLength { form, expected: field_bytes + used as u64, found });
    }
    if !field_bits.is_multiple_of(8) && fields[fields.len() - 1] >> (field_bits % 8) != 0 {
        return Err(MessageError::BitsInPadding { form });
    }
    let last_zeros = unary.last().map_or(0, |byte| byte.leading_zeros());
    let quotients = (unary.len() * 8 - ones) as u64 - u64::from(last_zeros);
    let end = (u128::from(quotients) << header.rice_parameter)
        + u128::from(sum_of_remainders(header, payload))
        + u128::from(header.sent);
    if end > u128::from(header.elements) {
        let found = u64::try_from(end - 1).unwrap_or(u64::MAX);
        return Err(MessageError::IndexOutOfRange { elements: header.elements as usize, found });
    }
    Ok(())
}

/// Fewer than 2³² fields of 31 bits and a sign: no sum overflows, not even that of all fields without their signs.
///
/// As many fields as are read at once are added at once, every other one of them: between them there is room for their sums.
fn sum_of_remainders(header: &Header, payload: &[u8]) -> u64 {
    let mut fields = Fields::new(header, payload);
    let Fields { width, at_once, mask, .. } = fields;
    let every_other = |first: u32| (first..at_once).step_by(2).map(move |field| field as usize * width);
    // Without the signs, which are the lowest bits.
    let remainders = |first: u32| every_other(first).fold(0, |all, shift| all | (mask - 1) << shift);
    let (evens, odds) = (remainders(0), remainders(1) >> width);
    // There is as much room above a field as it is wide, and at least seven bits above the last.
    let room = width.min(7);
    let sums = (1 << (width + room)) - 1;
    let (mut words, mut twice) = (header.sent / at_once, 0);
    while words > 0 {
        let now = words.min(1 << room);
        words -= now;
        let (mut even, mut odd) = (0, 0);
        for _ in 0..now {
            let word = fields.next_word();
            even += word & evens;
            odd += word >> width & odds;
        }
        twice += every_other(0).map(|shift| (even >> shift & sums) + (odd >> shift & sums)).sum::<u64>();
    }
    twice / 2 + (0..header.sent % at_once).map(|_| fields.next() >> 1).sum::<u64>()
}

/// The parts of fixed width, one after the other: a sign, and a remainder above it.
struct Fields<'a> {
    payload: &'a [u8],
    width: usize,
    mask: u64,
    /// Fields that are read at a time.
    at_once: u32,
    /// Where the next ones begin.
    at: usize,
    /// What was read and not used yet, and how many fields that is.
    read: u64,
    left: u32,
}

impl<'a> Fields<'a> {
    fn new(header: &Header, payload: &'a [u8]) -> Self {
        let width = usize::from(header.rice_parameter) + 1;
        // Wherever a field begins, 57 bits of it can be read at once.
        Self { payload, width, mask: (1 << width) - 1, at_once: 57 / width as u32, at: 0, read: 0, left: 0 }
    }

    #[inline(always)]
    fn next(&mut self) -> u64 {
        if self.left == 0 {
            self.read = self.next_word();
            self.left = self.at_once;
        }
        let field = self.read & self.mask;
        self.read >>= self.width;
        self.left -= 1;
        field
    }

    /// As many fields as can be read at once, and some bits after them.
    #[inline(always)]
    fn next_word(&mut self) -> u64 {
        let word = bits_at(self.payload, self.at);
        self.at += self.at_once as usize * self.width;
        word
    }
}

/// Places that are asked for before anything is added there: they are far apart, and many come in the time of one.
const AHEAD: usize = 32;

/// Adds `step` with the sign of each sent element to `target`; the payload must have passed [`check`].
pub(crate) fn add_to(header: &Header, payload: &[u8], target: &mut [f32], step: f32) {
    if header.sent == 0 {
        return;
    }
    // What is taken out first changes no bit of any number.
    let mut asked = [(0, -0.0); AHEAD];
    let mut count = 0;
    for_each_sent(
        header,
        payload,
        #[inline(always)]
        |index, is_negative| {
            ask_for(target, index);
            let signed = f32::from_bits(step.to_bits() ^ is_negative << 31);
            let (came, signed) = std::mem::replace(&mut asked[count % AHEAD], (index, signed));
            target[came] += signed;
            count += 1;
        },
    );
    for (index, signed) in (count..count + AHEAD).map(|place| asked[place % AHEAD]) {
        target[index] += signed;
    }
}

/// Calls `then` with the index of each sent element and its sign, 1 for those below zero.
#[inline(always)]
fn for_each_sent(header: &Header, payload: &[u8], mut then: impl FnMut(usize, u32)) {
    let rice_parameter = header.rice_parameter;
    let mut fields = Fields::new(header, payload);
    let unary = &payload[(header.sent as usize * fields.width).div_ceil(8)..];
    // The one of element j is bit number (sum of the quotients up to j) + j, and its index is the sum of the gaps up to j, plus j:
    // indexⱼ = bitⱼ · 2ᵏ + r₀ + … + rⱼ + j · (1 − 2ᵏ), all but the first in `rest`.
    let (mut rest, of_each) = (0usize, 1usize.wrapping_sub(1 << rice_parameter));
    for (at, mut ones) in words(unary).enumerate() {
        while ones != 0 {
            let bit = at * 64 + ones.trailing_zeros() as usize;
            ones &= ones - 1;
            let field = fields.next();
            rest = rest.wrapping_add((field >> 1) as usize);
            let index = (bit << rice_parameter).wrapping_add(rest);
            rest = rest.wrapping_add(of_each);
            then(index, field as u32 & 1);
        }
    }
}

/// Brings an element near that is about to be changed.
#[inline(always)]
fn ask_for(target: &[f32], index: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let place = target.as_ptr().wrapping_add(index);
        #[expect(unsafe_code, reason = "a prefetch takes a pointer")]
        // SAFETY: a prefetch reads nothing that the program sees, wherever it points.
        unsafe {
            _mm_prefetch::<_MM_HINT_T0>(place.cast());
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (target, index);
}

#[cfg(test)]
mod tests {
    use super::{add_to, check, most_bits, rice_parameter, sum_of_remainders, write};
    use crate::bits::BitWriter;
    use crate::marks::Marks;
    use crate::{Form, MessageError, header::Header};

    const HEADER: Header = Header { form: Form::Sparse, rice_parameter: 3, threshold: 1.0, elements: 70, sent: 3 };

    /// Gaps 0, 1 and 66, the second of them negative: remainders 0, 1 and 2, quotients 0, 0 and 8.
    fn payload() -> Vec<u8> {
        let mut marks = Marks::of(&[(0, 0b101, 0b100), (1, 0b10_0000, 0)]);
        let mut payload = Vec::new();
        write(&HEADER, &mut marks, &mut payload);
        payload
    }

    #[test]
    fn fields_first_and_quotients_after_them() {
        let payload = payload();
        assert_eq!(payload, [0b0011_0000, 0b0100, 0b11, 0b100]);
        assert_eq!(check(&HEADER, &payload), Ok(()));
        let mut target = [0.0; 70];
        add_to(&HEADER, &payload, &mut target, 0.5);
        assert_eq!((target[0], target[2], target[69]), (0.5, -0.5, 0.5));
        assert_eq!(target.iter().filter(|value| **value != 0.0).count(), 3);
    }

    #[test]
    fn every_rice_parameter_leads_to_the_same_places_and_touches_no_other() {
        let places = [1, 2, 40, 69].map(|index| (index, index == 40));
        for rice_parameter in 0..=31 {
            let header = Header { rice_parameter, sent: 4, ..HEADER };
            let mut payload = Vec::new();
            write(&header, &mut Marks::of(&[(0, 1 << 40 | 0b110, 1 << 40), (1, 0b10_0000, 0)]), &mut payload);
            assert_eq!(check(&header, &payload), Ok(()));
            let mut target = [-0.0f32; 70];
            add_to(&header, &payload, &mut target, 0.5);
            let mut expected = [-0.0f32; 70];
            places.iter().for_each(|(index, is_negative)| expected[*index] = if *is_negative { -0.5 } else { 0.5 });
            assert_eq!(target.map(f32::to_bits), expected.map(f32::to_bits), "k = {rice_parameter}");
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        let form = Form::Sparse;
        let changed = |at: usize, to: u8| {
            let mut payload = payload();
            payload[at] = to;
            check(&HEADER, &payload)
        };
        assert_eq!(changed(1, 0b0110), Err(MessageError::IndexOutOfRange { elements: 70, found: 70 }));
        assert_eq!(changed(1, 0b1_0100), Err(MessageError::BitsInPadding { form }));
        assert_eq!(changed(2, 1), Err(MessageError::WrongSentCount { form, expected: 3, found: 2 }));
        let error = check(&HEADER, &[payload(), vec![0]].concat());
        assert_eq!(error, Err(MessageError::WrongLength { form, expected: 4, found: 5 }));
        let error = check(&HEADER, &payload()[..2]);
        assert_eq!(error, Err(MessageError::WrongLength { form, expected: 3, found: 2 }));
    }

    /// Bits of a gap with density `p` without its sign: k + 1 and the mean of the quotient, q / (1 − q).
    fn expected_bits(p: f64, k: i32) -> f64 {
        let q = (1.0 - p).powi(1 << k);
        f64::from(k) + 1.0 + q / (1.0 - q)
    }

    #[test]
    fn remainders_are_summed_for_every_width_and_any_number_of_them() {
        for rice_parameter in 0..=31u8 {
            for sent in [0, 1, 2, 5, 57, 64, 1000, 9001] {
                let width = u32::from(rice_parameter) + 1;
                let field = |at: u64| (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20) & ((1 << width) - 1);
                // The most that there can be, and anything; the bits of quotients come right behind.
                for field in [&(|_| (1u64 << width) - 1) as &dyn Fn(u64) -> u64, &field] {
                    let mut payload = vec![0; (sent as usize * width as usize).div_ceil(8)];
                    let mut writer = BitWriter::new(&mut payload);
                    (0..sent).for_each(|at| writer.push(field(at), width));
                    writer.finish();
                    payload.extend([0xff; 9]);
                    let header = Header { rice_parameter, elements: u32::MAX, sent: sent as u32, ..HEADER };
                    let expected: u64 = (0..sent).map(|at| field(at) >> 1).sum();
                    assert_eq!(sum_of_remainders(&header, &payload), expected, "k = {rice_parameter}, {sent} of them");
                }
            }
        }
    }

    #[test]
    fn no_other_rice_parameter_is_better() {
        for one_in in [2u32, 3, 5, 10, 37, 100, 999, 5_000, 100_000] {
            let p = 1.0 / f64::from(one_in);
            let chosen = expected_bits(p, i32::from(rice_parameter(one_in * 1000, 1000)));
            let best = (0..20).map(|k| expected_bits(p, k)).fold(f64::MAX, f64::min);
            assert!(chosen < best * 1.005, "1 in {one_in}: {chosen} bits, {best} with the best");
        }
    }

    #[test]
    fn the_rice_parameter_is_bounded() {
        assert_eq!(rice_parameter(0, 0), 0);
        assert_eq!(rice_parameter(10, 10), 0);
        assert_eq!(rice_parameter(u32::MAX, 1), 31);
    }

    #[test]
    fn never_more_than_two_bits_an_element() {
        for elements in 1..300 {
            for sent in 1..=elements {
                assert!(most_bits(elements, sent, rice_parameter(elements, sent)) <= 2 * u64::from(elements) + 2);
            }
        }
    }
}
