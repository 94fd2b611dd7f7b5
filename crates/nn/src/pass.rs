//! What an operation is given to work on, in either direction.

use std::ops::Range;

use paceline_model::{Batch, Parts, PartsMut};

use crate::random::Counted;

/// Which examples a batch holds: what counted randomness is keyed by.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Draw<'a> {
    seed: u64,
    layer: usize,
    stream: u64,
    epoch: u64,
    indices: &'a [u64],
}

/// Keeps the streams of layers apart from those of initial weights, which use small purposes.
const LAYER_STREAMS: u64 = 1 << 32;
/// Keeps the streams of the operations of a layer apart.
const OPERATION_STREAMS: u64 = 1 << 40;

impl<'a> Draw<'a> {
    pub(crate) fn new(seed: u64, layer: usize, stream: u64, batch: &'a Batch) -> Self {
        Self { seed, layer, stream, epoch: batch.epoch, indices: &batch.indices }
    }

    /// The stream of this row: each row of an example has its own.
    pub(crate) fn row(&self, row: usize) -> Counted {
        let (copy, row) = (row / self.indices.len(), row % self.indices.len());
        let purpose = LAYER_STREAMS + self.layer as u64 + self.stream * OPERATION_STREAMS;
        Counted::new(self.seed, purpose, self.epoch, self.indices[row]).draw(copy as u64)
    }
}

/// The forward pass of one operation.
pub(crate) struct Forward<'a, R> {
    /// Rows that come out.
    pub examples: usize,
    pub training: bool,
    pub draw: Draw<'a>,
    pub weights: &'a [R],
    pub bias: &'a [R],
    pub running: &'a mut [R],
    /// What goes in; the first of it, if it is more.
    pub x: &'a [R],
    /// All that goes in.
    pub operands: Parts<'a, R>,
    pub y: &'a mut [R],
    /// Kept until the backward pass.
    pub aux: &'a mut [R],
    /// Kept until the backward pass: which cell won.
    pub marks: &'a mut [u16],
    /// Of no value to anybody else.
    pub scratch: &'a mut [R],
    /// What a recurrence begins with and ends with, where sequences come in stretches; else empty.
    pub carried: &'a mut [R],
}

/// The backward pass of one operation. All `d…` are slopes of the loss.
pub(crate) struct Backward<'a, R> {
    pub examples: usize,
    pub draw: Draw<'a>,
    pub weights: &'a [R],
    /// What went in; the first of it, if it was more.
    pub x: &'a [R],
    /// All that went in, and at the end what came out.
    pub kept: Parts<'a, R>,
    pub y: &'a [R],
    pub aux: &'a mut [R],
    pub marks: &'a [u16],
    pub scratch: &'a mut [R],
    /// May be destroyed.
    pub dy: &'a mut [R],
    /// To be written, not added to.
    pub dweights: &'a mut [R],
    /// To be written, not added to.
    pub dbias: &'a mut [R],
    /// To be written, unless it is empty: then nobody needs it. By the first that went in, if it was more.
    pub dx: &'a mut [R],
    /// Likewise, by the others.
    pub more_dx: PartsMut<'a, R>,
}

impl<R> Backward<'_, R> {
    /// Where the slope by one of the operands goes, and the slope by what came out.
    pub(crate) fn slope(&mut self, operand: usize) -> (&mut [R], &[R]) {
        let dx = if operand == 0 { &mut *self.dx } else { self.more_dx.get(operand - 1) };
        (dx, self.dy)
    }
}

/// Some rows of the gradient of weights, xᵀ dy, after the backward pass.
pub(crate) struct RowsOfGradient<'a, R> {
    /// Of all replicas together.
    pub examples: usize,
    pub rows: Range<usize>,
    /// By replica.
    pub x: &'a [&'a [R]],
    /// By replica.
    pub dy: &'a [&'a [R]],
    /// These rows, one after the other.
    pub dweights: &'a mut [R],
    pub scratch: &'a mut [R],
    /// Whether the scratch is as other rows of the same x and dy left it.
    pub goes_on: bool,
    pub next: WrittenNext<'a, R>,
}

/// What comes near while a product is computed, because it is read and written next.
#[derive(Clone, Copy)]
pub(crate) struct WrittenNext<'a, R> {
    pub values: [&'a [R]; 2],
    /// Whether other cores may have read or written it last: it is taken from them then.
    pub from_others: bool,
}

impl<R> Default for WrittenNext<'_, R> {
    fn default() -> Self {
        Self { values: [&[]; 2], from_others: false }
    }
}

/// What an operation asks of the plan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Needs {
    /// Numbers kept from the forward to the backward pass.
    pub aux: usize,
    /// Whether they are written when predicting, too.
    pub aux_always: bool,
    /// Marks kept likewise.
    pub marks: usize,
    pub forward_scratch: usize,
    pub backward_scratch: usize,
    /// Whether the backward pass reads what went in.
    pub keeps_x: bool,
    /// Whether the backward pass reads what came out.
    pub keeps_y: bool,
    /// Whether the gradient of the weights can be computed by rows, after the backward pass.
    pub has_rows: bool,
}
