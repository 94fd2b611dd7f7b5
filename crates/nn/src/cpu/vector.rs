//! A few lanes of floats. Kernels are written once over this trait and compiled for each instruction set.

#![expect(unsafe_code, reason = "vector instructions and raw loads; callers keep pointers in bounds")]

/// A register's worth of floats.
///
/// # Safety
///
/// The methods may only be called on a machine that has the instructions, and with pointers to as many floats as they
/// read or write.
pub(crate) trait Vector: Copy {
    /// Floats in one vector.
    const LANES: usize;
    /// Which tile sizes keep all accumulators in registers.
    const REGISTERS: Registers;
    unsafe fn splat(value: f32) -> Self;
    /// Writes 8 × 8 floats with their rows as columns.
    unsafe fn transpose(from: *const f32, from_stride: usize, to: *mut f32, to_stride: usize);
    unsafe fn load(from: *const f32) -> Self;
    /// Reads `count` floats; the other lanes are 0.
    unsafe fn load_part(from: *const f32, count: usize) -> Self;
    unsafe fn store(self, to: *mut f32);
    /// Writes the first `count` lanes.
    unsafe fn store_part(self, to: *mut f32, count: usize);
    /// Asks for the line at `at`, which will be read or written soon. Any address will do.
    unsafe fn prefetch(at: *const f32);
    /// Asks for the line at `at` to come to the second-level cache: it will be needed in a while.
    unsafe fn prefetch_far(at: *const f32);
    /// The same for a line that will be written: no other core has it then.
    unsafe fn prefetch_to_write(at: *const f32);
    unsafe fn add(self, other: Self) -> Self;
    /// `a · b + self`
    unsafe fn add_product(self, a: Self, b: Self) -> Self;
    /// The larger; `other` if either is no number.
    unsafe fn max(self, other: Self) -> Self;
    /// Lanes of `new` and `new_mark` where `self` is below `new` or `new` is no number; else `self` and `mark`.
    unsafe fn max_with_mark(self, mark: Self, new: Self, new_mark: Self) -> (Self, Self);
    /// Writes the first `count` lanes, whole numbers below 2¹⁶, as such.
    unsafe fn store_marks(self, to: *mut u16, count: usize);
    /// Reads `count` whole numbers; the other lanes are 0.
    unsafe fn load_marks(from: *const u16, count: usize) -> Self;
    /// Lanes of `self` where `mark` equals `wanted`, else 0.
    unsafe fn where_equal(self, mark: Self, wanted: Self) -> Self;
    /// The sum of all lanes of each vector; there are as many vectors as lanes.
    unsafe fn sums(vectors: &[Self]) -> Self;
}

/// How many vector registers an instruction set has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Registers {
    #[cfg(target_arch = "x86_64")]
    ThirtyTwo,
    #[cfg(target_arch = "x86_64")]
    Sixteen,
    Few,
}

/// Lanes without instructions of their own; the compiler makes of them what it can.
#[derive(Clone, Copy)]
pub(crate) struct Plain([f32; 8]);

impl Vector for Plain {
    const LANES: usize = 8;
    const REGISTERS: Registers = Registers::Few;

