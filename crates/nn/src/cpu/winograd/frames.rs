//! Rows of pixels of a block of images: into a frame where images lie in the lanes of vectors, and out of it.

use std::ops::Range;

use super::super::dispatch::Instructions;
use super::lanes::{from_lanes, to_lanes};
use super::{Winograd, pixels};

impl Winograd {
    /// The row of an image that lies in a row of a strip of inputs.
    fn image_row(&self, strip: &Range<usize>, row: usize) -> Option<usize> {
        let w = &self.conv.window;
        (strip.start * self.size + row).checked_sub(w.before[0]).filter(|&row| row < w.height)
    }

    /// Lays the rows of a strip of inputs side by side, zeros around them.
    pub(super) fn frame_inputs(
        &self,
        instructions: Instructions,
        strip: &Range<usize>,
        images: &[f32],
        frame: &mut [f32],
    ) {
        let w = &self.conv.window;
        let (run, pixel) = (w.width * w.channels, w.channels * self.lanes);
        for (row, to) in
            frame.chunks_exact_mut(self.row_floats()[0]).take(pixels(self.size, strip.len())[0]).enumerate()
        {
            let Some(y) = self.image_row(strip, row) else {
                to.fill(0.0);
                continue;
            };
            let (before, to) = to.split_at_mut(w.before[1] * pixel);
            let (to, after) = to.split_at_mut(run * self.lanes);
            before.fill(0.0);
            after.fill(0.0);
            to_lanes(instructions, images, w.input_len(), y * run, self.lanes, to);
        }
    }

    /// The same for slopes by outputs.
    pub(super) fn frame_outputs(
        &self,
        instructions: Instructions,
        strip: &Range<usize>,
        images: &[f32],
        frame: &mut [f32],
    ) {
        let w = &self.conv.window;
        let run = w.out[1] * self.conv.filters;
        for (row, to) in frame.chunks_exact_mut(self.row_floats()[1]).take(strip.len() * self.size).enumerate() {
            let y = strip.start * self.size + row;
            if y >= w.out[0] {
                to.fill(0.0);
                continue;
            }
            let (to, after) = to.split_at_mut(run * self.lanes);
            after.fill(0.0);
            to_lanes(instructions, images, w.positions() * self.conv.filters, y * run, self.lanes, to);
        }
    }

    /// Writes the outputs of a strip.
    pub(super) fn write_outputs(
        &self,
        instructions: Instructions,
        strip: &Range<usize>,
        frame: &[f32],
        images: &mut [f32],
    ) {
        let w = &self.conv.window;
        let run = w.out[1] * self.conv.filters;
        for (row, from) in frame.chunks_exact(self.row_floats()[1]).take(strip.len() * self.size).enumerate() {
            let y = strip.start * self.size + row;
            if y < w.out[0] {
                let image = w.positions() * self.conv.filters;
                from_lanes(instructions, &from[..run * self.lanes], self.lanes, image, y * run, images);
            }
        }
    }

    /// Writes the rows of slopes by inputs that no later strip adds to, and moves the others up.
    pub(super) fn write_slopes(
        &self,
        instructions: Instructions,
        strip: &Range<usize>,
        frame: &mut [f32],
        images: &mut [f32],
    ) {
        let w = &self.conv.window;
        let run = w.width * w.channels;
        let floats = self.row_floats()[0];
        let is_last = strip.end == self.tiles[0];
        let [rows, done] = pixels(self.size, strip.len());
        let done = if is_last { rows } else { done };
        for (row, from) in frame.chunks_exact(floats).take(done).enumerate() {
            if let Some(y) = self.image_row(strip, row) {
                let from = &from[w.before[1] * w.channels * self.lanes..][..run * self.lanes];
                from_lanes(instructions, from, self.lanes, w.input_len(), y * run, images);
            }
        }
        frame.copy_within(done * floats..rows * floats, 0);
        frame[(rows - done) * floats..].fill(0.0);
    }
}
