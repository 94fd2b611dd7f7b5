use super::Builder;
use crate::config::LossLayer;
use crate::{Error, Registry};

pub(super) fn build(config: &LossLayer, registry: &Registry, builder: &mut Builder<'_>) -> Result<(), Error> {
    builder.activate();
    builder.end_with(&config.loss, config.loss_weight, config.label_smoothing, registry)
}
