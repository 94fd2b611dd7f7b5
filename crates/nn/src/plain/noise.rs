//! Chance: y = m x + c, where m and c are drawn in both directions alike. Nothing is done when predicting.

use crate::Real;
use crate::node::Noise;
use crate::pass::{Backward, Draw, Forward};

/// What the dropped numbers of alpha dropout become: −λ α of `selu`.
const DROPPED: f64 = -1.758_099_340_847_376_6;

impl Noise {
    /// m and c of an element of a row.
    fn at(self, draw: Draw<'_>, row: usize, element: usize, channels: usize) -> (f64, f64) {
        let stream = draw.row(row);
        match self {
            Noise::Spatial { rate } => {
                let is_kept = stream.uniform((element % channels) as u32) >= rate;
                (if is_kept { 1.0 / (1.0 - f64::from(rate)) } else { 0.0 }, 0.0)
            }
            Noise::Factor { rate } => {
                let deviation = (f64::from(rate) / (1.0 - f64::from(rate))).sqrt();
                (1.0 + deviation * stream.normal(element as u32), 0.0)
            }
            Noise::Added { deviation } => (1.0, f64::from(deviation) * stream.normal(element as u32)),
            Noise::Masked { rate } => (if stream.uniform(element as u32) >= rate { 1.0 } else { 0.0 }, 0.0),
            Noise::Alpha { rate } => {
                let keep = 1.0 - f64::from(rate);
                let scale = (keep + DROPPED * DROPPED * keep * (1.0 - keep)).sqrt().recip();
                let shift = -scale * (1.0 - keep) * DROPPED;
                let is_kept = stream.uniform(element as u32) >= rate;
                if is_kept { (scale, shift) } else { (0.0, scale * DROPPED + shift) }
            }
        }
    }
}

pub(super) fn forward<R: Real>(noise: Noise, channels: usize, pass: &mut Forward<'_, R>) {
    if !pass.training {
        return pass.y.copy_from_slice(pass.x);
    }
    let width = pass.x.len() / pass.examples;
    for (at, (x, y)) in pass.x.iter().zip(pass.y.iter_mut()).enumerate() {
        let (m, c) = noise.at(pass.draw, at / width, at % width, channels);
        *y = R::of(m) * *x + R::of(c);
    }
}

pub(super) fn backward<R: Real>(noise: Noise, channels: usize, pass: &mut Backward<'_, R>) {
    let width = pass.dy.len() / pass.examples;
    for (at, (dx, dy)) in pass.dx.iter_mut().zip(&*pass.dy).enumerate() {
        let (m, _) = noise.at(pass.draw, at / width, at % width, channels);
        *dx = R::of(m) * *dy;
    }
}