    #[inline(always)]
    unsafe fn splat(value: f32) -> Self {
        Self([value; 8])
    }
    #[inline(always)]
    unsafe fn transpose(from: *const f32, from_stride: usize, to: *mut f32, to_stride: usize) {
        for (row, column) in (0..8).flat_map(|row| (0..8).map(move |column| (row, column))) {
            // SAFETY: the caller's pointers have 8 rows of 8 floats.
            unsafe { *to.add(column * to_stride + row) = *from.add(row * from_stride + column) };
        }
    }
    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: the caller's pointer has 8 floats.
        Self(unsafe { from.cast::<[f32; 8]>().read_unaligned() })
    }
    #[inline(always)]
    unsafe fn load_part(from: *const f32, count: usize) -> Self {
        let mut lanes = [0.0; 8];
        for (lane, value) in lanes.iter_mut().enumerate().take(count) {
            // SAFETY: the caller's pointer has `count` floats.
            *value = unsafe { *from.add(lane) };
        }
        Self(lanes)
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: the caller's pointer has 8 floats.
        unsafe { to.cast::<[f32; 8]>().write_unaligned(self.0) }
    }
    #[inline(always)]
    unsafe fn store_part(self, to: *mut f32, count: usize) {
        for (lane, value) in self.0.iter().enumerate().take(count) {
            // SAFETY: the caller's pointer has `count` floats.
            unsafe { *to.add(lane) = *value };
        }
    }
    #[inline(always)]
    unsafe fn prefetch(_at: *const f32) {}
    #[inline(always)]
    unsafe fn prefetch_far(_at: *const f32) {}
    #[inline(always)]
    unsafe fn prefetch_to_write(_at: *const f32) {}
    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        Self(std::array::from_fn(|i| self.0[i] + other.0[i]))
    }
    #[inline(always)]
    unsafe fn add_product(self, a: Self, b: Self) -> Self {
        Self(std::array::from_fn(|i| self.0[i] + a.0[i] * b.0[i]))
    }
    #[inline(always)]
    unsafe fn max(self, other: Self) -> Self {
        Self(std::array::from_fn(|i| if self.0[i] > other.0[i] { self.0[i] } else { other.0[i] }))
    }
    #[inline(always)]
    unsafe fn max_with_mark(self, mark: Self, new: Self, new_mark: Self) -> (Self, Self) {
        let wins: [bool; 8] =
            std::array::from_fn(|i| new.0[i] > self.0[i] || (new.0[i].is_nan() && !self.0[i].is_nan()));
        let pick = |yes: [f32; 8], no: [f32; 8]| Self(std::array::from_fn(|i| if wins[i] { yes[i] } else { no[i] }));
        (pick(new.0, self.0), pick(new_mark.0, mark.0))
    }
    #[inline(always)]
    unsafe fn store_marks(self, to: *mut u16, count: usize) {
        for (lane, value) in self.0.iter().enumerate().take(count) {
            // SAFETY: the caller's pointer has `count` marks.
            unsafe { *to.add(lane) = *value as u16 };
        }
    }
    #[inline(always)]
    unsafe fn load_marks(from: *const u16, count: usize) -> Self {
        // SAFETY: the caller's pointer has `count` marks.
        Self(std::array::from_fn(|lane| if lane < count { f32::from(unsafe { *from.add(lane) }) } else { 0.0 }))
    }
    #[inline(always)]
    unsafe fn where_equal(self, mark: Self, wanted: Self) -> Self {
        Self(std::array::from_fn(|i| if mark.0[i] == wanted.0[i] { self.0[i] } else { 0.0 }))
    }
    #[inline(always)]
    unsafe fn sums(vectors: &[Self]) -> Self {
        Self(std::array::from_fn(|i| {
            let v = vectors[i].0;
            ((v[0] + v[4]) + (v[2] + v[6])) + ((v[1] + v[5]) + (v[3] + v[7]))
        }))
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    use super::{Registers, Vector};

    // SAFETY of every method below: the trait's contract; `Instructions::run` checks that the machine has them.

    impl Vector for __m512 {
        const LANES: usize = 16;
        const REGISTERS: Registers = Registers::ThirtyTwo;

        #[inline(always)]
        unsafe fn splat(value: f32) -> Self {
            unsafe { _mm512_set1_ps(value) }
        }
        #[inline(always)]
        unsafe fn transpose(from: *const f32, from_stride: usize, to: *mut f32, to_stride: usize) {
            unsafe { transpose8(from, from_stride, to, to_stride) }
        }
        #[inline(always)]
        unsafe fn load(from: *const f32) -> Self {
            unsafe { _mm512_loadu_ps(from) }
        }
        #[inline(always)]
        unsafe fn load_part(from: *const f32, count: usize) -> Self {
            unsafe { _mm512_maskz_loadu_ps(mask16(count), from) }
        }
        #[inline(always)]
        unsafe fn store(self, to: *mut f32) {
            unsafe { _mm512_storeu_ps(to, self) }
        }
        #[inline(always)]
        unsafe fn store_part(self, to: *mut f32, count: usize) {
            unsafe { _mm512_mask_storeu_ps(to, mask16(count), self) }
        }
        #[inline(always)]
        unsafe fn prefetch(at: *const f32) {
            unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) }
        }
        #[inline(always)]
        unsafe fn prefetch_far(at: *const f32) {
            unsafe { _mm_prefetch::<_MM_HINT_T1>(at.cast()) }
        }
        #[inline(always)]
        unsafe fn prefetch_to_write(at: *const f32) {
            // The compiler knows it as an instruction of some processors only; to the others it is one that does nothing.
            unsafe { std::arch::asm!("prefetchw [{}]", in(reg) at, options(nostack, preserves_flags)) }
        }
        #[inline(always)]
        unsafe fn add(self, other: Self) -> Self {
            unsafe { _mm512_add_ps(self, other) }
        }
        #[inline(always)]
        unsafe fn add_product(self, a: Self, b: Self) -> Self {
            unsafe { _mm512_fmadd_ps(a, b, self) }
        }
        #[inline(always)]
        unsafe fn max(self, other: Self) -> Self {
            unsafe { _mm512_max_ps(self, other) }
        }
        #[inline(always)]
        unsafe fn max_with_mark(self, mark: Self, new: Self, new_mark: Self) -> (Self, Self) {
            unsafe {
                // Unordered is true for a NaN in either; one that has won stays.
                let number = _mm512_cmp_ps_mask::<_CMP_ORD_Q>(self, self);
                let wins = _mm512_mask_cmp_ps_mask::<_CMP_NLE_UQ>(number, new, self);
                (_mm512_mask_blend_ps(wins, self, new), _mm512_mask_blend_ps(wins, mark, new_mark))
            }
        }
        #[inline(always)]
        unsafe fn store_marks(self, to: *mut u16, count: usize) {
            unsafe {
                let marks = _mm512_cvtepi32_epi16(_mm512_cvtps_epi32(self));
                _mm256_mask_storeu_epi16(to.cast(), mask16(count), marks);
            }
        }
        #[inline(always)]
        unsafe fn load_marks(from: *const u16, count: usize) -> Self {
            unsafe {
                let marks = _mm256_maskz_loadu_epi16(mask16(count), from.cast());
                _mm512_cvtepi32_ps(_mm512_cvtepu16_epi32(marks))
            }
        }
        #[inline(always)]
        unsafe fn where_equal(self, mark: Self, wanted: Self) -> Self {
            unsafe { _mm512_maskz_mov_ps(_mm512_cmp_ps_mask::<_CMP_EQ_OQ>(mark, wanted), self) }
        }
        /// Two vectors become one whose halves are each one's halves added; then quarters, and so on. A step takes one
        /// blend and one shuffle, and puts the sum of vector i into lane i.
        #[inline(always)]
        unsafe fn sums(vectors: &[Self]) -> Self {
            unsafe {
                let v: &[Self; 16] = vectors.try_into().expect("as many vectors as lanes");
                // Loops, because a closure might be compiled without the caller's instructions.
                let (mut halves, mut pairs, mut lanes) = ([v[0]; 8], [v[0]; 4], [v[0]; 2]);
                for i in 0..8 {
                    let (a, b) = (v[i], v[i + 8]);
                    halves[i] = _mm512_add_ps(_mm512_mask_blend_ps(0xff00, a, b), _mm512_shuffle_f32x4::<0x4e>(a, b));
                }
                for i in 0..4 {
                    let (a, b) = (halves[i / 2 * 4 + i % 2], halves[i / 2 * 4 + i % 2 + 2]);
                    pairs[i] = _mm512_add_ps(_mm512_mask_blend_ps(0xcccc, a, b), _mm512_shuffle_ps::<0x4e>(a, b));
                }
                let swap = _mm512_setr_epi32(1, 16, 3, 18, 5, 20, 7, 22, 9, 24, 11, 26, 13, 28, 15, 30);
                for i in 0..2 {
                    let (a, b) = (pairs[2 * i], pairs[2 * i + 1]);
                    lanes[i] = _mm512_add_ps(_mm512_mask_blend_ps(0xaaaa, a, b), _mm512_permutex2var_ps(a, swap, b));
                }
                let [a, b] = lanes;
                let swap = _mm512_setr_epi32(4, 5, 6, 7, 16, 17, 18, 19, 12, 13, 14, 15, 24, 25, 26, 27);
                _mm512_add_ps(_mm512_mask_blend_ps(0xf0f0, a, b), _mm512_permutex2var_ps(a, swap, b))
            }
        }
    }

    /// Pairs, then quads, then halves: three rounds of shuffles.
    #[inline(always)]
    unsafe fn transpose8(from: *const f32, from_stride: usize, to: *mut f32, to_stride: usize) {
        unsafe {
            let r: [__m256; 8] = std::array::from_fn(|i| _mm256_loadu_ps(from.add(i * from_stride)));
            let mut pairs = r;
            for i in (0..8).step_by(2) {
                pairs[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
                pairs[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
            }
            let mut quads = pairs;
            for i in [0, 4] {
                quads[i] = _mm256_shuffle_ps::<0x44>(pairs[i], pairs[i + 2]);
                quads[i + 1] = _mm256_shuffle_ps::<0xee>(pairs[i], pairs[i + 2]);
                quads[i + 2] = _mm256_shuffle_ps::<0x44>(pairs[i + 1], pairs[i + 3]);
                quads[i + 3] = _mm256_shuffle_ps::<0xee>(pairs[i + 1], pairs[i + 3]);
            }
            for i in 0..4 {
                _mm256_storeu_ps(to.add(i * to_stride), _mm256_permute2f128_ps::<0x20>(quads[i], quads[i + 4]));
                _mm256_storeu_ps(to.add((i + 4) * to_stride), _mm256_permute2f128_ps::<0x31>(quads[i], quads[i + 4]));
            }
        }
    }

    #[inline(always)]
    fn mask16(count: usize) -> u16 {
        ((1u32 << count) - 1) as u16
    }

    impl Vector for __m256 {
        const LANES: usize = 8;
        const REGISTERS: Registers = Registers::Sixteen;

        #[inline(always)]
        unsafe fn splat(value: f32) -> Self {
            unsafe { _mm256_set1_ps(value) }
        }
        #[inline(always)]
        unsafe fn transpose(from: *const f32, from_stride: usize, to: *mut f32, to_stride: usize) {
            unsafe { transpose8(from, from_stride, to, to_stride) }
        }
        #[inline(always)]
        unsafe fn load(from: *const f32) -> Self {
            unsafe { _mm256_loadu_ps(from) }
        }
        #[inline(always)]
        unsafe fn load_part(from: *const f32, count: usize) -> Self {
            unsafe { _mm256_maskload_ps(from, mask8(count)) }
        }
        #[inline(always)]
        unsafe fn store(self, to: *mut f32) {
            unsafe { _mm256_storeu_ps(to, self) }
        }
        #[inline(always)]
        unsafe fn store_part(self, to: *mut f32, count: usize) {
            unsafe { _mm256_maskstore_ps(to, mask8(count), self) }
        }
        #[inline(always)]
        unsafe fn prefetch(at: *const f32) {
            unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) }
        }
        #[inline(always)]
        unsafe fn prefetch_far(at: *const f32) {
            unsafe { _mm_prefetch::<_MM_HINT_T1>(at.cast()) }
        }
        #[inline(always)]
        unsafe fn prefetch_to_write(at: *const f32) {
            // The compiler knows it as an instruction of some processors only; to the others it is one that does nothing.
            unsafe { std::arch::asm!("prefetchw [{}]", in(reg) at, options(nostack, preserves_flags)) }
        }
        #[inline(always)]
        unsafe fn add(self, other: Self) -> Self {
            unsafe { _mm256_add_ps(self, other) }
        }
        #[inline(always)]
        unsafe fn add_product(self, a: Self, b: Self) -> Self {
            unsafe { _mm256_fmadd_ps(a, b, self) }
        }
        #[inline(always)]
        unsafe fn max(self, other: Self) -> Self {
            unsafe { _mm256_max_ps(self, other) }
        }
        #[inline(always)]
        unsafe fn max_with_mark(self, mark: Self, new: Self, new_mark: Self) -> (Self, Self) {
            unsafe {
                let number = _mm256_cmp_ps::<_CMP_ORD_Q>(self, self);
                let wins = _mm256_and_ps(number, _mm256_cmp_ps::<_CMP_NLE_UQ>(new, self));
                (_mm256_blendv_ps(self, new, wins), _mm256_blendv_ps(mark, new_mark, wins))
            }
        }
        #[inline(always)]
        unsafe fn store_marks(self, to: *mut u16, count: usize) {
            let mut lanes = [0.0; 8];
            unsafe {
                self.store(lanes.as_mut_ptr());
                (0..count).for_each(|lane| *to.add(lane) = lanes[lane] as u16);
            }
        }
        #[inline(always)]
        unsafe fn load_marks(from: *const u16, count: usize) -> Self {
            let mut lanes = [0.0; 8];
            unsafe {
                (0..count).for_each(|lane| lanes[lane] = f32::from(*from.add(lane)));
                Self::load(lanes.as_ptr())
            }
        }
        #[inline(always)]
        unsafe fn where_equal(self, mark: Self, wanted: Self) -> Self {
            unsafe { _mm256_and_ps(_mm256_cmp_ps::<_CMP_EQ_OQ>(mark, wanted), self) }
        }
        #[inline(always)]
        unsafe fn sums(vectors: &[Self]) -> Self {
            unsafe {
                let v: &[Self; 8] = vectors.try_into().expect("as many vectors as lanes");
                let (a, b) = (_mm256_hadd_ps(v[0], v[1]), _mm256_hadd_ps(v[2], v[3]));
                let (c, d) = (_mm256_hadd_ps(v[4], v[5]), _mm256_hadd_ps(v[6], v[7]));
                let (a, b) = (_mm256_hadd_ps(a, b), _mm256_hadd_ps(c, d));
                _mm256_add_ps(_mm256_permute2f128_ps::<0x20>(a, b), _mm256_permute2f128_ps::<0x31>(a, b))
            }
        }
    }

    #[inline(always)]
    unsafe fn mask8(count: usize) -> __m256i {
        unsafe {
            let lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
            _mm256_cmpgt_epi32(_mm256_set1_epi32(count as i32), lanes)
        }
    }
}
