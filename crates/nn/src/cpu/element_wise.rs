//! Activations over long slices.

use paceline_model::vectorize;

use crate::Activation;
use crate::pass::Backward;

/// Runs `$body` with `$a` bound to what makes one known activation in each arm. Called within the vectorised code, it
/// tells the compiler which function it compiles; a value handed in would be looked at for every element.
macro_rules! for_each_function {
    ($activation:expr, |$a:ident| $body:expr) => {
        match $activation {
            Activation::Relu => {
                let $a = move || Activation::Relu;
                $body
            }
            Activation::Sigmoid => {
                let $a = move || Activation::Sigmoid;
                $body
            }
            Activation::Tanh => {
                let $a = move || Activation::Tanh;
                $body
            }
            Activation::LeakyRelu { alpha } => {
                let $a = move || Activation::LeakyRelu { alpha };
                $body
            }
            Activation::Elu { alpha } => {
                let $a = move || Activation::Elu { alpha };
                $body
            }
            Activation::Selu => {
                let $a = move || Activation::Selu;
                $body
            }
            Activation::Swish => {
                let $a = move || Activation::Swish;
                $body
            }
            other => {
                let $a = move || other;
                $body
            }
        }
    };
}

pub(super) fn apply(activation: Activation, x: &[f32], y: &mut [f32]) {
    for_each_function!(activation, |a| vectorize(
        #[inline(always)]
        || {
            let a = a();
            for (x, y) in x.iter().zip(y) {
                *y = a.value(*x);
            }
        }
    ));
}

pub(super) fn apply_in_place(activation: Activation, y: &mut [f32]) {
    for_each_function!(activation, |a| vectorize(
        #[inline(always)]
        || {
            let a = a();
            for y in y {
                *y = a.value(*y);
            }
        }
    ));
}

/// `dy *= slope`, told from what came out.
pub(super) fn slope_in_place(activation: Activation, y: &[f32], dy: &mut [f32]) {
    for_each_function!(activation, |a| vectorize(
        #[inline(always)]
        || {
            let a = a();
            for (dy, y) in dy.iter_mut().zip(y) {
                *dy *= a.slope(*y, *y);
            }
        }
    ));
}

pub(super) fn slope(activation: Activation, pass: &mut Backward<'_, f32>) {
    let Backward { x, y, dy, dx, .. } = pass;
    // What was not kept is not looked at either.
    let x = if activation.slope_from_output() { &**y } else { &**x };
    for_each_function!(activation, |a| vectorize(
        #[inline(always)]
        || {
            let a = a();
            for ((dx, dy), (x, y)) in dx.iter_mut().zip(dy.iter()).zip(x.iter().zip(y.iter())) {
                *dx = dy * a.slope(*x, *y);
            }
        }
    ));
}
