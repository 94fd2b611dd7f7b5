//! Inverted dropout (Srivastava et al. 2014): what stays is scaled up by 1 / (1 − rate), so that nothing is done when
//! predicting. Which numbers stay is drawn again in the backward pass.

use crate::Real;
use crate::pass::{Backward, Draw, Forward};

/// Draws below this are dropped.
pub(crate) fn threshold(rate: f32) -> u32 {
    (f64::from(rate) * 4_294_967_296.0) as u32
}

pub(super) fn forward<R: Real>(rate: f32, pass: &mut Forward<'_, R>) {
    if pass.training {
        mask(rate, pass.examples, pass.draw, pass.x, pass.y);
    } else {
        pass.y.copy_from_slice(pass.x);
    }
}

pub(super) fn backward<R: Real>(rate: f32, pass: &mut Backward<'_, R>) {
    if !pass.dx.is_empty() {
        mask(rate, pass.examples, pass.draw, pass.dy, pass.dx);
    }
}

fn mask<R: Real>(rate: f32, examples: usize, draw: Draw<'_>, from: &[R], to: &mut [R]) {
    let threshold = threshold(rate);
    let scale = R::of(1.0 / (1.0 - f64::from(rate)));
    let width = from.len() / examples;
    for row in 0..examples {
        let stream = draw.row(row);
        let rows = from[row * width..][..width].iter().zip(&mut to[row * width..][..width]);
        for (element, (from, to)) in rows.enumerate() {
            *to = if stream.bits(element as u32) < threshold { R::ZERO } else { *from * scale };
        }
    }
}
