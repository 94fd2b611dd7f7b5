use crate::custom::{Backward, CustomLayer, CustomLoss};

/// A real number that plain kernels compute in: `f32` in the engine, `f64` in the reference.
pub trait Real:
    paceline_model::Number
    + PartialOrd
    + std::fmt::Debug
    + std::ops::Add<Output = Self>
    + std::ops::Sub<Output = Self>
    + std::ops::Mul<Output = Self>
    + std::ops::Div<Output = Self>
    + std::ops::Neg<Output = Self>
    + std::ops::AddAssign
    + std::ops::SubAssign
    + std::ops::MulAssign
    + Send
    + Sync
    + 'static
{
    /// 0.
    const ZERO: Self;
    /// 1.
    const ONE: Self;
    /// What numbers are kept above before a logarithm is taken of them, or something is divided by them.
    const EDGE: Self;
    /// What positive outputs are kept above before a logarithm is taken of them, or something is divided by them: so
    /// little that only 0 itself, and what is as good as 0, is changed.
    const LEAST: Self;
    /// The nearest number to `value`.
    fn of(value: f64) -> Self;
    /// The number itself, with the precision that it has.
    fn to_f64(self) -> f64;
    /// e to the power of `self`.
    fn exp(self) -> Self;
    /// The natural logarithm.
    fn ln(self) -> Self;
    /// `ln(1 + self)`, exact for small numbers.
    fn ln_1p(self) -> Self;
    /// The hyperbolic tangent.
    fn tanh(self) -> Self;
    /// The square root.
    fn sqrt(self) -> Self;
    /// The magnitude.
    fn abs(self) -> Self;
    /// `self` to the power of `exponent`.
    fn powf(self, exponent: Self) -> Self;
    /// The error function.
    fn erf(self) -> Self;
    /// The larger of both; the other one if one is not a number.
    fn max(self, other: Self) -> Self;
    /// The smaller of both; the other one if one is not a number.
    fn min(self, other: Self) -> Self;
    /// The loss of one example by a loss of another crate, in this precision.
    fn custom_row(loss: &dyn CustomLoss, target: &[Self], output: &[Self], slope: &mut [Self]) -> Self;
    /// The forward pass of a layer of another crate, in this precision.
    fn custom_forward(layer: &dyn CustomLayer, examples: usize, parameters: &[Self], x: &[Self], y: &mut [Self]);
    /// The backward pass of a layer of another crate, in this precision.
    fn custom_backward(layer: &dyn CustomLayer, pass: Backward<'_, Self>);
    /// Writes numbers of a batch in this precision.
    fn copy(from: &[f32], to: &mut [Self]) {
        to.iter_mut().zip(from).for_each(|(to, from)| *to = Self::of(f64::from(*from)));
    }
    /// Whether it is no number at all.
    fn is_nan(self) -> bool {
        self.to_f64().is_nan()
    }
    /// −1, 0 or 1.
    fn sign(self) -> Self {
        if self > Self::ZERO {
            Self::ONE
        } else if self < Self::ZERO {
            -Self::ONE
        } else {
            Self::ZERO
        }
    }
}

macro_rules! real {
    ($type:ty, $edge:literal, $least:literal, $exp:path, $tanh:path, $erf:path, $row:ident, $forward:ident, $backward:ident) => {
        impl Real for $type {
            const ZERO: Self = 0.0;
            const ONE: Self = 1.0;
            const EDGE: Self = $edge;
            const LEAST: Self = $least;
            #[inline(always)]
            fn of(value: f64) -> Self {
                value as $type
            }
            #[inline(always)]
            fn to_f64(self) -> f64 {
                f64::from(self)
            }
            #[inline(always)]
            fn exp(self) -> Self {
                $exp(self)
            }
            #[inline(always)]
            fn ln(self) -> Self {
                self.ln()
            }
            #[inline(always)]
            fn ln_1p(self) -> Self {
                self.ln_1p()
            }
            #[inline(always)]
            fn tanh(self) -> Self {
                $tanh(self)
            }
            #[inline(always)]
            fn sqrt(self) -> Self {
                self.sqrt()
            }
            #[inline(always)]
            fn abs(self) -> Self {
                self.abs()
            }
            fn powf(self, exponent: Self) -> Self {
                self.powf(exponent)
            }
            fn erf(self) -> Self {
                $erf(self)
            }
            #[inline(always)]
            fn max(self, other: Self) -> Self {
                self.max(other)
            }
            #[inline(always)]
            fn min(self, other: Self) -> Self {
                self.min(other)
            }
            fn custom_row(loss: &dyn CustomLoss, target: &[Self], output: &[Self], slope: &mut [Self]) -> Self {
                loss.$row(target, output, slope)
            }
            fn custom_forward(
                layer: &dyn CustomLayer,
                examples: usize,
                parameters: &[Self],
                x: &[Self],
                y: &mut [Self],
            ) {
                layer.$forward(examples, parameters, x, y);
            }
            fn custom_backward(layer: &dyn CustomLayer, pass: Backward<'_, Self>) {
                layer.$backward(pass);
            }
        }
    };
}

real!(f32, 1e-7, 1e-30, crate::cpu::math::exp, crate::cpu::math::tanh, libm::erff, row_f32, forward_f32, backward_f32);
real!(f64, 1e-300, 1e-300, f64::exp, f64::tanh, libm::erf, row_f64, forward_f64, backward_f64);
