//! y[p, f] = b[f] + Σ over the cells (i, j) of the window at p and the channels c of f's group of
//! x[pixel under (i, j), c] · W[i, j, c, f]; what lies in the padding is 0.

use crate::Real;
use crate::node::Conv;
use crate::pass::{Backward, Forward};

/// Calls `f(output position, pixel, cell)` for every cell that lies in the image.
fn each_cell(conv: &Conv, mut f: impl FnMut(usize, usize, usize)) {
    let w = &conv.window;
    for oy in 0..w.out[0] {
        for ox in 0..w.out[1] {
            for ky in 0..w.kernel[0] {
                for kx in 0..w.kernel[1] {
                    if let (Some(y), Some(x)) = (w.pixel(0, oy, ky), w.pixel(1, ox, kx)) {
                        f(oy * w.out[1] + ox, y * w.width + x, ky * w.kernel[1] + kx);
                    }
                }
            }
        }
    }
}

pub(super) fn forward<R: Real>(conv: &Conv, pass: &mut Forward<'_, R>) {
    let (filters, channels) = (conv.filters, conv.window.channels);
    let (per_group, depth) = (conv.group_filters(), conv.group_channels());
    let images = pass.x.chunks_exact(conv.window.input_len());
    for (x, y) in images.zip(pass.y.chunks_exact_mut(conv.window.positions() * filters)) {
        for y in y.chunks_exact_mut(filters) {
            match pass.bias {
                [] => y.fill(R::ZERO),
                bias => y.copy_from_slice(bias),
            }
        }
        each_cell(conv, |position, pixel, cell| {
            for f in 0..filters {
                let first = f / per_group * depth;
                for c in 0..depth {
                    let w = pass.weights[(cell * depth + c) * filters + f];
                    y[position * filters + f] += x[pixel * channels + first + c] * w;
                }
            }
        });
    }
}

pub(super) fn backward<R: Real>(conv: &Conv, pass: &mut Backward<'_, R>) {
    let (filters, channels) = (conv.filters, conv.window.channels);
    let (per_group, depth) = (conv.group_filters(), conv.group_channels());
    pass.dweights.fill(R::ZERO);
    pass.dbias.fill(R::ZERO);
    pass.dx.fill(R::ZERO);
    let len = conv.window.input_len();
    for (image, dy) in pass.dy.chunks_exact(conv.window.positions() * filters).enumerate() {
        for dy in dy.chunks_exact(filters) {
            pass.dbias.iter_mut().zip(dy).for_each(|(db, dy)| *db += *dy);
        }
        let x = &pass.x[image * len..][..len];
        each_cell(conv, |position, pixel, cell| {
            for f in 0..filters {
                let first = f / per_group * depth;
                let slope = dy[position * filters + f];
                for c in 0..depth {
                    let w = (cell * depth + c) * filters + f;
                    pass.dweights[w] += x[pixel * channels + first + c] * slope;
                    if !pass.dx.is_empty() {
                        pass.dx[image * len + pixel * channels + first + c] += pass.weights[w] * slope;
                    }
                }
            }
        });
    }
}
