//! The fast kernels: `f32`, vector instructions chosen when the program runs, one binary for every machine.
//!
//! # Layout
//!
//! - `vector`: a few lanes of floats, as AVX-512, AVX2 or plain arrays.
//! - `dispatch`: runs code with the best instructions that this machine has.
//! - `tile`: the heart of every product: a block of accumulators that stays in registers.
//! - `panel`, `columns`: all rows of a few columns, tile by tile; how columns are cut.
//! - `pack`, `product`: matrix products by blocks, both sides packed.
//! - `channels`: numbers per channel over long runs of pixels.
//! - `winograd`: convolution with fewer products, where it pays.
//! - `dense`, `conv2d`, `transposed`, `pool`, `batch_norm`, `recurrent`, `dropout`, `element_wise`: the operations.
//! - `math`: exponentials that vectorise.

mod batch_norm;
mod channels;
mod columns;
mod conv2d;
mod dense;
pub(crate) mod dispatch;
mod dropout;
mod element_wise;
mod live;
pub(crate) mod math;
mod pack;
mod panel;
mod pool;
mod product;
mod recurrent;
mod tile;
mod transposed;
mod vector;
mod winograd;

use conv2d::Geometry;
pub use dispatch::Instructions;

use crate::Activation;
use crate::config::Pool;
use crate::executor::Kernels;
use crate::node::{Conv, Node, Op};
use crate::pass::{Backward, Forward, Needs, RowsOfGradient};
use crate::plain;
use crate::plan::Lowering;

/// The kernels of the processor.
pub(crate) struct Cpu {
    instructions: Instructions,
    /// One per convolution, made when it is first seen.
    geometries: Vec<Geometry>,
}

impl Cpu {
    /// Kernels of these instructions, which the machine must have.
    pub(crate) fn new(instructions: Instructions) -> Self {
        assert!(Instructions::available().contains(&instructions), "this machine has no {}", instructions.name());
        Self { instructions, geometries: Vec::new() }
    }

    fn geometry(&mut self, conv: &Conv) -> &Geometry {
        let found = self.geometries.iter().position(|g| g.conv == *conv).unwrap_or_else(|| {
            self.geometries.push(Geometry::new(*conv, self.instructions));
            self.geometries.len() - 1
        });
        &self.geometries[found]
    }
}

impl Kernels for Cpu {
    type R = f32;
    const LOWERING: Lowering = Lowering { fused: true, shared_memory: true };

    fn needs(&mut self, node: &Node, examples: usize) -> Needs {
        let mut needs = plain::needs(node, examples);
        match &node.op {
            Op::Dense { inputs, outputs } => {
                [needs.forward_scratch, needs.backward_scratch] =
                    dense::scratch(self.instructions, examples, [*inputs, *outputs]);
                needs.has_rows = true;
            }
            Op::TiedDense { inputs, outputs } => {
                [needs.forward_scratch, needs.backward_scratch] =
                    dense::tied_scratch(self.instructions, examples, [*inputs, *outputs]);
            }
            Op::Conv2d(conv) => {
                let geometry = self.geometry(conv);
                needs.forward_scratch = geometry.forward_scratch(examples);
                needs.backward_scratch = geometry.backward_scratch(examples);
            }
            Op::Transposed(op) => {
                if let Some(conv) = transposed::reversed(op) {
                    needs = transposed::needs(self.geometry(&conv), needs);
                }
            }
            Op::Recurrence(op) => needs = recurrent::needs(self.instructions, op, examples, needs),
            Op::BatchNorm { channels, .. } => {
                needs.forward_scratch = batch_norm::scratch(*channels);
                needs.backward_scratch = needs.forward_scratch;
            }
            _ => {}
        }
        needs
    }

