use std::ops::Range;

use crate::{Flat, SharedFlat};

/// What one replica's gradient of some parts can be computed from, by itself or by others, in place of these parts: for
/// a dense layer, what went in and the slopes of what came out. Only the model knows how it lies.
#[derive(Clone)]
pub struct SharedFactors {
    /// Examples that the factors are of.
    pub examples: usize,
    /// Memory of the model. While it computes, nobody may read more of it than it has passed.
    pub values: SharedFlat,
}

/// [`SharedFactors`] while they may be read; a replica that had nothing to do has none.
#[derive(Debug, Default)]
pub struct Factors {
    /// Examples that the factors are of.
    pub examples: usize,
    /// Memory of the model that they are from.
    pub values: Flat,
}

/// What the gradient of a factored part is computed from.
#[derive(Clone, Copy, Debug)]
pub struct FactorSum<'a> {
    /// It is the sum over the examples of these.
    pub factors: &'a [Factors],
    /// Tells it from other sums of the same step.
    pub number: usize,
}

/// A stretch of the parameters that is updated at a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Where it lies.
    pub range: Range<usize>,
    /// Whether its gradient is computed from [`Factors`].
    pub is_factored: bool,
}
