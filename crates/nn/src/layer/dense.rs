use super::Builder;
use crate::config::Dense;
use crate::node::Op;
use crate::{Error, Fan};

pub(super) fn build(config: &Dense, builder: &mut Builder<'_>) -> Result<(), Error> {
    weigh(config.units, config.bias, builder)?;
    builder.activate();
    Ok(())
}

/// y = x W + b; an image that comes in is taken as the row of numbers that it is, a sequence step by step.
pub(super) fn weigh(units: usize, bias: bool, builder: &mut Builder<'_>) -> Result<(), Error> {
    weigh_with("weight", units, bias, builder)
}

/// The same with weights of this name.
pub(super) fn weigh_with(name: &str, units: usize, bias: bool, builder: &mut Builder<'_>) -> Result<(), Error> {
    if units == 0 {
        return Err(builder.wrong("`units` must be at least 1".into()));
    }
    let inputs = if builder.shape.steps().is_some() { builder.shape.channels() } else { builder.shape.len() };
    let weights = builder.weights(name, vec![inputs, units], Fan { inputs, outputs: units })?;
    let bias = if bias { builder.bias("bias", units) } else { 0..0 };
    builder.push_per_step(Op::Dense { inputs, outputs: units }, units, weights, bias);
    Ok(())
}
