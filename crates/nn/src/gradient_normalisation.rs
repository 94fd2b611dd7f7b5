use serde::{Deserialize, Serialize};

/// What is done to a gradient before the updater sees it, so that one wild batch does no harm.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum GradientNormalisation {
    /// Nothing.
    #[default]
    None,
    /// Divides by the norm of the whole layer's gradient.
    RenormalizeL2PerLayer,
    /// Divides by the norm of each parameter's gradient.
    RenormalizeL2PerParameter,
    /// Cuts every element to −threshold..threshold.
    ClipElementWise {
        /// Largest magnitude.
        #[serde(default = "one")]
        threshold: f32,
    },
    /// Scales the layer's gradient down to a norm of `threshold`, if it is longer.
    ClipL2PerLayer {
        /// Largest norm.
        #[serde(default = "one")]
        threshold: f32,
    },
    /// Scales each parameter's gradient down to a norm of `threshold`, if it is longer.
    ClipL2PerParameter {
        /// Largest norm.
        #[serde(default = "one")]
        threshold: f32,
    },
}

fn one() -> f32 {
    1.0
}

/// Norms below this are taken as zero: nothing is divided by them.
const LEAST_NORM: f64 = 1e-12;

impl GradientNormalisation {
    /// Whether the norm of the whole layer is needed, not only that of one parameter.
    pub(crate) fn per_layer(self) -> bool {
        matches!(self, Self::RenormalizeL2PerLayer | Self::ClipL2PerLayer { .. })
    }

    /// Whether a norm is needed at all.
    pub(crate) fn needs_norm(self) -> bool {
        !matches!(self, Self::None | Self::ClipElementWise { .. })
    }

    /// The factor that a gradient with this norm is multiplied with.
    pub(crate) fn scale(self, norm: f64) -> f64 {
        match self {
            Self::RenormalizeL2PerLayer | Self::RenormalizeL2PerParameter if norm > LEAST_NORM => 1.0 / norm,
            Self::ClipL2PerLayer { threshold } | Self::ClipL2PerParameter { threshold }
                if norm > f64::from(threshold) =>
            {
                f64::from(threshold) / norm
            }
            _ => 1.0,
        }
    }
}
