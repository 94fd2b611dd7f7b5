//! y = w x + b, with a weight and a bias for every number of a row.

use crate::Real;
use crate::pass::{Backward, Forward};

pub(super) fn forward<R: Real>(pass: &mut Forward<'_, R>) {
    let width = pass.weights.len();
    for (x, y) in pass.x.chunks_exact(width).zip(pass.y.chunks_exact_mut(width)) {
        for (at, (x, y)) in x.iter().zip(y).enumerate() {
            *y = pass.weights[at] * *x + pass.bias.get(at).copied().unwrap_or(R::ZERO);
        }
    }
}

pub(super) fn backward<R: Real>(pass: &mut Backward<'_, R>) {
    let width = pass.weights.len();
    pass.dweights.fill(R::ZERO);
    pass.dbias.fill(R::ZERO);
    for (x, dy) in pass.x.chunks_exact(width).zip(pass.dy.chunks_exact(width)) {
        x.iter().zip(dy).zip(pass.dweights.iter_mut()).for_each(|((x, dy), dw)| *dw += *x * *dy);
        pass.dbias.iter_mut().zip(dy).for_each(|(db, dy)| *db += *dy);
    }
    for (dx, dy) in pass.dx.chunks_exact_mut(width).zip(pass.dy.chunks_exact(width)) {
        dx.iter_mut().zip(dy).zip(pass.weights).for_each(|((dx, dy), w)| *dx = *w * *dy);
    }
}
