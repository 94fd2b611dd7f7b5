use super::Builder;
use crate::config::ActivationLayer;
use crate::{Activation, Error};

pub(super) fn build(config: &ActivationLayer, builder: &mut Builder<'_>) -> Result<(), Error> {
    if let Some(problem) = config.function.and_then(Activation::problem) {
        return Err(builder.wrong(problem));
    }
    match config.function {
        Some(function) => builder.activate_with(function),
        None => builder.activate(),
    }
    Ok(())
}
