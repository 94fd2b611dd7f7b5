//! Layers like convolutions whose filters differ from place to place.

use serde::{Deserialize, Serialize};

use super::super::Settings;
use super::{Padding, Padding1d, yes};

/// A convolution over images with filters of their own at every place.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LocallyConnected2d {
    /// Number of filters: the channels that come out.
    pub filters: usize,
    /// Height and width of a filter.
    pub kernel: [usize; 2],
    /// How far the window moves, down and right.
    #[serde(default = "ones")]
    pub stride: [usize; 2],
    /// What is around the image.
    #[serde(default)]
    pub padding: Padding,
    /// How far apart the filter's cells are.
    #[serde(default = "ones")]
    pub dilation: [usize; 2],
    /// Whether each filter has a bias, which is the same at all places.
    #[serde(default = "yes")]
    pub bias: bool,
    /// What every layer may have.
    #[serde(skip)]
    pub settings: Settings,
}

/// The same over the steps of sequences.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LocallyConnected1d {
    /// Number of filters: the features that come out.
    pub filters: usize,
    /// Steps that a filter sees.
    pub kernel: usize,
    /// Steps from one window to the next.
    #[serde(default = "one")]
    pub stride: usize,
    /// What lies before the first step and behind the last.
    #[serde(default)]
    pub padding: Padding1d,
    /// Steps between those that a filter sees.
    #[serde(default = "one")]
    pub dilation: usize,
    /// Whether each filter has a bias, which is the same at all steps.
    #[serde(default = "yes")]
    pub bias: bool,
    /// What every layer may have.
    #[serde(skip)]
    pub settings: Settings,
}

fn ones() -> [usize; 2] {
    [1; 2]
}

fn one() -> usize {
    1
}

impl LocallyConnected2d {
    /// So many filters of this height and width.
    pub fn new(filters: usize, kernel: [usize; 2]) -> Self {
        let (stride, padding, dilation, settings) = (ones(), Padding::Valid, ones(), Settings::default());
        Self { filters, kernel, stride, padding, dilation, bias: true, settings }
    }

    /// How far the window moves.
    #[must_use]
    pub fn stride(mut self, stride: [usize; 2]) -> Self {
        self.stride = stride;
        self
    }

    /// What is around the image.
    #[must_use]
    pub fn padding(mut self, padding: Padding) -> Self {
        self.padding = padding;
        self
    }
}

impl LocallyConnected1d {
    /// So many filters that see so many steps.
    pub fn new(filters: usize, kernel: usize) -> Self {
        let (padding, settings) = (Padding1d::default(), Settings::default());
        Self { filters, kernel, stride: one(), padding, dilation: one(), bias: true, settings }
    }

    /// Steps from one window to the next.
    #[must_use]
    pub fn stride(mut self, stride: usize) -> Self {
        self.stride = stride;
        self
    }

    /// What lies before the first step and behind the last.
    #[must_use]
    pub fn padding(mut self, padding: Padding1d) -> Self {
        self.padding = padding;
        self
    }
}
