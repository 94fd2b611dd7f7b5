//! Slopes that values are given besides those of the heads.

use paceline_model::Batch;

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
