//! Max pooling over the channels of many pixels at once.

#![expect(unsafe_code, reason = "raw loads of channels; every range is cut from a checked slice first")]

use super::dispatch::{Instructions, Work};
use super::vector::Vector;
use crate::pass::{Backward, Forward};
use crate::window::Window;

pub(super) fn forward(instructions: Instructions, window: &Window, pass: &mut Forward<'_, f32>) {
    instructions.run(Ahead { window, pass });
}

pub(super) fn backward(instructions: Instructions, window: &Window, pass: &mut Backward<'_, f32>) {
    if !pass.dx.is_empty() {
        instructions.run(Back { window, pass });
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
        let (inputs, outputs) = (w.input_len(), w.positions() * w.channels);
        for image in 0..pass.examples {
            let x = &pass.x[image * inputs..][..inputs];
            let y = &mut pass.y[image * outputs..][..outputs];
            // A pass that is not for training keeps no marks.
            let marks = if pass.training { &mut pass.marks[image * outputs..][..outputs] } else { &mut [] };
            for oy in 0..w.out[0] {
                for ox in 0..w.out[1] {
                    let to = (oy * w.out[1] + ox) * w.channels;
                    for c in (0..w.channels).step_by(V::LANES) {
                        let count = V::LANES.min(w.channels - c);
                        // SAFETY: `pixel` is inside the image, and `count` channels are left from `c` on.
                        unsafe {
                            let mut top = V::splat(f32::NEG_INFINITY);
                            let mut mark = V::splat(0.0);
                            for ky in 0..w.kernel[0] {
                                let Some(iy) = w.pixel(0, oy, ky) else { continue };
                                for kx in 0..w.kernel[1] {
                                    let Some(ix) = w.pixel(1, ox, kx) else { continue };
                                    let from = x.as_ptr().add((iy * w.width + ix) * w.channels + c);
                                    let cell = V::splat((ky * w.kernel[1] + kx) as f32);
                                    (top, mark) = top.max_with_mark(mark, V::load_part(from, count), cell);
                                }
                            }
                            top.store_part(y.as_mut_ptr().add(to + c), count);
                            if let Some(marks) = marks.get_mut(to + c..to + c + count) {
                                let mut lanes = [0.0; 16];
                                mark.store(lanes.as_mut_ptr());
                                marks.iter_mut().zip(lanes).for_each(|(m, lane)| *m = lane as u16);
                            }
                        }
                    }
                }
            }
        }
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
        let (inputs, outputs) = (w.input_len(), w.positions() * w.channels);
        // Windows that neither overlap nor leave gaps write every pixel once: nothing need be cleared or added.
        let covers = (0..2).all(|d| {
            let size = [w.height, w.width][d];
            w.dilation[d] == 1 && w.stride[d] == w.kernel[d] && w.out[d] * w.kernel[d] == size && w.before[d] == 0
        });
        if !covers {
            pass.dx.fill(0.0);
        }
        for image in 0..pass.examples {
            let dx = &mut pass.dx[image * inputs..][..inputs];
            let dy = &pass.dy[image * outputs..][..outputs];
            let marks = &pass.marks[image * outputs..][..outputs];
            for oy in 0..w.out[0] {
                for ox in 0..w.out[1] {
                    let from = (oy * w.out[1] + ox) * w.channels;
                    for c in (0..w.channels).step_by(V::LANES) {
                        let count = V::LANES.min(w.channels - c);
                        let mut lanes = [0.0; 16];
                        lanes.iter_mut().zip(&marks[from + c..from + c + count]).for_each(|(l, m)| *l = f32::from(*m));
                        // SAFETY: `pixel` is inside the image, and `count` channels are left from `c` on.
                        unsafe {
                            let mark = V::load(lanes.as_ptr());
                            let slope = V::load_part(dy.as_ptr().add(from + c), count);
                            for ky in 0..w.kernel[0] {
                                let Some(iy) = w.pixel(0, oy, ky) else { continue };
                                for kx in 0..w.kernel[1] {
                                    let Some(ix) = w.pixel(1, ox, kx) else { continue };
                                    let to = dx.as_mut_ptr().add((iy * w.width + ix) * w.channels + c);
                                    let cell = V::splat((ky * w.kernel[1] + kx) as f32);
                                    let mut share = slope.where_equal(mark, cell);
                                    if !covers {
                                        share = share.add(V::load_part(to, count));
                                    }
                                    share.store_part(to, count);
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}
