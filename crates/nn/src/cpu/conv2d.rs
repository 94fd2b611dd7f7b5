//! Convolution without unrolling: tiles read the images where they lie.
//!
//! A position of the window is a row of A, its start in the image; a row of the window is a run of consecutive floats,
//! because pixels of a row and channels of a pixel lie side by side. Padded images are copied into a frame of zeros,
//! a few at a time.

use super::columns::Columns;
use super::dense::sum_columns;
use super::dispatch::Instructions;
use super::pack::{pack, pack_transposed};
use super::panel::{Ahead, Panel, Rows};
use super::tile::Sum;
use super::winograd::{self, Winograd};
use crate::node::Conv;
use crate::pass::{Backward, Forward};

/// A block of images with all that belongs to it should stay in the second-level cache.
const BLOCK_FLOATS: usize = 64 * 1024;

/// Where things lie, computed once per convolution.
pub(super) struct Geometry {
    pub(super) conv: Conv,
    /// Floats of an image with its padding.
    image: usize,
    /// Images that are worked on at a time.
    block: usize,
    /// Start of every position of every image of a block.
    positions: Vec<u32>,
    /// Start of every run of a window in the image, and its first row in the weights.
    runs: Vec<(usize, usize)>,
    /// Start of every run in the image, and in a packed panel of weights: a full panel, and the last.
    packed_runs: [Vec<(usize, usize)>; 2],
    /// Floats of a run.
    run: usize,
    /// Start of every weight of a window in the image.
    cells: Vec<u32>,
    /// The same column after column, and where each lies in the outputs: neighbours down do not share a row of pixels, so
    /// that what one tile adds to is not what it has just written.
    down: [Vec<u32>; 2],
    /// Start of every row of positions of a block, in the images and in the outputs.
    lines: Vec<(usize, usize)>,
    columns: Columns,
    /// How the floats of a run are cut for the gradient by the input.
    run_columns: Columns,
    winograd: Option<Winograd>,
}

impl Geometry {
    pub(super) fn new(conv: Conv, instructions: Instructions) -> Self {
        let w = &conv.window;
        let [height, width] = [w.height + w.before[0] + w.after[0], w.width + w.before[1] + w.after[1]];
        let channels = w.channels;
        let image = height * width * channels;
        let outputs = w.positions() * conv.filters;
        let block = (BLOCK_FLOATS / (image + outputs)).max(1);
        let pixel = |y: usize, x: usize| (y * width + x) * channels;
        let mut positions = Vec::with_capacity(block * w.positions());
        let mut lines = Vec::with_capacity(block * w.out[0]);
        for n in 0..block {
            for y in 0..w.out[0] {
                let start = n * image + pixel(y * w.stride[0], 0);
                lines.push((start, (n * w.positions() + y * w.out[1]) * conv.filters));
                positions.extend((0..w.out[1]).map(|x| (start + pixel(0, x * w.stride[1])) as u32));
            }
        }
        let mut down = [Vec::with_capacity(positions.len()), Vec::with_capacity(positions.len())];
        for n in 0..block {
            for (x, y) in (0..w.out[1]).flat_map(|x| (0..w.out[0]).map(move |y| (x, y))) {
                let position = n * w.positions() + y * w.out[1] + x;
                down[0].push(positions[position]);
                down[1].push((position * conv.filters) as u32);
            }
        }
        let depth = conv.group_channels();
        let cell = |ky: usize, kx: usize| pixel(ky * w.dilation[0], kx * w.dilation[1]);
        // Without gaps between cells and groups, a whole row of the window is one run.
        let whole_rows = w.dilation[1] == 1 && conv.groups == 1;
        let (runs, run) = if whole_rows {
            let run = w.kernel[1] * depth;
            ((0..w.kernel[0]).map(|ky| (cell(ky, 0), ky * run)).collect(), run)
        } else {
            let cells = (0..w.kernel[0]).flat_map(|ky| (0..w.kernel[1]).map(move |kx| (ky, kx)));
            (cells.enumerate().map(|(i, (ky, kx))| (cell(ky, kx), i * depth)).collect(), depth)
        };
        let runs: Vec<(usize, usize)> = runs;
        let cells = runs.iter().flat_map(|&(start, _)| (start..start + run).map(|at| at as u32)).collect();
        let rows = block * w.positions();
        let columns = Columns::cut(instructions, rows, conv.group_filters());
        let run_columns = Columns::cut(instructions, rows, run);
        let last = columns.packed(columns.panels().last().map_or(0, |(_, count)| count));
        let packed_runs =
            [columns.width, last].map(|width| runs.iter().map(|&(start, row)| (start, row * width)).collect());
        let winograd = Winograd::new(conv, instructions);
        Self {
            conv,
            image,
            block,
            positions,
            down,
            runs,
            packed_runs,
            run,
            cells,
            lines,
            columns,
            run_columns,
            winograd,
        }
    }

