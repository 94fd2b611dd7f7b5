//! Convolution with fewer products: Winograd's minimal filtering over tiles of 6 × 6 pixels.
//!
//! A tile gives m × m outputs of a window of r × r cells, m + r = 7, with 36 products instead of m² r²:
//!
//! - U = G w Gᵀ, V = Bᵀ d B, y = Aᵀ (Σ over channels of U ⊙ V) A;
//! - backwards Z = A dy Aᵀ, dx += B (Σ over filters of U ⊙ Z) Bᵀ, dw = Gᵀ (Σ over tiles of V ⊙ Z) G.
//!
//! The sums over channels, filters and tiles are 36 matrix products. Images lie in the lanes of vectors: a row of pixels
//! of as many images as there are lanes is transposed when it is read and when it is written, and between no lane is
//! wasted whatever the numbers of channels and filters are.

mod frames;
mod lanes;
mod multiply;
mod tiles;
mod transform;
mod weights;

use std::ops::Range;

use multiply::{Blocks, Correlate, Multiply, SPARE, Then};
use tiles::{Grid, Lines, PANEL, POINTS};
use transform::SIDE;
use weights::Direction;

use super::dense::sum_columns;
use super::dispatch::Instructions;
use super::pack::pack_transposed;
use crate::node::Conv;
use crate::pass::{Backward, Forward};

/// Floats of lines and planes that should stay in the second-level cache, beside matrices and frames.
const FAR_FLOATS: usize = 224 * 1024;

/// Floats of inputs at a row of points that should stay in the first-level cache while they meet all filters.
const NEAR_FLOATS: usize = 4 * 1024;

/// Floats of matrices that are worth fetching for every few rows of tiles.
const MOST_MATRICES: usize = 1024 * 1024;

/// How a convolution is cut into tiles, computed once.
pub(super) struct Winograd {
    conv: Conv,
    lanes: usize,
    /// Outputs along one side of a tile.
    size: usize,
    /// Tiles down and across.
    tiles: [usize; 2],
    /// Tiles that meet all filters in the first-level cache.
    near: usize,
    ahead: Strips,
    back: Strips,
    /// Where the gradient by the weights lies at each point.
    blocks: Blocks,
}

/// The rows of tiles that are worked on at a time.
struct Strips {
    /// Rows of tiles of a strip.
    rows: usize,
    /// First pixel of every tile, in the lines of inputs and in the frame of outputs.
    starts: [Vec<u32>; 2],
    /// Vectors between two planes of inputs and of outputs.
    planes: [usize; 2],
    /// Vectors between the lines of two rows of points.
    lines: usize,
}

/// An odd number of vectors, so that vectors at the same place of several planes do not compete for the same place of
/// the cache.
fn spaced(vectors: usize) -> usize {
    vectors | 1
}

