//! Blocks of units of which at most one is on: the chance of unit i is exp(zᵢ) / (1 + Σ exp(zⱼ)), j over its block.

use crate::Real;
use crate::node::Blocks;
use crate::pass::{Backward, Forward};
use crate::random::Counted;

fn count(blocks: &Blocks) -> usize {
    blocks.pooled().iter().product()
}

fn len(blocks: &Blocks) -> usize {
    blocks.image.iter().product()
}

/// The chance of every unit of an image.
pub(super) fn mean<R: Real>(blocks: Blocks, z: &[R], y: &mut [R]) {
    for block in 0..count(&blocks) {
        let highest = blocks.units(block).fold(R::ZERO, |highest, at| highest.max(z[at]));
        let mut sum = (-highest).exp();
        for at in blocks.units(block) {
            y[at] = (z[at] - highest).exp();
            sum += y[at];
        }
        blocks.units(block).for_each(|at| y[at] = y[at] / sum);
    }
}

/// From the chances of an image's units to those that are on.
pub(super) fn draw<R: Real>(blocks: Blocks, stream: Counted, y: &mut [R]) {
    for block in 0..count(&blocks) {
        let mut left = R::of(f64::from(stream.uniform(block as u32)));
        let mut is_found = false;
        for at in blocks.units(block) {
            let is_here = !is_found && left < y[at];
            left -= y[at];
            is_found |= is_here;
            y[at] = if is_here { R::ONE } else { R::ZERO };
        }
    }
}

pub(super) fn forward<R: Real>(blocks: Blocks, pass: &mut Forward<'_, R>) {
    let (units, all) = (len(&blocks), count(&blocks));
    for (image, y) in pass.y.chunks_exact_mut(all).enumerate() {
        let (z, chances) = (&pass.x[image * units..][..units], &mut pass.aux[image * units..][..units]);
        mean(blocks, z, chances);
        for (block, y) in y.iter_mut().enumerate() {
            *y = blocks.units(block).fold(R::ZERO, |sum, at| sum + chances[at]);
        }
    }
}

pub(super) fn backward<R: Real>(blocks: Blocks, pass: &mut Backward<'_, R>) {
    if pass.dx.is_empty() {
        return;
    }
    let (units, all) = (len(&blocks), count(&blocks));
    for (image, dy) in pass.dy.chunks_exact(all).enumerate() {
        let (chances, dx) = (&pass.aux[image * units..][..units], &mut pass.dx[image * units..][..units]);
        for (block, dy) in dy.iter().enumerate() {
            let off = blocks.units(block).fold(R::ONE, |left, at| left - chances[at]);
            blocks.units(block).for_each(|at| dx[at] = *dy * chances[at] * off);
        }
    }
}
