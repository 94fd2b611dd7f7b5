//! Buffers of all replicas that are averaged where they lie.

use std::ops::Range;

use paceline_exchange::reduce;
use paceline_model::{Flat, SharedFlat, vectorize};

/// The same buffer of every replica.
pub(super) struct Buffers {
    replicas: Vec<SharedFlat>,
}

/// Numbers that are averaged at a time: they stay in the first-level cache until they are written.
const CHUNK: usize = 1024;

impl Buffers {
    /// Copies for so many replicas.
    pub(super) fn new(replicas: usize, values: &Flat) -> Self {
        Self { replicas: (0..replicas).map(|_| values.clone().into()).collect() }
    }

    /// Numbers of one replica.
    pub(super) fn len(&self) -> usize {
        self.replicas.first().map_or(0, SharedFlat::len)
    }

    /// What a replica has instead of a buffer of its own.
    ///
    /// # Safety
    ///
    /// Nobody may use a range of it while anybody is in [`Self::average`] with it; who uses the rest meanwhile must look at
    /// parts, see [`SharedFlat::view`].
    #[expect(unsafe_code, reason = "the promise is the caller's")]
    pub(super) unsafe fn of(&self, replica: usize) -> Flat {
        // SAFETY: as promised.
        unsafe { self.replicas[replica].view() }
    }

    /// Writes the mean of a range to all replicas: weighted, summed in the order of the replicas. Those without weight
    /// have no say; when nobody has any, the first one speaks for all.
    ///
    /// # Safety
    ///
    /// As for [`Self::average_and_then`].
    #[expect(unsafe_code, reason = "the promise is the caller's")]
    pub(super) unsafe fn average(&self, weights: &[f32], range: Range<usize>) {
        match (&self.replicas[..], weights) {
            ([a, b], [of_a, of_b]) if *of_a > 0.0 && *of_b > 0.0 => {
                let shares = [of_a, of_b].map(|weight| weight / (of_a + of_b));
                // SAFETY: as promised, and they are two buffers.
                unsafe { average_two([a.part_mut(range.clone()), b.part_mut(range)], shares) };
            }
            // SAFETY: as promised.
            _ => unsafe { self.average_and_then(weights, range, |_, _| {}) },
        }
    }

    /// The same; `then` may change the mean of a part before it is written.
    ///
    /// # Safety
    ///
    /// Meanwhile nobody else may use this range, through a view or by averaging.
    #[expect(unsafe_code, reason = "the promise is the caller's")]
    pub(super) unsafe fn average_and_then(
        &self,
        weights: &[f32],
        range: Range<usize>,
        mut then: impl FnMut(Range<usize>, &mut [f32]),
    ) {
        let shares = reduce::shares(weights);
        let mut room = [0.0; CHUNK];
        for start in range.clone().step_by(CHUNK) {
            let chunk = start..(start + CHUNK).min(range.end);
            let mean = &mut room[..chunk.len()];
            // SAFETY: nobody else uses this range.
            let values = self.replicas.iter().map(|of| unsafe { of.part(chunk.clone()) }.iter().copied());
            reduce::mean(shares.iter().copied().zip(values), mean);
            then(chunk.clone(), mean);
            for values in &self.replicas {
                // SAFETY: nobody else uses this range, and the part that was read is gone.
                unsafe { values.part_mut(chunk.clone()) }.copy_from_slice(mean);
            }
        }
    }
}

/// The mean of two in one go, with the bits that the sum of any number of them has.
fn average_two([a, b]: [&mut [f32]; 2], [of_a, of_b]: [f32; 2]) {
    vectorize(
        #[inline(always)]
        move || {
            for (a, b) in a.iter_mut().zip(b) {
                let mean = of_a * *a + of_b * *b;
                (*a, *b) = (mean, mean);
            }
        },
    );
}

#[cfg(test)]
mod tests {
    use paceline_model::Flat;

    use super::{Buffers, CHUNK};

    /// Averages on this thread: nobody else is there.
    #[expect(unsafe_code, reason = "one thread")]
    fn averaged(values: &[&[f32]], weights: &[f32], range: std::ops::Range<usize>) -> Vec<Vec<f32>> {
        let buffers = Buffers::new(values.len(), &Flat::from_slice(values[0]));
        for (replica, values) in values.iter().enumerate() {
            // SAFETY: nobody averages.
            unsafe { buffers.of(replica) }.copy_from_slice(values);
        }
        // SAFETY: nobody has a view.
        unsafe { buffers.average(weights, range) };
        // SAFETY: nobody averages any more.
        (0..values.len()).map(|replica| unsafe { buffers.of(replica) }.to_vec()).collect()
    }

    #[test]
    fn a_mean_counts_examples_not_replicas() {
        let values: [&[f32]; 3] = [&[1.0, 10.0], &[5.0, 30.0], &[100.0, f32::NAN]];
        assert_eq!(averaged(&values, &[3.0, 1.0, 0.0], 0..2), vec![vec![2.0, 15.0]; 3]);
        assert_eq!(averaged(&values[..2], &[0.0, 0.0], 1..2), [[1.0, 10.0], [5.0, 10.0]], "nobody has weight");
    }

    #[test]
    #[expect(unsafe_code, reason = "one thread")]
    fn two_are_averaged_to_the_bits_of_any_number() {
        let values = |seed: usize| (0..3000).map(move |at| ((at * 37 + seed) as f32).sin() * [0.0, 1.0, 1e-40][at % 3]);
        let (a, b): (Vec<f32>, Vec<f32>) = (values(1).map(|value| -value).collect(), values(2).collect());
        for weights in [[1.0, 1.0], [64.0, 17.0], [3.0, 0.0], [0.0, 0.0]] {
            let plain = Buffers::new(2, &Flat::from_slice(&a));
            // SAFETY: nobody averages, and then nobody has a view.
            unsafe {
                plain.of(1).copy_from_slice(&b);
                plain.average_and_then(&weights, 0..3000, |_, _| {});
            }
            let found = averaged(&[&a, &b], &weights, 0..3000);
            for (replica, found) in found.iter().enumerate() {
                // SAFETY: nobody averages any more.
                let plain = unsafe { plain.of(replica) };
                assert!(found.iter().zip(plain.iter()).all(|(a, b)| a.to_bits() == b.to_bits()), "{weights:?}");
            }
        }
    }

    #[test]
    fn every_chunk_of_the_range_is_averaged_and_nothing_else() {
        let (a, b) = (vec![1.0; 3 * CHUNK], vec![3.0; 3 * CHUNK]);
        let range = 7..2 * CHUNK + 9;
        for (own, found) in [1.0, 3.0].into_iter().zip(averaged(&[&a, &b], &[1.0, 1.0], range.clone())) {
            let expected = |at| if range.contains(&at) { 2.0 } else { own };
            assert!(found.iter().enumerate().all(|(at, value)| *value == expected(at)));
        }
    }
}