impl Winograd {
    /// The tiles of a convolution, if it can be cut into some and all that belongs to a row of them is small enough.
    pub(super) fn new(conv: Conv, instructions: Instructions) -> Option<Self> {
        let w = &conv.window;
        let plain = w.stride == [1, 1] && w.dilation == [1, 1] && conv.groups == 1;
        let [taps, across] = w.kernel;
        if !plain || taps != across || !(3..=5).contains(&taps) {
            return None;
        }
        let (size, lanes) = (SIDE + 1 - taps, instructions.lanes());
        let tiles = w.out.map(|out| out.div_ceil(size));
        let near = (NEAR_FLOATS / (SIDE * lanes * w.channels) / PANEL * PANEL).max(PANEL);
        let blocks = Blocks::new(instructions, [w.channels, conv.filters]);
        let strips = |rows: usize, near: usize| {
            // As even as can be.
            let rows = tiles[0].div_ceil(tiles[0].div_ceil(rows.clamp(1, tiles[0])));
            let [input, output] = pixels(size, tiles[1]);
            let starts = [(input, 1), (output, size)].map(|(width, step)| {
                let each = (0..rows).flat_map(|y| (0..tiles[1]).map(move |x| (y, x)));
                each.map(|(y, x)| (y * step * width + x * size) as u32).collect()
            });
            let many = rows * tiles[1];
            let planes = [spaced(near.min(many) * w.channels), spaced(many * conv.filters)];
            Strips { rows, starts, planes, lines: spaced(rows * input * w.channels) }
        };
        let line = SIDE * lanes * pixels(size, tiles[1])[0] * w.channels;
        let sums = SIDE * size * lanes * tiles[1] * conv.filters;
        let points = SIDE * lanes * tiles[1] * (w.channels + conv.filters);
        let matrices = POINTS * w.channels * conv.filters;
        if line + sums.max(points) > 2 * FAR_FLOATS || matrices > MOST_MATRICES {
            return None;
        }
        let ahead = strips(FAR_FLOATS / (line + sums), near);
        // The more tiles the fewer times lanes are summed for the gradient by the weights.
        let back = strips(FAR_FLOATS / (line + points), usize::MAX);
        Some(Self { conv, lanes, size, tiles, near, ahead, back, blocks })
    }

    /// Whether it clearly costs less than reading the images where they lie, for so many examples.
    ///
    /// Counts vectors that are multiplied. What else a channel or a filter of a tile costs, and a position of the
    /// window, was measured against that.
    pub(super) fn pays(&self, examples: usize) -> bool {
        let [channels, filters] = self.channels();
        let outputs = self.size * self.size;
        let tile = POINTS * channels * filters + (300 + 45 * outputs) * channels + (70 + 50 * outputs) * filters;
        let tiles = examples.div_ceil(self.lanes) * self.tiles[0] * self.tiles[1];
        let position = (self.cells() * channels + 15) * filters.div_ceil(self.lanes);
        10 * tiles * tile < 8 * examples * self.conv.window.positions() * position
    }

    fn channels(&self) -> [usize; 2] {
        [self.conv.window.channels, self.conv.filters]
    }

    /// Cells of the window.
    fn cells(&self) -> usize {
        self.conv.window.kernel[0] * self.conv.window.kernel[1]
    }

    fn weights(&self) -> usize {
        self.conv.window.channels * self.conv.filters
    }

    /// Floats of a matrix per point.
    fn matrices(&self) -> usize {
        (POINTS * self.weights()).next_multiple_of(SPARE) + SPARE
    }

    /// Pixels of a row of a frame of inputs and of outputs.
    fn widths(&self) -> [usize; 2] {
        pixels(self.size, self.tiles[1])
    }

    /// Floats of a row of pixels in a frame of inputs and of outputs.
    fn row_floats(&self) -> [usize; 2] {
        [0, 1].map(|side| self.widths()[side] * self.channels()[side] * self.lanes)
    }

    /// Floats of a frame of inputs and of outputs.
    fn frames(&self, strips: &Strips) -> [usize; 2] {
        [0, 1].map(|side| pixels(self.size, strips.rows)[side] * self.row_floats()[side])
    }

    /// Floats of planes of inputs and of outputs, for one row of points.
    fn points(&self, strips: &Strips) -> [usize; 2] {
        strips.planes.map(|plane| SIDE * plane * self.lanes)
    }

    /// Floats of lines for all rows of points.
    fn lines(&self, strips: &Strips) -> usize {
        SIDE * strips.lines * self.lanes
    }

    pub(super) fn forward_scratch(&self) -> usize {
        let [v, sums] = self.points(&self.ahead);
        let frames: usize = self.frames(&self.ahead).iter().sum();
        self.matrices() + frames + self.lines(&self.ahead) + v + self.size * sums
    }

    pub(super) fn backward_scratch(&self) -> usize {
        let [input, output] = self.frames(&self.back);
        let points: usize = self.points(&self.back).iter().sum();
        let gradients = (POINTS + self.cells()) * self.blocks.point();
        let weights = self.matrices() + self.cells() * self.weights();
        weights + gradients + 2 * input + output + self.lines(&self.back) + points
    }

