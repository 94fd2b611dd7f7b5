//! y = μ + e^(s / 2) ε, with ε drawn from the normal distribution and s the logarithm of the variance; y = μ when predicting.

use crate::Real;
use crate::pass::{Backward, Draw, Forward};

/// e^(s / 2) ε of an element.
fn away<R: Real>(draw: Draw<'_>, row: usize, at: usize, s: R) -> R {
    (s * R::of(0.5)).exp() * R::of(draw.row(row).draw(1).normal(at as u32))
}

pub(super) fn forward<R: Real>(pass: &mut Forward<'_, R>) {
    let (mean, s) = (pass.operands.get(0), pass.operands.get(1));
    let width = mean.len() / pass.examples;
    for (at, ((y, mean), s)) in pass.y.iter_mut().zip(mean).zip(s).enumerate() {
        *y = if pass.training { *mean + away(pass.draw, at / width, at % width, *s) } else { *mean };
    }
}

pub(super) fn backward<R: Real>(pass: &mut Backward<'_, R>) {
    let s = pass.kept.get(1);
    let width = s.len() / pass.examples;
    let draw = pass.draw;
    let (dx, dy) = pass.slope(0);
    dx.iter_mut().zip(dy).for_each(|(dx, dy)| *dx = *dy);
    let (ds, dy) = pass.slope(1);
    for (at, ((ds, dy), s)) in ds.iter_mut().zip(dy).zip(s).enumerate() {
        *ds = *dy * R::of(0.5) * away(draw, at / width, at % width, *s);
    }
}
