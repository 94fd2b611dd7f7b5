//! Between frames of pixels and planes of points. A vector holds one number of every image of a block.
//!
//! Tiles are transformed down first, all columns of a row of tiles at a time, because neighbours share columns; then
//! across, one row of points at a time, because few planes are near enough to be written fast.

#![expect(unsafe_code, reason = "raw vectors in frames and planes; the public functions check that all lie inside")]
#![expect(clippy::needless_range_loop, reason = "rows and columns of a tile are indices of several arrays at once")]

use super::super::dispatch::{Instructions, Work};
use super::super::vector::Vector;
use super::transform::{self, SIDE};

/// Products of a tile.
pub(super) const POINTS: usize = SIDE * SIDE;

/// Tiles that share a panel of a plane, as the products want it.
pub(super) const PANEL: usize = 2;

/// Vectors a stride apart. No closure: it might be compiled without the caller's instructions.
#[inline(always)]
unsafe fn load<V: Vector, const N: usize>(from: *const f32, stride: usize) -> [V; N] {
    // SAFETY: the caller's pointer reaches them all.
    unsafe {
        let mut all = [V::splat(0.0); N];
        for i in 0..N {
            all[i] = V::load(from.add(i * stride));
        }
        all
    }
}

#[inline(always)]
unsafe fn store<V: Vector, const N: usize>(all: [V; N], to: *mut f32, stride: usize) {
    for i in 0..N {
        // SAFETY: the caller's pointer reaches them all.
        unsafe { all[i].store(to.add(i * stride)) };
    }
}

#[inline(always)]
unsafe fn add<V: Vector, const N: usize>(all: [V; N], to: *mut f32, stride: usize) {
    for i in 0..N {
        // SAFETY: the caller's pointer reaches them all.
        unsafe { V::load(to.add(i * stride)).add(all[i]).store(to.add(i * stride)) };
    }
}

/// Rows of tiles over a frame of inputs, and one line of vectors for each of them at each row of points.
#[derive(Clone, Copy)]
pub(super) struct Lines {
    pub tile_rows: usize,
    /// Rows of pixels from a row of tiles to the next.
    pub step: usize,
    /// Vectors of a line.
    pub vectors: usize,
    /// Vectors between two rows of points.
    pub plane: usize,
}

impl Lines {
    fn check(&self, instructions: Instructions, frame: &[f32], lines: &[f32]) {
        let lanes = instructions.lanes();
        let rows = self.tile_rows.saturating_sub(1) * self.step + SIDE;
        assert!(rows * self.vectors * lanes <= frame.len(), "all rows of pixels lie in the frame");
        assert!(self.tile_rows * self.vectors <= self.plane, "there is a line for every row of tiles");
        assert!(SIDE * self.plane * lanes <= lines.len(), "there are lines for every row of points");
    }

    /// Calls `f(start in the frame, start in the lines of a row of points)` for every vector, in floats.
    #[inline(always)]
    fn each<V: Vector>(&self, mut f: impl FnMut(usize, usize)) {
        for row in 0..self.tile_rows {
            let (pixel, line) = (row * self.step * self.vectors * V::LANES, row * self.vectors * V::LANES);
            (0..self.vectors).for_each(|at| f(pixel + at * V::LANES, line + at * V::LANES));
        }
    }
}

/// Some tiles over lines or a frame, and the planes that they go to or come from: each has a row per channel and a
/// column per tile, two tiles at a time.
#[derive(Clone, Copy)]
pub(super) struct Grid<'a> {
    /// First pixel of every tile.
    pub starts: &'a [u32],
    /// Pixels of a row of the frame.
    pub width: usize,
    /// Channels of a pixel.
    pub channels: usize,
    /// Vectors between two planes.
    pub plane: usize,
}

