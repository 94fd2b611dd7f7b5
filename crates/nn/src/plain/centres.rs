//! y = ½ ‖x − c‖² for every centre c, which are the weights.

use crate::Real;
use crate::pass::{Backward, Forward};

pub(super) fn forward<R: Real>(pass: &mut Forward<'_, R>) {
    let count = pass.y.len() / pass.examples;
    let size = pass.weights.len() / count;
    let half = R::of(0.5);
    for (x, y) in pass.x.chunks_exact(size).zip(pass.y.chunks_exact_mut(count)) {
        for (centre, y) in pass.weights.chunks_exact(size).zip(y) {
            let squares = x.iter().zip(centre).fold(R::ZERO, |sum, (x, c)| sum + (*x - *c) * (*x - *c));
            *y = half * squares;
        }
    }
}

/// dx = Σ (x − c) dy; dc = (c − x) dy, so many times as much.
pub(super) fn backward<R: Real>(strength: f32, pass: &mut Backward<'_, R>) {
    let count = pass.dy.len() / pass.examples;
    let size = pass.weights.len() / count;
    let strength = R::of(f64::from(strength));
    pass.dweights.fill(R::ZERO);
    pass.dx.fill(R::ZERO);
    for (row, (x, dy)) in pass.x.chunks_exact(size).zip(pass.dy.chunks_exact(count)).enumerate() {
        for ((centre, dc), dy) in pass.weights.chunks_exact(size).zip(pass.dweights.chunks_exact_mut(size)).zip(dy) {
            // Most examples belong to one class alone.
            if *dy == R::ZERO {
                continue;
            }
            for (at, (c, dc)) in centre.iter().zip(dc).enumerate() {
                let slope = (x[at] - *c) * *dy;
                *dc -= strength * slope;
                if let Some(dx) = pass.dx.get_mut(row * size + at) {
                    *dx += slope;
                }
            }
        }
    }
}
