//! Images made larger, smaller, or deeper.

use serde::{Deserialize, Serialize};

use super::super::Settings;

/// Repeats every pixel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Upsampling2d {
    /// How often, down and right.
    #[serde(default = "twice")]
    pub size: [usize; 2],
    /// What every layer may have.
    #[serde(skip)]
    pub settings: Settings,
}

/// Cuts rows and columns off images.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cropping2d {
    /// Top, bottom, left, right.
    pub cropping: [usize; 4],
    /// What every layer may have.
    #[serde(skip)]
    pub settings: Settings,
}

/// Puts the pixels of blocks of an image into channels: the blocks become pixels.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SpaceToDepth {
    /// Pixels of a side of a block.
    #[serde(default = "two")]
    pub block: usize,
    /// What every layer may have.
    #[serde(skip)]
    pub settings: Settings,
}

/// Takes blocks of pixels apart: the first pixels of all blocks become an image, and so on, stacked below each other as more rows of the
/// example. A convolution over them sees pixels that lie a block apart.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SpaceToBatch {
    /// Rows and columns of a block.
    #[serde(default = "twice")]
    pub block: [usize; 2],
    /// What every layer may have.
    #[serde(skip)]
    pub settings: Settings,
}

/// Puts together what [`SpaceToBatch`] took apart.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BatchToSpace {
    /// Rows and columns of a block.
    #[serde(default = "twice")]
    pub block: [usize; 2],
    /// What every layer may have.
    #[serde(skip)]
    pub settings: Settings,
}

fn twice() -> [usize; 2] {
    [2, 2]
}
fn two() -> usize {
    2
}

impl Upsampling2d {
    /// Repeats every pixel so often, down and right.
    pub fn new(size: [usize; 2]) -> Self {
        Self { size, settings: Settings::default() }
    }
}

impl Cropping2d {
    /// Top, bottom, left, right.
    pub fn new(cropping: [usize; 4]) -> Self {
        Self { cropping, settings: Settings::default() }
    }
}

impl SpaceToDepth {
    /// Blocks with sides of so many pixels.
    pub fn new(block: usize) -> Self {
        Self { block, settings: Settings::default() }
    }
}

impl SpaceToBatch {
    /// Blocks of so many rows and columns.
    pub fn new(block: [usize; 2]) -> Self {
        Self { block, settings: Settings::default() }
    }
}

impl BatchToSpace {
    /// Blocks of so many rows and columns.
    pub fn new(block: [usize; 2]) -> Self {
        Self { block, settings: Settings::default() }
    }
}
