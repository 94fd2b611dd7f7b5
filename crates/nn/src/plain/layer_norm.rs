//! y = g (x − μ) / √(σ² + ε) + b, with the mean and the variance of every position over its channels.

use crate::Real;
use crate::pass::{Backward, Forward};

/// The mean of a position, and what its differences from that are multiplied by.
fn moments<R: Real>(x: &[R], epsilon: f32) -> [R; 2] {
    let n = R::of(x.len() as f64);
    let mean = x.iter().fold(R::ZERO, |sum, x| sum + *x) / n;
    let variance = x.iter().fold(R::ZERO, |sum, x| sum + (*x - mean) * (*x - mean)) / n;
    [mean, R::ONE / (variance + R::of(f64::from(epsilon))).sqrt()]
}

pub(super) fn forward<R: Real>(channels: usize, epsilon: f32, pass: &mut Forward<'_, R>) {
    for (x, y) in pass.x.chunks_exact(channels).zip(pass.y.chunks_exact_mut(channels)) {
        let [mean, factor] = moments(x, epsilon);
        for (((x, y), g), b) in x.iter().zip(y).zip(pass.weights).zip(pass.bias) {
            *y = *g * (*x - mean) * factor + *b;
        }
    }
}

/// dx = f (g dy − mean(g dy) − x̂ mean(g dy x̂))
pub(super) fn backward<R: Real>(channels: usize, epsilon: f32, pass: &mut Backward<'_, R>) {
    pass.dweights.fill(R::ZERO);
    pass.dbias.fill(R::ZERO);
    let n = R::of(channels as f64);
    for (at, (x, dy)) in pass.x.chunks_exact(channels).zip(pass.dy.chunks_exact(channels)).enumerate() {
        let [mean, factor] = moments(x, epsilon);
        let normal = |x: R| (x - mean) * factor;
        pass.dweights.iter_mut().zip(x).zip(dy).for_each(|((dg, x), dy)| *dg += *dy * normal(*x));
        pass.dbias.iter_mut().zip(dy).for_each(|(db, dy)| *db += *dy);
        if pass.dx.is_empty() {
            continue;
        }
        let (mut sum, mut product) = (R::ZERO, R::ZERO);
        for ((x, dy), g) in x.iter().zip(dy).zip(pass.weights) {
            sum += *g * *dy;
            product += *g * *dy * normal(*x);
        }
        let dx = &mut pass.dx[at * channels..][..channels];
        for (((dx, x), dy), g) in dx.iter_mut().zip(x).zip(dy).zip(pass.weights) {
            *dx = factor * (*g * *dy - sum / n - normal(*x) * product / n);
        }
    }
}
