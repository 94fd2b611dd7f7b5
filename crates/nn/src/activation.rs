use serde::{Deserialize, Serialize};

use crate::Real;

/// What is done to every number that comes out of a layer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Activation {
    /// x³
    Cube,
    /// x for x > 0, else α (eˣ − 1)
    Elu {
        /// Scale of the negative side.
        #[serde(default = "one")]
        alpha: f32,
    },
    /// x Φ(x), with the exact normal distribution function
    Gelu,
    /// 0.2 x + 0.5, cut to 0..1
    #[serde(alias = "hardsigmoid")]
    HardSigmoid,
    /// x cut to −1..1
    #[serde(alias = "hardtanh")]
    HardTanh,
    /// x
    #[default]
    Identity,
    /// x for x > 0, else α x
    #[serde(alias = "leakyrelu")]
    LeakyRelu {
        /// Slope of the negative side.
        #[serde(default = "hundredth")]
        alpha: f32,
    },
    /// x tanh(ln(1 + eˣ))
    Mish,
    /// 1.7159 times a rational approximation of tanh(2x/3)
    #[serde(alias = "rationaltanh")]
    RationalTanh,
    /// max(0, tanh x)
    #[serde(alias = "rectifiedtanh")]
    RectifiedTanh,
    /// max(0, x)
    Relu,
    /// x cut to 0..6
    Relu6,
    /// x for x > 0, else a x, where a is drawn from lower..upper in training and is their mean otherwise
    #[serde(alias = "rrelu")]
    RandomRelu {
        /// Least slope.
        #[serde(default = "eighth")]
        lower: f32,
        /// Largest slope.
        #[serde(default = "third")]
        upper: f32,
    },
    /// λ (x for x > 0, else α (eˣ − 1)) with the two constants that keep mean 0 and variance 1
    Selu,
    /// 1 / (1 + e⁻ˣ)
    Sigmoid,
    /// eˣ over the sum of eˣ of the whole row
    Softmax,
    /// ln(1 + eˣ)
    #[serde(alias = "soft_plus")]
    Softplus,
    /// x / (1 + |x|)
    #[serde(alias = "soft_sign")]
    Softsign,
    /// x / (1 + e⁻ˣ)
    Swish,
    /// The hyperbolic tangent.
    Tanh,
    /// x for x > θ, else 0
    #[serde(alias = "thresholdedrelu")]
    ThresholdedRelu {
        /// What a number must pass.
        #[serde(default = "one")]
        theta: f32,
    },
}

fn one() -> f32 {
    1.0
}
fn hundredth() -> f32 {
    0.01
}
fn eighth() -> f32 {
    0.125
}
fn third() -> f32 {
    1.0 / 3.0
}

const SELU_ALPHA: f64 = 1.673_263_242_354_377_2;
const SELU_SCALE: f64 = 1.050_700_987_355_480_5;

impl Activation {
    /// Every activation with its default settings, for tests and listings.
    pub const ALL: [Activation; 21] = [
        Activation::Cube,
        Activation::Elu { alpha: 1.0 },
        Activation::Gelu,
        Activation::HardSigmoid,
        Activation::HardTanh,
        Activation::Identity,
        Activation::LeakyRelu { alpha: 0.01 },
        Activation::Mish,
        Activation::RationalTanh,
        Activation::RectifiedTanh,
        Activation::Relu,
        Activation::Relu6,
        Activation::RandomRelu { lower: 0.125, upper: 1.0 / 3.0 },
        Activation::Selu,
        Activation::Sigmoid,
        Activation::Softmax,
        Activation::Softplus,
        Activation::Softsign,
        Activation::Swish,
        Activation::Tanh,
        Activation::ThresholdedRelu { theta: 1.0 },
    ];

    /// What is wrong with the settings, if anything.
    pub(crate) fn problem(self) -> Option<String> {
        let number = |key, value: f32| (!value.is_finite()).then(|| format!("`{key}` must be a number, found {value}"));
        match self {
            Activation::Elu { alpha } | Activation::LeakyRelu { alpha } => number("alpha", alpha),
            Activation::ThresholdedRelu { theta } => number("theta", theta),
            Activation::RandomRelu { lower, upper } if !(lower.is_finite() && upper.is_finite() && lower <= upper) => {
                Some(format!("expected `lower` ≤ `upper`, found {lower} and {upper}"))
            }
            _ => None,
        }
    }

    /// Whether the slope can be told from what came out alone, so that what went in need not be kept.
    pub fn slope_from_output(self) -> bool {
        use Activation::{
            Elu, HardSigmoid, HardTanh, Identity, LeakyRelu, RectifiedTanh, Relu, Relu6, Selu, Sigmoid, Softplus, Tanh,
        };
        match self {
            Identity | Relu | Relu6 | Sigmoid | Tanh | RectifiedTanh | Selu | Softplus | HardTanh | HardSigmoid => true,
            LeakyRelu { alpha } | Elu { alpha } => alpha > 0.0,
            _ => false,
        }
    }

    /// Whether each number comes out of one number and no randomness: all but softmax and the random ReLU.
    pub fn is_element_wise(self) -> bool {
        !matches!(self, Activation::Softmax | Activation::RandomRelu { .. })
    }

