//! What the numbers of several replicas come to, be they in memory or from a wire: one rule, the same bits.
//!
//! Gradients are summed in the order of the replicas. States are averaged as Σ (wᵢ / W) · vᵢ in that order; replicas without
//! weight have no say, and the mean of one is that one, to the bit.

use paceline_model::vectorize;

/// What each replica counts for in a mean: its weight over that of all. When nobody has any, the first speaks for all.
pub fn shares(weights: &[f32]) -> Vec<f32> {
    let total: f32 = weights.iter().sum();
    let share = |(replica, weight): (usize, &f32)| match total > 0.0 {
        true => weight / total,
        false => f32::from(u8::from(replica == 0)),
    };
    weights.iter().enumerate().map(share).collect()
}

/// Writes the sum of the replicas' values.
pub fn sum<V: Iterator<Item = f32>>(replicas: impl IntoIterator<Item = V>, sum: &mut [f32]) {
    for (index, values) in replicas.into_iter().enumerate() {
        let sum = &mut *sum;
        match index {
            0 => vectorize(
                #[inline(always)]
                move || sum.iter_mut().zip(values).for_each(|(sum, value)| *sum = value),
            ),
            _ => vectorize(
                #[inline(always)]
                move || sum.iter_mut().zip(values).for_each(|(sum, value)| *sum += value),
            ),
        }
    }
}

/// Writes the mean of the replicas' values, each with its share.
pub fn mean<V: Iterator<Item = f32>>(replicas: impl IntoIterator<Item = (f32, V)>, mean: &mut [f32]) {
    let mut is_first = true;
    for (share, values) in replicas.into_iter().filter(|(share, _)| *share > 0.0) {
        let mean = &mut *mean;
        match std::mem::take(&mut is_first) {
            true => vectorize(
                #[inline(always)]
                move || mean.iter_mut().zip(values).for_each(|(mean, value)| *mean = share * value),
            ),
            false => vectorize(
                #[inline(always)]
                move || mean.iter_mut().zip(values).for_each(|(mean, value)| *mean += share * value),
            ),
        }
    }
}

/// The numbers of little-endian bytes.
pub fn values(bytes: &[u8]) -> impl Iterator<Item = f32> {
    bytes.as_chunks::<4>().0.iter().map(|four| f32::from_le_bytes(*four))
}

#[cfg(test)]
mod tests {
    use super::{mean, shares, sum, values};

    #[test]
    fn a_mean_counts_examples_not_replicas() {
        let replicas = [[1.0, 10.0], [5.0, 30.0], [100.0, f32::NAN]];
        let averaged = |weights: &[f32]| {
            let mut found = [9.0; 2];
            let of = |(share, values): (f32, [f32; 2])| (share, values.into_iter());
            mean(shares(weights).into_iter().zip(replicas).map(of), &mut found);
            found
        };
        assert_eq!(averaged(&[3.0, 1.0, 0.0]), [2.0, 15.0]);
        assert_eq!(averaged(&[0.0, 0.0, 0.0]), [1.0, 10.0], "nobody has weight");
    }

    #[test]
    fn the_mean_of_one_is_that_one_to_the_bit() {
        let one = [-0.0f32, 1e-42, 0.1, -3.4e38];
        let mut found = [1.0; 4];
        mean(shares(&[0.0, 7.0]).into_iter().zip([[5.0; 4], one].map(<[f32; 4]>::into_iter)), &mut found);
        assert_eq!(found.map(f32::to_bits), one.map(f32::to_bits));
    }

    #[test]
    fn numbers_of_a_wire_are_those_of_memory() {
        let [a, b] = [1, 2].map(|seed| (0..100).map(move |at| ((at * 37 + seed) as f32).sin()).collect::<Vec<f32>>());
        let bytes: Vec<u8> = b.iter().flat_map(|value| value.to_le_bytes()).collect();
        let (mut in_memory, mut from_wire) = ([0.0; 100], [0.0; 100]);
        sum([a.iter().copied(), b.iter().copied()], &mut in_memory);
        let a_bytes: Vec<u8> = a.iter().flat_map(|value| value.to_le_bytes()).collect();
        sum([values(&a_bytes), values(&bytes)], &mut from_wire);
        assert_eq!(in_memory.map(f32::to_bits), from_wire.map(f32::to_bits));
    }
}
