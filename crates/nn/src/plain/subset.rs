//! Some of the channels of every position.

use crate::Real;
use crate::pass::{Backward, Forward};

pub(super) fn forward<R: Real>(first: usize, [all, taken]: [usize; 2], pass: &mut Forward<'_, R>) {
    for (x, y) in pass.x.chunks_exact(all).zip(pass.y.chunks_exact_mut(taken)) {
        y.copy_from_slice(&x[first..first + taken]);
    }
}

pub(super) fn backward<R: Real>(first: usize, [all, taken]: [usize; 2], pass: &mut Backward<'_, R>) {
    pass.dx.fill(R::ZERO);
    for (dx, dy) in pass.dx.chunks_exact_mut(all).zip(pass.dy.chunks_exact(taken)) {
        dx[first..first + taken].copy_from_slice(dy);
    }
}
