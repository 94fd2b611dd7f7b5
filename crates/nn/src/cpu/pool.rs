//! Max pooling over the channels of many pixels at once.

#![expect(unsafe_code, reason = "raw loads of channels; `Taps` gives pixels inside the image only")]

use super::dispatch::{Instructions, Work};
use super::vector::Vector;
use crate::pass::{Backward, Forward};
use crate::window::Window;

pub(super) fn forward(instructions: Instructions, window: &Window, pass: &mut Forward<'_, f32>) {
    let outputs = pass.examples * window.positions() * window.channels;
    assert!(pass.x.len() >= pass.examples * window.input_len() && pass.y.len() >= outputs);
    // A pass that is not for training keeps no marks.
    assert!(!pass.training || pass.marks.len() >= outputs);
    instructions.run(Ahead { window, pass });
}

pub(super) fn backward(instructions: Instructions, window: &Window, pass: &mut Backward<'_, f32>) {
    if !pass.dx.is_empty() {
        let outputs = pass.examples * window.positions() * window.channels;
        assert!(pass.dx.len() >= pass.examples * window.input_len());
        assert!(pass.dy.len() >= outputs && pass.marks.len() >= outputs);
        instructions.run(Back { window, pass });
    }
}

/// Which cells of a window lie in the image, along one dimension: cell, and where its pixel starts.
#[derive(Clone, Copy)]
struct Taps<'a> {
    window: &'a Window,
    dimension: usize,
    position: usize,
    /// Floats from one pixel to the next along this dimension.
    stride: usize,
}

impl Taps<'_> {
    #[inline(always)]
    fn each(self, mut f: impl FnMut(usize, usize)) {
        let w = self.window;
        for cell in 0..w.kernel[self.dimension] {
            if let Some(at) = w.pixel(self.dimension, self.position, cell) {
                f(cell, at * self.stride);
            }
        }
    }
}

struct Ahead<'a, 'b> {
    window: &'a Window,
    pass: &'a mut Forward<'b, f32>,
}

impl Work for Ahead<'_, '_> {
    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        let Self { window: w, pass } = self;
        let (x, y, marks) = (pass.x.as_ptr(), pass.y.as_mut_ptr(), pass.marks.as_mut_ptr());
        each_position(w, pass.examples, |image, output, rows, columns| {
            for c in (0..w.channels).step_by(V::LANES) {
                let count = V::LANES.min(w.channels - c);
                // SAFETY: taps lie inside the image, `count` channels are left from `c` on, and `forward` held that
                // the slices are as long as images, outputs and marks need.
                unsafe {
                    let mut top = V::splat(f32::NEG_INFINITY);
                    let mut mark = V::splat(0.0);
                    rows.each(|ky, row| {
                        columns.each(|kx, column| {
                            let from = x.add(image + row + column + c);
                            let cell = V::splat((ky * w.kernel[1] + kx) as f32);
                            (top, mark) = top.max_with_mark(mark, load::<V>(from, count), cell);
                        });
                    });
                    store(top, y.add(output + c), count);
                    if pass.training {
                        mark.store_marks(marks.add(output + c), count);
                    }
                }
            }
        });
    }
}

struct Back<'a, 'b> {
    window: &'a Window,
    pass: &'a mut Backward<'b, f32>,
}

impl Work for Back<'_, '_> {
    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        let Self { window: w, pass } = self;
        // Windows that neither overlap nor leave gaps write every pixel once: nothing need be cleared or added.
        let covers = (0..2).all(|d| {
            let size = [w.height, w.width][d];
            w.dilation[d] == 1 && w.stride[d] == w.kernel[d] && w.out[d] * w.kernel[d] == size && w.before[d] == 0
        });
        if !covers {
            pass.dx.fill(0.0);
        }
        let (dx, dy, marks) = (pass.dx.as_mut_ptr(), pass.dy.as_ptr(), pass.marks.as_ptr());
        each_position(w, pass.examples, |image, output, rows, columns| {
            for c in (0..w.channels).step_by(V::LANES) {
                let count = V::LANES.min(w.channels - c);
                // SAFETY: as in the forward pass; `backward` held the lengths.
                unsafe {
                    let mark = V::load_marks(marks.add(output + c), count);
                    let slope = load::<V>(dy.add(output + c), count);
                    rows.each(|ky, row| {
                        columns.each(|kx, column| {
                            let to = dx.add(image + row + column + c);
                            let cell = V::splat((ky * w.kernel[1] + kx) as f32);
                            let mut share = slope.where_equal(mark, cell);
                            if !covers {
                                share = share.add(load::<V>(to, count));
                            }
                            store(share, to, count);
                        });
                    });
                }
            }
        });
    }
}

/// Calls `f(start of the image, start of the output, rows, columns)` for every position of every image.
#[inline(always)]
fn each_position(w: &Window, examples: usize, mut f: impl FnMut(usize, usize, Taps<'_>, Taps<'_>)) {
    let mut output = 0;
    for image in 0..examples {
        for y in 0..w.out[0] {
            let rows = Taps { window: w, dimension: 0, position: y, stride: w.width * w.channels };
            for x in 0..w.out[1] {
                let columns = Taps { window: w, dimension: 1, position: x, stride: w.channels };
                f(image * w.input_len(), output, rows, columns);
                output += w.channels;
            }
        }
    }
}

#[inline(always)]
unsafe fn load<V: Vector>(from: *const f32, count: usize) -> V {
    // SAFETY: the caller's pointer has `count` floats.
    unsafe { if count == V::LANES { V::load(from) } else { V::load_part(from, count) } }
}

#[inline(always)]
unsafe fn store<V: Vector>(value: V, to: *mut f32, count: usize) {
    // SAFETY: the caller's pointer has `count` floats.
    unsafe { if count == V::LANES { value.store(to) } else { value.store_part(to, count) } }
}
