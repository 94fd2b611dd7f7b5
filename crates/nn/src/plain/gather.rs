//! Numbers in other places: what comes out at a place is what went in at another, or 0.

use crate::Real;
use crate::node::Gather;
use crate::pass::{Backward, Forward};

pub(super) fn forward<R: Real>(gather: &Gather, pass: &mut Forward<'_, R>) {
    let [run, inputs] = [gather.run, gather.places * gather.run];
    let rows = pass.x.chunks_exact(inputs).zip(pass.y.chunks_exact_mut(gather.from.len() * run));
    for (x, y) in rows {
        for (from, y) in gather.from.iter().zip(y.chunks_exact_mut(run)) {
            match from {
                Some(from) => y.copy_from_slice(&x[*from as usize * run..][..run]),
                None => y.fill(R::ZERO),
            }
        }
    }
}

pub(super) fn backward<R: Real>(gather: &Gather, pass: &mut Backward<'_, R>) {
    let [run, inputs] = [gather.run, gather.places * gather.run];
    pass.dx.fill(R::ZERO);
    let rows = pass.dx.chunks_exact_mut(inputs).zip(pass.dy.chunks_exact(gather.from.len() * run));
    for (dx, dy) in rows {
        for (from, dy) in gather.from.iter().zip(dy.chunks_exact(run)) {
            if let Some(from) = from {
                dx[*from as usize * run..][..run].iter_mut().zip(dy).for_each(|(dx, dy)| *dx += *dy);
            }
        }
    }
}
