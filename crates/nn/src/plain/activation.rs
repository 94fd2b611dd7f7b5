//! An activation as an operation of its own; softmax goes over the channels of every position.

use crate::pass::{Backward, Draw, Forward};
use crate::{Activation, Real};

pub(super) fn forward<R: Real>(activation: Activation, channels: usize, pass: &mut Forward<'_, R>) {
    match activation {
        Activation::Softmax => {
            for (x, y) in pass.x.chunks_exact(channels).zip(pass.y.chunks_exact_mut(channels)) {
                softmax(x, y);
            }
        }
        Activation::RandomRelu { lower, upper } => {
            let slopes = Slopes::new(lower, upper, pass.training);
            let width = pass.x.len() / pass.examples;
            for (at, (x, y)) in pass.x.iter().zip(pass.y.iter_mut()).enumerate() {
                *y = if *x > R::ZERO { *x } else { *x * slopes.at(pass.draw, at, width) };
            }
        }
        _ => pass.x.iter().zip(pass.y.iter_mut()).for_each(|(x, y)| *y = activation.value(*x)),
    }
}

pub(super) fn backward<R: Real>(activation: Activation, channels: usize, pass: &mut Backward<'_, R>) {
    match activation {
        Activation::Softmax => {
            let rows = pass.y.chunks_exact(channels).zip(pass.dy.chunks_exact(channels));
            for ((y, dy), dx) in rows.zip(pass.dx.chunks_exact_mut(channels)) {
                let dot = y.iter().zip(dy).fold(R::ZERO, |sum, (y, dy)| sum + *y * *dy);
                y.iter().zip(dy).zip(dx).for_each(|((y, dy), dx)| *dx = *y * (*dy - dot));
            }
        }
        Activation::RandomRelu { lower, upper } => {
            let slopes = Slopes::new(lower, upper, true);
            let width = pass.x.len() / pass.examples;
            for (at, dx) in pass.dx.iter_mut().enumerate() {
                let positive = pass.x[at] > R::ZERO;
                *dx = if positive { pass.dy[at] } else { pass.dy[at] * slopes.at(pass.draw, at, width) };
            }
        }
        _ => {
            // What was not kept is not looked at either.
            let x = if activation.slope_from_output() { pass.y } else { pass.x };
            for (at, dx) in pass.dx.iter_mut().enumerate() {
                *dx = pass.dy[at] * activation.slope(x[at], pass.y[at]);
            }
        }
    }
}

/// eˣ over their sum; the largest is subtracted first, so that nothing overflows.
pub(crate) fn softmax<R: Real>(x: &[R], y: &mut [R]) {
    let top = x.iter().fold(R::of(f64::NEG_INFINITY), |top, x| top.max(*x));
    let mut sum = R::ZERO;
    for (x, y) in x.iter().zip(y.iter_mut()) {
        *y = (*x - top).exp();
        sum += *y;
    }
    let scale = R::ONE / sum;
    y.iter_mut().for_each(|y| *y *= scale);
}

/// The slopes of a random ReLU.
struct Slopes {
    lower: f64,
    upper: f64,
    training: bool,
}

impl Slopes {
    fn new(lower: f32, upper: f32, training: bool) -> Self {
        Self { lower: f64::from(lower), upper: f64::from(upper), training }
    }

    fn at<R: Real>(&self, draw: Draw<'_>, at: usize, width: usize) -> R {
        if !self.training {
            return R::of((self.lower + self.upper) / 2.0);
        }
        let uniform = f64::from(draw.row(at / width).uniform((at % width) as u32));
        R::of(self.lower + (self.upper - self.lower) * uniform)
    }
}
