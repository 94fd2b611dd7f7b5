use serde::{Deserialize, Serialize};

use super::super::Settings;

/// Images changed by chance while a network is trained, each in every epoch in another way: flipped, turned about their middle, shifted,
/// and cut. When it predicts they stay as they are, and a part is cut out of their middle.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Augment {
    /// Which ways images are flipped, each way in half of the cases.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flip: Option<Flip>,
    /// By how many degrees they are turned at most, to either side.
    #[serde(skip_serializing_if = "is_zero")]
    pub rotate: f32,
    /// By how many pixels they are shifted at most, up or down and to either side.
    #[serde(skip_serializing_if = "is_nowhere")]
    pub shift: [usize; 2],
    /// Height and width of a part that is cut out anywhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub crop: Option<[usize; 2]>,
    /// What lies beside an image.
    #[serde(skip_serializing_if = "Outside::is_zero")]
    pub outside: Outside,
    /// What every layer may have.
    #[serde(skip)]
    pub settings: Settings,
}

/// Which ways images are flipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Flip {
    /// Left becomes right.
    Horizontal,
    /// The top becomes the bottom.
    Vertical,
    /// One, the other, or both.
    Both,
}

/// What lies beside an image that is turned or shifted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outside {
    /// Nothing.
    #[default]
    Zero,
    /// Its edge, again and again.
    Edge,
}

impl Outside {
    fn is_zero(&self) -> bool {
        *self == Self::Zero
    }
}

fn is_zero(degrees: &f32) -> bool {
    *degrees == 0.0
}

fn is_nowhere(shift: &[usize; 2]) -> bool {
    *shift == [0, 0]
}

impl Augment {
    /// Changes nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Flips images these ways.
    #[must_use]
    pub fn flip(mut self, flip: Flip) -> Self {
        self.flip = Some(flip);
        self
    }

    /// Turns them by so many degrees at most, to either side.
    #[must_use]
    pub fn rotate(mut self, degrees: f32) -> Self {
        self.rotate = degrees;
        self
    }

    /// Shifts them by so many pixels at most, up or down and to either side.
    #[must_use]
    pub fn shift(mut self, pixels: [usize; 2]) -> Self {
        self.shift = pixels;
        self
    }

    /// Cuts out a part of this height and width.
    #[must_use]
    pub fn crop(mut self, size: [usize; 2]) -> Self {
        self.crop = Some(size);
        self
    }

    /// What lies beside an image.
    #[must_use]
    pub fn outside(mut self, outside: Outside) -> Self {
        self.outside = outside;
        self
    }
}
