//! y = γ x̂ + β with x̂ = (x − mean) / √(variance + ε), per channel over all examples and positions of the minibatch.
//!
//! Aux holds the mean and 1/√(variance + ε) of the batch. Running statistics keep the unbiased variance.

use crate::Real;
use crate::pass::{Backward, Forward};

pub(super) fn forward<R: Real>(channels: usize, positions: usize, epsilon: f32, decay: f32, pass: &mut Forward<'_, R>) {
    let rows = pass.examples * positions;
    let epsilon = R::of(f64::from(epsilon));
    for c in 0..channels {
        let column = || pass.x[c..].iter().step_by(channels);
        let (mean, variance) = if pass.training {
            let n = R::of(rows as f64);
            let mean = column().fold(R::ZERO, |sum, x| sum + *x) / n;
            let variance = column().fold(R::ZERO, |sum, x| sum + (*x - mean) * (*x - mean)) / n;
            let unbiased = if rows > 1 { variance * n / R::of(rows as f64 - 1.0) } else { variance };
            let keep = R::of(f64::from(decay));
            pass.running[c] = keep * pass.running[c] + (R::ONE - keep) * mean;
            pass.running[channels + c] = keep * pass.running[channels + c] + (R::ONE - keep) * unbiased;
            (mean, variance)
        } else {
            (pass.running[c], pass.running[channels + c])
        };
        let inverse = R::ONE / (variance + epsilon).sqrt();
        if pass.training {
            pass.aux[c] = mean;
            pass.aux[channels + c] = inverse;
        }
        let gain = pass.weights.get(c).copied().unwrap_or(R::ONE);
        let shift = pass.bias.get(c).copied().unwrap_or(R::ZERO);
        for at in (c..rows * channels).step_by(channels) {
            pass.y[at] = (pass.x[at] - mean) * inverse * gain + shift;
        }
    }
}

/// dx = γ/√(variance + ε) · (dy − mean(dy) − x̂ mean(dy x̂))
pub(super) fn backward<R: Real>(channels: usize, positions: usize, pass: &mut Backward<'_, R>) {
    let rows = pass.examples * positions;
    let n = R::of(rows as f64);
    for c in 0..channels {
        let (mean, inverse) = (pass.aux[c], pass.aux[channels + c]);
        let (mut sum, mut dot) = (R::ZERO, R::ZERO);
        for at in (c..rows * channels).step_by(channels) {
            sum += pass.dy[at];
            dot += pass.dy[at] * (pass.x[at] - mean) * inverse;
        }
        if let Some(gain) = pass.dweights.get_mut(c) {
            *gain = dot;
        }
        if let Some(shift) = pass.dbias.get_mut(c) {
            *shift = sum;
        }
        if !pass.dx.is_empty() {
            let scale = pass.weights.get(c).copied().unwrap_or(R::ONE) * inverse;
            for at in (c..rows * channels).step_by(channels) {
                let normal = (pass.x[at] - mean) * inverse;
                pass.dx[at] = scale * (pass.dy[at] - sum / n - normal * dot / n);
            }
        }
    }
}

/// The same with the running statistics. Aux holds γ/√(variance + ε).
pub(super) fn forward_fixed<R: Real>(channels: usize, epsilon: f32, pass: &mut Forward<'_, R>) {
    for c in 0..channels {
        let (mean, variance) = (pass.running[c], pass.running[channels + c]);
        let gain = pass.weights.get(c).copied().unwrap_or(R::ONE);
        let scale = gain / (variance + R::of(f64::from(epsilon))).sqrt();
        let shift = pass.bias.get(c).copied().unwrap_or(R::ZERO);
        if let Some(kept) = pass.aux.get_mut(c) {
            *kept = scale;
        }
        for at in (c..pass.x.len()).step_by(channels) {
            pass.y[at] = (pass.x[at] - mean) * scale + shift;
        }
    }
}

pub(super) fn backward_fixed<R: Real>(channels: usize, pass: &mut Backward<'_, R>) {
    for (dx, dy) in pass.dx.chunks_exact_mut(channels).zip(pass.dy.chunks_exact(channels)) {
        dx.iter_mut().zip(dy).zip(&*pass.aux).for_each(|((dx, dy), scale)| *dx = *dy * *scale);
    }
}
