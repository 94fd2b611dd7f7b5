//! Zeros around an image.

use crate::Real;
use crate::pass::{Backward, Forward};

/// Calls `f(row in the small image, row in the large one)` with where each of their runs of numbers starts.
fn each_row([height, width, channels]: [usize; 3], [top, _, left, right]: [usize; 4], mut f: impl FnMut(usize, usize)) {
    let wide = (width + left + right) * channels;
    (0..height).for_each(|y| f(y * width * channels, (y + top) * wide + left * channels));
}

fn padded_len([height, width, channels]: [usize; 3], [top, bottom, left, right]: [usize; 4]) -> usize {
    (height + top + bottom) * (width + left + right) * channels
}

pub(super) fn forward<R: Real>(size: [usize; 3], padding: [usize; 4], pass: &mut Forward<'_, R>) {
    let run = size[1] * size[2];
    pass.y.fill(R::ZERO);
    let images = pass.x.chunks_exact(size[0] * run).zip(pass.y.chunks_exact_mut(padded_len(size, padding)));
    for (x, y) in images {
        each_row(size, padding, |small, large| y[large..large + run].copy_from_slice(&x[small..small + run]));
    }
}

pub(super) fn backward<R: Real>(size: [usize; 3], padding: [usize; 4], pass: &mut Backward<'_, R>) {
    let run = size[1] * size[2];
    let images = pass.dx.chunks_exact_mut(size[0] * run).zip(pass.dy.chunks_exact(padded_len(size, padding)));
    for (dx, dy) in images {
        each_row(size, padding, |small, large| dx[small..small + run].copy_from_slice(&dy[large..large + run]));
    }
}
