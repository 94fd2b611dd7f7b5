//! Layers over volumes: images one behind the other. Depth comes first in all sizes.

use serde::{Deserialize, Serialize};

use super::super::{Settings, table};
use super::{Padding, Pool, yes};

/// A convolution over volumes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Conv3d {
    /// Number of filters: the channels that come out.
    pub filters: usize,
    /// Depth, height and width of a filter.
    pub kernel: [usize; 3],
    /// How far the filter moves.
    #[serde(default = "ones")]
    pub stride: [usize; 3],
    /// What is around the volume.
    #[serde(default)]
    pub padding: Padding<3>,
    /// How far apart the filter's cells are.
    #[serde(default = "ones")]
    pub dilation: [usize; 3],
    /// Whether each filter has a bias.
    #[serde(default = "yes")]
    pub bias: bool,
    /// What every layer may have.
    #[serde(skip)]
    pub settings: Settings,
}

/// Pooling over volumes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Subsampling3d {
    /// How the numbers of a window become one.
    #[serde(default, deserialize_with = "table::required")]
    pub pool: Pool,
    /// Depth, height and width of the window.
    #[serde(default = "twos")]
    pub kernel: [usize; 3],
    /// How far the window moves; the kernel's size if not set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stride: Option<[usize; 3]>,
    /// What is around the volume; it never wins a maximum and never counts in a mean.
    #[serde(default)]
    pub padding: Padding<3>,
    /// What every layer may have.
    #[serde(skip)]
    pub settings: Settings,
}

/// Zeros around volumes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ZeroPadding3d {
    /// Before, behind, top, bottom, left, right.
    pub padding: [usize; 6],
    /// What every layer may have.
    #[serde(skip)]
    pub settings: Settings,
}

/// Cuts images, rows and columns off volumes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cropping3d {
    /// Before, behind, top, bottom, left, right.
    pub cropping: [usize; 6],
    /// What every layer may have.
    #[serde(skip)]
    pub settings: Settings,
}

/// Repeats every pixel of a volume.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Upsampling3d {
    /// How often: behind each other, down and right.
    #[serde(default = "twos")]
    pub size: [usize; 3],
    /// What every layer may have.
    #[serde(skip)]
    pub settings: Settings,
}

fn ones() -> [usize; 3] {
    [1; 3]
}

fn twos() -> [usize; 3] {
    [2; 3]
}

impl Conv3d {
    /// So many filters of this depth, height and width.
    pub fn new(filters: usize, kernel: [usize; 3]) -> Self {
        let (stride, padding, dilation, settings) = (ones(), Padding::Valid, ones(), Settings::default());
        Self { filters, kernel, stride, padding, dilation, bias: true, settings }
    }

    /// How far the filter moves.
    #[must_use]
    pub fn stride(mut self, stride: [usize; 3]) -> Self {
        self.stride = stride;
        self
    }

    /// What is around the volume.
    #[must_use]
    pub fn padding(mut self, padding: Padding<3>) -> Self {
        self.padding = padding;
        self
    }

    /// How far apart the filter's cells are.
    #[must_use]
    pub fn dilation(mut self, dilation: [usize; 3]) -> Self {
        self.dilation = dilation;
        self
    }

    /// Leaves the biases out.
    #[must_use]
    pub fn without_bias(mut self) -> Self {
        self.bias = false;
        self
    }
}

impl Subsampling3d {
    /// Windows of this size, side by side.
    pub fn new(pool: Pool, kernel: [usize; 3]) -> Self {
        Self { pool, kernel, stride: None, padding: Padding::Valid, settings: Settings::default() }
    }

    /// How far the window moves.
    #[must_use]
    pub fn stride(mut self, stride: [usize; 3]) -> Self {
        self.stride = Some(stride);
        self
    }

    /// What is around the volume.
    #[must_use]
    pub fn padding(mut self, padding: Padding<3>) -> Self {
        self.padding = padding;
        self
    }
}

impl ZeroPadding3d {
    /// Before, behind, top, bottom, left, right.
    pub fn new(padding: [usize; 6]) -> Self {
        Self { padding, settings: Settings::default() }
    }
}

impl Cropping3d {
    /// Before, behind, top, bottom, left, right.
    pub fn new(cropping: [usize; 6]) -> Self {
        Self { cropping, settings: Settings::default() }
    }
}

impl Upsampling3d {
    /// Every pixel so often: behind each other, down and right.
    pub fn new(size: [usize; 3]) -> Self {
        Self { size, settings: Settings::default() }
    }
}
