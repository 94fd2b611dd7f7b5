//! Pooling over all pixels, channel by channel.

use super::pool::pnorm_slope;
use crate::Real;
use crate::config::Pool;
use crate::pass::{Backward, Forward};

pub(super) fn forward<R: Real>(positions: usize, channels: usize, pool: Pool, pass: &mut Forward<'_, R>) {
    let mean = R::ONE / R::of(positions as f64);
    for (x, y) in pass.x.chunks_exact(positions * channels).zip(pass.y.chunks_exact_mut(channels)) {
        y.fill(if pool == Pool::Max { R::of(f64::NEG_INFINITY) } else { R::ZERO });
        for x in x.chunks_exact(channels) {
            for (y, x) in y.iter_mut().zip(x) {
                match pool {
                    Pool::Max => {
                        if *x > *y || x.is_nan() {
                            *y = *x;
                        }
                    }
                    Pool::Sum | Pool::Average => *y += *x,
                    Pool::Pnorm { p } => *y += x.abs().powf(R::of(f64::from(p))),
                }
            }
        }
        match pool {
            Pool::Average => y.iter_mut().for_each(|y| *y *= mean),
            Pool::Pnorm { p } => y.iter_mut().for_each(|y| *y = y.powf(R::of(1.0 / f64::from(p)))),
            Pool::Max | Pool::Sum => {}
        }
    }
}

pub(super) fn backward<R: Real>(positions: usize, channels: usize, pool: Pool, pass: &mut Backward<'_, R>) {
    let mean = R::ONE / R::of(positions as f64);
    let images = pass.dx.chunks_exact_mut(positions * channels).zip(pass.x.chunks_exact(positions * channels));
    for (image, (dx, x)) in images.enumerate() {
        let (y, dy) = (&pass.y[image * channels..][..channels], &pass.dy[image * channels..][..channels]);
        for c in 0..channels {
            let mut won = false;
            for at in (c..positions * channels).step_by(channels) {
                dx[at] = match pool {
                    Pool::Sum => dy[c],
                    Pool::Average => dy[c] * mean,
                    Pool::Pnorm { p } => dy[c] * pnorm_slope(x[at], y[c], p),
                    // The first of equals wins.
                    Pool::Max if x[at] == y[c] && !won => {
                        won = true;
                        dy[c]
                    }
                    Pool::Max => R::ZERO,
                };
            }
        }
    }
}
