//! The way back through layers that work in both directions.

use super::Builder;
use crate::config::{Decoder, Reconstruction};
use crate::node::Op;
use crate::{Activation, Error, Registry, Shape};

pub(super) fn build(config: &Decoder, builder: &mut Builder<'_>) -> Result<(), Error> {
    let of = &config.of;
    let Some(([weights, visible_bias], visible)) = builder.parameters_of(of, ["weight", "visible_bias"]) else {
        return Err(builder.wrong(format!(
            "`of = \"{of}\"` must name an `rbm` or an `autoencoder` before it; layers without a name are known by their index"
        )));
    };
    let (inputs, outputs) = (weights.len() / visible_bias.len(), visible.len());
    if visible_bias.len() != outputs {
        return Err(builder.wrong(format!("`of = \"{of}\"` must name a layer whose units see everything")));
    }
    if builder.shape.steps().is_some() || builder.shape.len() != inputs {
        return Err(builder.misfit(format!("the {inputs} numbers that come out of layer `{of}`")));
    }
    builder.learn_visible_bias(&visible_bias);
    builder.push_with(Op::TiedDense { inputs, outputs }, Shape::Flat(outputs), weights, 0..0, 0..0);
    builder.push_with(Op::AddBias, Shape::Flat(outputs), 0..0, visible_bias, 0..0);
    builder.activate_or(Activation::Sigmoid);
    Ok(())
}

/// The first of two values is held against the second.
pub(super) fn judge(config: &Reconstruction, registry: &Registry, builder: &mut Builder<'_>) -> Result<(), Error> {
    let (operands, shapes) = (builder.operands(), builder.shapes());
    let ([given_back, original], [first, second]) = (&operands[..], &shapes[..]) else {
        return Err(builder
            .wrong("`after` must name two values: the reconstruction, and the value that it is compared with".into()));
    };
    if first.len() != second.len() || first.steps() != second.steps() {
        let [one, other] = [0, 1].map(|operand| builder.operand_name(operand));
        return Err(
            builder.wrong(format!("`{one}` gives {first}, and `{other}` has {second}: expected as many numbers"))
        );
    }
    builder.continue_from(*given_back);
    builder.activate();
    builder.judge_against(*original, &config.loss, config.loss_weight, registry)
}
