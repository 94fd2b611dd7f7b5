//! Slopes that values are given besides those of the heads.

use paceline_model::{Batch, Targets};

use crate::Real;
use crate::graph::ForceKind;

/// Writes the slopes, times each example's weight, into `dz`; returns what the force adds to the loss.
pub(crate) fn push<R: Real>(kind: ForceKind, batch: &Batch, z: &[R], dz: &mut [R]) -> f64 {
    let mut sum = 0.0;
    let half = R::of(0.5);
    let width = z.len() / batch.examples();
    for (row, (z, dz)) in z.chunks_exact(width).zip(dz.chunks_exact_mut(width)).enumerate() {
        let weight = batch.weights.as_ref().map_or(1.0, |weights| f64::from(weights[row]));
        match kind {
            // The free energy falls by the mean of a unit for each bit more that it is given.
            ForceKind::Energy { unit, sign } => {
                unit.mean(z, dz);
                dz.iter_mut().for_each(|dz| *dz *= R::of(weight * f64::from(sign)));
            }
            ForceKind::Sparse { unit, target, cost } => {
                unit.mean(z, dz);
                let (target, factor) = (R::of(f64::from(target)), R::of(weight * f64::from(cost)));
                dz.iter_mut().for_each(|dz| *dz = (*dz - target) * factor);
            }
            ForceKind::OfClass { lambda } => {
                let factor = weight * f64::from(lambda);
                for (class, (z, dz)) in z.iter().zip(dz).enumerate() {
                    let part = factor * part_of_class(batch, row, class, width);
                    *dz = R::of(part);
                    sum += part * z.to_f64();
                }
            }
            ForceKind::PriorMean => {
                for (z, dz) in z.iter().zip(dz) {
                    *dz = R::of(weight) * *z;
                    sum += weight * (half * *z * *z).to_f64();
                }
            }
            ForceKind::PriorVariance => {
                for (z, dz) in z.iter().zip(dz) {
                    *dz = R::of(weight) * half * (z.exp() - R::ONE);
                    sum += weight * (half * (z.exp() - R::ONE - *z)).to_f64();
                }
            }
        }
    }
    sum
}

/// How much of an example belongs to a class: all or nothing, unless its target is shares of several.
fn part_of_class(batch: &Batch, row: usize, class: usize, classes: usize) -> f64 {
    let is_of = |own: usize| if own == class { 1.0 } else { 0.0 };
    match &batch.targets {
        Targets::None => 0.0,
        Targets::Classes(own) => is_of(own[row] as usize),
        Targets::Values { width, values } => match &values[row * width..][..*width] {
            // One output tells two classes apart.
            [second] if classes == 2 => f64::from(if class == 1 { *second } else { 1.0 - second }),
            parts => f64::from(parts[class]),
        },
    }
}
