//! Transposed convolution: every pixel that goes in is spread over a window of what comes out, where windows overlap they add up.
//! Weights are of kernel rows × kernel columns × filters × channels.

use crate::Real;
use crate::node::Transposed;
use crate::pass::{Backward, Forward};

/// Calls `each` with a pixel that goes in, the cell of the kernel and the pixel that comes out, all by their numbers.
fn taps(op: &Transposed, images: usize, mut each: impl FnMut(usize, usize, usize)) {
    let ([height, width, _], [out_height, out_width]) = (op.input, op.out);
    let place = |at: usize, cell: usize, d: usize, end: usize| {
        (at * op.stride[d] + cell * op.dilation[d]).checked_sub(op.before[d]).filter(|to| *to < end)
    };
    for image in 0..images {
        for (y, x) in (0..height).flat_map(|y| (0..width).map(move |x| (y, x))) {
            for (row, column) in (0..op.kernel[0]).flat_map(|r| (0..op.kernel[1]).map(move |c| (r, c))) {
                let to = (place(y, row, 0, out_height), place(x, column, 1, out_width));
                if let (Some(to_y), Some(to_x)) = to {
                    let from = (image * height + y) * width + x;
                    each(from, row * op.kernel[1] + column, (image * out_height + to_y) * out_width + to_x);
                }
            }
        }
    }
}

pub(super) fn forward<R: Real>(op: &Transposed, pass: &mut Forward<'_, R>) {
    let (channels, filters) = (op.input[2], op.filters);
    for y in pass.y.chunks_exact_mut(filters) {
        match pass.bias {
            [] => y.fill(R::ZERO),
            bias => y.copy_from_slice(bias),
        }
    }
    taps(op, pass.examples, |from, cell, to| {
        let x = &pass.x[from * channels..][..channels];
        let weights = pass.weights[cell * filters * channels..].chunks_exact(channels);
        for (y, weights) in pass.y[to * filters..][..filters].iter_mut().zip(weights) {
            *y = x.iter().zip(weights).fold(*y, |sum, (x, w)| sum + *x * *w);
        }
    });
}

pub(super) fn backward<R: Real>(op: &Transposed, pass: &mut Backward<'_, R>) {
    let (channels, filters) = (op.input[2], op.filters);
    pass.dweights.fill(R::ZERO);
    pass.dbias.fill(R::ZERO);
    pass.dx.fill(R::ZERO);
    if !pass.dbias.is_empty() {
        for dy in pass.dy.chunks_exact(filters) {
            pass.dbias.iter_mut().zip(dy).for_each(|(db, dy)| *db += *dy);
        }
    }
    taps(op, pass.examples, |from, cell, to| {
        let cells = cell * filters * channels..(cell + 1) * filters * channels;
        let dy = &pass.dy[to * filters..][..filters];
        let x = &pass.x[from * channels..][..channels];
        for (dy, dw) in dy.iter().zip(pass.dweights[cells.clone()].chunks_exact_mut(channels)) {
            dw.iter_mut().zip(x).for_each(|(dw, x)| *dw += *dy * *x);
        }
        if !pass.dx.is_empty() {
            let dx = &mut pass.dx[from * channels..][..channels];
            for (dy, weights) in dy.iter().zip(pass.weights[cells].chunks_exact(channels)) {
                dx.iter_mut().zip(weights).for_each(|(dx, w)| *dx += *dy * *w);
            }
        }
    });
}
