use super::Builder;
use crate::config::Output;
use crate::{Error, Loss, Registry};

pub(super) fn build(config: &Output, registry: &Registry, builder: &mut Builder<'_>) -> Result<(), Error> {
    super::dense::weigh(config.units, config.bias, builder)?;
    builder.activate();
    builder.end_with(config.loss.as_ref().unwrap_or(&Loss::CrossEntropy), config.loss_weight, registry)
}
