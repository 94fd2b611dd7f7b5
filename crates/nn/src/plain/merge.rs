//! Several values side by side: at every position the channels of each, one after the other.

use crate::Real;
use crate::pass::{Backward, Forward};

pub(super) fn forward<R: Real>(channels: &[usize], pass: &mut Forward<'_, R>) {
    let mut first = 0;
    for (x, own) in pass.operands.iter().zip(channels) {
        let positions = pass.y.chunks_exact_mut(channels.iter().sum());
        for (x, y) in x.chunks_exact(*own).zip(positions) {
            y[first..first + own].copy_from_slice(x);
        }
        first += own;
    }
}

pub(super) fn backward<R: Real>(channels: &[usize], pass: &mut Backward<'_, R>) {
    let mut first = 0;
    for (at, own) in channels.iter().enumerate() {
        let (dx, dy) = pass.slope(at);
        for (dx, dy) in dx.chunks_exact_mut(*own).zip(dy.chunks_exact(channels.iter().sum())) {
            dx.copy_from_slice(&dy[first..first + own]);
        }
        first += own;
    }
}
