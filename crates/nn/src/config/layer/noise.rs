//! Chance as a layer: it works while a network is trained, and does nothing when it predicts.

use serde::{Deserialize, Serialize};

use super::super::Settings;

/// Sets whole channels of images to 0 (Tompson et al. 2015).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SpatialDropout {
    /// Probability that a channel of an example is set to 0.
    pub rate: f32,
    /// What every layer may have.
    #[serde(skip)]
    pub settings: Settings,
}

/// Multiplies by normal numbers of mean 1 and variance rate / (1 − rate) (Srivastava et al. 2014).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GaussianDropout {
    /// What dropout would have the same variance with.
    pub rate: f32,
    /// What every layer may have.
    #[serde(skip)]
    pub settings: Settings,
}

/// Adds normal numbers of mean 0.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GaussianNoise {
    /// Their standard deviation.
    pub deviation: f32,
    /// What every layer may have.
    #[serde(skip)]
    pub settings: Settings,
}

/// Dropout for what follows `selu`: mean and variance stay as they are (Klambauer et al. 2017).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AlphaDropout {
    /// Probability that a number is dropped.
    pub rate: f32,
    /// What every layer may have.
    #[serde(skip)]
    pub settings: Settings,
}

macro_rules! by_one_number {
    ($type:ty, $field:ident, $what:literal) => {
        impl $type {
            #[doc = $what]
            pub fn new($field: f32) -> Self {
                Self { $field, settings: Settings::default() }
            }
        }
    };
}

by_one_number!(SpatialDropout, rate, "Sets each channel to 0 with this probability.");
by_one_number!(GaussianDropout, rate, "As much noise as dropout at this rate.");
by_one_number!(GaussianNoise, deviation, "Noise of this standard deviation.");
by_one_number!(AlphaDropout, rate, "Drops each number with this probability.");
