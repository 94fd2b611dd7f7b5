//! y = x / dᵝ with d = k + α Σ x² over the n channels around the own one. Aux holds d.

use crate::Real;
use crate::pass::{Backward, Forward};

fn around(c: usize, n: usize, channels: usize) -> std::ops::Range<usize> {
    c.saturating_sub(n / 2)..(c + n.div_ceil(2)).min(channels)
}

pub(super) fn forward<R: Real>(channels: usize, [k, alpha, beta]: [f32; 3], n: usize, pass: &mut Forward<'_, R>) {
    let (k, alpha, beta) = (R::of(k.into()), R::of(alpha.into()), R::of(beta.into()));
    for (pixel, (x, y)) in pass.x.chunks_exact(channels).zip(pass.y.chunks_exact_mut(channels)).enumerate() {
        for c in 0..channels {
            let squares = x[around(c, n, channels)].iter().fold(R::ZERO, |sum, x| sum + *x * *x);
            let d = k + alpha * squares;
            y[c] = x[c] * d.powf(-beta);
            if pass.training {
                pass.aux[pixel * channels + c] = d;
            }
        }
    }
}

/// dx_j = dy_j d_j^−β − 2αβ x_j Σ dy_i y_i / d_i over the i that have j around them.
pub(super) fn backward<R: Real>(channels: usize, [alpha, beta]: [f32; 2], n: usize, pass: &mut Backward<'_, R>) {
    if pass.dx.is_empty() {
        return;
    }
    let (alpha, beta) = (R::of(alpha.into()), R::of(beta.into()));
    for start in (0..pass.x.len()).step_by(channels) {
        for j in 0..channels {
            let mut sum = R::ZERO;
            for i in (0..channels).filter(|&i| around(i, n, channels).contains(&j)) {
                sum += pass.dy[start + i] * pass.y[start + i] / pass.aux[start + i];
            }
            let own = pass.dy[start + j] * pass.aux[start + j].powf(-beta);
            pass.dx[start + j] = own - R::of(2.0) * alpha * beta * pass.x[start + j] * sum;
        }
    }
}