    /// Rows of tiles of every strip.
    fn each_strip(&self, strips: &Strips) -> impl Iterator<Item = Range<usize>> {
        let (rows, all) = (strips.rows, self.tiles[0]);
        (0..all).step_by(rows).map(move |first| first..all.min(first + rows))
    }

    fn line_grid(&self, strips: &Strips, strip: &Range<usize>) -> Lines {
        let vectors = self.widths()[0] * self.conv.window.channels;
        Lines { tile_rows: strip.len(), step: self.size, vectors, plane: strips.lines }
    }

    /// Some tiles among the inputs, or among the outputs.
    fn grid<'a>(&self, strips: &'a Strips, side: usize, tiles: Range<usize>) -> Grid<'a> {
        Grid {
            starts: &strips.starts[side][tiles],
            width: self.widths()[side],
            channels: self.channels()[side],
            plane: strips.planes[side],
        }
    }
}

/// Pixels along one side of so many tiles of a size, among inputs and among outputs.
fn pixels(size: usize, tiles: usize) -> [usize; 2] {
    [(tiles - 1) * size + SIDE, tiles * size]
}

pub(super) fn forward(instructions: Instructions, winograd: &Winograd, relu: bool, pass: &mut Forward<'_, f32>) {
    let Winograd { conv, lanes, size, tiles: [_, across], ahead: strips, .. } = winograd;
    let [channels, filters] = winograd.channels();
    let mut scratch = &mut *pass.scratch;
    let u = take(&mut scratch, winograd.matrices());
    let [x_frame, y_frame] = winograd.frames(strips).map(|floats| take(&mut scratch, floats));
    let lines = take(&mut scratch, winograd.lines(strips));
    let [v, m] = winograd.points(strips);
    let [v, sums] = [v, size * m].map(|floats| take(&mut scratch, floats));
    weights::transform(Direction::ToPoints, conv.window.kernel[0], winograd.weights(), pass.weights, u);
    let (inputs, outputs) = (conv.window.input_len(), conv.window.positions() * filters);
    let images = pass.x[..pass.examples * inputs].chunks(lanes * inputs);
    for (x, y) in images.zip(pass.y.chunks_mut(lanes * outputs)) {
        for strip in winograd.each_strip(strips) {
            winograd.frame_inputs(instructions, &strip, x, x_frame);
            tiles::input_down(instructions, winograd.line_grid(strips, &strip), x_frame, lines);
            let all = strip.len() * across;
            let output = winograd.grid(strips, 1, 0..all);
            for row in 0..SIDE {
                let line = &lines[row * strips.lines * lanes..][..strips.lines * lanes];
                for first in (0..all).step_by(winograd.near) {
                    let some = first..all.min(first + winograd.near);
                    let input = winograd.grid(strips, 0, some.clone());
                    tiles::input_across(instructions, input, line, v);
                    Multiply {
                        rows: filters,
                        steps: channels,
                        tiles: some.len(),
                        a: &u[row * SIDE * winograd.weights()..],
                        b: v,
                        b_plane: input.plane,
                        c: &mut sums[(row * size * output.plane + first * filters) * lanes..],
                        c_plane: output.plane,
                        then: Then::Sum(*size),
                    }
                    .run(instructions);
                }
            }
            tiles::output(instructions, output, *size, sums, pass.bias, relu, y_frame);
            winograd.write_outputs(instructions, &strip, y_frame, y);
        }
    }
}

