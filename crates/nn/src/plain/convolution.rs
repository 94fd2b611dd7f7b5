//! y[p, f] = b[f] + Σ over the cells (i, j) of the window at p and the channels c of f's group of
//! x[pixel under (i, j), c] · W[i, j, c, f]; what lies in the padding is 0.

use crate::Real;
use crate::pass::{Backward, Forward};
use crate::window::Windowed;

/// Filters that move over something.
#[derive(Clone, Copy)]
pub(super) struct Filters<'a, W> {
    pub window: &'a W,
    pub filters: usize,
    pub groups: usize,
}

impl<W: Windowed> Filters<'_, W> {
    /// Filters of a group, and channels that each of them sees.
    fn of_group(&self) -> [usize; 2] {
        [self.filters / self.groups, self.window.channels() / self.groups]
    }
}

pub(super) fn forward<R: Real>(conv: Filters<'_, impl Windowed>, pass: &mut Forward<'_, R>) {
    let (filters, channels) = (conv.filters, conv.window.channels());
    let [per_group, depth] = conv.of_group();
    let images = pass.x.chunks_exact(conv.window.input_len());
    for (x, y) in images.zip(pass.y.chunks_exact_mut(conv.window.positions() * filters)) {
        for y in y.chunks_exact_mut(filters) {
            match pass.bias {
                [] => y.fill(R::ZERO),
                bias => y.copy_from_slice(bias),
            }
        }
        conv.window.each_cell(|position, pixel, cell| {
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

pub(super) fn backward<R: Real>(conv: Filters<'_, impl Windowed>, pass: &mut Backward<'_, R>) {
    let (filters, channels) = (conv.filters, conv.window.channels());
    let [per_group, depth] = conv.of_group();
    pass.dweights.fill(R::ZERO);
    pass.dbias.fill(R::ZERO);
    pass.dx.fill(R::ZERO);
    let len = conv.window.input_len();
    for (image, dy) in pass.dy.chunks_exact(conv.window.positions() * filters).enumerate() {
        for dy in dy.chunks_exact(filters) {
            pass.dbias.iter_mut().zip(dy).for_each(|(db, dy)| *db += *dy);
        }
        let x = &pass.x[image * len..][..len];
        conv.window.each_cell(|position, pixel, cell| {
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
