//! y = x W + b: the product and its two gradients.

use super::dispatch::{Instructions, vectorize};
use super::product::{Columns, Panel, Rows, pack, pack_transposed};
use super::tile::Sum;
use crate::pass::{Backward, Forward};

/// Rows of a packed panel: as many as keep it in the second-level cache beside what it is multiplied with.
const BLOCK: usize = 192;

/// Floats of scratch: one packed panel.
pub(super) fn scratch(instructions: Instructions) -> usize {
    instructions.widest() * BLOCK
}

pub(super) fn forward(
    instructions: Instructions,
    [inputs, outputs]: [usize; 2],
    relu: bool,
    pass: &mut Forward<'_, f32>,
) {
    let columns = Columns::cut(instructions, pass.examples, outputs);
    for (first, count) in columns.panels() {
        for k in (0..inputs).step_by(BLOCK) {
            let steps = BLOCK.min(inputs - k);
            let width = columns.packed(count);
            let packed = &mut pass.scratch[..steps * width];
            pack(instructions, &pass.weights[k * outputs..], outputs, first..first + count, width, packed);
            Panel {
                rows: pass.examples,
                columns: count,
                a: &pass.x[k..],
                a_rows: Rows::Every(inputs),
                b: packed,
                b_is_packed: true,
                c: &mut pass.y[first..],
                c_rows: Rows::Every(outputs),
                sum: Sum { runs: &[(0, 0)], steps, a_step: 1, b_step: width },
                bias: if k == 0 { pass.bias.get(first..first + count) } else { None },
                add: k > 0,
                relu: relu && k + steps == inputs,
            }
            .run(instructions);
        }
    }
}

pub(super) fn backward(instructions: Instructions, [inputs, outputs]: [usize; 2], pass: &mut Backward<'_, f32>) {
    sum_columns(pass.dy, outputs, false, pass.dbias);
    weight_gradient(instructions, [inputs, outputs], pass);
    if !pass.dx.is_empty() {
        input_gradient(instructions, [inputs, outputs], pass);
    }
}

/// dW = xᵀ dy
fn weight_gradient(instructions: Instructions, [inputs, outputs]: [usize; 2], pass: &mut Backward<'_, f32>) {
    let columns = Columns::cut(instructions, inputs, outputs);
    for (first, count) in columns.panels() {
        for k in (0..pass.examples).step_by(BLOCK) {
            let steps = BLOCK.min(pass.examples - k);
            let width = columns.packed(count);
            let packed = &mut pass.scratch[..steps * width];
            pack(instructions, &pass.dy[k * outputs..], outputs, first..first + count, width, packed);
            Panel {
                rows: inputs,
                columns: count,
                a: &pass.x[k * inputs..],
                a_rows: Rows::Every(1),
                b: packed,
                b_is_packed: true,
                c: &mut pass.dweights[first..],
                c_rows: Rows::Every(outputs),
                sum: Sum { runs: &[(0, 0)], steps, a_step: inputs, b_step: width },
                bias: None,
                add: k > 0,
                relu: false,
            }
            .run(instructions);
        }
    }
}

/// dx = dy Wᵀ
fn input_gradient(instructions: Instructions, [inputs, outputs]: [usize; 2], pass: &mut Backward<'_, f32>) {
    let columns = Columns::cut(instructions, pass.examples, inputs);
    for (first, count) in columns.panels() {
        for k in (0..outputs).step_by(BLOCK) {
            let steps = BLOCK.min(outputs - k);
            let width = columns.packed(count);
            let packed = &mut pass.scratch[..steps * width];
            pack_transposed(instructions, pass.weights, outputs, first..first + count, k..k + steps, width, packed);
            Panel {
                rows: pass.examples,
                columns: count,
                a: &pass.dy[k..],
                a_rows: Rows::Every(outputs),
                b: packed,
                b_is_packed: true,
                c: &mut pass.dx[first..],
                c_rows: Rows::Every(inputs),
                sum: Sum { runs: &[(0, 0)], steps, a_step: 1, b_step: width },
                bias: None,
                add: k > 0,
                relu: false,
            }
            .run(instructions);
        }
    }
}

/// The sum of each column of `rows`, added to what is there if `add`; nothing if nobody wants it.
pub(super) fn sum_columns(rows: &[f32], columns: usize, add: bool, sums: &mut [f32]) {
    if sums.is_empty() {
        return;
    }
    vectorize(
        #[inline(always)]
        move || {
            if !add {
                sums.fill(0.0);
            }
            // Four rows at a time, so that the sums are read and written a quarter as often.
            let mut quads = rows.chunks_exact(4 * columns);
            for quad in &mut quads {
                let (a, b) = quad.split_at(2 * columns);
                let ((a, b), (c, d)) = (a.split_at(columns), b.split_at(columns));
                for ((sum, (a, b)), (c, d)) in sums.iter_mut().zip(a.iter().zip(b)).zip(c.iter().zip(d)) {
                    *sum += (a + b) + (c + d);
                }
            }
            for row in quads.remainder().chunks_exact(columns) {
                sums.iter_mut().zip(row).for_each(|(sum, value)| *sum += value);
            }
        },
    );
}