    fn forward(&mut self, node: &Node, pass: &mut Forward<'_, f32>) {
        let instructions = self.instructions;
        let relu = node.activation == Activation::Relu;
        match &node.op {
            Op::Dense { inputs, outputs } => dense::forward(instructions, [*inputs, *outputs], relu, pass),
            Op::TiedDense { inputs, outputs } => dense::tied_forward(instructions, [*inputs, *outputs], pass),
            Op::Conv2d(conv) => conv2d::forward(instructions, self.geometry(conv), relu, pass),
            Op::Pool { window, pool: Pool::Max } if pool::takes(window) => pool::forward(instructions, window, pass),
            Op::BatchNorm { channels, positions, epsilon, decay } => {
                batch_norm::forward(*channels, *positions, [*epsilon, *decay], relu, pass);
            }
            Op::Transposed(op) => match transposed::reversed(op) {
                Some(conv) => transposed::forward(instructions, self.geometry(&conv), pass),
                None => plain::forward(node, pass),
            },
            Op::Recurrence(op) => recurrent::forward(instructions, op, pass),
            Op::Dropout { rate } => dropout::forward(*rate, pass),
            Op::Activation(activation) if activation.is_element_wise() => {
                element_wise::apply(*activation, pass.x, pass.y);
            }
            _ => plain::forward(node, pass),
        }
        // A ReLU was computed with the rest.
        if node.activation != Activation::Identity && is_fast(&node.op) && !relu {
            element_wise::apply_in_place(node.activation, pass.y);
        }
    }

    fn backward(&mut self, node: &Node, pass: &mut Backward<'_, f32>) {
        let relu = node.activation == Activation::Relu;
        // Batch norm takes care of its ReLU while it reads the slopes anyway.
        let done = relu && matches!(node.op, Op::BatchNorm { .. });
        if node.activation != Activation::Identity && is_fast(&node.op) && !done {
            element_wise::slope_in_place(node.activation, pass.y, pass.dy);
        }
        let instructions = self.instructions;
        match &node.op {
            Op::Dense { inputs, outputs } => dense::backward(instructions, [*inputs, *outputs], pass),
            Op::TiedDense { inputs, outputs } => dense::tied_backward(instructions, [*inputs, *outputs], pass),
            Op::Conv2d(conv) => conv2d::backward(instructions, self.geometry(conv), pass),
            Op::Pool { window, pool: Pool::Max } if pool::takes(window) => pool::backward(instructions, window, pass),
            Op::BatchNorm { channels, positions, .. } => batch_norm::backward(*channels, *positions, relu, pass),
            Op::Transposed(op) => match transposed::reversed(op) {
                Some(conv) => transposed::backward(instructions, self.geometry(&conv), pass),
                None => plain::backward(node, pass),
            },
            Op::Recurrence(op) => recurrent::backward(instructions, op, pass),
            Op::Dropout { rate } => dropout::backward(*rate, pass),
            Op::Activation(activation) if activation.is_element_wise() => {
                element_wise::slope(*activation, pass);
            }
            _ => plain::backward(node, pass),
        }
    }

    fn gradient_rows(&self, node: &Node) -> Option<usize> {
        matches!(node.op, Op::Dense { .. }).then_some(GRADIENT_ROWS)
    }

    fn weight_gradient(&mut self, node: &Node, pass: RowsOfGradient<'_, f32>) {
        if let Op::Dense { inputs, outputs } = &node.op {
            dense::weight_gradient(self.instructions, [*inputs, *outputs], pass);
        }
    }

    fn weight_gradient_scratch(&self, node: &Node, examples: usize) -> usize {
        dense::weight_gradient_scratch(self.instructions, GRADIENT_ROWS, examples, node.output.len())
    }
}

/// Rows of a dense layer's gradient that stay in the second-level cache until they are used.
const GRADIENT_ROWS: usize = 32;

/// Whether the operation has a kernel here that leaves the fused activation to the caller.
fn is_fast(op: &Op) -> bool {
    matches!(op, Op::Dense { .. } | Op::Conv2d(_) | Op::BatchNorm { .. })
}
