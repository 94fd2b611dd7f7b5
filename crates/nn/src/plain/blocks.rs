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
    let channels = blocks.image[2];
    // The blocks of all channels at one place: their units lie in runs.
    let (mut highest, mut sum) = (vec![R::ZERO; channels], vec![R::ZERO; channels]);
    for place in 0..count(&blocks) / channels {
        let runs = || blocks.units(place * channels).map(|first| first..first + channels);
        highest.fill(R::ZERO);
        for run in runs() {
            highest.iter_mut().zip(&z[run]).for_each(|(highest, z)| *highest = highest.max(*z));
        }
        sum.iter_mut().zip(&highest).for_each(|(sum, highest)| *sum = (-*highest).exp());
        for run in runs() {
            let each = z[run.clone()].iter().zip(&highest).zip(&mut y[run]);
            for (((z, highest), y), sum) in each.zip(&mut sum) {
                *y = (*z - *highest).exp();
                *sum += *y;
            }
        }
        for run in runs() {
            y[run].iter_mut().zip(&sum).for_each(|(y, sum)| *y = *y / *sum);
        }
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
        y.fill(R::ZERO);
        let channels = blocks.image[2];
        for (place, y) in y.chunks_exact_mut(channels).enumerate() {
            for first in blocks.units(place * channels) {
                y.iter_mut().zip(&chances[first..first + channels]).for_each(|(sum, chance)| *sum += *chance);
            }
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
