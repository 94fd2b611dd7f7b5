//! Boxes of cells: place and sureness are sigmoids, width and height exponentials times what a box starts from, and the classes
//! a softmax.

use super::activation::softmax;
use crate::pass::{Backward, Forward};
use crate::{Activation, Real};

/// Numbers of a box before its classes: place, size, and how sure it is.
const OF_BOX: usize = 5;

pub(super) fn forward<R: Real>(sizes: &[[f32; 2]], classes: usize, pass: &mut Forward<'_, R>) {
    let each = OF_BOX + classes;
    for (at, (x, y)) in pass.x.chunks_exact(each).zip(pass.y.chunks_exact_mut(each)).enumerate() {
        for place in [0, 1, 4] {
            y[place] = Activation::Sigmoid.value(x[place]);
        }
        for (axis, size) in sizes[at % sizes.len()].into_iter().enumerate() {
            y[2 + axis] = R::of(f64::from(size)) * x[2 + axis].exp();
        }
        softmax(&x[OF_BOX..], &mut y[OF_BOX..]);
    }
}

pub(super) fn backward<R: Real>(classes: usize, pass: &mut Backward<'_, R>) {
    let each = OF_BOX + classes;
    let rows = pass.y.chunks_exact(each).zip(pass.dy.chunks_exact(each));
    for ((y, dy), dx) in rows.zip(pass.dx.chunks_exact_mut(each)) {
        for place in [0, 1, 4] {
            dx[place] = dy[place] * y[place] * (R::ONE - y[place]);
        }
        for place in [2, 3] {
            dx[place] = dy[place] * y[place];
        }
        let along = (OF_BOX..each).fold(R::ZERO, |sum, class| sum + y[class] * dy[class]);
        (OF_BOX..each).for_each(|class| dx[class] = y[class] * (dy[class] - along));
    }
}
