//! The same learned numbers for every example.

use crate::Real;
use crate::pass::{Backward, Forward};

pub(super) fn forward<R: Real>(pass: &mut Forward<'_, R>) {
    pass.y.chunks_exact_mut(pass.weights.len()).for_each(|y| y.copy_from_slice(pass.weights));
}

pub(super) fn backward<R: Real>(pass: &mut Backward<'_, R>) {
    pass.dweights.fill(R::ZERO);
    for dy in pass.dy.chunks_exact(pass.dweights.len().max(1)) {
        pass.dweights.iter_mut().zip(dy).for_each(|(dw, dy)| *dw += *dy);
    }
    pass.dx.fill(R::ZERO);
}
