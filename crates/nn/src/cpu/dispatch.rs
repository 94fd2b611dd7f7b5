//! Runs code with the best instructions that this machine has.

#![expect(unsafe_code, reason = "calling functions compiled for instructions whose presence was checked")]

use paceline_model::vectorize;

use super::vector::{Plain, Vector};

/// The vector instructions that kernels are compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Instructions {
    /// 16 lanes, 32 registers.
    #[cfg(target_arch = "x86_64")]
    Avx512,
    /// 8 lanes, 16 registers, fused multiply and add.
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// What every machine of this architecture has.
    Portable,
}

/// Work that is written over [`Vector`] and run with the instructions of the machine.
pub(crate) trait Work {
    /// Must be `#[inline(always)]`, so that it is compiled with the caller's instructions.
    ///
    /// # Safety
    ///
    /// The machine must have the instructions of `V`.
    unsafe fn run<V: Vector>(self);
}

impl Instructions {
    /// The best that this machine has.
    pub fn detect() -> Self {
        #[cfg(target_arch = "x86_64")]
        {
            if is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512dq")
                && is_x86_feature_detected!("avx512vl")
            {
                return Instructions::Avx512;
            }
            if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
                return Instructions::Avx2;
            }
        }
        Instructions::Portable
    }

    /// All that this machine has, the best first.
    pub fn available() -> Vec<Self> {
        let mut all = vec![Self::detect()];
        #[cfg(target_arch = "x86_64")]
        if all[0] == Instructions::Avx512 && is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
            all.push(Instructions::Avx2);
        }
        if all[0] != Instructions::Portable {
            all.push(Instructions::Portable);
        }
        all
    }

    /// A name for people.
    pub fn name(self) -> &'static str {
        match self {
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx512 => "AVX-512",
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx2 => "AVX2 and FMA",
            Instructions::Portable => "portable",
        }
    }

    pub(crate) fn run<W: Work>(self, work: W) {
        #[cfg(target_arch = "x86_64")]
        {
            use std::arch::x86_64::{__m256, __m512};

            #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
            unsafe fn wide<W: Work>(work: W) {
                // SAFETY: the caller checked the instructions.
                unsafe { work.run::<__m512>() }
            }
            #[target_feature(enable = "avx2,fma")]
            unsafe fn half<W: Work>(work: W) {
                // SAFETY: the caller checked the instructions.
                unsafe { work.run::<__m256>() }
            }
            match self {
                // SAFETY: `Cpu::new` takes only what `available` has found.
                Instructions::Avx512 => return unsafe { wide(work) },
                Instructions::Avx2 => return unsafe { half(work) },
                Instructions::Portable => {}
            }
        }
        // SAFETY: plain arrays need no instructions.
        unsafe { work.run::<Plain>() }
    }
}

/// `parameters -= update`
pub(crate) fn subtract(parameters: &mut [f32], update: &[f32]) {
    vectorize(
        #[inline(always)]
        move || {
            for (p, u) in parameters.iter_mut().zip(update) {
                *p -= u;
            }
        },
    );
}
