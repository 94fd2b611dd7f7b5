//! Convolutions with filters of their own at every place.

use super::{Builder, sequence};
use crate::config::{LocallyConnected1d, LocallyConnected2d};
use crate::node::Op;
use crate::window::Window;
use crate::{Error, Fan};

pub(super) fn locally_connected2d(config: &LocallyConnected2d, builder: &mut Builder<'_>) -> Result<(), Error> {
    let &LocallyConnected2d { filters, kernel, stride, dilation, padding, bias, .. } = config;
    let window = builder.window(kernel, stride, dilation, padding, false)?;
    connect(window, filters, bias, builder)?;
    builder.activate();
    Ok(())
}

pub(super) fn locally_connected1d(config: &LocallyConnected1d, builder: &mut Builder<'_>) -> Result<(), Error> {
    let &LocallyConnected1d { filters, kernel, stride, dilation, padding, bias, .. } = config;
    sequence::slide(padding, [kernel, stride, dilation], filters, builder, |window, builder| {
        connect(window, filters, bias, builder)
    })
}

fn connect(window: Window, filters: usize, bias: bool, builder: &mut Builder<'_>) -> Result<(), Error> {
    if filters == 0 {
        return Err(builder.wrong("`filters` must be at least 1".into()));
    }
    let depth = window.kernel[0].saturating_mul(window.kernel[1]).saturating_mul(window.channels);
    let weights =
        builder.weights("weight", vec![window.positions(), depth, filters], Fan { inputs: depth, outputs: filters })?;
    let bias = if bias { builder.bias("bias", filters) } else { 0..0 };
    builder.push_with(Op::Local { window, filters }, window.output(filters), weights, bias, 0..0);
    Ok(())
}