    /// The way with fewer products, if it pays for so many examples.
    fn winograd(&self, examples: usize) -> Option<&Winograd> {
        self.winograd.as_ref().filter(|winograd| winograd.pays(examples))
    }

    /// Floats of scratch of the forward pass.
    pub(super) fn forward_scratch(&self, examples: usize) -> usize {
        self.winograd(examples).map_or_else(|| self.direct_forward_scratch(), Winograd::forward_scratch)
    }

    /// Floats of scratch of the backward pass.
    pub(super) fn backward_scratch(&self, examples: usize) -> usize {
        self.winograd(examples).map_or_else(|| self.direct_backward_scratch(), Winograd::backward_scratch)
    }

    /// All weights packed, and a block of padded images.
    pub(super) fn direct_forward_scratch(&self) -> usize {
        self.packed_weights() + self.frame()
    }

    /// All weights packed, and a block of padded images and of their slopes.
    pub(super) fn direct_backward_scratch(&self) -> usize {
        self.packed_transposed() + 2 * self.frame()
    }

    /// All weights packed, and a block of the slopes of padded images.
    pub(super) fn spread_scratch(&self) -> usize {
        self.packed_transposed() + self.frame()
    }

    /// Floats of an image, and of what comes out for one.
    fn row_lengths(&self) -> (usize, usize) {
        (self.conv.window.input_len(), self.conv.window.positions() * self.conv.filters)
    }

    fn packed_runs(&self, count: usize) -> &[(usize, usize)] {
        &self.packed_runs[usize::from(count < self.columns.width)]
    }

    fn packed_weights(&self) -> usize {
        self.conv.groups * self.conv.depth() * self.columns.padded()
    }

    fn packed_transposed(&self) -> usize {
        self.conv.groups * self.runs.len() * self.conv.group_filters() * self.run_columns.padded()
    }

    pub(super) fn frame(&self) -> usize {
        if self.conv.window.is_padded() { self.block * self.image } else { 0 }
    }

    /// The images of a block as the window sees them: in a frame of zeros if there is padding.
    fn framed<'a>(&self, images: &'a [f32], frame: &'a mut [f32]) -> &'a [f32] {
        if !self.conv.window.is_padded() {
            return images;
        }
        for (image, frame) in images.chunks_exact(self.conv.window.input_len()).zip(frame.chunks_exact_mut(self.image))
        {
            frame.fill(0.0);
            self.each_line(|small, large, run| frame[large..large + run].copy_from_slice(&image[small..small + run]));
        }
        frame
    }

    /// Calls `f(start in the image, start in its frame, floats)` for every row of pixels.
    fn each_line(&self, mut f: impl FnMut(usize, usize, usize)) {
        let w = &self.conv.window;
        let run = w.width * w.channels;
        let wide = (w.width + w.before[1] + w.after[1]) * w.channels;
        (0..w.height).for_each(|y| f(y * run, (y + w.before[0]) * wide + w.before[1] * w.channels, run));
    }
}

pub(super) fn forward(instructions: Instructions, geometry: &Geometry, relu: bool, pass: &mut Forward<'_, f32>) {
    match geometry.winograd(pass.examples) {
        Some(winograd) => winograd::forward(instructions, winograd, relu, pass),
        None => direct_forward(instructions, geometry, relu, pass),
    }
}

pub(super) fn backward(instructions: Instructions, geometry: &Geometry, pass: &mut Backward<'_, f32>) {
    match geometry.winograd(pass.examples) {
        Some(winograd) => winograd::backward(instructions, winograd, pass),
        None => direct_backward(instructions, geometry, pass),
    }
}

pub(super) fn direct_forward(instructions: Instructions, geometry: &Geometry, relu: bool, pass: &mut Forward<'_, f32>) {
    let Forward { x, y, weights, bias, scratch, .. } = pass;
    convolve(instructions, geometry, relu, [x, weights, bias], y, scratch);
}

