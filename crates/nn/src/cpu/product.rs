//! Matrix products over tiles: which panels of columns, in which order, and what is packed before.

#![expect(unsafe_code, reason = "hands raw pointers to the tile; every `Panel` is made from checked slices")]

use std::cmp::Ordering;
use std::ops::Range;

use super::dispatch::{Instructions, Work};
use super::tile::{Finish, Sum, rows, tile};
use super::vector::{Registers, Vector};

/// Where the rows of a matrix start, in floats from a base.
#[derive(Clone, Copy)]
pub(super) enum Rows<'a> {
    /// So many floats apart.
    Every(usize),
    /// As the table says.
    At(&'a [u32]),
}

impl Rows<'_> {
    #[inline(always)]
    fn start(self, row: usize) -> usize {
        match self {
            Rows::Every(stride) => row * stride,
            Rows::At(table) => table[row] as usize,
        }
    }
}

/// One panel of columns, all rows: C[rows, columns] ← Σ A · B.
pub(super) struct Panel<'a> {
    pub rows: usize,
    pub columns: usize,
    pub a: &'a [f32],
    pub a_rows: Rows<'a>,
    pub b: &'a [f32],
    /// Whether the rows of B are as far apart as [`Columns::packed`] says, with floats to read behind the last column.
    pub b_is_packed: bool,
    pub c: &'a mut [f32],
    pub c_rows: Rows<'a>,
    pub sum: Sum<'a>,
    pub bias: Option<&'a [f32]>,
    pub add: bool,
    pub relu: bool,
}

impl Panel<'_> {
    /// Computes the panel.
    pub(super) fn run(self, instructions: Instructions) {
        if self.rows > 0 && self.columns > 0 {
            self.check();
            instructions.run(self);
        }
    }

    /// Holds what the tile relies on; once per panel, so it costs nothing that could be measured.
    fn check(&self) {
        let steps = self.sum.steps.saturating_sub(1);
        let a_reach = self.sum.runs.iter().map(|(a, _)| a + steps * self.sum.a_step).max().unwrap_or(0);
        let b_reach = self.sum.runs.iter().map(|(_, b)| b + steps * self.sum.b_step).max().unwrap_or(0);
        let last = |rows: Rows<'_>| match rows {
            Rows::Every(stride) => (self.rows - 1) * stride,
            Rows::At(table) => table[..self.rows].iter().map(|&r| r as usize).max().unwrap_or(0),
        };
        if !self.sum.runs.is_empty() && self.sum.steps > 0 {
            assert!(last(self.a_rows) + a_reach < self.a.len(), "a panel reads A to its end at most");
            let room = if self.b_is_packed { self.sum.b_step } else { self.columns };
            assert!(b_reach + room <= self.b.len(), "a panel reads B to its end at most");
            assert!(!self.b_is_packed || self.sum.b_step >= self.columns, "a packed row holds all columns");
        }
        assert!(last(self.c_rows) + self.columns <= self.c.len(), "a panel writes C to its end at most");
        assert!(self.bias.is_none_or(|bias| bias.len() >= self.columns), "a bias for every column");
    }

    #[inline(always)]
    unsafe fn tiles<V: Vector, const ROWS: usize, const VECTORS: usize>(&mut self) {
        // SAFETY: the caller checked the instructions of `V`.
        unsafe {
            match (self.b_is_packed, self.sum.a_step) {
                (true, 1) => self.strips::<V, ROWS, VECTORS, true, { rows::UNIT_STEP }>(),
                (true, _) => self.strips::<V, ROWS, VECTORS, true, { rows::ANYWHERE }>(),
                (false, _) => self.strips::<V, ROWS, VECTORS, false, { rows::ANYWHERE }>(),
            }
        }
    }

    #[inline(always)]
    unsafe fn strips<V: Vector, const ROWS: usize, const VECTORS: usize, const PACKED: bool, const A: u8>(&mut self) {
        let finish =
            Finish { add: self.add, bias: self.bias.map_or(std::ptr::null(), <[f32]>::as_ptr), relu: self.relu };
        let (a, b, c) = (self.a.as_ptr(), self.b.as_ptr(), self.c.as_mut_ptr());
        let (sum, columns) = (self.sum, self.columns);
        assert!(!PACKED || sum.b_step == VECTORS * V::LANES, "packed rows are whole vectors");
        let mut row = 0;
        while row < self.rows {
            let live = ROWS.min(self.rows - row);
            // Rows behind the last are computed like it and not written.
            let at = |i: usize| row + i.min(live - 1);
            let starts: [usize; ROWS] = std::array::from_fn(|i| self.a_rows.start(at(i)));
            let adjacent = A != rows::UNIT_STEP && (0..ROWS).all(|i| starts[i] == starts[0] + i);
            // SAFETY: `check` held that every row's reads and writes end inside the slices.
            unsafe {
                let a: [*const f32; ROWS] = std::array::from_fn(|i| a.add(starts[i]));
                let c: [*mut f32; ROWS] = std::array::from_fn(|i| c.add(self.c_rows.start(at(i))));
                if adjacent {
                    tile::<V, ROWS, VECTORS, PACKED, { rows::ADJACENT }>(&a, b, &c, sum, live, columns, finish);
                } else {
                    tile::<V, ROWS, VECTORS, PACKED, A>(&a, b, &c, sum, live, columns, finish);
                }
            }
            row += ROWS;
        }
    }
}

