//! Counted randomness: every random number is a function of what it is for, never of how many were drawn before.
//!
//! A draw is keyed by (seed, stream, epoch, example) and counted by element, so that dropout or an initial weight does
//! not depend on the worker, the device, the order of evaluation or a resume.

/// One stream of random numbers, indexed by element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counted {
    key: [u32; 2],
}

impl Counted {
    /// The stream of `purpose` (a layer, a parameter) for one example of one epoch.
    pub fn new(seed: u64, purpose: u64, epoch: u64, example: u64) -> Self {
        let mut key = 0x9e37_79b9_7f4a_7c15;
        for part in [seed, purpose, epoch, example] {
            key = mix64(key ^ part).wrapping_add(0x9e37_79b9_7f4a_7c15);
        }
        Self { key: [key as u32, (key >> 32) as u32] }
    }

    /// The stream of a later draw for the same; of draw 0 it is this one.
    #[must_use]
    pub fn draw(self, number: u64) -> Self {
        if number == 0 {
            return self;
        }
        let key = u64::from(self.key[0]) | u64::from(self.key[1]) << 32;
        let key = mix64(key ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        Self { key: [key as u32, (key >> 32) as u32] }
    }

    /// 32 random bits for `element`.
    #[inline(always)]
    pub fn bits(self, element: u32) -> u32 {
        mix32(mix32(element ^ self.key[0]).wrapping_add(self.key[1]))
    }

    /// A number in [0, 1) with 24 random bits, the same in every precision.
    #[inline(always)]
    pub fn uniform(self, element: u32) -> f32 {
        (self.bits(element) >> 8) as f32 * (1.0 / 16_777_216.0)
    }

    /// A number of the standard normal distribution (Box and Muller 1958).
    pub fn normal(self, element: u32) -> f64 {
        let first = (f64::from(self.bits(element.wrapping_mul(2))) + 1.0) / 4_294_967_296.0;
        let second = f64::from(self.bits(element.wrapping_mul(2).wrapping_add(1))) / 4_294_967_296.0;
        (-2.0 * first.ln()).sqrt() * (std::f64::consts::TAU * second).cos()
    }
}

/// The finaliser of SplitMix64.
fn mix64(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// A bijection of 32 bits with low bias (constants found by C. Wellons' hash search); it vectorises.
#[inline(always)]
fn mix32(mut x: u32) -> u32 {
    x = (x ^ (x >> 16)).wrapping_mul(0x7feb_352d);
    x = (x ^ (x >> 15)).wrapping_mul(0x846c_a68b);
    x ^ (x >> 16)
}

#[cfg(test)]
mod tests {
    use super::Counted;

    #[test]
    fn uniform_numbers_fill_the_unit_interval_evenly() {
        let stream = Counted::new(1, 2, 3, 4);
        let mut bins = [0; 10];
        (0..100_000).for_each(|i| bins[(stream.uniform(i) * 10.0) as usize] += 1);
        assert!(bins.iter().all(|&n| (9_600..10_400).contains(&n)), "{bins:?}");
    }

    #[test]
    fn normal_numbers_have_mean_zero_and_variance_one() {
        let stream = Counted::new(7, 0, 0, 0);
        let draws: Vec<f64> = (0..100_000).map(|i| stream.normal(i)).collect();
        let mean = draws.iter().sum::<f64>() / 1e5;
        let variance = draws.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / 1e5;
        assert!(mean.abs() < 0.02 && (variance - 1.0).abs() < 0.02, "mean {mean}, variance {variance}");
    }

    #[test]
    fn every_part_of_the_key_changes_the_stream() {
        let all = [(1, 0, 0, 0), (0, 1, 0, 0), (0, 0, 1, 0), (0, 0, 0, 1), (0, 0, 0, 0)];
        let mut firsts: Vec<u32> = all.iter().map(|&(s, p, e, x)| Counted::new(s, p, e, x).bits(0)).collect();
        firsts.sort_unstable();
        firsts.dedup();
        assert_eq!(firsts.len(), all.len());
    }
}
