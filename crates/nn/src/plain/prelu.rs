//! y = x where that is above 0, a x else, with a learned for every channel.

use crate::Real;
use crate::pass::{Backward, Forward};

pub(super) fn forward<R: Real>(pass: &mut Forward<'_, R>) {
    for (x, y) in pass.x.chunks_exact(pass.weights.len()).zip(pass.y.chunks_exact_mut(pass.weights.len())) {
        for ((x, y), a) in x.iter().zip(y).zip(pass.weights) {
            *y = if *x > R::ZERO { *x } else { *a * *x };
        }
    }
}

pub(super) fn backward<R: Real>(pass: &mut Backward<'_, R>) {
    let channels = pass.weights.len();
    pass.dweights.fill(R::ZERO);
    for (x, dy) in pass.x.chunks_exact(channels).zip(pass.dy.chunks_exact(channels)) {
        for ((x, dy), da) in x.iter().zip(dy).zip(pass.dweights.iter_mut()).filter(|((x, _), _)| **x <= R::ZERO) {
            *da += *x * *dy;
        }
    }
    let rows = pass.x.chunks_exact(channels).zip(pass.dy.chunks_exact(channels));
    for ((x, dy), dx) in rows.zip(pass.dx.chunks_exact_mut(channels)) {
        for (((x, dy), dx), a) in x.iter().zip(dy).zip(dx).zip(pass.weights) {
            *dx = if *x > R::ZERO { *dy } else { *a * *dy };
        }
    }
}
