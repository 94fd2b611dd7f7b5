//! C ← A · B by blocks, both sides packed: the tile reads everything in a row, from the caches that are near.

use std::ops::Range;

use super::columns::Columns;
use super::dispatch::Instructions;
use super::live::LiveSteps;
use super::pack::{pack_row_by_row, pack_transposed};
use super::panel::{Ahead, Panel, Rows};
use super::tile::Sum;
use crate::pass::WrittenNext;

/// Steps of a block: a packed panel of B stays in the first-level cache.
pub(super) const STEPS: usize = 128;
/// Rows of a block: the packed strips of A stay in the second-level cache.
pub(super) const ROWS: usize = 128;
/// Columns of a block: all its panels stay in the second-level cache too, and B is read in long runs.
const COLUMNS: usize = 1056;

/// Steps of a B that is kept: some megabytes at most.
const MOST_KEPT: usize = 1024;

/// A matrix as it lies: row after row, or column after column.
#[derive(Clone, Copy)]
pub(super) enum Matrix<'a> {
    /// Rows of so many floats.
    Rows(&'a [f32], usize),
    /// Columns of so many floats.
    Columns(&'a [f32], usize),
    /// Step after step, as the examples of several replicas lie. So it is for both sides: a step is a column of the left one
    /// and a row of the right one.
    Steps(Stack<'a>),
}

/// Rows of several pieces, one after the other.
#[derive(Clone, Copy)]
pub(super) struct Stack<'a> {
    pub pieces: &'a [&'a [f32]],
    /// Floats of a row.
    pub stride: usize,
    /// The first that is looked at.
    pub first: usize,
}

impl Stack<'_> {
    /// Packs some columns of some rows; those of each piece come where they belong.
    fn pack(
        &self,
        instructions: Instructions,
        columns: Range<usize>,
        width: usize,
        rows: Range<usize>,
        to: &mut [f32],
    ) {
        let mut start = 0;
        for piece in self.pieces {
            let count = piece.len() / self.stride;
            let mine = rows.start.max(start)..rows.end.min(start + count);
            if !mine.is_empty() {
                let from = &piece[(mine.start - start) * self.stride + self.first + columns.start..];
                let place = mine.start - rows.start..mine.end - rows.start;
                pack_row_by_row(instructions, from, self.stride, [columns.len(), width], place, rows.len(), to);
            }
            start += count;
        }
    }
}

/// The product of `rows` × `depth` by `depth` × `columns`; C lies row after row without gaps.
pub(super) struct Product<'a> {
    pub rows: usize,
    pub depth: usize,
    pub columns: usize,
    pub a: Matrix<'a>,
    pub b: Matrix<'a>,
    pub c: &'a mut [f32],
    /// Added to every row, if not empty.
    pub bias: &'a [f32],
    pub relu: bool,
    /// As many floats as [`scratch`] says, or [`scratch_that_keeps`].
    pub scratch: &'a mut [f32],
    pub packing: Packing,
    pub next: WrittenNext<'a, f32>,
}

/// When B is packed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Packing {
    /// Block by block, as it is needed.
    Blocks,
    /// The same, and all blocks are left in the scratch.
    Kept,
    /// Not at all: the scratch is as a product with the same B has left it.
    Done,
}

/// Whether B can be kept: its blocks are cut by steps only, and they are not too many.
pub(super) fn can_keep(depth: usize, columns: usize) -> bool {
    columns <= COLUMNS && depth <= MOST_KEPT
}

/// Floats of scratch that a product of these sizes needs: a block of A and a block of B.
pub(super) fn scratch(instructions: Instructions, rows: usize, columns: usize) -> usize {
    let strip = instructions.strip();
    STEPS * (rows.min(ROWS).next_multiple_of(strip.rows) + columns.min(COLUMNS).next_multiple_of(strip.width))
}

