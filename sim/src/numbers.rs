//! What is computed: integers, so that sums do not depend on their order.

use std::collections::BTreeMap;

use crate::random::mix;

/// Numbers of a state.
pub(crate) const WIDTH: usize = 5;

/// What an example adds to each number: so little that the sum of all of them is exact in `f32`.
pub(crate) fn worth(epoch: u64, place: u64) -> [i64; WIDTH] {
    std::array::from_fn(|n| (mix(epoch << 40 ^ place << 8 ^ n as u64) >> 52) as i64)
}

/// A state, and a digest of every result on the way to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct State {
    pub(crate) values: [i64; WIDTH],
    pub(crate) way: u64,
    /// In `shared`: the messages that are in it, up to a number for each origin.
    pub(crate) applied: BTreeMap<u64, u64>,
}

impl State {
    pub(crate) fn initial() -> Self {
        Self { values: [0; WIDTH], way: 1, applied: BTreeMap::new() }
    }
}

/// What a message changes, and the examples that it is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Update {
    pub(crate) values: [i64; WIDTH],
    pub(crate) places: Vec<(u64, u64)>,
}
