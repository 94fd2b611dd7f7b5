//! Capsules: small groups of numbers that tell of one thing each, by their length how sure it is there (Sabour et al. 2017).

use serde::{Deserialize, Serialize};

use super::super::Settings;
use super::Padding;

/// The capsules of an image: a convolution whose channels are capsules, none of them longer than 1. What comes out is a sequence with a
/// capsule at every step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PrimaryCapsules {
    /// Capsules of every place.
    pub capsules: usize,
    /// Numbers of a capsule.
    pub size: usize,
    /// Height and width of the filters.
    #[serde(default = "nines")]
    pub kernel: [usize; 2],
    /// How far the filters move, down and right.
    #[serde(default = "twos")]
    pub stride: [usize; 2],
    /// What is around the image.
    #[serde(default)]
    pub padding: Padding,
    /// What every layer may have.
    #[serde(skip)]
    pub settings: Settings,
}

/// Capsules that others agree on: each foretells what it says, and who agrees with the rest is listened to more.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CapsuleLayer {
    /// Number of capsules.
    pub capsules: usize,
    /// Numbers of a capsule.
    pub size: usize,
    /// How often it is settled who listens to whom.
    #[serde(default = "three")]
    pub routings: usize,
    /// Whether capsules have biases.
    #[serde(default, skip_serializing_if = "is_not")]
    pub bias: bool,
    /// What every layer may have.
    #[serde(skip)]
    pub settings: Settings,
}

/// The length of every capsule.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CapsuleStrength {
    /// What every layer may have.
    #[serde(skip)]
    pub settings: Settings,
}

fn nines() -> [usize; 2] {
    [9; 2]
}

fn twos() -> [usize; 2] {
    [2; 2]
}

fn three() -> usize {
    3
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
fn is_not(value: &bool) -> bool {
    !*value
}

impl PrimaryCapsules {
    /// So many capsules of so many numbers at every place, from filters of 9×9 that move by two.
    pub fn new(capsules: usize, size: usize) -> Self {
        let settings = Settings::default();
        Self { capsules, size, kernel: nines(), stride: twos(), padding: Padding::default(), settings }
    }

    /// Height and width of the filters.
    #[must_use]
    pub fn kernel(mut self, kernel: [usize; 2]) -> Self {
        self.kernel = kernel;
        self
    }

    /// How far the filters move.
    #[must_use]
    pub fn stride(mut self, stride: [usize; 2]) -> Self {
        self.stride = stride;
        self
    }
}

impl CapsuleLayer {
    /// So many capsules of so many numbers, settled in three rounds.
    pub fn new(capsules: usize, size: usize) -> Self {
        Self { capsules, size, routings: three(), bias: false, settings: Settings::default() }
    }

    /// How often it is settled who listens to whom.
    #[must_use]
    pub fn routings(mut self, routings: usize) -> Self {
        self.routings = routings;
        self
    }
}
