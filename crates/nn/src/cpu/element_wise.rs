//! Activations over long slices.

use super::dispatch::vectorize;
use crate::Activation;
use crate::pass::Backward;

/// Calls `$body` with `$a` bound to a constant activation in each arm, so that every loop is compiled for one function.
macro_rules! for_each_function {
    ($activation:expr, |$a:ident| $body:expr) => {
        match $activation {
            Activation::Relu => {
                let $a = Activation::Relu;
                $body
            }
            Activation::Sigmoid => {
                let $a = Activation::Sigmoid;
                $body
            }
            Activation::Tanh => {
                let $a = Activation::Tanh;
                $body
            }
            Activation::LeakyRelu { alpha } => {
                let $a = Activation::LeakyRelu { alpha };
                $body
            }
            Activation::Elu { alpha } => {
                let $a = Activation::Elu { alpha };
                $body
            }
            Activation::Selu => {
                let $a = Activation::Selu;
                $body
            }
            Activation::Swish => {
                let $a = Activation::Swish;
                $body
            }
            $a => $body,
        }
    };
}

pub(super) fn apply(activation: Activation, x: &[f32], y: &mut [f32]) {
    for_each_function!(activation, |a| vectorize(
        #[inline(always)]
        || x.iter().zip(y).for_each(|(x, y)| *y = a.value(*x))
    ));
}

pub(super) fn apply_in_place(activation: Activation, y: &mut [f32]) {
    for_each_function!(activation, |a| vectorize(
        #[inline(always)]
        || y.iter_mut().for_each(|y| *y = a.value(*y))
    ));
}

/// `dy *= slope`, told from what came out.
pub(super) fn slope_in_place(activation: Activation, y: &[f32], dy: &mut [f32]) {
    for_each_function!(activation, |a| vectorize(
        #[inline(always)]
        || dy.iter_mut().zip(y).for_each(|(dy, y)| *dy *= a.slope(*y, *y))
    ));
}

pub(super) fn slope(activation: Activation, pass: &mut Backward<'_, f32>) {
    let Backward { x, y, dy, dx, .. } = pass;
    // What was not kept is not looked at either.
    let x = if activation.slope_from_output() { &**y } else { &**x };
    let rows = dx.iter_mut().zip(dy.iter()).zip(x.iter().zip(y.iter()));
    for_each_function!(activation, |a| vectorize(
        #[inline(always)]
        || rows.for_each(|((dx, dy), (x, y))| *dx = dy * a.slope(*x, *y))
    ));
}
