use super::Builder;
use crate::Error;
use crate::config::ActivationLayer;

pub(super) fn build(config: &ActivationLayer, builder: &mut Builder<'_>) -> Result<(), Error> {
    match config.function {
        Some(function) => builder.activate_with(function),
        None => builder.activate(),
    }
    Ok(())
}
