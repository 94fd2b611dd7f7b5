//! Things in images, and what they are.

use serde::{Deserialize, Serialize};

use super::Settings;

/// The end of a network that finds things in images: a grid of cells, each with a few boxes (Redmon and Farhadi 2017).
///
/// What comes in is an image of cells, with 5 numbers and one for every class for each box.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Yolo2Output {
    /// Width and height that each box of a cell starts from, in cells.
    pub boxes: Vec<[f32; 2]>,
    /// What places and sizes count in the loss.
    #[serde(default = "five")]
    pub coordinates: f32,
    /// What it counts that a box is sure of a thing where none is.
    #[serde(default = "half")]
    pub no_object: f32,
    /// What every layer may have.
    #[serde(skip)]
    pub settings: Settings,
}

impl Yolo2Output {
    /// With boxes of these widths and heights in every cell.
    pub fn new(boxes: impl Into<Vec<[f32; 2]>>) -> Self {
        Self { boxes: boxes.into(), coordinates: five(), no_object: half(), settings: Settings::default() }
    }

    /// What places and sizes count in the loss.
    #[must_use]
    pub fn coordinates(mut self, coordinates: f32) -> Self {
        self.coordinates = coordinates;
        self
    }

    /// What it counts that a box is sure of a thing where none is.
    #[must_use]
    pub fn no_object(mut self, no_object: f32) -> Self {
        self.no_object = no_object;
        self
    }
}

fn five() -> f32 {
    5.0
}

fn half() -> f32 {
    0.5
}