impl Grid<'_> {
    fn check(&self, instructions: Instructions, side: [usize; 2], frame: &[f32], count: usize, planes: &[f32]) {
        let lanes = instructions.lanes();
        let first = self.starts.iter().max().map_or(0, |&start| start as usize);
        let last = first + (side[0] - 1) * self.width + side[1] - 1;
        assert!((last + 1) * self.channels * lanes <= frame.len(), "all tiles lie in the frame");
        assert!(self.starts.len() * self.channels <= self.plane, "a plane holds all tiles");
        assert!(count * self.plane * lanes <= planes.len(), "there are planes for all points");
    }

    /// Calls `f(channel, start in the frame, start in a plane)` for every channel of every tile, in floats.
    #[inline(always)]
    fn each<V: Vector>(&self, mut f: impl FnMut(usize, usize, usize)) {
        for (tile, &start) in self.starts.iter().enumerate() {
            let first = tile / PANEL * PANEL;
            let panel = PANEL.min(self.starts.len() - first);
            for channel in 0..self.channels {
                let at = first * self.channels + channel * panel + tile - first;
                f(channel, (start as usize * self.channels + channel) * V::LANES, at * V::LANES);
            }
        }
    }

    /// Floats from a pixel to the next, to the one below, and from plane to plane.
    #[inline(always)]
    fn strides<V: Vector>(&self) -> [usize; 3] {
        [self.channels * V::LANES, self.width * self.channels * V::LANES, self.plane * V::LANES]
    }
}

/// Pixels down to rows of points: W = Bᵀ d.
pub(super) fn input_down(instructions: Instructions, lines: Lines, frame: &[f32], to: &mut [f32]) {
    lines.check(instructions, frame, to);
    instructions.run(InputDown { lines, frame, to });
}

/// Lines across to points, for a row of them: V = W B.
pub(super) fn input_across(instructions: Instructions, grid: Grid<'_>, line: &[f32], planes: &mut [f32]) {
    grid.check(instructions, [1, SIDE], line, SIDE, planes);
    instructions.run(InputAcross { grid, line, planes });
}

/// Slopes at a row of points back to lines, added where tiles overlap: dW += dV Bᵀ.
pub(super) fn slopes_across(instructions: Instructions, grid: Grid<'_>, planes: &[f32], line: &mut [f32]) {
    grid.check(instructions, [1, SIDE], line, SIDE, planes);
    instructions.run(SlopesAcross { grid, planes, line });
}

/// Slopes by lines back to slopes by pixels, added to the frame: dx += B dW.
pub(super) fn slopes_down(instructions: Instructions, lines: Lines, from: &[f32], frame: &mut [f32]) {
    lines.check(instructions, frame, from);
    instructions.run(SlopesDown { lines, from, frame });
}

/// Rows of points that were summed across to outputs, with bias and ReLU: y = Aᵀ (M A) + b.
pub(super) fn output(
    instructions: Instructions,
    grid: Grid<'_>,
    size: usize,
    planes: &[f32],
    bias: &[f32],
    relu: bool,
    frame: &mut [f32],
) {
    grid.check(instructions, [size; 2], frame, SIDE * size, planes);
    assert!(bias.is_empty() || bias.len() == grid.channels, "a bias for every filter");
    instructions.run(Output { grid, size, planes, bias, relu, frame });
}

/// Slopes by outputs to slopes at one row of points: Z = A dy Aᵀ, that row of it.
pub(super) fn output_slopes(
    instructions: Instructions,
    grid: Grid<'_>,
    size: usize,
    row: usize,
    frame: &[f32],
    planes: &mut [f32],
) {
    grid.check(instructions, [size; 2], frame, SIDE, planes);
    instructions.run(OutputSlopes { grid, size, row, frame, planes });
}

struct InputDown<'a> {
    lines: Lines,
    frame: &'a [f32],
    to: &'a mut [f32],
}

impl Work for InputDown<'_> {
    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        let (down, plane) = (self.lines.vectors * V::LANES, self.lines.plane * V::LANES);
        let (frame, to) = (self.frame.as_ptr(), self.to.as_mut_ptr());
        self.lines.each::<V>(
            #[inline(always)]
            |pixel, line| {
                // SAFETY: `Lines::check` held that pixels and lines lie in the slices.
                unsafe {
                    let column = transform::input::<V>(load(frame.add(pixel), down));
                    store(column, to.add(line), plane);
                }
            },
        );
    }
}

struct InputAcross<'a> {
    grid: Grid<'a>,
    line: &'a [f32],
    planes: &'a mut [f32],
}

impl Work for InputAcross<'_> {
    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        let [right, _, plane] = self.grid.strides::<V>();
        let (line, planes) = (self.line.as_ptr(), self.planes.as_mut_ptr());
        self.grid.each::<V>(
            #[inline(always)]
            |_, pixel, at| {
                // SAFETY: `Grid::check` held that tiles lie in the line and in the planes.
                unsafe {
                    let row = transform::input::<V>(load(line.add(pixel), right));
                    store(row, planes.add(at), plane);
                }
            },
        );
    }
}

