//! y[p, f] = b[f] + Σ over the cells (i, j) of the window at p and the channels c of x[pixel under (i, j), c] · W[p, i, j, c, f]: a
//! convolution whose filters differ from place to place.

use crate::Real;
use crate::pass::{Backward, Forward};
use crate::window::{Window, Windowed};

/// Weights of a filter at one place.
fn depth(window: &Window) -> usize {
    window.kernel[0] * window.kernel[1] * window.channels
}

pub(super) fn forward<R: Real>(window: &Window, filters: usize, pass: &mut Forward<'_, R>) {
    let (channels, depth) = (window.channels, depth(window));
    let images = pass.x.chunks_exact(window.input_len());
    for (x, y) in images.zip(pass.y.chunks_exact_mut(window.positions() * filters)) {
        for y in y.chunks_exact_mut(filters) {
            match pass.bias {
                [] => y.fill(R::ZERO),
                bias => y.copy_from_slice(bias),
            }
        }
        window.each_cell(|position, pixel, cell| {
            let y = &mut y[position * filters..][..filters];
            let weights = pass.weights[(position * depth + cell * channels) * filters..].chunks_exact(filters);
            for (x, weights) in x[pixel * channels..][..channels].iter().zip(weights) {
                y.iter_mut().zip(weights).for_each(|(y, w)| *y += *x * *w);
            }
        });
    }
}

pub(super) fn backward<R: Real>(window: &Window, filters: usize, pass: &mut Backward<'_, R>) {
    let (channels, depth, len) = (window.channels, depth(window), window.input_len());
    pass.dweights.fill(R::ZERO);
    pass.dbias.fill(R::ZERO);
    pass.dx.fill(R::ZERO);
    for (image, dy) in pass.dy.chunks_exact(window.positions() * filters).enumerate() {
        if !pass.dbias.is_empty() {
            for dy in dy.chunks_exact(filters) {
                pass.dbias.iter_mut().zip(dy).for_each(|(db, dy)| *db += *dy);
            }
        }
        window.each_cell(|position, pixel, cell| {
            let dy = &dy[position * filters..][..filters];
            let first = (position * depth + cell * channels) * filters;
            for c in 0..channels {
                let (at, own) = (image * len + pixel * channels + c, first + c * filters..first + (c + 1) * filters);
                let x = pass.x[at];
                if !pass.dweights.is_empty() {
                    pass.dweights[own.clone()].iter_mut().zip(dy).for_each(|(dw, dy)| *dw += x * *dy);
                }
                if let Some(dx) = pass.dx.get_mut(at) {
                    *dx = pass.weights[own].iter().zip(dy).fold(*dx, |sum, (w, dy)| sum + *w * *dy);
                }
            }
        });
    }
}
