use std::fmt;

use serde::{Deserialize, Serialize};

/// What one example looks like between two layers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// A plain row of numbers.
    Flat(usize),
    /// An image, stored as rows of pixels of channels.
    Image {
        /// Rows.
        height: usize,
        /// Pixels of a row.
        width: usize,
        /// Numbers of a pixel.
        channels: usize,
    },
    /// Images one behind the other.
    Volume {
        /// Images.
        depth: usize,
        /// Rows of an image.
        height: usize,
        /// Pixels of a row.
        width: usize,
        /// Numbers of a pixel.
        channels: usize,
    },
    /// A sequence, stored as one step after the other.
    Sequence {
        /// Steps, those that are not there included.
        steps: usize,
        /// Numbers of a step.
        features: usize,
    },
}

impl Shape {
    /// Numbers in one example.
    pub fn len(self) -> usize {
        match self {
            Shape::Flat(n) => n,
            Shape::Image { height, width, channels } => height * width * channels,
            Shape::Volume { depth, height, width, channels } => depth * height * width * channels,
            Shape::Sequence { steps, features } => steps * features,
        }
    }

    /// Whether an example has no numbers.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// Numbers of the last dimension: the channels of an image or a volume, the features of a row or a step.
    pub fn channels(self) -> usize {
        match self {
            Shape::Flat(n) => n,
            Shape::Image { channels, .. } | Shape::Volume { channels, .. } => channels,
            Shape::Sequence { features, .. } => features,
        }
    }

    /// How often the last dimension repeats: the pixels of an image or a volume, the steps of a sequence, 1 for a row.
    pub fn positions(self) -> usize {
        match self {
            Shape::Flat(_) => 1,
            Shape::Image { height, width, .. } => height * width,
            Shape::Volume { depth, height, width, .. } => depth * height * width,
            Shape::Sequence { steps, .. } => steps,
        }
    }

    /// The same with so many channels.
    pub(crate) fn with_channels(self, channels: usize) -> Self {
        match self {
            Shape::Flat(_) => Shape::Flat(channels),
            Shape::Image { height, width, .. } => Shape::Image { height, width, channels },
            Shape::Volume { depth, height, width, .. } => Shape::Volume { depth, height, width, channels },
            Shape::Sequence { steps, .. } => Shape::Sequence { steps, features: channels },
        }
    }

    /// The steps of a sequence.
    pub fn steps(self) -> Option<usize> {
        match self {
            Shape::Sequence { steps, .. } => Some(steps),
            _ => None,
        }
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Shape::Flat(1) => f.write_str("1 number"),
            Shape::Flat(n) => write!(f, "{n} numbers"),
            Shape::Image { height, width, channels } => write!(f, "an image of {height}×{width}×{channels}"),
            Shape::Volume { depth, height, width, channels } => {
                write!(f, "a volume of {depth}×{height}×{width}×{channels}")
            }
            Shape::Sequence { steps, features } => write!(f, "a sequence of {steps} steps of {features}"),
        }
    }
}

/// What goes into a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InputType {
    /// Rows of so many numbers.
    FeedForward(usize),
    /// Images: height, width, channels.
    Image([usize; 3]),
    /// Images that come as rows; the same memory, so the same thing here.
    FlatImage([usize; 3]),
    /// Images one behind the other: depth, height, width, channels.
    Volume([usize; 4]),
    /// Sequences: steps, and numbers of a step. Shorter ones are filled up with steps that are no numbers.
    Sequence([usize; 2]),
}

impl InputType {
    /// What examples of this shape are: a row, steps and their numbers, an image, or a volume; nothing for other shapes.
    pub fn of_shape(shape: &[usize]) -> Option<Self> {
        Some(match *shape {
            [count] => InputType::FeedForward(count),
            [steps, features] => InputType::Sequence([steps, features]),
            [height, width, channels] => InputType::Image([height, width, channels]),
            [depth, height, width, channels] => InputType::Volume([depth, height, width, channels]),
            _ => return None,
        })
    }

    /// The shape of one example.
    pub fn shape(self) -> Shape {
        match self {
            InputType::FeedForward(n) => Shape::Flat(n),
            InputType::Image([height, width, channels]) | InputType::FlatImage([height, width, channels]) => {
                Shape::Image { height, width, channels }
            }
            InputType::Volume([depth, height, width, channels]) => Shape::Volume { depth, height, width, channels },
            InputType::Sequence([steps, features]) => Shape::Sequence { steps, features },
        }
    }
}
