//! The one pass over the residual: add the update, find what has reached the threshold, keep the rest.
//!
//! For every element, with one rounding each:
//!
//! ```text
//! residual += scale · update
//! if |residual| >= threshold: it is sent, and residual -= sign(residual) · threshold
//! ```
//!
//! Memory is read and written once; what is sent comes out as two bits an element, see [`Planes`].

#![cfg_attr(
    target_arch = "x86_64",
    expect(unsafe_code, reason = "vector instructions, of which `Instructions` is the proof that they are there")
)]

use crate::Instructions;
use crate::instructions::Set;
use crate::planes::{BLOCK, Planes, Words};

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

/// Adds `update` to the part of `residual` that begins at `start`, and moves what has reached the threshold into `planes`,
/// where nothing of that part may be sent yet.
pub(crate) fn absorb(
    instructions: Instructions,
    start: usize,
    update: &[f32],
    residual: &mut [f32],
    rule: Rule,
    planes: &mut Planes,
) -> Absorbed {
    assert_eq!(planes.sent.len(), residual.len().div_ceil(BLOCK), "the planes are made for this residual");
    let residual = &mut residual[start..start + update.len()];
    // Up to the next block, whole blocks, and the rest.
    let first = (start.next_multiple_of(BLOCK) - start).min(update.len());
    let (update_first, update) = update.split_at(first);
    let (residual_first, residual) = residual.split_at_mut(first);
    let (update_blocks, update_rest) = update.as_chunks::<BLOCK>();
    let (residual_blocks, residual_rest) = residual.as_chunks_mut::<BLOCK>();
    let block = (start + first) / BLOCK;
    let words = planes.words(block..block + update_blocks.len());
    let mut absorbed = match instructions.0 {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: `Instructions` exists only for what this machine has.
        Set::Avx512 => unsafe { wide::blocks(update_blocks, residual_blocks, rule, words) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as above.
        Set::Avx2 => unsafe { half::blocks(update_blocks, residual_blocks, rule, words) },
        Set::Portable => portable_blocks(update_blocks, residual_blocks, rule, words),
    };
    let rest_at = block * BLOCK + update_blocks.len() * BLOCK;
    for (at, update, residual) in [(start, update_first, residual_first), (rest_at, update_rest, residual_rest)] {
        if !update.is_empty() {
            let (sent, negative, largest) = portable(update, residual, rule);
            planes.sent[at / BLOCK] |= sent << (at % BLOCK);
            planes.negative[at / BLOCK] |= negative << (at % BLOCK);
            absorbed.merge(Absorbed { count: sent.count_ones() as usize, largest });
        }
    }
    absorbed
}

fn portable_blocks(update: &[[f32; BLOCK]], residual: &mut [[f32; BLOCK]], rule: Rule, words: Words<'_>) -> Absorbed {
    let mut absorbed = Absorbed::NOTHING;
    for (block, (update, residual)) in update.iter().zip(residual).enumerate() {
        let (sent, negative, largest) = portable(update, residual, rule);
        (words.sent[block], words.negative[block]) = (sent, negative);
        absorbed.merge(Absorbed { count: sent.count_ones() as usize, largest });
    }
    absorbed
}

/// At most a block: what is sent, what of it is negative, and the bits of the largest magnitude.
#[inline(always)]
fn portable(update: &[f32], residual: &mut [f32], Rule { scale, threshold }: Rule) -> (u64, u64, u32) {
    let mut largest = 0;
    // Signed, because the oldest vector instructions know no other maximum; no magnitude has the sign bit.
    for (residual, update) in residual.iter_mut().zip(update) {
        *residual += update * scale;
        largest = largest.max(residual.abs().to_bits() as i32);
    }
    let (mut sent, mut negative) = (0, 0);
    // Most blocks end here; bits of magnitudes are in the order of the magnitudes.
    if largest >= threshold.to_bits() as i32 {
        for (lane, residual) in residual.iter_mut().enumerate() {
            let (is_sent, is_negative) = (residual.abs() >= threshold, *residual < 0.0);
            *residual -= if is_sent { threshold.copysign(*residual) } else { 0.0 };
            sent |= u64::from(is_sent) << lane;
            negative |= u64::from(is_sent & is_negative) << lane;
        }
    }
    (sent, negative, largest as u32)
}

#[cfg(target_arch = "x86_64")]
mod wide {
    use std::arch::x86_64::*;

    use super::{Absorbed, BLOCK, Rule, Words};

    #[target_feature(enable = "avx512f,popcnt")]
    pub(super) fn blocks(
        update: &[[f32; BLOCK]],
        residual: &mut [[f32; BLOCK]],
        rule: Rule,
        words: Words<'_>,
    ) -> Absorbed {
        const LANES: usize = 16;
        let (scales, thresholds) = (_mm512_set1_ps(rule.scale), _mm512_set1_ps(rule.threshold));
        let sign = _mm512_set1_epi32(i32::MIN);
        let mut largest = _mm512_setzero_si512();
        let mut count = 0;
        let words = words.sent.iter_mut().zip(words.negative);
        for ((update, residual), (sent_word, negative_word)) in update.iter().zip(residual).zip(words) {
            let (mut sent, mut negative) = (0, 0);
            for at in (0..BLOCK).step_by(LANES) {
                // SAFETY: `at + LANES <= BLOCK`, the length of both arrays.
                let (update, before) =
                    unsafe { (_mm512_loadu_ps(update.as_ptr().add(at)), _mm512_loadu_ps(residual.as_ptr().add(at))) };
                let sum = _mm512_add_ps(before, _mm512_mul_ps(update, scales));
                let bits = _mm512_castps_si512(sum);
                let magnitude = _mm512_andnot_si512(sign, bits);
                largest = _mm512_max_epu32(largest, magnitude);
                let reached = _mm512_cmp_ps_mask::<_CMP_GE_OQ>(_mm512_castsi512_ps(magnitude), thresholds);
                let signs = _mm512_and_si512(sign, bits);
                let signed = _mm512_castsi512_ps(_mm512_or_si512(signs, _mm512_castps_si512(thresholds)));
                let rest = _mm512_mask_sub_ps(sum, reached, sum, signed);
                // SAFETY: as above.
                unsafe { _mm512_storeu_ps(residual.as_mut_ptr().add(at), rest) };
                sent |= u64::from(reached) << at;
                negative |= u64::from(_mm512_mask_test_epi32_mask(reached, signs, sign)) << at;
            }
            (*sent_word, *negative_word) = (sent, negative);
            count += sent.count_ones() as usize;
        }
        Absorbed { count, largest: _mm512_reduce_max_epu32(largest) }
    }
}

#[cfg(target_arch = "x86_64")]
mod half {
    use std::arch::x86_64::*;

    use super::{Absorbed, BLOCK, Rule, Words};

    #[target_feature(enable = "avx2,popcnt")]
    pub(super) fn blocks(
        update: &[[f32; BLOCK]],
        residual: &mut [[f32; BLOCK]],
        rule: Rule,
        words: Words<'_>,
    ) -> Absorbed {
        const LANES: usize = 8;
        let (scales, thresholds) = (_mm256_set1_ps(rule.scale), _mm256_set1_ps(rule.threshold));
        let sign = _mm256_set1_ps(-0.0);
        let mut largest = _mm256_setzero_si256();
        let mut count = 0;
        let words = words.sent.iter_mut().zip(words.negative);
        for ((update, residual), (sent_word, negative_word)) in update.iter().zip(residual).zip(words) {
            let (mut sent, mut negative) = (0, 0);
            for at in (0..BLOCK).step_by(LANES) {
                // SAFETY: `at + LANES <= BLOCK`, the length of both arrays.
                let (update, before) =
                    unsafe { (_mm256_loadu_ps(update.as_ptr().add(at)), _mm256_loadu_ps(residual.as_ptr().add(at))) };
                let sum = _mm256_add_ps(before, _mm256_mul_ps(update, scales));
                let magnitude = _mm256_andnot_ps(sign, sum);
                largest = _mm256_max_epu32(largest, _mm256_castps_si256(magnitude));
                let reached = _mm256_cmp_ps::<_CMP_GE_OQ>(magnitude, thresholds);
                let signed = _mm256_or_ps(_mm256_and_ps(sign, sum), thresholds);
                let rest = _mm256_sub_ps(sum, _mm256_and_ps(reached, signed));
                // Lanes that are not sent keep their bits: a zero was subtracted, and -0 − 0 is -0.
                // SAFETY: as above.
                unsafe { _mm256_storeu_ps(residual.as_mut_ptr().add(at), rest) };
                let reached_lanes = _mm256_movemask_ps(reached) as u32;
                sent |= u64::from(reached_lanes) << at;
                negative |= u64::from(reached_lanes & _mm256_movemask_ps(sum) as u32) << at;
            }
            (*sent_word, *negative_word) = (sent, negative);
            count += sent.count_ones() as usize;
        }
        let mut lanes = [0u32; LANES];
        // SAFETY: the array has the 32 bytes that are written.
        unsafe { _mm256_storeu_si256(lanes.as_mut_ptr().cast(), largest) };
        Absorbed { count, largest: lanes.into_iter().fold(0, u32::max) }
    }
}

#[cfg(test)]
mod tests {
    use super::{Rule, absorb};
    use crate::Instructions;
    use crate::planes::Planes;

    #[test]
    fn every_instruction_set_sends_exactly_what_reached_the_threshold() {
        let update: Vec<f32> = (0..150).map(|i| (i as f32 - 75.0) / 75.0).collect();
        for instructions in Instructions::available() {
            let mut residual = vec![-0.0; 150];
            let mut planes = Planes::new(150);
            let rule = Rule { scale: 2.0, threshold: 1.0 };
            let absorbed = absorb(instructions, 0, &update, &mut residual, rule, &mut planes);
            let mut found = Vec::new();
            planes.take_sent(|index, is_negative| found.push((index, is_negative)));
            let expected: Vec<_> = (0..=37).map(|i| (i, true)).chain((113..150).map(|i| (i, false))).collect();
            assert_eq!(found, expected, "{}", instructions.name());
            assert_eq!(absorbed.count, expected.len());
            assert_eq!(f32::from_bits(absorbed.largest), 2.0);
            assert_eq!(residual[0], -1.0);
            assert_eq!(residual[75], 0.0);
        }
    }
}
