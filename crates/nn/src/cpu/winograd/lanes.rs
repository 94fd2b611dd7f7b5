//! Images side by side: every float of a row of pixels becomes a vector with one lane per image, and back.

#![expect(unsafe_code, reason = "raw reads and writes whose bounds the public functions check")]

use super::super::dispatch::{Instructions, Work};
use super::super::vector::Vector;

/// Images and floats that are transposed in registers.
const BLOCK: usize = 8;

/// `to[i · lanes + n] ← images[n · image + first + i]`, 0 in lanes without an image.
pub(super) fn to_lanes(
    instructions: Instructions,
    images: &[f32],
    image: usize,
    first: usize,
    lanes: usize,
    to: &mut [f32],
) {
    let live = images.len() / image;
    assert!(live <= lanes && first + to.len() / lanes <= image, "an image has all floats of the row");
    instructions.run(Gather { images, image, first, live, lanes, to });
}

/// `images[n · image + first + i] ← from[i · lanes + n]`
pub(super) fn from_lanes(
    instructions: Instructions,
    from: &[f32],
    lanes: usize,
    image: usize,
    first: usize,
    images: &mut [f32],
) {
    let live = images.len() / image;
    assert!(live <= lanes && first + from.len() / lanes <= image, "an image has all floats of the row");
    instructions.run(Scatter { from, lanes, live, image, first, images });
}

struct Gather<'a> {
    images: &'a [f32],
    image: usize,
    first: usize,
    live: usize,
    lanes: usize,
    to: &'a mut [f32],
}

impl Work for Gather<'_> {
    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        let Self { images, image, first, live, lanes, to } = self;
        let floats = to.len() / lanes;
        let (whole_lanes, whole_floats) = (live - live % BLOCK, floats - floats % BLOCK);
        for i in (0..whole_floats).step_by(BLOCK) {
            for lane in (0..whole_lanes).step_by(BLOCK) {
                // SAFETY: `to_lanes` held that all floats lie in every image and fit into `to`.
                unsafe {
                    let from = images.as_ptr().add(lane * image + first + i);
                    V::transpose(from, image, to.as_mut_ptr().add(i * lanes + lane), lanes);
                }
            }
        }
        for (i, to) in to.chunks_exact_mut(lanes).enumerate() {
            let done = if i < whole_floats { whole_lanes } else { 0 };
            (done..live).for_each(|lane| to[lane] = images[lane * image + first + i]);
            to[live..].fill(0.0);
        }
    }
}

struct Scatter<'a> {
    from: &'a [f32],
    lanes: usize,
    live: usize,
    image: usize,
    first: usize,
    images: &'a mut [f32],
}

impl Work for Scatter<'_> {
    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        let Self { from, lanes, live, image, first, images } = self;
        let floats = from.len() / lanes;
        let (whole_lanes, whole_floats) = (live - live % BLOCK, floats - floats % BLOCK);
        for lane in (0..whole_lanes).step_by(BLOCK) {
            for i in (0..whole_floats).step_by(BLOCK) {
                // SAFETY: `from_lanes` held that all floats lie in every image and in `from`.
                unsafe {
                    let to = images.as_mut_ptr().add(lane * image + first + i);
                    V::transpose(from.as_ptr().add(i * lanes + lane), lanes, to, image);
                }
            }
        }
        for lane in 0..live {
            let done = if lane < whole_lanes { whole_floats } else { 0 };
            (done..floats).for_each(|i| images[lane * image + first + i] = from[i * lanes + lane]);
        }
    }
}
