use super::Builder;
use crate::config::Dense;
use crate::node::Op;
use crate::{Error, Fan, Shape};

pub(super) fn build(config: &Dense, builder: &mut Builder<'_>) -> Result<(), Error> {
    weigh(config.units, config.bias, builder)?;
    builder.activate();
    Ok(())
}

/// y = x W + b; an image that comes in is taken as the row of numbers that it is.
pub(super) fn weigh(units: usize, bias: bool, builder: &mut Builder<'_>) -> Result<(), Error> {
    if units == 0 {
        return Err(builder.wrong("`units` must be at least 1".into()));
    }
    let inputs = builder.shape.len();
    let weights = builder.weights("weight", vec![inputs, units], Fan { inputs, outputs: units })?;
    let bias = if bias { builder.bias("bias", units) } else { 0..0 };
    builder.push_with(Op::Dense { inputs, outputs: units }, Shape::Flat(units), weights, bias, 0..0);
    Ok(())
}
