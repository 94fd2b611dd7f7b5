//! Copies parts of matrices to where a tile can read them in a row.

#![expect(unsafe_code, reason = "raw reads and writes whose bounds the public functions check")]

use std::ops::Range;

use super::dispatch::{Instructions, Work};
use super::vector::Vector;

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

/// Rows that are asked for before they are copied.
const AHEAD: usize = 12;

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
        let vectors = width.div_ceil(V::LANES);
        for row in 0..rows {
            // SAFETY: `pack` held that every row has its columns in `from` and its width in `to`.
            unsafe {
                let (from, to) = (from.as_ptr().add(row * stride), to.as_mut_ptr().add(row * width));
                // Rows lie apart, which no hardware foresees; addresses behind the end are only hints.
                (0..vectors).for_each(|v| V::prefetch(from.wrapping_add(AHEAD * stride + v * V::LANES)));
                for vector in 0..vectors {
                    let at = vector * V::LANES;
                    let (there, room) = (columns.saturating_sub(at), width - at);
                    let value =
                        if there >= V::LANES { V::load(from.add(at)) } else { V::load_part(from.add(at), there) };
                    if room >= V::LANES { value.store(to.add(at)) } else { value.store_part(to.add(at), room) }
                }
            }
        }
    }
}

/// Copies rows into panels of `width` columns, the last one as narrow as whole vectors allow, zeros behind. Panels that
/// are narrower than a vector are all of the same width. A panel has `of` rows, and these are the ones at `rows`.
pub(super) fn pack_row_by_row(
    instructions: Instructions,
    from: &[f32],
    stride: usize,
    [columns, width]: [usize; 2],
    rows: Range<usize>,
    of: usize,
    to: &mut [f32],
) {
    assert!(rows.is_empty() || (rows.len() - 1) * stride + columns <= from.len(), "the matrix has these rows");
    assert!(rows.end <= of, "a panel has these rows");
    instructions.run(Spread { from, stride, columns, width, rows, of, to });
}

struct Spread<'a> {
    from: &'a [f32],
    stride: usize,
    columns: usize,
    width: usize,
    rows: Range<usize>,
    of: usize,
    to: &'a mut [f32],
}

impl Work for Spread<'_> {
    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        let Self { from, stride, columns, width, rows, of, to } = self;
        if width < V::LANES {
            assert!(of * columns.next_multiple_of(width) <= to.len(), "room for all strips");
            for (row, place) in rows.enumerate() {
                for (panel, at) in (0..columns).step_by(width).enumerate() {
                    // SAFETY: `pack_row_by_row` held that every row has its columns; `to` was checked above.
                    unsafe {
                        let some = V::load_part(from.as_ptr().add(row * stride + at), width.min(columns - at));
                        some.store_part(to.as_mut_ptr().add((panel * of + place) * width), width);
                    }
                }
            }
            return;
        }
        let (whole, last) = (columns / width, (columns % width).next_multiple_of(V::LANES));
        assert!(width % V::LANES == 0 && of * (whole * width + last) <= to.len(), "room for all panels");
        for (row, place) in rows.enumerate() {
            // SAFETY: `pack_row_by_row` held that every row has its columns; `to` was checked above.
            unsafe {
                let from = from.as_ptr().add(row * stride);
                for panel in 0..whole {
                    let to = to.as_mut_ptr().add((panel * of + place) * width);
                    for at in (0..width).step_by(V::LANES) {
                        V::load(from.add(panel * width + at)).store(to.add(at));
                    }
                }
                let to = to.as_mut_ptr().add(whole * of * width + place * last);
                for at in (0..last).step_by(V::LANES) {
                    let there = V::LANES.min(columns - whole * width - at);
                    V::load_part(from.add(whole * width + at), there).store(to.add(at));
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

/// Rows and columns that are transposed in registers.
const BLOCK: usize = 8;

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
        let depth = columns.len();
        let (whole_rows, whole_columns) = (rows - rows % BLOCK, depth - depth % BLOCK);
        for row in (0..whole_rows).step_by(BLOCK) {
            for k in (0..whole_columns).step_by(BLOCK) {
                // SAFETY: `pack_transposed` held that rows and columns lie in `from` and fit into `to`.
                unsafe {
                    let from = from.as_ptr().add(row * stride + columns.start + k);
                    // The rows after these: they lie apart, which no hardware foresees.
                    if k % 16 == 0 {
                        (BLOCK..2 * BLOCK).for_each(|i| V::prefetch(from.wrapping_add(i * stride)));
                    }
                    let to = to.as_mut_ptr().add(k * width + row);
                    V::transpose(from, stride, to, width);
                }
            }
        }
        for k in 0..depth {
            let to = &mut to[k * width..][..width];
            to[rows..].fill(0.0);
            let done = if k < whole_columns { whole_rows } else { 0 };
            (done..rows).for_each(|row| to[row] = from[row * stride + columns.start + k]);
        }
    }
}
