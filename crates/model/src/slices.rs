use std::ops::Range;

/// The one rule that cuts a step into slices: of `total` examples that `all` workers take together, those of the workers
/// `workers`. Slices follow each other without a gap, and no two of single workers differ by more than one example.
pub fn slice_of(total: u64, workers: Range<u64>, all: u64) -> Range<u64> {
    // Wide enough for any number of examples.
    let up_to = |workers: u64| (u128::from(total) * u128::from(workers) / u128::from(all.max(1))) as u64;
    up_to(workers.start)..up_to(workers.end)
}

#[cfg(test)]
mod tests {
    use super::slice_of;

    #[test]
    fn slices_follow_each_other_and_are_about_as_long() {
        for (total, all) in [(128, 2), (96, 2), (7, 3), (2, 5), (0, 2), (u64::MAX, 7)] {
            let slices: Vec<_> = (0..all).map(|worker| slice_of(total, worker..worker + 1, all)).collect();
            assert!(slices.windows(2).all(|pair| pair[0].end == pair[1].start), "{slices:?}");
            assert_eq!((slices[0].start, slices[all as usize - 1].end), (0, total));
            let lengths = slices.iter().map(|slice| slice.end - slice.start);
            assert!(lengths.clone().max() <= lengths.min().map(|least| least + 1), "{slices:?}");
        }
    }

    #[test]
    fn one_that_stands_for_two_takes_the_slices_of_both() {
        assert_eq!(slice_of(97, 1..3, 4), slice_of(97, 1..2, 4).start..slice_of(97, 2..3, 4).end);
    }
}
