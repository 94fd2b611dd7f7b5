//! What units are that are given a number: on average, and drawn by chance.

use super::activation::softmax;
use super::blocks;
use crate::node::Unit;
use crate::pass::Forward;
use crate::random::Counted;
use crate::{Activation, Real};

impl Unit {
    /// What a row of units is on average.
    pub(super) fn mean<R: Real>(self, z: &[R], y: &mut [R]) {
        let each = |y: &mut [R], activation: Activation| {
            z.iter().zip(y).for_each(|(z, y)| *y = activation.value(*z));
        };
        match self {
            Unit::Binary | Unit::Chance => each(y, Activation::Sigmoid),
            Unit::Gaussian | Unit::Linear => y.copy_from_slice(z),
            Unit::Rectified => each(y, Activation::Relu),
            Unit::OneOf | Unit::Chances => softmax(z, y),
            Unit::OneOfBlocks(of) => blocks::mean(of, z, y),
        }
    }

    /// From what a row of units is on average to what chance says it is.
    fn draw<R: Real>(self, stream: Counted, z: &[R], y: &mut [R]) {
        match self {
            Unit::Chance | Unit::Linear | Unit::Chances => {}
            Unit::OneOfBlocks(of) => blocks::draw(of, stream, y),
            Unit::Binary => {
                for (at, y) in y.iter_mut().enumerate() {
                    let is_on = R::of(f64::from(stream.uniform(at as u32))) < *y;
                    *y = if is_on { R::ONE } else { R::ZERO };
                }
            }
            Unit::Gaussian => {
                y.iter_mut().enumerate().for_each(|(at, y)| *y += R::of(stream.normal(at as u32)));
            }
            Unit::Rectified => {
                for (at, (z, y)) in z.iter().zip(y).enumerate() {
                    let deviation = Activation::Sigmoid.value(*z).sqrt();
                    *y = (*z + deviation * R::of(stream.normal(at as u32))).max(R::ZERO);
                }
            }
            Unit::OneOf => {
                let mut left = R::of(f64::from(stream.uniform(0)));
                let last = y.len() - 1;
                let mut is_found = false;
                for (at, y) in y.iter_mut().enumerate() {
                    let is_here = !is_found && (left < *y || at == last);
                    left -= *y;
                    is_found |= is_here;
                    *y = if is_here { R::ONE } else { R::ZERO };
                }
            }
        }
    }
}

pub(super) fn forward<R: Real>(unit: Unit, draw: u64, pass: &mut Forward<'_, R>) {
    let width = pass.x.len() / pass.examples;
    for (row, (z, y)) in pass.x.chunks_exact(width).zip(pass.y.chunks_exact_mut(width)).enumerate() {
        unit.mean(z, y);
        if pass.training {
            unit.draw(pass.draw.row(row).draw(draw), z, y);
        }
    }
}
