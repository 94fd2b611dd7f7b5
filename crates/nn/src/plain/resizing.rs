//! Images made larger, smaller or deeper: pixels are copied, and on the way back their slopes are put or added where they came from.

use crate::Real;
use crate::node::Resize;
use crate::pass::{Backward, Forward};

/// Calls `each` with the places of a pixel that goes in and of one that it goes to, both counted in numbers.
fn pixels(resize: &Resize, images: usize, mut each: impl FnMut(usize, usize)) {
    let [height, width, channels] = resize.input;
    let [out_height, out_width, out_channels] = resize.output();
    for image in 0..images {
        for y in 0..out_height {
            for x in 0..out_width {
                for deep in 0..out_channels / channels {
                    let (from_y, from_x) = resize.origin([y, x], deep);
                    let from = ((image * height + from_y) * width + from_x) * channels;
                    let to = ((image * out_height + y) * out_width + x) * out_channels + deep * channels;
                    each(from, to);
                }
            }
        }
    }
}

pub(super) fn forward<R: Real>(resize: &Resize, pass: &mut Forward<'_, R>) {
    let channels = resize.input[2];
    pixels(resize, pass.examples, |from, to| {
        pass.y[to..to + channels].copy_from_slice(&pass.x[from..from + channels]);
    });
}

pub(super) fn backward<R: Real>(resize: &Resize, pass: &mut Backward<'_, R>) {
    if pass.dx.is_empty() {
        return;
    }
    let channels = resize.input[2];
    pass.dx.fill(R::ZERO);
    pixels(resize, pass.examples, |from, to| {
        let (dx, dy) = (&mut pass.dx[from..from + channels], &pass.dy[to..to + channels]);
        dx.iter_mut().zip(dy).for_each(|(dx, dy)| *dx += *dy);
    });
}