/// Convolves images with weights, and adds biases if there are any.
pub(super) fn convolve(
    instructions: Instructions,
    geometry: &Geometry,
    relu: bool,
    [all_x, weights, bias]: [&[f32]; 3],
    all_y: &mut [f32],
    scratch: &mut [f32],
) {
    let conv = &geometry.conv;
    let (filters, per_group) = (conv.filters, conv.group_filters());
    let columns = geometry.columns;
    let (packed, frame) = scratch.split_at_mut(geometry.packed_weights());
    // Group after group, panel after panel: depth × width floats each.
    let panel = conv.depth() * columns.width;
    for (to, (group, (first, count))) in packed.chunks_exact_mut(panel).zip(panels(conv.groups, columns)) {
        let filter = group * per_group + first;
        let width = columns.packed(count);
        pack(instructions, weights, filters, filter..filter + count, width, &mut to[..conv.depth() * width]);
    }
    let (inputs, outputs) = (conv.window.input_len(), conv.window.positions() * filters);
    let examples = all_x.len() / inputs;
    for first_image in (0..examples).step_by(geometry.block) {
        let images = geometry.block.min(examples - first_image);
        let x = geometry.framed(&all_x[first_image * inputs..][..images * inputs], frame);
        let y = &mut all_y[first_image * outputs..][..images * outputs];
        for (packed, (group, (first, count))) in packed.chunks_exact(panel).zip(panels(conv.groups, columns)) {
            let filter = group * per_group + first;
            let group_start = group * conv.group_channels();
            Panel {
                rows: images * conv.window.positions(),
                columns: count,
                a: &x[group_start..],
                a_rows: Rows::At(&geometry.positions),
                b: packed,
                b_is_packed: true,
                c: &mut y[filter..],
                c_rows: Rows::Every(filters),
                sum: Sum {
                    runs: geometry.packed_runs(count),
                    steps: geometry.run,
                    a_step: 1,
                    b_step: columns.packed(count),
                    listed: &[],
                },
                bias: bias.get(filter..filter + count),
                add: false,
                relu,
                ahead: Ahead::default(),
            }
            .run(instructions);
        }
    }
}

/// Group, first column and number of columns of every panel.
fn panels(groups: usize, columns: Columns) -> impl Iterator<Item = (usize, (usize, usize))> {
    (0..groups).flat_map(move |group| columns.panels().map(move |panel| (group, panel)))
}

pub(super) fn direct_backward(instructions: Instructions, geometry: &Geometry, pass: &mut Backward<'_, f32>) {
    let conv = &geometry.conv;
    let (packed, frames) = pass.scratch.split_at_mut(geometry.packed_transposed());
    let (x_frame, dx_frame) = frames.split_at_mut(geometry.frame());
    if !pass.dx.is_empty() {
        pack_runs(instructions, geometry, pass.weights, packed);
    }
    let (inputs, outputs) = geometry.row_lengths();
    for first_image in (0..pass.examples).step_by(geometry.block) {
        let images = geometry.block.min(pass.examples - first_image);
        let dy = &pass.dy[first_image * outputs..][..images * outputs];
        sum_columns(dy, conv.filters, first_image > 0, pass.dbias);
        let x = geometry.framed(&pass.x[first_image * inputs..][..images * inputs], x_frame);
        weight_gradient(instructions, geometry, images, x, dy, first_image > 0, pass.dweights);
        if !pass.dx.is_empty() {
            let dx = &mut pass.dx[first_image * inputs..][..images * inputs];
            spread_block(instructions, geometry, packed, dy, dx, dx_frame);
        }
    }
}

/// Spreads every position of a block of images over its window, added where windows overlap.
fn spread_block(
    instructions: Instructions,
    geometry: &Geometry,
    packed: &[f32],
    dy: &[f32],
    dx: &mut [f32],
    frame: &mut [f32],
) {
    let inputs = geometry.conv.window.input_len();
    let images = dx.len() / inputs;
    if !geometry.conv.window.is_padded() {
        return input_gradient(instructions, geometry, images, packed, dy, dx);
    }
    let frame = &mut frame[..images * geometry.image];
    input_gradient(instructions, geometry, images, packed, dy, frame);
    for (dx, frame) in dx.chunks_exact_mut(inputs).zip(frame.chunks_exact(geometry.image)) {
        geometry.each_line(|small, large, run| {
            dx[small..small + run].copy_from_slice(&frame[large..large + run]);
        });
    }
}

/// The same for all images: the slope by them.
pub(super) fn spread(
    instructions: Instructions,
    geometry: &Geometry,
    [all_dy, weights]: [&[f32]; 2],
    all_dx: &mut [f32],
    scratch: &mut [f32],
) {
    let (packed, dx_frame) = scratch.split_at_mut(geometry.packed_transposed());
    pack_runs(instructions, geometry, weights, packed);
    let (inputs, outputs) = geometry.row_lengths();
    let examples = all_dx.len() / inputs;
    for first_image in (0..examples).step_by(geometry.block) {
        let images = geometry.block.min(examples - first_image);
        let dy = &all_dy[first_image * outputs..][..images * outputs];
        let dx = &mut all_dx[first_image * inputs..][..images * inputs];
        spread_block(instructions, geometry, packed, dy, dx, dx_frame);
    }
}

