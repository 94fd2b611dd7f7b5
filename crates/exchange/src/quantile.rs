/// The threshold that the given share of the elements that are not zero would reach, to 1 %; `None` if all are zero.
///
/// The bits of a magnitude are in the order of the magnitudes. Their upper half, exponent and seven bits of mantissa,
/// names one of 32,768 bins; the bin in which the share is reached gives its lower edge. One pass, no randomness.
/// Values that are not finite are left out: the encoder names them.
pub(crate) fn magnitude_of_share(values: &[f32], share: f64) -> Option<f32> {
    const BINS: usize = 1 << 15;
    let mut counts = vec![0u64; BINS];
    for value in values {
        counts[(value.abs().to_bits() >> 16) as usize] += 1;
    }
    let zeros = values.iter().filter(|value| **value == 0.0).count() as u64;
    counts[0] -= zeros;
    let infinite_bin = (f32::INFINITY.to_bits() >> 16) as usize;
    let finite = &counts[..infinite_bin];
    let wanted = (share * finite.iter().sum::<u64>() as f64).ceil().max(1.0);
    let mut reached = 0;
    let bin = (0..infinite_bin).rev().find(|bin| {
        reached += finite[*bin];
        reached as f64 >= wanted
    })?;
    Some(f32::from_bits((bin as u32) << 16).max(f32::MIN_POSITIVE))
}

#[cfg(test)]
mod tests {
    use super::magnitude_of_share;

    #[test]
    fn the_share_reaches_it() {
        let values: Vec<f32> =
            (1..=10_000).map(|i| (i as f32 / 1e4).powi(3) * if i % 2 == 0 { 1.0 } else { -1.0 }).collect();
        for share in [1e-4, 1e-3, 1e-2, 0.1, 0.5, 1.0] {
            let threshold = magnitude_of_share(&values, share).expect("values that are not zero");
            let found = values.iter().filter(|value| value.abs() >= threshold).count() as f64 / 1e4;
            assert!(found >= share && found <= share * 1.01 + 0.003, "{share}: {found}");
        }
    }

    #[test]
    fn zeros_and_what_is_not_finite_do_not_count() {
        assert_eq!(magnitude_of_share(&[0.0, -0.0], 0.5), None);
        assert_eq!(magnitude_of_share(&[], 0.5), None);
        assert_eq!(magnitude_of_share(&[0.0, f32::NAN, 0.25, f32::INFINITY], 1.0), Some(0.25));
        assert_eq!(magnitude_of_share(&[1e-40], 1.0), Some(f32::MIN_POSITIVE));
    }
}
