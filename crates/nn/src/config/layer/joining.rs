//! What graphs are made of besides layers: values joined, cut, and compared.

use serde::{Deserialize, Serialize};

use super::super::{Settings, table};
use crate::InputType;

/// Joins what comes in side by side: rows one after the other, the channels of images at every pixel.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Merge {
    /// What every layer may have.
    #[serde(skip)]
    pub settings: Settings,
}

/// Joins values of one shape number by number.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ElementWise {
    /// How.
    #[serde(default, deserialize_with = "table::required")]
    pub op: ElementWiseOp,
    /// What every layer may have.
    #[serde(skip)]
    pub settings: Settings,
}

/// How numbers that lie at the same place of several values become one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ElementWiseOp {
    /// Their sum.
    #[default]
    Add,
    /// The first less the second.
    Subtract,
    /// Their product.
    Product,
    /// Their mean.
    Average,
    /// The largest.
    Max,
}

/// Some of the numbers of a row, or of the channels of an image.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Subset {
    /// The first, from 0.
    pub first: usize,
    /// How many.
    pub count: usize,
    /// What every layer may have.
    #[serde(skip)]
    pub settings: Settings,
}

/// Puts values of one shape below each other: what follows does the same to each of them, with the same weights.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stack {
    /// What every layer may have.
    #[serde(skip)]
    pub settings: Settings,
}

/// One of several values that were stacked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Unstack {
    /// Which, from 0.
    pub index: usize,
    /// How many were stacked.
    pub of: usize,
    /// What every layer may have.
    #[serde(skip)]
    pub settings: Settings,
}

/// Multiplies every number.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scale {
    /// By this.
    pub factor: f32,
    /// What every layer may have.
    #[serde(skip)]
    pub settings: Settings,
}

/// Adds to every number.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shift {
    /// This.
    pub value: f32,
    /// What every layer may have.
    #[serde(skip)]
    pub settings: Settings,
}

/// Divides every example by its length, the root of the sum of its squares.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct L2Normalise {
    /// What is divided by where the length is less.
    #[serde(default = "tiny")]
    pub epsilon: f32,
    /// What every layer may have.
    #[serde(skip)]
    pub settings: Settings,
}

/// The distance of two values of one shape, one number for every example: √(Σ (a − b)² + ε).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct L2Distance {
    /// ε, which keeps the slope finite where both are the same.
    #[serde(default = "tiny")]
    pub epsilon: f32,
    /// What every layer may have.
    #[serde(skip)]
    pub settings: Settings,
}

/// The same numbers in another shape.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reshape {
    /// What they are taken as.
    pub to: InputType,
    /// What every layer may have.
    #[serde(skip)]
    pub settings: Settings,
}

fn tiny() -> f32 {
    1e-8
}

impl ElementWise {
    /// Joins this way.
    pub fn new(op: ElementWiseOp) -> Self {
        Self { op, settings: Settings::default() }
    }
}

impl Subset {
    /// So many from this one on.
    pub fn new(first: usize, count: usize) -> Self {
        Self { first, count, settings: Settings::default() }
    }
}

impl Unstack {
    /// One of so many.
    pub fn new(index: usize, of: usize) -> Self {
        Self { index, of, settings: Settings::default() }
    }
}

impl Scale {
    /// Multiplies by this.
    pub fn new(factor: f32) -> Self {
        Self { factor, settings: Settings::default() }
    }
}

impl Shift {
    /// Adds this.
    pub fn new(value: f32) -> Self {
        Self { value, settings: Settings::default() }
    }
}

impl Default for L2Normalise {
    fn default() -> Self {
        Self { epsilon: tiny(), settings: Settings::default() }
    }
}

impl Default for L2Distance {
    fn default() -> Self {
        Self { epsilon: tiny(), settings: Settings::default() }
    }
}

impl Reshape {
    /// Takes what comes in as this.
    pub fn new(to: InputType) -> Self {
        Self { to, settings: Settings::default() }
    }
}
