//! y = a x + b, with the same two numbers for all.

use crate::Real;
use crate::pass::{Backward, Forward};

pub(super) fn forward<R: Real>(factor: f32, offset: f32, pass: &mut Forward<'_, R>) {
    let (factor, offset) = (R::of(f64::from(factor)), R::of(f64::from(offset)));
    pass.x.iter().zip(pass.y.iter_mut()).for_each(|(x, y)| *y = factor * *x + offset);
}

pub(super) fn backward<R: Real>(factor: f32, pass: &mut Backward<'_, R>) {
    let factor = R::of(f64::from(factor));
    pass.dx.iter_mut().zip(&*pass.dy).for_each(|(dx, dy)| *dx = factor * *dy);
}
