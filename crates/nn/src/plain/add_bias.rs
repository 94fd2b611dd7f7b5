//! y = x + b, with a bias for every number of a row.

use crate::Real;
use crate::pass::{Backward, Forward};

pub(super) fn forward<R: Real>(pass: &mut Forward<'_, R>) {
    let width = pass.bias.len();
    for (x, y) in pass.x.chunks_exact(width).zip(pass.y.chunks_exact_mut(width)) {
        x.iter().zip(pass.bias).zip(y).for_each(|((x, bias), y)| *y = *x + *bias);
    }
}

pub(super) fn backward<R: Real>(pass: &mut Backward<'_, R>) {
    if !pass.dbias.is_empty() {
        pass.dbias.fill(R::ZERO);
        for dy in pass.dy.chunks_exact(pass.dbias.len()) {
            pass.dbias.iter_mut().zip(dy).for_each(|(db, dy)| *db += *dy);
        }
    }
    if !pass.dx.is_empty() {
        pass.dx.copy_from_slice(pass.dy);
    }
}
