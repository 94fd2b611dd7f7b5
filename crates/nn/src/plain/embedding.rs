//! y = W[x] + b: the row of a table that has the number x.

use crate::Real;
use crate::pass::{Backward, Forward};

/// The row for what comes in; none for what is no number of a row.
fn row<R: Real>(x: R, count: usize) -> Option<usize> {
    let x = x.to_f64();
    (x >= 0.0 && x < count as f64).then_some(x as usize)
}

/// What has no row becomes no number: a broken run must not look healthy.
pub(super) fn forward<R: Real>(count: usize, pass: &mut Forward<'_, R>) {
    let width = pass.y.len() / pass.x.len();
    for (x, y) in pass.x.iter().zip(pass.y.chunks_exact_mut(width)) {
        match row(*x, count) {
            Some(row) => y.copy_from_slice(&pass.weights[row * width..][..width]),
            None => y.fill(R::of(f64::NAN)),
        }
        y.iter_mut().zip(pass.bias).for_each(|(y, b)| *y += *b);
    }
}

pub(super) fn backward<R: Real>(count: usize, pass: &mut Backward<'_, R>) {
    let width = pass.dy.len() / pass.x.len();
    pass.dweights.fill(R::ZERO);
    pass.dbias.fill(R::ZERO);
    for (x, dy) in pass.x.iter().zip(pass.dy.chunks_exact(width)) {
        if let Some(row) = row(*x, count).filter(|_| !pass.dweights.is_empty()) {
            pass.dweights[row * width..][..width].iter_mut().zip(dy).for_each(|(dw, dy)| *dw += *dy);
        }
        pass.dbias.iter_mut().zip(dy).for_each(|(db, dy)| *db += *dy);
    }
    // A number of a row has no slope.
    pass.dx.fill(R::ZERO);
}

pub(super) fn one_hot<R: Real>(count: usize, pass: &mut Forward<'_, R>) {
    for (x, y) in pass.x.iter().zip(pass.y.chunks_exact_mut(count)) {
        match row(*x, count) {
            Some(row) => {
                y.fill(R::ZERO);
                y[row] = R::ONE;
            }
            None => y.fill(R::of(f64::NAN)),
        }
    }
}