impl Work for Panel<'_> {
    #[inline(always)]
    unsafe fn run<V: Vector>(mut self) {
        let vectors = self.columns.div_ceil(V::LANES);
        // SAFETY: the caller checked the instructions of `V`.
        unsafe {
            match (V::REGISTERS, vectors) {
                #[cfg(target_arch = "x86_64")]
                (Registers::ThirtyTwo, 4) if self.rows == 1 => self.tiles::<V, 1, 4>(),
                #[cfg(target_arch = "x86_64")]
                (Registers::ThirtyTwo, 4) => self.tiles::<V, 6, 4>(),
                #[cfg(target_arch = "x86_64")]
                (Registers::ThirtyTwo, 3) => self.tiles::<V, 8, 3>(),
                #[cfg(target_arch = "x86_64")]
                (Registers::ThirtyTwo, 2) => self.tiles::<V, 10, 2>(),
                #[cfg(target_arch = "x86_64")]
                (Registers::ThirtyTwo, 1) => self.tiles::<V, 10, 1>(),
                #[cfg(target_arch = "x86_64")]
                (Registers::Sixteen, 3) => self.tiles::<V, 4, 3>(),
                #[cfg(target_arch = "x86_64")]
                (Registers::Sixteen, 2) => self.tiles::<V, 6, 2>(),
                #[cfg(target_arch = "x86_64")]
                (Registers::Sixteen, 1) => self.tiles::<V, 8, 1>(),
                (Registers::Few, 2) => self.tiles::<V, 2, 2>(),
                (Registers::Few, 1) => self.tiles::<V, 4, 1>(),
                _ => unreachable!("`Columns` cuts panels that a tile can hold"),
            }
        }
    }
}

/// How columns are cut into panels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Columns {
    columns: usize,
    lanes: usize,
    /// Columns of a full panel.
    pub width: usize,
}

impl Columns {
    /// The cut that wastes the fewest lanes and rows.
    pub(super) fn cut(instructions: Instructions, rows: usize, columns: usize) -> Self {
        let (lanes, shapes) = instructions.tiles();
        let vectors = columns.div_ceil(lanes);
        let cost = |width: usize| {
            let of = |w: usize| {
                let (tile_rows, slowness) = shapes[w - 1];
                rows.div_ceil(tile_rows) * tile_rows * w * slowness
            };
            vectors / width * of(width) + if vectors % width > 0 { of(vectors % width) } else { 0 }
        };
        let width = (1..=shapes.len()).rev().min_by_key(|&w| cost(w)).expect("there is a tile");
        Self { columns, lanes, width: width * lanes }
    }

    /// First column and number of columns of every panel.
    pub(super) fn panels(self) -> impl Iterator<Item = (usize, usize)> {
        (0..self.columns).step_by(self.width).map(move |start| (start, self.width.min(self.columns - start)))
    }

    /// Floats of a packed row of a panel with so many columns: whole vectors.
    pub(super) fn packed(self, count: usize) -> usize {
        count.next_multiple_of(self.lanes)
    }

