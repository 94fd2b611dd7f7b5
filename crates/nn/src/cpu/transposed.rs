//! Transposed convolution: a convolution the other way round, by its passes.

use super::conv2d::{Geometry, convolve, gradient_of_weights, spread};
use super::dense::sum_columns;
use super::dispatch::Instructions;
use crate::node::{Conv, Transposed};
use crate::pass::{Backward, Forward, Needs};
use crate::window::Window;

/// The convolution whose images are what comes out here; none where some of that is seen by no window.
pub(super) fn reversed(op: &Transposed) -> Option<Conv> {
    let mut after = [0; 2];
    for (d, after) in after.iter_mut().enumerate() {
        let reach = (op.kernel[d] - 1) * op.dilation[d] + 1;
        let seen = (op.input[d] - 1) * op.stride[d] + reach;
        *after = seen.checked_sub(op.before[d] + op.out[d])?;
    }
    let Transposed { input: [rows, columns, channels], filters, kernel, stride, dilation, before, out } = *op;
    let window = Window {
        height: out[0],
        width: out[1],
        channels: filters,
        kernel,
        stride,
        dilation,
        before,
        after,
        out: [rows, columns],
    };
    Some(Conv { window, filters: channels, groups: 1 })
}

pub(super) fn needs(geometry: &Geometry, needs: Needs) -> Needs {
    let backward_scratch = geometry.direct_forward_scratch().max(geometry.frame());
    Needs { forward_scratch: geometry.spread_scratch(), backward_scratch, ..needs }
}

pub(super) fn forward(instructions: Instructions, geometry: &Geometry, pass: &mut Forward<'_, f32>) {
    spread(instructions, geometry, [pass.x, pass.weights], pass.y, pass.scratch);
    if !pass.bias.is_empty() {
        for y in pass.y.chunks_exact_mut(pass.bias.len()) {
            y.iter_mut().zip(pass.bias).for_each(|(y, bias)| *y += *bias);
        }
    }
}

pub(super) fn backward(instructions: Instructions, geometry: &Geometry, pass: &mut Backward<'_, f32>) {
    let Backward { x, dy, dweights, dbias, scratch, weights, dx, .. } = pass;
    sum_columns(dy, geometry.conv.window.channels, false, dbias);
    gradient_of_weights(instructions, geometry, [dy, x], dweights, scratch);
    if !dx.is_empty() {
        convolve(instructions, geometry, false, [dy, weights, &[]], dx, scratch);
    }
}