/// The gradient of the weights by all images; the scratch holds a block of padded ones.
pub(super) fn gradient_of_weights(
    instructions: Instructions,
    geometry: &Geometry,
    [all_x, all_dy]: [&[f32]; 2],
    dweights: &mut [f32],
    frame: &mut [f32],
) {
    let (inputs, outputs) = geometry.row_lengths();
    let examples = all_x.len() / inputs;
    for first_image in (0..examples).step_by(geometry.block) {
        let images = geometry.block.min(examples - first_image);
        let dy = &all_dy[first_image * outputs..][..images * outputs];
        let x = geometry.framed(&all_x[first_image * inputs..][..images * inputs], frame);
        weight_gradient(instructions, geometry, images, x, dy, first_image > 0, dweights);
    }
}

/// dW[cell, f] += Σ over positions of x[position + cell] · dy[position, f]
fn weight_gradient(
    instructions: Instructions,
    geometry: &Geometry,
    images: usize,
    x: &[f32],
    dy: &[f32],
    add: bool,
    dweights: &mut [f32],
) {
    let conv = &geometry.conv;
    let (filters, per_group) = (conv.filters, conv.group_filters());
    let columns = Columns::cut(instructions, conv.depth(), per_group);
    for (group, (first, count)) in panels(conv.groups, columns) {
        let filter = group * per_group + first;
        Panel {
            rows: conv.depth(),
            columns: count,
            a: &x[group * conv.group_channels()..],
            a_rows: Rows::At(&geometry.cells),
            b: &dy[filter..],
            b_is_packed: false,
            c: &mut dweights[filter..],
            c_rows: Rows::Every(filters),
            sum: Sum {
                runs: &geometry.lines[..images * conv.window.out[0]],
                steps: conv.window.out[1],
                a_step: conv.window.stride[1] * conv.window.channels,
                b_step: filters,
                listed: &[],
            },
            bias: None,
            add,
            relu: false,
            ahead: Ahead::default(),
        }
        .run(instructions);
    }
}

/// Packs the weights of every run, filters down and floats of the run across.
fn pack_runs(instructions: Instructions, geometry: &Geometry, weights: &[f32], packed: &mut [f32]) {
    let conv = &geometry.conv;
    let (filters, per_group) = (conv.filters, conv.group_filters());
    let columns = geometry.run_columns;
    let mut panels = packed.chunks_exact_mut(per_group * columns.width);
    for group in 0..conv.groups {
        for &(_, row) in &geometry.runs {
            for (first, count) in columns.panels() {
                let to = panels.next().expect("room for every panel");
                let rows = row + first..row + first + count;
                pack_transposed(
                    instructions,
                    weights,
                    filters,
                    rows,
                    group * per_group..(group + 1) * per_group,
                    columns.packed(count),
                    to,
                );
            }
        }
    }
}

/// dx[position + cell] += Σ over filters of dy[position, f] · W[cell, f], added where the windows overlap.
fn input_gradient(
    instructions: Instructions,
    geometry: &Geometry,
    images: usize,
    packed: &[f32],
    dy: &[f32],
    dx: &mut [f32],
) {
    let conv = &geometry.conv;
    let per_group = conv.group_filters();
    let columns = geometry.run_columns;
    let mut panels = packed.chunks_exact(per_group * columns.width);
    dx.fill(0.0);
    for group in 0..conv.groups {
        for &(start, _) in &geometry.runs {
            for (first, count) in columns.panels() {
                Panel {
                    rows: images * conv.window.positions(),
                    columns: count,
                    a: &dy[group * per_group..],
                    a_rows: Rows::At(&geometry.down[1]),
                    b: panels.next().expect("room for every panel"),
                    b_is_packed: true,
                    c: &mut dx[start + group * conv.group_channels() + first..],
                    c_rows: Rows::At(&geometry.down[0]),
                    sum: Sum {
                        runs: &[(0, 0)],
                        steps: per_group,
                        a_step: 1,
                        b_step: columns.packed(count),
                        listed: &[],
                    },
                    bias: None,
                    add: true,
                    relu: false,
                    ahead: Ahead::default(),
                }
                .run(instructions);
            }
        }
    }
}