    /// Columns when every panel is full.
    pub(super) fn padded(self) -> usize {
        self.columns.div_ceil(self.width) * self.width
    }
}

impl Instructions {
    /// Lanes, and for panels of 1, 2, … vectors the rows of a tile and how slow it is per element, in percent.
    fn tiles(self) -> (usize, &'static [(usize, usize)]) {
        match self {
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx512 => (16, &[(10, 130), (10, 106), (8, 100), (6, 100)]),
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx2 => (8, &[(8, 115), (6, 100), (4, 100)]),
            Instructions::Portable => (8, &[(4, 100), (2, 100)]),
        }
    }

    /// The most columns that a panel may have.
    pub(super) fn widest(self) -> usize {
        let (lanes, shapes) = self.tiles();
        lanes * shapes.len()
    }
}

/// Copies columns of the rows of a matrix with `stride` floats a row into rows of `width`, zeros behind.
pub(super) fn pack(
    instructions: Instructions,
    from: &[f32],
    stride: usize,
    columns: Range<usize>,
    width: usize,
    to: &mut [f32],
) {
    let rows = to.len() / width;
    assert!(columns.len() <= width, "a packed row has room for its columns");
    assert!(rows == 0 || (rows - 1) * stride + columns.end <= from.len(), "the matrix has these rows");
    instructions.run(Copy { from: &from[columns.start..], stride, rows, columns: columns.len(), width, to });
}

struct Copy<'a> {
    from: &'a [f32],
    stride: usize,
    rows: usize,
    columns: usize,
    width: usize,
    to: &'a mut [f32],
}

impl Work for Copy<'_> {
    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        let Self { from, stride, rows, columns, width, to } = self;
        let (whole, vectors) = (columns / V::LANES, width / V::LANES);
        for row in 0..rows {
            // SAFETY: `pack` held that every row has its columns in `from` and its width in `to`.
            unsafe {
                let (from, to) = (from.as_ptr().add(row * stride), to.as_mut_ptr().add(row * width));
                for vector in 0..vectors {
                    let at = vector * V::LANES;
                    let value = match vector.cmp(&whole) {
                        Ordering::Less => V::load(from.add(at)),
                        Ordering::Equal => V::load_part(from.add(at), columns - at),
                        Ordering::Greater => V::splat(0.0),
                    };
                    value.store(to.add(at));
                }
            }
        }
    }
}

/// The same of the transposed matrix: row k of `to` holds column `columns.start + k` of the given rows of `from`.
pub(super) fn pack_transposed(
    instructions: Instructions,
    from: &[f32],
    stride: usize,
    rows: Range<usize>,
    columns: Range<usize>,
    width: usize,
    to: &mut [f32],
) {
    assert!(rows.len() <= width && columns.len() * width <= to.len(), "a packed panel has room for its rows");
    assert!(rows.is_empty() || (rows.end - 1) * stride + columns.end <= from.len(), "the matrix has these columns");
    instructions.run(Transpose { from: &from[rows.start * stride..], stride, rows: rows.len(), columns, width, to });
}

struct Transpose<'a> {
    from: &'a [f32],
    stride: usize,
    rows: usize,
    columns: Range<usize>,
    width: usize,
    to: &'a mut [f32],
}

impl Work for Transpose<'_> {
    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        let Self { from, stride, rows, columns, width, to } = self;
        // Gathers count in 32 bits.
        let whole = if stride * V::LANES < i32::MAX as usize { rows - rows % V::LANES } else { 0 };
        for first in (0..whole).step_by(V::LANES) {
            for (k, column) in columns.clone().enumerate() {
                // SAFETY: `pack_transposed` held that rows and columns lie in `from` and fit into `to`.
                unsafe {
                    let lanes = V::load_column(from.as_ptr().add(first * stride + column), stride);
                    lanes.store(to.as_mut_ptr().add(k * width + first));
                }
            }
        }
        for (k, column) in columns.enumerate() {
            let to = &mut to[k * width..][..width];
            to[rows..].fill(0.0);
            (whole..rows).for_each(|row| to[row] = from[row * stride + column]);
        }
    }
}
