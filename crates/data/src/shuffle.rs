//! Shuffling as arithmetic: the index at a position is computed, never looked up in a table.
//!
//! A permutation of `n` is a Feistel network over the next even power of two, walked until it lands below `n`
//! (Black and Rogaway, "Ciphers with arbitrary finite domains", 2002). It takes no memory, starts anywhere at once,
//! and every worker computes the same.

use std::sync::Arc;

use crate::Order;

/// Blocks that are mixed with each other when a source is read by blocks.
pub(crate) const WINDOW_BLOCKS: u64 = 4;

/// Batches whose examples are put in order of their length together: many, so that those of a batch are about as long as each other, and
/// few enough that an epoch still mixes.
const WINDOW_BATCHES: usize = 64;

/// The finaliser of SplitMix64 (Steele, Lea, Flood 2014): spreads every input bit over all output bits.
fn mix(mut z: u64) -> u64 {
    z = z.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A permutation of `0..len` that is computed, not stored.
#[derive(Clone, Copy, Debug)]
pub struct Permutation {
    len: u64,
    half_bits: u32,
    key: u64,
}

impl Permutation {
    const ROUNDS: u64 = 6;

    /// A permutation of this many places, which the key decides.
    pub fn new(len: u64, key: u64) -> Self {
        let bits = 64 - len.saturating_sub(1).leading_zeros();
        // Halves of fewer than 4 bits have too few round functions to reach every order of a short list.
        Self { len, half_bits: bits.div_ceil(2).max(4), key: mix(key) }
    }

    /// Where position `at` goes.
    pub fn at(&self, at: u64) -> u64 {
        debug_assert!(at < self.len, "position {at} of {}", self.len);
        let mut value = self.encrypt(at);
        while value >= self.len {
            value = self.encrypt(value);
        }
        value
    }

    fn encrypt(&self, value: u64) -> u64 {
        let mask = (1u64 << self.half_bits) - 1;
        let (mut left, mut right) = (value >> self.half_bits, value & mask);
        for round in 0..Self::ROUNDS {
            // The highest bits are the best mixed ones.
            let turned = (mix(self.key.wrapping_add(round << 56) ^ right) >> (64 - self.half_bits)) & mask;
            (left, right) = (right, left ^ turned);
        }
        (left << self.half_bits) | right
    }
}

/// The order in which the examples of a source are visited in one epoch; depends on the seed and the epoch only.
#[derive(Clone, Debug)]
pub struct Shuffle {
    examples: u64,
    plan: Plan,
}

#[derive(Clone, Debug)]
enum Plan {
    Straight,
    Whole(Permutation),
    Blocks { size: u64, blocks: Permutation, short_slot: u64, key: u64 },
    Listed(Arc<[u64]>),
}

impl Shuffle {
    /// From first to last.
    pub fn none(examples: usize) -> Self {
        Self { examples: examples as u64, plan: Plan::Straight }
    }

    /// A new order for every epoch, as far as `order` allows: a sequential source is never shuffled.
    pub fn new(examples: usize, order: Order, seed: u64, epoch: u64) -> Self {
        let key = mix(seed) ^ mix(epoch ^ 0x5bd1_e995);
        let examples = examples as u64;
        let plan = match order {
            Order::Sequential => Plan::Straight,
            Order::Any => Plan::Whole(Permutation::new(examples, key)),
            Order::Blocks { size } => {
                let size = (size as u64).max(1);
                let count = examples.div_ceil(size);
                if count <= WINDOW_BLOCKS {
                    Plan::Whole(Permutation::new(examples, key))
                } else {
                    let blocks = Permutation::new(count, key);
                    // The last block may be short; every later position moves up by what it lacks.
                    let short_slot =
                        (0..count).find(|slot| blocks.at(*slot) == count - 1).expect("a permutation has every value");
                    Plan::Blocks { size, blocks, short_slot, key }
                }
            }
        };
        Self { examples, plan }
    }

    /// The same order, but within a window of some batches those of about the same length come together; which batch of a window comes
    /// first is as random as before. `lengths` are those of all examples.
    #[must_use]
    pub(crate) fn by_length(self, lengths: &[u32], batch: usize, seed: u64, epoch: u64) -> Self {
        let mut order: Vec<u64> = (0..self.examples).map(|position| self.index_at(position)).collect();
        let mut listed = Vec::with_capacity(order.len());
        for (number, window) in order.chunks_mut(batch.saturating_mul(WINDOW_BATCHES)).enumerate() {
            // Those of the same length stay in the order that they had.
            window.sort_by_key(|index| lengths[*index as usize]);
            let whole = (window.len() / batch) as u64;
            let key = mix(seed ^ 0x1e09_7b5d) ^ mix(epoch) ^ mix(number as u64 + 1);
            let batches = (whole > 0).then(|| Permutation::new(whole, key));
            // A short batch stays the last one.
            let at = |number: u64| batches.map_or(0, |batches| batches.at(number)) as usize * batch;
            (0..whole).for_each(|number| listed.extend_from_slice(&window[at(number)..][..batch]));
            listed.extend_from_slice(&window[whole as usize * batch..]);
        }
        Self { plan: Plan::Listed(listed.into()), ..self }
    }

    /// The number of positions.
    pub fn examples(&self) -> u64 {
        self.examples
    }

    /// The index of the example at `position`, which must be below [`Shuffle::examples`].
    pub fn index_at(&self, position: u64) -> u64 {
        match self.plan {
            Plan::Listed(ref listed) => listed[position as usize],
            Plan::Straight => position,
            Plan::Whole(permutation) => permutation.at(position),
            Plan::Blocks { size, blocks, short_slot, key } => {
                let lacking = blocks.len * size - self.examples;
                let start = |slot: u64| slot * size - if slot > short_slot { lacking } else { 0 };
                let mut window = position / (size * WINDOW_BLOCKS);
                if (window + 1) * WINDOW_BLOCKS < blocks.len && position >= start((window + 1) * WINDOW_BLOCKS) {
                    window += 1;
                }
                let first = window * WINDOW_BLOCKS;
                let end = (first + WINDOW_BLOCKS).min(blocks.len);
                let within = Permutation::new(start(end) - start(first), key ^ mix(window + 1));
                let place = start(first) + within.at(position - start(first));
                let slot = (first..end).rev().find(|slot| place >= start(*slot)).expect("the first slot starts there");
                blocks.at(slot) * size + (place - start(slot))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::{Permutation, Shuffle, WINDOW_BATCHES, WINDOW_BLOCKS};
    use crate::Order;

    proptest! {
        #[test]
        fn every_index_comes_exactly_once(examples in 1usize..5000, size in 1usize..300, seed: u64, epoch in 0u64..9) {
            for order in [Order::Any, Order::Blocks { size }, Order::Sequential] {
                let shuffle = Shuffle::new(examples, order, seed, epoch);
                let seen: HashSet<u64> = (0..examples as u64).map(|at| shuffle.index_at(at)).collect();
                prop_assert_eq!(seen.len(), examples);
                prop_assert!(seen.iter().all(|index| *index < examples as u64));
            }
        }

        #[test]
        fn a_window_of_positions_touches_few_blocks(examples in 3000usize..9000, size in 50usize..200, seed: u64) {
            let shuffle = Shuffle::new(examples, Order::Blocks { size }, seed, 0);
            for start in (0..examples as u64 - size as u64).step_by(size) {
                let blocks: HashSet<u64> =
                    (start..start + size as u64).map(|at| shuffle.index_at(at) / size as u64).collect();
                prop_assert!(blocks.len() as u64 <= 2 * WINDOW_BLOCKS, "{} blocks", blocks.len());
            }
        }
    }

    proptest! {
        #[test]
        fn batches_by_length_hold_every_example_once_and_lengths_that_are_near(
            lengths in prop::collection::vec(1u32..40, 1..3000), batch in 1usize..50, seed: u64, epoch in 0u64..5
        ) {
            let examples = lengths.len();
            let order_of = |epoch| -> Vec<u64> {
                let shuffle = Shuffle::new(examples, Order::Any, seed, epoch).by_length(&lengths, batch, seed, epoch);
                (0..examples as u64).map(|at| shuffle.index_at(at)).collect()
            };
            let order = order_of(epoch);
            let seen: HashSet<u64> = order.iter().copied().collect();
            prop_assert_eq!(seen.len(), examples);
            for window in order.chunks(batch * WINDOW_BATCHES) {
                let length = |index: &u64| lengths[*index as usize];
                let mut batches: Vec<(u32, u32)> = window
                    .chunks(batch)
                    .map(|batch| (batch.iter().map(length).min().unwrap(), batch.iter().map(length).max().unwrap()))
                    .collect();
                batches.sort_unstable();
                // No two overlap: what one begins with, another one ends with at most.
                prop_assert!(batches.windows(2).all(|pair| pair[0].1 <= pair[1].0 || pair[0] == pair[1]), "{batches:?}");
            }
            if examples > 20 * batch {
                prop_assert_ne!(order, order_of(epoch + 1));
            }
        }
    }

    #[test]
    fn short_lists_reach_every_first_place_about_equally() {
        let mut counts = [0u32; 5];
        (0..10_000).for_each(|key| counts[Permutation::new(5, key).at(0) as usize] += 1);
        assert!(counts.iter().all(|count| (1800..2200).contains(count)), "{counts:?}");
    }

    #[test]
    fn epochs_and_seeds_give_different_orders() {
        let order = |seed, epoch| {
            let shuffle = Shuffle::new(1000, Order::Any, seed, epoch);
            (0..1000).map(|at| shuffle.index_at(at)).collect::<Vec<_>>()
        };
        assert_eq!(order(1, 0), order(1, 0));
        assert_ne!(order(1, 0), order(1, 1));
        assert_ne!(order(1, 0), order(2, 0));
        let kept = order(1, 0).iter().enumerate().filter(|(at, index)| *at as u64 == **index).count();
        assert!(kept < 10, "{kept} of 1000 stayed in place");
    }
}
