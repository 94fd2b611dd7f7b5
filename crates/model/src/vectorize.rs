#![expect(unsafe_code, reason = "calling functions compiled for instructions whose presence was checked")]

/// Runs a loop that the compiler vectorises, compiled once more for wider instructions. The work must be
/// `#[inline(always)]`.
///
/// Nothing in it may depend on the instructions: no fused products, so every machine gives the same bits.
#[inline]
pub fn vectorize(work: impl FnOnce()) {
    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2")]
        unsafe fn wide(work: impl FnOnce()) {
            work();
        }
        #[target_feature(enable = "avx2")]
        unsafe fn half(work: impl FnOnce()) {
            work();
        }
        if is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512vl")
        {
            // SAFETY: the instructions were detected.
            return unsafe { wide(work) };
        }
        if is_x86_feature_detected!("avx2") {
            // SAFETY: the instructions were detected.
            return unsafe { half(work) };
        }
    }
    work();
}
