//! y = x W + b: the product and its two gradients; and y = x Wᵀ, the way back through the same weights.

use paceline_model::vectorize;

use super::dispatch::Instructions;
use super::product::{self, Matrix, Packing, Product, Stack};
use crate::pass::{Backward, Forward, RowsOfGradient, WrittenNext};

/// Floats of scratch of the forward and the backward pass.
pub(super) fn scratch(instructions: Instructions, examples: usize, [inputs, outputs]: [usize; 2]) -> [usize; 2] {
    let forward = product::scratch(instructions, examples, outputs);
    let dweights = weight_gradient_scratch(instructions, inputs, examples, outputs);
    let dx = product::scratch(instructions, examples, inputs);
    [forward, dweights.max(dx)]
}

pub(super) fn forward(
    instructions: Instructions,
    [inputs, outputs]: [usize; 2],
    relu: bool,
    pass: &mut Forward<'_, f32>,
) {
    Product {
        rows: pass.examples,
        depth: inputs,
        columns: outputs,
        a: Matrix::Rows(pass.x, inputs),
        b: Matrix::Rows(pass.weights, outputs),
        c: pass.y,
        bias: pass.bias,
        relu,
        scratch: pass.scratch,
        packing: Packing::Blocks,
        next: WrittenNext::default(),
    }
    .run(instructions);
}

pub(super) fn backward(instructions: Instructions, [inputs, outputs]: [usize; 2], pass: &mut Backward<'_, f32>) {
    sum_columns(pass.dy, outputs, false, pass.dbias);
    // dx = dy Wᵀ
    if !pass.dx.is_empty() {
        Product {
            rows: pass.examples,
            depth: outputs,
            columns: inputs,
            a: Matrix::Rows(pass.dy, outputs),
            b: Matrix::Columns(pass.weights, outputs),
            c: pass.dx,
            bias: &[],
            relu: false,
            scratch: pass.scratch,
            packing: Packing::Blocks,
            next: WrittenNext::default(),
        }
        .run(instructions);
    }
    if !pass.dweights.is_empty() {
        let rows = RowsOfGradient {
            examples: pass.examples,
            rows: 0..inputs,
            x: &[pass.x],
            dy: &[pass.dy],
            dweights: pass.dweights,
            scratch: pass.scratch,
            goes_on: false,
            next: WrittenNext::default(),
        };
        weight_gradient(instructions, [inputs, outputs], rows);
    }
}

/// Floats of scratch of both passes of the way back.
pub(super) fn tied_scratch(instructions: Instructions, examples: usize, [inputs, outputs]: [usize; 2]) -> [usize; 2] {
    let forward = product::scratch(instructions, examples, outputs);
    let dweights = weight_gradient_scratch(instructions, outputs, examples, inputs);
    let dx = product::scratch(instructions, examples, inputs);
    [forward, dweights.max(dx)]
}

/// y = x Wᵀ, with W of outputs × inputs.
pub(super) fn tied_forward(instructions: Instructions, [inputs, outputs]: [usize; 2], pass: &mut Forward<'_, f32>) {
    Product {
        rows: pass.examples,
        depth: inputs,
        columns: outputs,
        a: Matrix::Rows(pass.x, inputs),
        b: Matrix::Columns(pass.weights, inputs),
        c: pass.y,
        bias: &[],
        relu: false,
        scratch: pass.scratch,
        packing: Packing::Blocks,
        next: WrittenNext::default(),
    }
    .run(instructions);
}

/// dx = dy W, dW = dyᵀ x.
pub(super) fn tied_backward(instructions: Instructions, [inputs, outputs]: [usize; 2], pass: &mut Backward<'_, f32>) {
    if !pass.dx.is_empty() {
        Product {
            rows: pass.examples,
            depth: outputs,
            columns: inputs,
            a: Matrix::Rows(pass.dy, outputs),
            b: Matrix::Rows(pass.weights, inputs),
            c: pass.dx,
            bias: &[],
            relu: false,
            scratch: pass.scratch,
            packing: Packing::Blocks,
            next: WrittenNext::default(),
        }
        .run(instructions);
    }
    if !pass.dweights.is_empty() {
        let rows = RowsOfGradient {
            examples: pass.examples,
            rows: 0..outputs,
            x: &[pass.dy],
            dy: &[pass.x],
            dweights: pass.dweights,
            scratch: pass.scratch,
            goes_on: false,
            next: WrittenNext::default(),
        };
        weight_gradient(instructions, [outputs, inputs], rows);
    }
}

/// dW = xᵀ dy, some rows of it.
pub(super) fn weight_gradient(
    instructions: Instructions,
    [inputs, outputs]: [usize; 2],
    pass: RowsOfGradient<'_, f32>,
) {
    let packing = match product::can_keep(pass.examples, outputs) {
        false => Packing::Blocks,
        true if pass.goes_on => Packing::Done,
        true => Packing::Kept,
    };
    Product {
        rows: pass.rows.len(),
        depth: pass.examples,
        columns: outputs,
        a: Matrix::Steps(Stack { pieces: pass.x, stride: inputs, first: pass.rows.start }),
        b: Matrix::Steps(Stack { pieces: pass.dy, stride: outputs, first: 0 }),
        c: pass.dweights,
        bias: &[],
        relu: false,
        packing,
        scratch: pass.scratch,
        next: pass.next,
    }
    .run(instructions);
}

/// Floats of scratch for some rows of the gradient of the weights.
pub(super) fn weight_gradient_scratch(
    instructions: Instructions,
    rows: usize,
    examples: usize,
    outputs: usize,
) -> usize {
    match product::can_keep(examples, outputs) {
        true => product::scratch_that_keeps(instructions, rows, examples, outputs),
        false => product::scratch(instructions, rows, outputs),
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
