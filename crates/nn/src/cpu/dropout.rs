//! Dropout with random bits that vectorise.

use paceline_model::vectorize;

use crate::pass::{Backward, Draw, Forward};
use crate::plain::dropout_threshold;

pub(super) fn forward(rate: f32, pass: &mut Forward<'_, f32>) {
    if pass.training {
        mask(rate, pass.examples, pass.draw, pass.x, pass.y);
    } else {
        pass.y.copy_from_slice(pass.x);
    }
}

pub(super) fn backward(rate: f32, pass: &mut Backward<'_, f32>) {
    if !pass.dx.is_empty() {
        mask(rate, pass.examples, pass.draw, pass.dy, pass.dx);
    }
}

fn mask(rate: f32, examples: usize, draw: Draw<'_>, from: &[f32], to: &mut [f32]) {
    let threshold = dropout_threshold(rate);
    let scale = (1.0 / (1.0 - f64::from(rate))) as f32;
    let width = from.len() / examples;
    vectorize(
        #[inline(always)]
        || {
            for (row, (from, to)) in from.chunks_exact(width).zip(to.chunks_exact_mut(width)).enumerate() {
                let stream = draw.row(row);
                for (element, (from, to)) in from.iter().zip(to).enumerate() {
                    *to = if stream.bits(element as u32) < threshold { 0.0 } else { from * scale };
                }
            }
        },
    );
}
