//! Batch normalisation in two passes over memory each way, by periods of channels.

use paceline_model::vectorize;

use super::channels::{fold, period, repeat};
use crate::pass::{Backward, Forward};

/// Floats of scratch: four periods, and two numbers per channel.
pub(super) fn scratch(channels: usize) -> usize {
    4 * period(channels) + 2 * channels
}

pub(super) fn forward(
    channels: usize,
    positions: usize,
    [epsilon, decay]: [f32; 2],
    relu: bool,
    pass: &mut Forward<'_, f32>,
) {
    let rows = pass.examples * positions;
    let (running_mean, running_variance) = pass.running.split_at_mut(channels);
    let Forward { x, y, weights, bias, aux, training, scratch, .. } = pass;
    let (center, rest) = scratch.split_at_mut(period(channels));
    let (scale, rest) = rest.split_at_mut(period(channels));
    let (shift, rest) = rest.split_at_mut(period(channels));
    vectorize(
        #[inline(always)]
        || {
            let (mean, inverse) = if *training {
                let (mean, inverse) = aux.split_at_mut(channels);
                statistics(x, channels, center, [scale, shift], mean, inverse, rest);
                let n = rows as f32;
                for c in 0..channels {
                    let variance = inverse[c];
                    let unbiased = if rows > 1 { variance * n / (n - 1.0) } else { variance };
                    running_mean[c] = decay * running_mean[c] + (1.0 - decay) * mean[c];
                    running_variance[c] = decay * running_variance[c] + (1.0 - decay) * unbiased;
                    inverse[c] = 1.0 / (variance + epsilon).sqrt();
                }
                (&*mean, &*inverse)
            } else {
                let inverse = &mut rest[..channels];
                inverse.iter_mut().zip(&*running_variance).for_each(|(i, v)| *i = 1.0 / (v + epsilon).sqrt());
                (&*running_mean, &*inverse)
            };
            repeat(|c| mean[c], channels, center);
            repeat(|c| weights.get(c).copied().unwrap_or(1.0) * inverse[c], channels, scale);
            repeat(|c| bias.get(c).copied().unwrap_or(0.0), channels, shift);
            let least = if relu { 0.0 } else { f32::NEG_INFINITY };
            for (x, y) in x.chunks(period(channels)).zip(y.chunks_mut(period(channels))) {
                let columns = center.iter().zip(scale.iter()).zip(shift.iter());
                for ((x, y), ((center, scale), shift)) in x.iter().zip(y).zip(columns) {
                    let value = (x - center) * scale + shift;
                    // Not `max`: a NaN must come through.
                    *y = if value < least { least } else { value };
                }
            }
        },
    );
}

/// Mean and variance of every channel in one pass, by sums around the first pixel of the batch: it is as far from the
/// mean as any pixel, so little is lost when the square of the mean is subtracted.
#[inline(always)]
fn statistics(
    x: &[f32],
    channels: usize,
    around: &mut [f32],
    [sums, squares]: [&mut [f32]; 2],
    mean: &mut [f32],
    variance: &mut [f32],
    folded: &mut [f32],
) {
    let n = (x.len() / channels) as f32;
    repeat(|c| x[c], channels, around);
    sums.fill(0.0);
    squares.fill(0.0);
    for x in x.chunks(period(channels)) {
        for ((x, around), (sum, square)) in x.iter().zip(around.iter()).zip(sums.iter_mut().zip(squares.iter_mut())) {
            let d = x - around;
            *sum += d;
            *square += d * d;
        }
    }
    fold(sums, channels, mean);
    fold(squares, channels, folded);
    for c in 0..channels {
        let shift = mean[c] / n;
        variance[c] = (folded[c] / n - shift * shift).max(0.0);
        mean[c] = around[c] + shift;
    }
}

/// dx = γ/√(variance + ε) · (dy − mean(dy) − x̂ mean(dy x̂)); where a ReLU cut, the slope is 0.
pub(super) fn backward(channels: usize, positions: usize, relu: bool, pass: &mut Backward<'_, f32>) {
    let n = (pass.examples * positions) as f32;
    let Backward { x, y, weights, aux, dy, dweights, dbias, dx, scratch, .. } = pass;
    let (mean, inverse) = aux.split_at_mut(channels);
    let (center, rest) = scratch.split_at_mut(period(channels));
    let (sums, rest) = rest.split_at_mut(period(channels));
    let (dots, rest) = rest.split_at_mut(period(channels));
    vectorize(
        #[inline(always)]
        || {
            let length = period(channels);
            repeat(|c| mean[c], channels, center);
            sums.fill(0.0);
            dots.fill(0.0);
            if relu {
                dy.iter_mut().zip(y.iter()).for_each(|(dy, y)| *dy = if *y > 0.0 { *dy } else { 0.0 });
            }
            for (x, dy) in x.chunks(length).zip(dy.chunks(length)) {
                let columns = center.iter().zip(sums.iter_mut().zip(dots.iter_mut()));
                for ((x, dy), (center, (sum, dot))) in x.iter().zip(dy).zip(columns) {
                    *sum += dy;
                    *dot += dy * (x - center);
                }
            }
            let (scale, rest) = rest.split_at_mut(length);
            let (sum, dot) = rest.split_at_mut(channels);
            fold(sums, channels, sum);
            fold(dots, channels, dot);
            for c in 0..channels {
                dot[c] *= inverse[c];
            }
            if !dweights.is_empty() {
                dweights.copy_from_slice(&dot[..channels]);
                dbias.copy_from_slice(sum);
            }
            if dx.is_empty() {
                return;
            }
            repeat(|c| sum[c] / n, channels, sums);
            repeat(|c| dot[c] * inverse[c] / n, channels, dots);
            repeat(|c| weights.get(c).copied().unwrap_or(1.0) * inverse[c], channels, scale);
            for ((x, dy), dx) in x.chunks(length).zip(dy.chunks(length)).zip(dx.chunks_mut(length)) {
                let columns = center.iter().zip(scale.iter()).zip(sums.iter().zip(dots.iter()));
                for (((x, dy), dx), ((center, scale), (sum, dot))) in x.iter().zip(dy).zip(dx).zip(columns) {
                    *dx = scale * (dy - sum - (x - center) * dot);
                }
            }
        },
    );
}
