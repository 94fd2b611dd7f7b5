//! Batch normalisation by rows of channels, so that every pass reads memory in order.

use super::dispatch::vectorize;
use crate::pass::{Backward, Forward};

pub(super) fn forward(channels: usize, positions: usize, epsilon: f32, decay: f32, pass: &mut Forward<'_, f32>) {
    let rows = pass.examples * positions;
    let (running_mean, running_variance) = pass.running.split_at_mut(channels);
    let Forward { x, y, weights, bias, aux, training, scratch, .. } = pass;
    let (scale, center) = scratch.split_at_mut(channels);
    vectorize(
        #[inline(always)]
        || {
            if *training {
                let (mean, inverse) = aux.split_at_mut(channels);
                let n = rows as f32;
                mean.fill(0.0);
                for x in x.chunks_exact(channels) {
                    mean.iter_mut().zip(x).for_each(|(m, x)| *m += x);
                }
                mean.iter_mut().for_each(|m| *m /= n);
                inverse.fill(0.0);
                for x in x.chunks_exact(channels) {
                    for c in 0..channels {
                        inverse[c] += (x[c] - mean[c]) * (x[c] - mean[c]);
                    }
                }
                for c in 0..channels {
                    let variance = inverse[c] / n;
                    let unbiased = if rows > 1 { inverse[c] / (n - 1.0) } else { variance };
                    running_mean[c] = decay * running_mean[c] + (1.0 - decay) * mean[c];
                    running_variance[c] = decay * running_variance[c] + (1.0 - decay) * unbiased;
                    inverse[c] = 1.0 / (variance + epsilon).sqrt();
                }
            }
            for c in 0..channels {
                let (mean, inverse) = if *training {
                    (aux[c], aux[channels + c])
                } else {
                    (running_mean[c], 1.0 / (running_variance[c] + epsilon).sqrt())
                };
                scale[c] = weights.get(c).copied().unwrap_or(1.0) * inverse;
                center[c] = mean;
            }
            let (scale, center) = (&scale[..channels], &center[..channels]);
            for (x, y) in x.chunks_exact(channels).zip(y.chunks_exact_mut(channels)) {
                for c in 0..channels {
                    y[c] = (x[c] - center[c]) * scale[c];
                }
                y.iter_mut().zip(*bias).for_each(|(y, shift)| *y += shift);
            }
        },
    );
}

pub(super) fn backward(channels: usize, positions: usize, pass: &mut Backward<'_, f32>) {
    let n = (pass.examples * positions) as f32;
    let Backward { x, weights, aux, dy, dweights, dbias, dx, scratch, .. } = pass;
    let (mean, inverse) = aux.split_at_mut(channels);
    let (sum, dot) = scratch.split_at_mut(channels);
    let dot = &mut dot[..channels];
    vectorize(
        #[inline(always)]
        || {
            sum.fill(0.0);
            dot.fill(0.0);
            for (x, dy) in x.chunks_exact(channels).zip(dy.chunks_exact(channels)) {
                for c in 0..channels {
                    sum[c] += dy[c];
                    dot[c] += dy[c] * (x[c] - mean[c]);
                }
            }
            for c in 0..channels {
                dot[c] *= inverse[c];
            }
            if !dweights.is_empty() {
                dweights.copy_from_slice(dot);
                dbias.copy_from_slice(sum);
            }
            if dx.is_empty() {
                return;
            }
            // What is left of each sum: the mean slope, and how it follows x.
            for c in 0..channels {
                sum[c] /= n;
                dot[c] *= inverse[c] / n;
                inverse[c] *= weights.get(c).copied().unwrap_or(1.0);
            }
            let (mean, inverse, sum, dot) = (&mean[..channels], &inverse[..channels], &sum[..channels], &dot[..channels]);
            for ((x, dy), dx) in x.chunks_exact(channels).zip(dy.chunks_exact(channels)).zip(dx.chunks_exact_mut(channels)) {
                for c in 0..channels {
                    dx[c] = inverse[c] * (dy[c] - sum[c] - (x[c] - mean[c]) * dot[c]);
                }
            }
        },
    );
}