    /// The value at `x`, for the element-wise ones.
    #[inline(always)]
    pub fn value<R: Real>(self, x: R) -> R {
        let of = R::of;
        match self {
            Activation::Identity => x,
            Activation::Relu => at_least(x, R::ZERO),
            Activation::Relu6 => at_most(at_least(x, R::ZERO), of(6.0)),
            Activation::LeakyRelu { alpha } => above(x, R::ZERO, x, of(f64::from(alpha)) * x),
            Activation::ThresholdedRelu { theta } => above(x, of(f64::from(theta)), x, R::ZERO),
            Activation::Cube => x * x * x,
            Activation::Elu { alpha } => above(x, R::ZERO, x, of(f64::from(alpha)) * (x.min(R::ZERO).exp() - R::ONE)),
            Activation::Selu => {
                let negative = of(SELU_ALPHA) * (x.min(R::ZERO).exp() - R::ONE);
                of(SELU_SCALE) * above(x, R::ZERO, x, negative)
            }
            Activation::Sigmoid => sigmoid(x),
            Activation::Tanh => x.tanh(),
            Activation::RectifiedTanh => at_least(x, R::ZERO).tanh(),
            Activation::HardTanh => at_most(at_least(x, -R::ONE), R::ONE),
            Activation::HardSigmoid => at_most(at_least(of(0.2) * x + of(0.5), R::ZERO), R::ONE),
            Activation::Softplus => softplus(x),
            Activation::Softsign => x / (R::ONE + x.abs()),
            Activation::Swish => x * sigmoid(x),
            Activation::Mish => x * softplus(x).tanh(),
            Activation::Gelu => of(0.5) * x * (R::ONE + (x * of(std::f64::consts::FRAC_1_SQRT_2)).erf()),
            Activation::RationalTanh => {
                let y = x.abs() * of(2.0 / 3.0);
                of(1.7159) * x.sign() * (R::ONE - R::ONE / rational(y))
            }
            Activation::Softmax | Activation::RandomRelu { .. } => unreachable!("not element-wise"),
        }
    }

    /// The slope at `x`, where `y` is the value there; `x` is not looked at if [`Self::slope_from_output`] holds.
    #[inline(always)]
    pub fn slope<R: Real>(self, x: R, y: R) -> R {
        let of = R::of;
        match self {
            Activation::Identity => R::ONE,
            Activation::Relu => above(y, R::ZERO, R::ONE, R::ZERO),
            Activation::Relu6 => between(y, R::ZERO, of(6.0)),
            Activation::LeakyRelu { alpha } => {
                let at = if alpha > 0.0 { y } else { x };
                above(at, R::ZERO, R::ONE, of(f64::from(alpha)))
            }
            Activation::ThresholdedRelu { theta } => above(x, of(f64::from(theta)), R::ONE, R::ZERO),
            Activation::Cube => of(3.0) * x * x,
            Activation::Elu { alpha } => {
                if alpha > 0.0 {
                    above(y, R::ZERO, R::ONE, y + of(f64::from(alpha)))
                } else {
                    above(x, R::ZERO, R::ONE, of(f64::from(alpha)) * x.min(R::ZERO).exp())
                }
            }
            Activation::Selu => above(y, R::ZERO, of(SELU_SCALE), y + of(SELU_SCALE * SELU_ALPHA)),
            Activation::Sigmoid => y * (R::ONE - y),
            Activation::Tanh => R::ONE - y * y,
            Activation::RectifiedTanh => above(y, R::ZERO, R::ONE - y * y, R::ZERO),
            Activation::HardTanh => between(y, -R::ONE, R::ONE),
            Activation::HardSigmoid => of(0.2) * between(y, R::ZERO, R::ONE),
            Activation::Softplus => {
                // 1 − e⁻ʸ without the difference, which would cancel where y is small.
                let t = (of(0.5) * y).tanh();
                of(2.0) * t / (R::ONE + t)
            }
            Activation::Softsign => {
                let d = R::ONE + x.abs();
                R::ONE / (d * d)
            }
            Activation::Swish => {
                let s = sigmoid(x);
                s + x * s * (R::ONE - s)
            }
            Activation::Mish => {
                let t = softplus(x).tanh();
                t + x * (R::ONE - t * t) * sigmoid(x)
            }
            Activation::Gelu => {
                let cdf = of(0.5) * (R::ONE + (x * of(std::f64::consts::FRAC_1_SQRT_2)).erf());
                cdf + x * (-(x * x) * of(0.5)).exp() * of(0.398_942_280_401_432_7)
            }
            Activation::RationalTanh => {
                let y = x.abs() * of(2.0 / 3.0);
                let d = rational(y);
                let slope = R::ONE + of(2.0) * y + of(4.0 * 1.41645) * y * y * y;
                of(1.7159 * 2.0 / 3.0) * slope / (d * d)
            }
            Activation::Softmax | Activation::RandomRelu { .. } => unreachable!("not element-wise"),
        }
    }
}

/// Not `max`, which swallows a NaN: a broken run must not look healthy.
#[inline(always)]
fn at_least<R: Real>(x: R, low: R) -> R {
    if x < low { low } else { x }
}

/// Not `min`, for the same reason.
#[inline(always)]
fn at_most<R: Real>(x: R, high: R) -> R {
    if x > high { high } else { x }
}

#[inline(always)]
fn above<R: Real>(x: R, limit: R, yes: R, no: R) -> R {
    if x > limit { yes } else { no }
}

#[inline(always)]
fn between<R: Real>(y: R, low: R, high: R) -> R {
    if y > low && y < high { R::ONE } else { R::ZERO }
}

#[inline(always)]
fn sigmoid<R: Real>(x: R) -> R {
    R::ONE / (R::ONE + (-x).exp())
}

#[inline(always)]
fn softplus<R: Real>(x: R) -> R {
    x.max(R::ZERO) + (-x.abs()).exp().ln_1p()
}

#[inline(always)]
fn rational<R: Real>(y: R) -> R {
    R::ONE + y + y * y + R::of(1.41645) * y * y * y * y
}
