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

/// The most cells of a window that these kernels take.
const MOST_CELLS: usize = 64;

/// Whether these kernels can do it.
pub(super) fn takes(window: &Window) -> bool {
    window.kernel[0] * window.kernel[1] <= MOST_CELLS
}

/// The cells of a window that lie in the image: which cell, and where its pixel starts from the window's first.
struct Taps {
    taps: [(u16, usize); MOST_CELLS],
    count: usize,
}

impl Taps {
    fn at(w: &Window, y: usize, x: usize) -> Self {
        let mut found = Self { taps: [(0, 0); MOST_CELLS], count: 0 };
        for (ky, kx) in (0..w.kernel[0]).flat_map(|ky| (0..w.kernel[1]).map(move |kx| (ky, kx))) {
            if let (Some(row), Some(column)) = (w.pixel(0, y, ky), w.pixel(1, x, kx)) {
                let cell = (ky * w.kernel[1] + kx) as u16;
                found.taps[found.count] = (cell, (row * w.width + column) * w.channels);
                found.count += 1;
            }
        }
        found
    }

    #[inline(always)]
    fn each(&self, mut f: impl FnMut(u16, usize)) {
        self.taps[..self.count].iter().for_each(|&(cell, at)| f(cell, at));
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
        each_position(w, pass.examples, |first, output, taps| {
            for c in (0..w.channels).step_by(V::LANES) {
                let count = V::LANES.min(w.channels - c);
                // SAFETY: taps lie inside the image, `count` channels are left from `c` on, and `forward` held that
                // the slices are as long as images, outputs and marks need.
                unsafe {
                    // A window whose cells all lie outside of the image has nothing to choose from.
                    let mut top = V::splat(if taps.count == 0 { 0.0 } else { f32::NEG_INFINITY });
                    let mut mark = V::splat(0.0);
                    taps.each(|cell, at| {
                        let new = load::<V>(x.add(first + at + c), count);
                        (top, mark) = top.max_with_mark(mark, new, V::splat(f32::from(cell)));
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
        each_position(w, pass.examples, |first, output, taps| {
            for c in (0..w.channels).step_by(V::LANES) {
                let count = V::LANES.min(w.channels - c);
                // SAFETY: as in the forward pass; `backward` held the lengths.
                unsafe {
                    let mark = V::load_marks(marks.add(output + c), count);
                    let slope = load::<V>(dy.add(output + c), count);
                    taps.each(|cell, at| {
                        let to = dx.add(first + at + c);
                        let mut share = slope.where_equal(mark, V::splat(f32::from(cell)));
                        if !covers {
                            share = share.add(load::<V>(to, count));
                        }
                        store(share, to, count);
                    });
                }
            }
        });
    }
}

/// Calls `f(first pixel, start of the output, taps)` for every position of every image.
#[inline(always)]
fn each_position(w: &Window, examples: usize, mut f: impl FnMut(usize, usize, &Taps)) {
    let mut output = 0;
    let mut taps = Taps::at(w, 0, 0);
    for image in 0..examples {
        for y in 0..w.out[0] {
            for x in 0..w.out[1] {
                let mut first = image * w.input_len();
                if w.is_padded() {
                    taps = Taps::at(w, y, x);
                } else {
                    // The taps of all positions are those of the first, from another first pixel on.
                    first += (y * w.stride[0] * w.width + x * w.stride[1]) * w.channels;
                }
                f(first, output, &taps);
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
