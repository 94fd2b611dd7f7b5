//! y = x W + b, with W of inputs × outputs.

use crate::Real;
use crate::pass::{Backward, Forward};

pub(super) fn forward<R: Real>(inputs: usize, outputs: usize, pass: &mut Forward<'_, R>) {
    for (x, y) in pass.x.chunks_exact(inputs).zip(pass.y.chunks_exact_mut(outputs)) {
        match pass.bias {
            [] => y.fill(R::ZERO),
            bias => y.copy_from_slice(bias),
        }
        for (x, row) in x.iter().zip(pass.weights.chunks_exact(outputs)) {
            y.iter_mut().zip(row).for_each(|(y, w)| *y += *x * *w);
        }
    }
}

pub(super) fn backward<R: Real>(inputs: usize, outputs: usize, pass: &mut Backward<'_, R>) {
    pass.dweights.fill(R::ZERO);
    pass.dbias.fill(R::ZERO);
    for (x, dy) in pass.x.chunks_exact(inputs).zip(pass.dy.chunks_exact(outputs)) {
        for (x, row) in x.iter().zip(pass.dweights.chunks_exact_mut(outputs)) {
            row.iter_mut().zip(dy).for_each(|(dw, dy)| *dw += *x * *dy);
        }
        pass.dbias.iter_mut().zip(dy).for_each(|(db, dy)| *db += *dy);
    }
    for (dx, dy) in pass.dx.chunks_exact_mut(inputs).zip(pass.dy.chunks_exact(outputs)) {
        for (dx, row) in dx.iter_mut().zip(pass.weights.chunks_exact(outputs)) {
            *dx = row.iter().zip(dy).fold(R::ZERO, |sum, (w, dy)| sum + *w * *dy);
        }
    }
}
