//! The one pass over the residual: add the update, find what has reached the threshold, keep the rest.
//!
//! For every element, with one rounding each:
//!
//! ```text
//! residual += scale · update
//! if |residual| >= threshold: it is sent, and residual -= sign(residual) · threshold
//! ```
//!
//! Memory is read and written once. Sums come first, for a block of elements at a time, and with them the largest; most blocks
//! end there, and only where one has reached the threshold it is found out which, see [`Marks`].

#![cfg_attr(
    target_arch = "x86_64",
    expect(unsafe_code, reason = "vector instructions, of which `Instructions` is the proof that they are there")
)]

use crate::Instructions;
use crate::instructions::Set;
use crate::marks::{BLOCK, Mark, Marks};

/// What is done to an element.
#[derive(Clone, Copy)]
pub(crate) struct Rule {
    pub(crate) scale: f32,
    pub(crate) threshold: f32,
}

/// What the pass has found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Absorbed {
    /// The number of elements that are sent.
    pub(crate) count: usize,
    /// The largest magnitude before anything was sent, as bits: those of infinities and of what is no number are above
    /// those of every finite number, so that one maximum watches over all elements.
    pub(crate) largest: u32,
}

impl Absorbed {
    pub(crate) const NOTHING: Self = Self { count: 0, largest: 0 };

    pub(crate) fn is_finite(&self) -> bool {
        f32::from_bits(self.largest).is_finite()
    }

    pub(crate) fn merge(&mut self, other: Self) {
        self.count += other.count;
        self.largest = self.largest.max(other.largest);
    }
}