pub(super) fn backward(instructions: Instructions, winograd: &Winograd, pass: &mut Backward<'_, f32>) {
    let Winograd { conv, lanes, size, tiles: [_, across], back: strips, blocks, .. } = winograd;
    let [channels, filters] = winograd.channels();
    let (taps, cells, weights) = (conv.window.kernel[0], winograd.cells(), winograd.weights());
    let mut scratch = &mut *pass.scratch;
    let u = take(&mut scratch, winograd.matrices());
    let [x_frame, dy_frame] = winograd.frames(strips).map(|floats| take(&mut scratch, floats));
    let dx_frame = take(&mut scratch, winograd.frames(strips)[0]);
    let lines = take(&mut scratch, winograd.lines(strips));
    let [v, z] = winograd.points(strips).map(|floats| take(&mut scratch, floats));
    let at_points = take(&mut scratch, POINTS * blocks.point());
    let at_cells = take(&mut scratch, cells * blocks.point());
    if !pass.dx.is_empty() {
        let turned = take(&mut scratch, cells * weights);
        for (from, to) in pass.weights.chunks_exact(weights).zip(turned.chunks_exact_mut(weights)) {
            pack_transposed(instructions, from, filters, 0..channels, 0..filters, channels, to);
        }
        weights::transform(Direction::ToPoints, taps, weights, turned, u);
    }
    at_points.fill(0.0);
    let (inputs, outputs) = (conv.window.input_len(), conv.window.positions() * filters);
    for first in (0..pass.examples).step_by(*lanes) {
        let images = first..pass.examples.min(first + lanes);
        let x = &pass.x[images.start * inputs..images.end * inputs];
        let dy = &pass.dy[images.start * outputs..images.end * outputs];
        sum_columns(dy, filters, first > 0, pass.dbias);
        dx_frame.fill(0.0);
        for strip in winograd.each_strip(strips) {
            winograd.frame_inputs(instructions, &strip, x, x_frame);
            winograd.frame_outputs(instructions, &strip, dy, dy_frame);
            let line_grid = winograd.line_grid(strips, &strip);
            tiles::input_down(instructions, line_grid, x_frame, lines);
            let tiles = strip.len() * across;
            let [input, output] = [0, 1].map(|side| winograd.grid(strips, side, 0..tiles));
            for row in 0..SIDE {
                let line = &mut lines[row * strips.lines * lanes..][..strips.lines * lanes];
                tiles::input_across(instructions, input, line, v);
                tiles::output_slopes(instructions, output, *size, row, dy_frame, z);
                let sums = &mut at_points[row * SIDE * blocks.point()..][..SIDE * blocks.point()];
                let (rows, planes) = ([channels, filters], [input.plane, output.plane]);
                Correlate { tiles, rows, a: v, b: z, planes, sums }.run(instructions);
                if !pass.dx.is_empty() {
                    Multiply {
                        rows: channels,
                        steps: filters,
                        tiles,
                        a: &u[row * SIDE * weights..],
                        b: z,
                        b_plane: output.plane,
                        // V is not needed any more, nor is the line that it came from.
                        c: v,
                        c_plane: input.plane,
                        then: Then::Write,
                    }
                    .run(instructions);
                    line.fill(0.0);
                    tiles::slopes_across(instructions, input, v, line);
                }
            }
            if !pass.dx.is_empty() {
                tiles::slopes_down(instructions, line_grid, lines, dx_frame);
                let dx = &mut pass.dx[images.start * inputs..images.end * inputs];
                winograd.write_slopes(instructions, &strip, dx_frame, dx);
            }
        }
    }
    weights::transform(Direction::ToTaps, taps, blocks.point(), at_points, at_cells);
    for (sums, dweights) in at_cells.chunks_exact(blocks.point()).zip(pass.dweights.chunks_exact_mut(weights)) {
        for (channel, row) in dweights.chunks_exact_mut(filters).enumerate() {
            blocks.copy_row(channel, sums, row);
        }
    }
}

/// The first `len` floats of what is left.
fn take<'a>(scratch: &mut &'a mut [f32], len: usize) -> &'a mut [f32] {
    let (taken, rest) = std::mem::take(scratch).split_at_mut(len);
    *scratch = rest;
    taken
}

#[cfg(test)]
mod tests;