/// The same for a product whose packed B is kept.
pub(super) fn scratch_that_keeps(instructions: Instructions, rows: usize, depth: usize, columns: usize) -> usize {
    let more = depth.div_ceil(STEPS).saturating_sub(1);
    scratch(instructions, rows, columns) + more * STEPS * columns.next_multiple_of(instructions.strip().width)
}

impl Product<'_> {
    pub(super) fn run(self, instructions: Instructions) {
        assert!(self.packing == Packing::Blocks || can_keep(self.depth, self.columns), "B can be kept");
        // As even as can be: a short last block would cost as much besides its products as a long one.
        let blocks = self.depth.div_ceil(STEPS).max(1);
        // B first: where it lies must not depend on the rows, which change while it is kept.
        let block_columns = self.columns.min(COLUMNS).next_multiple_of(instructions.strip().width);
        let kept = if self.packing == Packing::Blocks { 1 } else { blocks };
        let (packed_b, packed_a) = self.scratch.split_at_mut(kept * STEPS * block_columns);
        let mut live = LiveSteps::new();
        for k in (0..self.depth).step_by(self.depth.div_ceil(blocks).max(1)) {
            let steps = k..self.depth.min(k + self.depth.div_ceil(blocks));
            let place = if self.packing == Packing::Blocks { 0 } else { k / self.depth.div_ceil(blocks) };
            let packed_b = &mut packed_b[place * STEPS * block_columns..][..STEPS * block_columns];
            for column in (0..self.columns).step_by(COLUMNS) {
                let block = Columns::beside_strips(instructions, COLUMNS.min(self.columns - column));
                if self.packing != Packing::Done {
                    pack_panels(instructions, self.b, block, column, steps.clone(), packed_b);
                }
                // The next rows of B, where they lie in a row, or else what the caller wants.
                let (mut values, wanted, from_others) = match self.b {
                    Matrix::Rows(values, stride) if steps.end < self.depth => {
                        ([&values[steps.end * stride..], &[]], steps.len() * stride, false)
                    }
                    _ => (self.next.values, self.next.values[0].len(), self.next.from_others),
                };
                let of_panel = Panel::fetched(instructions, self.rows, steps.len(), false);
                let hurry = wanted > block.panels().count() * of_panel;
                for row in (0..self.rows).step_by(ROWS) {
                    let rows = row..self.rows.min(row + ROWS);
                    pack_strips(instructions, self.a, rows.clone(), steps.clone(), packed_a);
                    let a_rows = if live.gather(instructions, rows.len(), steps.len(), packed_a) {
                        Rows::LiveStrips(steps.len(), &live)
                    } else {
                        Rows::Strips(steps.len())
                    };
                    let mut start = 0;
                    for (first, count) in block.panels() {
                        let width = block.packed(count);
                        Panel {
                            rows: rows.len(),
                            columns: count,
                            a: packed_a,
                            a_rows,
                            b: &packed_b[start..],
                            b_is_packed: true,
                            c: &mut self.c[row * self.columns + column + first..],
                            c_rows: Rows::Every(self.columns),
                            sum: Sum { runs: &[(0, 0)], steps: steps.len(), a_step: 1, b_step: width, listed: &[] },
                            bias: self.bias.get(column + first..column + first + count).filter(|_| k == 0),
                            add: k > 0,
                            relu: self.relu && steps.end == self.depth,
                            ahead: Ahead { values, hurry, from_others },
                        }
                        .run(instructions);
                        let fetched = Panel::fetched(instructions, rows.len(), steps.len(), hurry);
                        values = values.map(|slice| slice.get(fetched..).unwrap_or_default());
                        start += steps.len() * width;
                    }
                }
            }
        }
    }
}