/// Adds `update` to the part of `residual` that begins at `start`, and moves what has reached the threshold into `marks`,
/// where nothing of that part may be sent yet.
pub(crate) fn absorb(
    instructions: Instructions,
    start: usize,
    update: &[f32],
    residual: &mut [f32],
    rule: Rule,
    marks: &mut Marks,
) -> Absorbed {
    let part = start..start + update.len();
    let residual = &mut residual[part.clone()];
    let marks = marks.of_part(part);
    // Up to the next block, whole blocks, and the rest.
    let first = (start.next_multiple_of(BLOCK) - start).min(update.len());
    let (update_first, update) = update.split_at(first);
    let (residual_first, residual) = residual.split_at_mut(first);
    let (update_blocks, update_rest) = update.as_chunks::<BLOCK>();
    let (residual_blocks, residual_rest) = residual.as_chunks_mut::<BLOCK>();
    let block = (start + first) / BLOCK;
    let mut absorbed = portable(start, update_first, residual_first, rule, marks);
    absorbed.merge(match instructions.0 {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: `Instructions` exists only for what this machine has.
        Set::Avx512 => unsafe { wide::blocks(block, update_blocks, residual_blocks, rule, marks) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as above.
        Set::Avx2 => unsafe { half::blocks(block, update_blocks, residual_blocks, rule, marks) },
        Set::Portable => portable_blocks(block, update_blocks, residual_blocks, rule, marks),
    });
    let rest = (block + update_blocks.len()) * BLOCK;
    absorbed.merge(portable(rest, update_rest, residual_rest, rule, marks));
    absorbed
}

fn portable_blocks(
    first: usize,
    update: &[[f32; BLOCK]],
    residual: &mut [[f32; BLOCK]],
    rule: Rule,
    marks: &mut Vec<Mark>,
) -> Absorbed {
    let mut absorbed = Absorbed::NOTHING;
    for (block, (update, residual)) in (first..).zip(update.iter().zip(residual)) {
        absorbed.merge(portable(block * BLOCK, update, residual, rule, marks));
    }
    absorbed
}

/// A block, or the part of one that begins at element `start`.
#[inline(always)]
fn portable(start: usize, update: &[f32], residual: &mut [f32], rule: Rule, marks: &mut Vec<Mark>) -> Absorbed {
    let Rule { scale, threshold } = rule;
    let mut largest = 0;
    // Signed, because the oldest vector instructions know no other maximum; no magnitude has the sign bit.
    for (residual, update) in residual.iter_mut().zip(update) {
        *residual += update * scale;
        largest = largest.max(residual.abs().to_bits() as i32);
    }
    let (mut sent, mut negative) = (0, 0);
    // Bits of magnitudes are in the order of the magnitudes.
    if largest >= threshold.to_bits() as i32 {
        for (lane, residual) in (start % BLOCK..).zip(residual) {
            let (is_sent, is_negative) = (residual.abs() >= threshold, *residual < 0.0);
            *residual -= if is_sent { threshold.copysign(*residual) } else { 0.0 };
            sent |= u64::from(is_sent) << lane;
            negative |= u64::from(is_sent & is_negative) << lane;
        }
    }
    Absorbed { count: note(marks, start / BLOCK, sent, negative), largest: largest as u32 }
}

/// Notes what is sent of a block, if anything is, and says how many elements that is.
#[inline(always)]
fn note(marks: &mut Vec<Mark>, block: usize, sent: u64, negative: u64) -> usize {
    if sent != 0 {
        marks.push(Mark { block, sent, negative });
    }
    sent.count_ones() as usize
}

#[cfg(target_arch = "x86_64")]
mod wide {
    use std::arch::x86_64::*;

    use super::{Absorbed, BLOCK, Mark, Rule, note};

    const LANES: usize = 16;

    #[target_feature(enable = "avx512f,popcnt")]
    pub(super) fn blocks(
        first: usize,
        update: &[[f32; BLOCK]],
        residual: &mut [[f32; BLOCK]],
        rule: Rule,
        marks: &mut Vec<Mark>,
    ) -> Absorbed {
        let scales = _mm512_set1_ps(rule.scale);
        let least = _mm512_set1_epi32(rule.threshold.to_bits() as i32);
        let but_sign = _mm512_set1_epi32(i32::MAX);
        let mut all = _mm512_setzero_si512();
        let mut count = 0;
        for (block, (update, residual)) in (first..).zip(update.iter().zip(residual)) {
            let mut largest = _mm512_setzero_si512();
            for at in (0..BLOCK).step_by(LANES) {
                // SAFETY: `at + LANES <= BLOCK`, the length of both arrays.
                let (update, before) =
                    unsafe { (_mm512_loadu_ps(update.as_ptr().add(at)), _mm512_loadu_ps(residual.as_ptr().add(at))) };
                let sum = _mm512_add_ps(before, _mm512_mul_ps(update, scales));
                largest = _mm512_max_epu32(largest, _mm512_and_si512(but_sign, _mm512_castps_si512(sum)));
                // SAFETY: as above.
                unsafe { _mm512_storeu_ps(residual.as_mut_ptr().add(at), sum) };
            }
            all = _mm512_max_epu32(all, largest);
            if _mm512_cmpge_epu32_mask(largest, least) != 0 {
                let (sent, negative) = send(residual, rule.threshold);
                count += note(marks, block, sent, negative);
            }
        }
        Absorbed { count, largest: _mm512_reduce_max_epu32(all) }
    }

    /// Takes what has reached the threshold out of a block: what is sent, and what of it is negative.
    #[inline]
    #[target_feature(enable = "avx512f,popcnt")]
    fn send(residual: &mut [f32; BLOCK], threshold: f32) -> (u64, u64) {
        let thresholds = _mm512_set1_ps(threshold);
        let sign = _mm512_set1_epi32(i32::MIN);
        let (mut sent, mut negative) = (0, 0);
        for at in (0..BLOCK).step_by(LANES) {
            // SAFETY: `at + LANES <= BLOCK`.
            let sum = unsafe { _mm512_loadu_ps(residual.as_ptr().add(at)) };
            let bits = _mm512_castps_si512(sum);
            let magnitude = _mm512_castsi512_ps(_mm512_andnot_si512(sign, bits));
            let reached = _mm512_cmp_ps_mask::<_CMP_GE_OQ>(magnitude, thresholds);
            let signs = _mm512_and_si512(sign, bits);
            let signed = _mm512_castsi512_ps(_mm512_or_si512(signs, _mm512_castps_si512(thresholds)));
            let rest = _mm512_mask_sub_ps(sum, reached, sum, signed);
            // SAFETY: as above.
            unsafe { _mm512_storeu_ps(residual.as_mut_ptr().add(at), rest) };
            sent |= u64::from(reached) << at;
            negative |= u64::from(_mm512_mask_test_epi32_mask(reached, signs, sign)) << at;
        }
        (sent, negative)
    }
}

#[cfg(target_arch = "x86_64")]
mod half {
    use std::arch::x86_64::*;

    use super::{Absorbed, BLOCK, Mark, Rule, note};

    const LANES: usize = 8;

    #[target_feature(enable = "avx2,popcnt")]
    pub(super) fn blocks(
        first: usize,
        update: &[[f32; BLOCK]],
        residual: &mut [[f32; BLOCK]],
        rule: Rule,
        marks: &mut Vec<Mark>,
    ) -> Absorbed {
        let scales = _mm256_set1_ps(rule.scale);
        // The last that has not reached the threshold: there is no comparison but `>`, and none without a sign. No magnitude
        // has one.
        let last = _mm256_set1_epi32(rule.threshold.to_bits() as i32 - 1);
        let but_sign = _mm256_set1_epi32(i32::MAX);
        let mut all = _mm256_setzero_si256();
        let mut count = 0;
        for (block, (update, residual)) in (first..).zip(update.iter().zip(residual)) {
            let mut largest = _mm256_setzero_si256();
            for at in (0..BLOCK).step_by(LANES) {
                // SAFETY: `at + LANES <= BLOCK`, the length of both arrays.
                let (update, before) =
                    unsafe { (_mm256_loadu_ps(update.as_ptr().add(at)), _mm256_loadu_ps(residual.as_ptr().add(at))) };
                let sum = _mm256_add_ps(before, _mm256_mul_ps(update, scales));
                largest = _mm256_max_epu32(largest, _mm256_and_si256(but_sign, _mm256_castps_si256(sum)));
                // SAFETY: as above.
                unsafe { _mm256_storeu_ps(residual.as_mut_ptr().add(at), sum) };
            }
            all = _mm256_max_epu32(all, largest);
            let reached = _mm256_cmpgt_epi32(largest, last);
            if _mm256_testz_si256(reached, reached) == 0 {
                let (sent, negative) = send(residual, rule.threshold);
                count += note(marks, block, sent, negative);
            }
        }
        let mut lanes = [0u32; LANES];
        // SAFETY: the array has the 32 bytes that are written.
        unsafe { _mm256_storeu_si256(lanes.as_mut_ptr().cast(), all) };
        Absorbed { count, largest: lanes.into_iter().fold(0, u32::max) }
    }

    /// Takes what has reached the threshold out of a block: what is sent, and what of it is negative.
    #[inline]
    #[target_feature(enable = "avx2,popcnt")]
    fn send(residual: &mut [f32; BLOCK], threshold: f32) -> (u64, u64) {
        let thresholds = _mm256_set1_ps(threshold);
        let sign = _mm256_set1_ps(-0.0);
        let (mut sent, mut negative) = (0, 0);
        for at in (0..BLOCK).step_by(LANES) {
            // SAFETY: `at + LANES <= BLOCK`.
            let sum = unsafe { _mm256_loadu_ps(residual.as_ptr().add(at)) };
            let reached = _mm256_cmp_ps::<_CMP_GE_OQ>(_mm256_andnot_ps(sign, sum), thresholds);
            let signed = _mm256_or_ps(_mm256_and_ps(sign, sum), thresholds);
            let rest = _mm256_sub_ps(sum, _mm256_and_ps(reached, signed));
            // Lanes that are not sent keep their bits: a zero was subtracted, and -0 − 0 is -0.
            // SAFETY: as above.
            unsafe { _mm256_storeu_ps(residual.as_mut_ptr().add(at), rest) };
            let reached = _mm256_movemask_ps(reached) as u32;
            sent |= u64::from(reached) << at;
            negative |= u64::from(reached & _mm256_movemask_ps(sum) as u32) << at;
        }
        (sent, negative)
    }
}

#[cfg(test)]
mod tests {
    use super::{Rule, absorb};
    use crate::Instructions;
    use crate::marks::Marks;

    #[test]
    fn every_instruction_set_sends_exactly_what_reached_the_threshold() {
        let update: Vec<f32> = (0..150).map(|i| (i as f32 - 75.0) / 75.0).collect();
        for instructions in Instructions::available() {
            let mut residual = vec![-0.0; 150];
            let mut marks = Marks::default();
            let rule = Rule { scale: 2.0, threshold: 1.0 };
            let absorbed = absorb(instructions, 0, &update, &mut residual, rule, &mut marks);
            let mut found = Vec::new();
            marks.take_sent(|index, is_negative| found.push((index, is_negative)));
            let expected: Vec<_> = (0..=37).map(|i| (i, true)).chain((113..150).map(|i| (i, false))).collect();
            assert_eq!(found, expected, "{}", instructions.name());
            assert_eq!(absorbed.count, expected.len());
            assert_eq!(f32::from_bits(absorbed.largest), 2.0);
            assert_eq!(residual[0], -1.0);
            assert_eq!(residual[75], 0.0);
        }
    }

    #[test]
    fn what_is_not_sent_keeps_its_sign() {
        for instructions in Instructions::available() {
            let (mut update, mut residual) = ([-0.0; 64], [-0.0; 64]);
            update[9] = 3.0;
            let rule = Rule { scale: 0.5, threshold: 1.0 };
            absorb(instructions, 0, &update, &mut residual, rule, &mut Marks::default());
            let kept = residual.iter().enumerate().filter(|(index, _)| *index != 9);
            assert!(kept.into_iter().all(|(_, rest)| rest.to_bits() == (-0.0f32).to_bits()), "{}", instructions.name());
            assert_eq!(residual[9], 0.5);
        }
    }
}