struct SlopesAcross<'a> {
    grid: Grid<'a>,
    planes: &'a [f32],
    line: &'a mut [f32],
}

impl Work for SlopesAcross<'_> {
    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        let [right, _, plane] = self.grid.strides::<V>();
        let (line, planes) = (self.line.as_mut_ptr(), self.planes.as_ptr());
        self.grid.each::<V>(
            #[inline(always)]
            |_, pixel, at| {
                // SAFETY: `Grid::check` held that tiles lie in the line and in the planes.
                unsafe {
                    let row = transform::input_slope::<V>(load(planes.add(at), plane));
                    add(row, line.add(pixel), right);
                }
            },
        );
    }
}

struct SlopesDown<'a> {
    lines: Lines,
    from: &'a [f32],
    frame: &'a mut [f32],
}

impl Work for SlopesDown<'_> {
    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        let (down, plane) = (self.lines.vectors * V::LANES, self.lines.plane * V::LANES);
        let (from, frame) = (self.from.as_ptr(), self.frame.as_mut_ptr());
        self.lines.each::<V>(
            #[inline(always)]
            |pixel, line| {
                // SAFETY: `Lines::check` held that pixels and lines lie in the slices.
                unsafe {
                    let column = transform::input_slope::<V>(load(from.add(line), plane));
                    add(column, frame.add(pixel), down);
                }
            },
        );
    }
}

struct Output<'a> {
    grid: Grid<'a>,
    size: usize,
    planes: &'a [f32],
    bias: &'a [f32],
    relu: bool,
    frame: &'a mut [f32],
}

impl Work for Output<'_> {
    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        // SAFETY: the caller checked the instructions of `V`.
        unsafe {
            match self.size {
                2 => self.sized::<V, 2>(),
                3 => self.sized::<V, 3>(),
                4 => self.sized::<V, 4>(),
                size => unreachable!("no tile gives {size} outputs along a side"),
            }
        }
    }
}

impl Output<'_> {
    #[inline(always)]
    unsafe fn sized<V: Vector, const M: usize>(self) {
        let [right, down, plane] = self.grid.strides::<V>();
        let (frame, planes) = (self.frame.as_mut_ptr(), self.planes.as_ptr());
        // SAFETY: the caller checked the instructions of `V`.
        let floor = unsafe { V::splat(if self.relu { 0.0 } else { f32::NEG_INFINITY }) };
        self.grid.each::<V>(
            #[inline(always)]
            |filter, pixel, at| {
                // SAFETY: `Grid::check` held that tiles lie in the frame and in the planes.
                unsafe {
                    let bias = V::splat(self.bias.get(filter).copied().unwrap_or(0.0));
                    for j in 0..M {
                        let mut column = transform::output::<V, M>(load(planes.add(at + j * plane), M * plane));
                        for i in 0..M {
                            column[i] = floor.max(column[i].add(bias));
                        }
                        store(column, frame.add(pixel + j * right), down);
                    }
                }
            },
        );
    }
}

struct OutputSlopes<'a> {
    grid: Grid<'a>,
    size: usize,
    row: usize,
    frame: &'a [f32],
    planes: &'a mut [f32],
}

impl Work for OutputSlopes<'_> {
    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        // SAFETY: the caller checked the instructions of `V`.
        unsafe {
            match self.size {
                2 => self.sized::<V, 2>(),
                3 => self.sized::<V, 3>(),
                4 => self.sized::<V, 4>(),
                size => unreachable!("no tile gives {size} outputs along a side"),
            }
        }
    }
}

impl OutputSlopes<'_> {
    #[inline(always)]
    unsafe fn sized<V: Vector, const M: usize>(self) {
        let [right, down, plane] = self.grid.strides::<V>();
        let (frame, planes) = (self.frame.as_ptr(), self.planes.as_mut_ptr());
        let factors: [f32; M] = std::array::from_fn(|i| transform::power(self.row, i, M));
        self.grid.each::<V>(
            #[inline(always)]
            |_, pixel, at| {
                // SAFETY: `Grid::check` held that tiles lie in the frame and in the planes.
                unsafe {
                    let mut half = [V::splat(0.0); M];
                    for i in 0..M {
                        let pixels = load::<V, M>(frame.add(pixel + i * down), right);
                        for j in 0..M {
                            half[j] = half[j].add_product(pixels[j], V::splat(factors[i]));
                        }
                    }
                    store(transform::output_slope::<V, M>(half), planes.add(at), plane);
                }
            },
        );
    }
}
