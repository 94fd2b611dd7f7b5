//! Exponentials in plain `f32` arithmetic without branches, so that loops over them vectorise. Errors are a few units in
//! the last place.

/// eˣ by 2ⁿ · eʳ with r in ±ln 2 / 2 and a polynomial for eʳ (Cephes, S. Moshier).
#[inline(always)]
pub(crate) fn exp(x: f32) -> f32 {
    const LN2_HIGH: f32 = 0.693_359_4;
    const LN2_LOW: f32 = -2.121_944_4e-4;
    // Below, the result is 0 (or a subnormal number); above, it is infinite.
    let clamped = x.clamp(-87.4, 88.8);
    // Adding and subtracting 1.5 · 2²³ rounds to the nearest integer and leaves it in the low bits.
    const ROUND: f32 = 12_582_912.0;
    let shifted = clamped * std::f32::consts::LOG2_E + ROUND;
    let n = shifted - ROUND;
    let r = clamped - n * LN2_HIGH - n * LN2_LOW;
    let mut p = 1.987_569_1e-4;
    p = p * r + 1.398_199_9e-3;
    p = p * r + 8.333_452e-3;
    p = p * r + 4.166_579_6e-2;
    p = p * r + 1.666_666_5e-1;
    p = p * r + 0.5;
    let e = p * r * r + r + 1.0;
    // Two halves of the power, so that neither leaves the range of exponents.
    let power = n as i32;
    let half = power >> 1;
    let scale = |k: i32| f32::from_bits(((k + 127) as u32) << 23);
    let value = e * scale(half) * scale(power - half);
    if x < -87.4 {
        0.0
    } else if x.is_nan() {
        x
    } else {
        value
    }
}

/// tanh by an odd polynomial over an even one (coefficients as in Eigen's packet math).
#[inline(always)]
pub(crate) fn tanh(x: f32) -> f32 {
    const LIMIT: f32 = 7.904;
    let t = x.clamp(-LIMIT, LIMIT);
    let s = t * t;
    let mut p = -2.760_768_5e-16;
    p = p * s + 2.000_188e-13;
    p = p * s - 8.604_671e-11;
    p = p * s + 5.122_297_2e-8;
    p = p * s + 1.485_722_4e-5;
    p = p * s + 6.372_619_4e-4;
    p = p * s + 4.893_524_6e-3;
    let mut q = 1.198_258_4e-6;
    q = q * s + 1.185_347_1e-4;
    q = q * s + 2.268_434_6e-3;
    q = q * s + 4.893_525_3e-3;
    let y = t * p / q;
    if x.is_nan() { x } else { y }
}

#[cfg(test)]
mod tests {
    #[test]
    fn exponentials_agree_with_the_standard_library() {
        for i in -9000..9000 {
            let x = i as f32 * 0.01;
            let (found, expected) = (super::exp(x), x.exp());
            if expected.is_finite() && expected > f32::MIN_POSITIVE {
                assert!((found / expected - 1.0).abs() < 5e-7, "exp({x}) = {found}, not {expected}");
            } else {
                assert!(found == expected || found < 1e-37, "exp({x}) = {found}, not {expected}");
            }
            let (found, expected) = (super::tanh(x * 0.2), (x * 0.2).tanh());
            assert!(
                (found - expected).abs() <= 4e-7 * expected.abs().max(1e-3),
                "tanh({}) = {found}, not {expected}",
                x * 0.2
            );
        }
        assert!(super::exp(f32::NAN).is_nan() && super::tanh(f32::NAN).is_nan());
        assert_eq!(super::exp(f32::INFINITY), f32::INFINITY);
        assert_eq!(super::exp(f32::NEG_INFINITY), 0.0);
        assert_eq!(super::exp(0.0), 1.0);
    }
}
