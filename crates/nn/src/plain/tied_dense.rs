//! y = x Wᵀ, with W of outputs × inputs: the way back through the weights of a dense operation.

use crate::Real;
use crate::pass::{Backward, Forward};

pub(super) fn forward<R: Real>(inputs: usize, outputs: usize, pass: &mut Forward<'_, R>) {
    for (x, y) in pass.x.chunks_exact(inputs).zip(pass.y.chunks_exact_mut(outputs)) {
        for (y, row) in y.iter_mut().zip(pass.weights.chunks_exact(inputs)) {
            *y = row.iter().zip(x).fold(R::ZERO, |sum, (w, x)| sum + *w * *x);
        }
    }
}

pub(super) fn backward<R: Real>(inputs: usize, outputs: usize, pass: &mut Backward<'_, R>) {
    pass.dweights.fill(R::ZERO);
    for (x, dy) in pass.x.chunks_exact(inputs).zip(pass.dy.chunks_exact(outputs)) {
        for (dy, row) in dy.iter().zip(pass.dweights.chunks_exact_mut(inputs)) {
            row.iter_mut().zip(x).for_each(|(dw, x)| *dw += *dy * *x);
        }
    }
    for (dx, dy) in pass.dx.chunks_exact_mut(inputs).zip(pass.dy.chunks_exact(outputs)) {
        dx.fill(R::ZERO);
        for (dy, row) in dy.iter().zip(pass.weights.chunks_exact(inputs)) {
            dx.iter_mut().zip(row).for_each(|(dx, w)| *dx += *dy * *w);
        }
    }
}
