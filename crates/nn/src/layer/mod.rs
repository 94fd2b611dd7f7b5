//! From configuration to operations: one file per kind of layer, each with a `build` that checks the shape, asks for
//! parameters and pushes its operations.

mod activation;
mod batch_norm;
mod builder;
mod conv2d;
mod custom;
mod dense;
mod dropout;
mod global_pooling;
mod local_response_normalisation;
mod loss;
mod output;
mod subsampling;
mod zero_padding;

use builder::Builder;

use crate::config::{LayerConfig, NetworkConfig};
use crate::{Error, Network, Registry};

/// Infers all shapes and lowers all layers.
pub(crate) fn build(config: NetworkConfig, registry: &Registry) -> Result<Network, Error> {
    if config.layers.is_empty() {
        return Err(Error::Incomplete("at least one layer"));
    }
    let mut builder = Builder::new(&config)?;
    for (index, layer) in config.layers.iter().enumerate() {
        builder.begin(index, layer)?;
        match layer {
            LayerConfig::Dense(layer) => dense::build(layer, &mut builder)?,
            LayerConfig::Conv2d(layer) => conv2d::build(layer, &mut builder)?,
            LayerConfig::Subsampling(layer) => subsampling::build(layer, &mut builder)?,
            LayerConfig::BatchNorm(layer) => batch_norm::build(layer, &mut builder)?,
            LayerConfig::Dropout(layer) => dropout::build(layer, &mut builder)?,
            LayerConfig::Activation(layer) => activation::build(layer, &mut builder)?,
            LayerConfig::GlobalPooling(layer) => global_pooling::build(layer, &mut builder)?,
            LayerConfig::LocalResponseNormalisation(layer) => {
                local_response_normalisation::build(layer, &mut builder)?;
            }
            LayerConfig::ZeroPadding(layer) => zero_padding::build(layer, &mut builder)?,
            LayerConfig::Output(layer) => output::build(layer, registry, &mut builder)?,
            LayerConfig::Loss(layer) => loss::build(layer, registry, &mut builder)?,
            LayerConfig::Custom(layer) => custom::build(layer, registry, &mut builder)?,
        }
        builder.end()?;
    }
    builder.finish(config.clone())
}
