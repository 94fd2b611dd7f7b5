//! Pooling over all pixels, or over all steps that are there, channel by channel.

use super::pool::pnorm_slope;
use super::recurrent::is_there;
use crate::Real;
use crate::config::Pool;
use crate::pass::{Backward, Forward};

pub(super) fn forward<R: Real>(positions: usize, channels: usize, pool: Pool, pass: &mut Forward<'_, R>) {
    let mask = (pass.operands.len() > 1).then(|| pass.operands.get(1));
    for (row, (x, y)) in pass.x.chunks_exact(positions * channels).zip(pass.y.chunks_exact_mut(channels)).enumerate() {
        let there = |position: &usize| is_there(mask, row * positions + position);
        let count = (0..positions).filter(there).count();
        if count == 0 {
            y.fill(R::ZERO);
            continue;
        }
        let mean = R::ONE / R::of(count as f64);
        y.fill(if pool == Pool::Max { R::of(f64::NEG_INFINITY) } else { R::ZERO });
        for x in (0..positions).filter(there).map(|position| &x[position * channels..][..channels]) {
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
    let mask = (pass.kept.len() > 2).then(|| pass.kept.get(1));
    let images = pass.dx.chunks_exact_mut(positions * channels).zip(pass.x.chunks_exact(positions * channels));
    for (image, (dx, x)) in images.enumerate() {
        let (y, dy) = (&pass.y[image * channels..][..channels], &pass.dy[image * channels..][..channels]);
        let there = |position: usize| is_there(mask, image * positions + position);
        let count = (0..positions).filter(|position| there(*position)).count();
        let mean = R::ONE / R::of(count.max(1) as f64);
        for c in 0..channels {
            let mut won = false;
            for at in (c..positions * channels).step_by(channels) {
                dx[at] = match pool {
                    _ if !there(at / channels) => R::ZERO,
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