/// Strip after strip: for every step one float of each row.
fn pack_strips(instructions: Instructions, a: Matrix<'_>, rows: Range<usize>, steps: Range<usize>, to: &mut [f32]) {
    let height = instructions.strip().rows;
    match a {
        Matrix::Rows(values, stride) => {
            for (first, to) in rows.clone().step_by(height).zip(to.chunks_exact_mut(height * steps.len())) {
                let rows = first..rows.end.min(first + height);
                pack_transposed(instructions, values, stride, rows, steps.clone(), height, to);
            }
        }
        Matrix::Columns(values, stride) => {
            let from = &values[steps.start * stride + rows.start..];
            pack_row_by_row(instructions, from, stride, [rows.len(), height], 0..steps.len(), steps.len(), to);
        }
        Matrix::Steps(stack) => stack.pack(instructions, rows, height, steps, to),
    }
}

/// Panel after panel: for every step the floats of its columns.
fn pack_panels(
    instructions: Instructions,
    b: Matrix<'_>,
    block: Columns,
    column: usize,
    steps: Range<usize>,
    to: &mut [f32],
) {
    match b {
        // Row by row through all panels, because long runs arrive faster than short ones.
        Matrix::Rows(values, stride) => {
            let from = &values[steps.start * stride + column..];
            let all = 0..steps.len();
            pack_row_by_row(instructions, from, stride, [block.columns(), block.width], all, steps.len(), to);
        }
        Matrix::Steps(stack) => {
            stack.pack(instructions, column..column + block.columns(), block.width, steps, to);
        }
        Matrix::Columns(values, stride) => {
            let mut start = 0;
            for (first, count) in block.panels() {
                let width = block.packed(count);
                let to = &mut to[start..start + steps.len() * width];
                let columns = column + first..column + first + count;
                pack_transposed(instructions, values, stride, columns, steps.clone(), width, to);
                start += to.len();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Counted;

    /// The sum over all steps, dead or not.
    fn plain(a: &[f32], b: &[f32], [rows, depth, columns]: [usize; 3]) -> Vec<f64> {
        let element = |i: usize| (i / columns * depth, i % columns);
        (0..rows * columns)
            .map(element)
            .map(|(row, column)| (0..depth).map(|k| f64::from(a[row + k]) * f64::from(b[k * columns + column])).sum())
            .collect()
    }

    #[test]
    fn dead_steps_are_left_out_and_nothing_else() {
        let stream = Counted::new(1, 2, 3, 4);
        let sizes @ [rows, depth, columns] = [21, 300, 70];
        // Whole columns are dead, and of the others most single values; the rows 8 to 15 are dead altogether.
        let dead = |row: usize, k: usize| {
            (8..16).contains(&row) || k.is_multiple_of(3) || stream.uniform((row * depth + k) as u32) < 0.8
        };
        let a: Vec<f32> = (0..rows * depth)
            .map(|i| if dead(i / depth, i % depth) { 0.0 } else { stream.uniform(9000 + i as u32) })
            .collect();
        let transposed: Vec<f32> = (0..rows * depth).map(|i| a[i % rows * depth + i / rows]).collect();
        let b: Vec<f32> = (0..depth * columns).map(|i| stream.uniform(90_000 + i as u32)).collect();
        let expected = plain(&a, &b, sizes);
        for instructions in Instructions::available() {
            for a in [Matrix::Rows(&a, depth), Matrix::Columns(&transposed, rows)] {
                let (mut c, mut scratch) = (vec![7.0; rows * columns], vec![0.0; scratch(instructions, rows, columns)]);
                Product {
                    rows,
                    depth,
                    columns,
                    a,
                    b: Matrix::Rows(&b, columns),
                    c: &mut c,
                    bias: &[],
                    relu: false,
                    scratch: &mut scratch,
                    packing: Packing::Blocks,
                    next: WrittenNext::default(),
                }
                .run(instructions);
                for (found, expected) in c.iter().zip(&expected) {
                    assert!(
                        (f64::from(*found) - expected).abs() < 1e-4,
                        "{found} and {expected} with {instructions:?}"
                    );
                }
            }
        }
    }
}
