#![cfg_attr(
    target_arch = "x86_64",
    expect(unsafe_code, reason = "calling functions compiled for instructions whose presence was checked")
)]

/// The vector instructions that the encoder is run with.
///
/// A value of this type is only ever what this machine has, so that whoever holds one may run the code for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instructions(pub(crate) Set);

/// The instruction sets that there is code for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Set {
    /// 16 lanes, comparisons into masks.
    #[cfg(target_arch = "x86_64")]
    Avx512,
    /// 8 lanes.
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// What every machine of this architecture has.
    Portable,
}

impl Instructions {
    /// The best that this machine has.
    pub fn detect() -> Self {
        Self::available()[0]
    }

    /// All that this machine has, the best first.
    pub fn available() -> Vec<Self> {
        let mut all = Vec::new();
        #[cfg(target_arch = "x86_64")]
        {
            if is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("popcnt") {
                all.push(Self(Set::Avx512));
            }
            if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("popcnt") {
                all.push(Self(Set::Avx2));
            }
        }
        all.push(Self(Set::Portable));
        all
    }

    /// A name for people.
    pub fn name(self) -> &'static str {
        match self.0 {
            #[cfg(target_arch = "x86_64")]
            Set::Avx512 => "AVX-512",
            #[cfg(target_arch = "x86_64")]
            Set::Avx2 => "AVX2",
            Set::Portable => "portable",
        }
    }

    /// Runs a loop that the compiler vectorises, compiled for these instructions. It must be `#[inline(always)]`, and nothing
    /// in it may depend on the instructions: every machine gives the same bits.
    #[inline]
    pub(crate) fn run<T>(self, work: impl FnOnce() -> T) -> T {
        #[cfg(target_arch = "x86_64")]
        {
            #[target_feature(enable = "avx512f,popcnt")]
            unsafe fn wide<T>(work: impl FnOnce() -> T) -> T {
                work()
            }
            #[target_feature(enable = "avx2,popcnt")]
            unsafe fn half<T>(work: impl FnOnce() -> T) -> T {
                work()
            }
            match self.0 {
                // SAFETY: a value of this type exists only for what this machine has.
                Set::Avx512 => return unsafe { wide(work) },
                // SAFETY: as above.
                Set::Avx2 => return unsafe { half(work) },
                Set::Portable => {}
            }
        }
        work()
    }
}

#[cfg(test)]
mod tests {
    use super::Instructions;

    #[test]
    fn the_best_is_the_first_and_portable_is_always_there() {
        let all = Instructions::available();
        assert_eq!(all[0], Instructions::detect());
        assert_eq!(all[all.len() - 1].name(), "portable");
    }
}
