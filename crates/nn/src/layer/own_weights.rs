//! Layers with a weight for every number or channel.

use super::Builder;
use crate::config::{ElementWiseMultiplication, PRelu};
use crate::node::Op;
use crate::{Error, Fan};

/// A slope for every channel.
pub(super) fn prelu(config: &PRelu, builder: &mut Builder<'_>) -> Result<(), Error> {
    if !config.alpha.is_finite() {
        return Err(builder.wrong(format!("`alpha` must be a number, found {}", config.alpha)));
    }
    let alpha = builder.constant("alpha", builder.shape.channels(), config.alpha);
    builder.push_with(Op::PRelu, builder.shape, alpha, 0..0, 0..0);
    Ok(())
}

/// A weight and a bias for every number.
pub(super) fn element_wise_multiplication(
    config: &ElementWiseMultiplication,
    builder: &mut Builder<'_>,
) -> Result<(), Error> {
    let count = builder.shape.len();
    let weights = builder.weights("weight", vec![count], Fan { inputs: 1, outputs: 1 })?;
    let bias = if config.bias { builder.bias("bias", count) } else { 0..0 };
    builder.push_with(Op::Weigh, builder.shape, weights, bias, 0..0);
    builder.activate();
    Ok(())
}
