//! y = x W + b: the product and its two gradients.

use std::ops::Range;

use super::dispatch::{Instructions, vectorize};
use super::product::{self, Matrix, Product};
use crate::pass::{Backward, Forward};

/// Floats of scratch of the forward and the backward pass.
pub(super) fn scratch(instructions: Instructions, examples: usize, [inputs, outputs]: [usize; 2]) -> [usize; 2] {
    let forward = product::scratch(instructions, examples, outputs);
    let dweights = product::scratch(instructions, inputs, outputs);
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
        b_is_ready: false,
        ahead: [&[]; 2],
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
            b_is_ready: false,
            ahead: [&[]; 2],
        }
        .run(instructions);
    }
    if !pass.dweights.is_empty() {
        weight_gradient(instructions, [inputs, outputs], 0..inputs, [&[]; 2], pass);
    }
}

/// dW = xᵀ dy, some rows of it, the first ones first. `ahead` is needed next.
pub(super) fn weight_gradient(
    instructions: Instructions,
    [inputs, outputs]: [usize; 2],
    rows: Range<usize>,
    ahead: [&[f32]; 2],
    pass: &mut Backward<'_, f32>,
) {
    Product {
        rows: rows.len(),
        depth: pass.examples,
        columns: outputs,
        a: Matrix::Columns(&pass.x[rows.start..], inputs),
        b: Matrix::Rows(pass.dy, outputs),
        c: pass.dweights,
        bias: &[],
        relu: false,
        b_is_ready: rows.start > 0 && product::fits_one_block(pass.examples, outputs),
        scratch: pass.scratch,
        ahead,
    }
    .run(instructions);
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
