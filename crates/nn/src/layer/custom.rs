use super::Builder;
use crate::config::CustomConfig;
use crate::node::Op;
use crate::{Error, Registry};

pub(super) fn build(config: &CustomConfig, registry: &Registry, builder: &mut Builder<'_>) -> Result<(), Error> {
    let layer = match &config.made {
        Some(layer) => layer.clone(),
        None => match registry.make_layer(&config.name, &config.options) {
            Some(made) => made.map_err(|message| builder.wrong(message))?,
            None => return Err(builder.unregistered("layer", &config.name, registry.layer_names())),
        },
    };
    let output = layer.output(builder.shape).map_err(|message| builder.wrong(message))?;
    let mut span: Option<std::ops::Range<usize>> = None;
    for parameter in layer.parameters(builder.shape) {
        let range = match parameter.fan {
            Some(fan) => builder.weights(&parameter.name, parameter.shape, fan)?,
            None => builder.bias(&parameter.name, parameter.shape.iter().product()),
        };
        span = Some(span.map_or(range.clone(), |s| s.start..range.end));
    }
    builder.push_with(Op::Custom(layer), output, span.unwrap_or(0..0), 0..0, 0..0);
    builder.activate();
    Ok(())
}
