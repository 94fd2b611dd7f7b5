//! From configuration to operations: one file per kind of layer, each with a `build` that checks the shape, asks for
//! parameters and pushes its operations.

mod activation;
mod attention;
mod augment;
mod batch_norm;
mod builder;
mod capsules;
mod conv2d;
mod custom;
mod decoder;
mod dense;
mod dropout;
mod global_pooling;
mod joining;
mod local;
mod local_response_normalisation;
mod loss;
mod noise;
mod objects;
mod output;
mod own_weights;
mod pretrained;
mod recurrent;
mod resizing;
mod sequence;
mod subsampling;
mod volume;
mod wiring;
mod zero_padding;

use builder::Builder;

use crate::config::{LayerConfig, NetworkConfig};
use crate::node::Noise;
use crate::{Error, Network, Registry};

/// Infers all shapes and lowers all layers.
pub(crate) fn build(config: NetworkConfig, registry: &Registry) -> Result<Network, Error> {
    if config.layers.is_empty() {
        return Err(Error::Incomplete("at least one layer"));
    }
    if let Some(index) = config.pretrains {
        let Some(layer) = config.layers.get(index) else {
            let message = format!("expected one of its {} layers, found {index}", config.layers.len());
            return Err(Error::Config { path: "pretrains".into(), message });
        };
        if !layer.can_be_pretrained() {
            let message = "it cannot learn from what goes into it alone, as `rbm`, `convolutional_rbm`, `autoencoder` and `vae` can".into();
            return Err(Error::Layer { index, kind: layer.kind().into(), message });
        }
    }
    let mut builder = Builder::new(&config)?;
    for (index, reads) in wiring::wire(&config)? {
        let layer = &config.layers[index];
        builder.begin(index, &reads)?;
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
            LayerConfig::Merge(_) => joining::merge(&mut builder)?,
            LayerConfig::ElementWise(layer) => joining::element_wise(layer, &mut builder)?,
            LayerConfig::Subset(layer) => joining::subset(layer, &mut builder)?,
            LayerConfig::Stack(_) => joining::stack(&mut builder)?,
            LayerConfig::Unstack(layer) => joining::unstack(layer, &mut builder)?,
            LayerConfig::Scale(layer) => joining::linear(layer.factor, 0.0, &mut builder)?,
            LayerConfig::Shift(layer) => joining::linear(1.0, layer.value, &mut builder)?,
            LayerConfig::L2Normalise(layer) => joining::l2_normalise(layer, &mut builder)?,
            LayerConfig::L2Distance(layer) => joining::l2_distance(layer, &mut builder)?,
            LayerConfig::Reshape(layer) => joining::reshape(layer, &mut builder)?,
            LayerConfig::DepthwiseConv2d(layer) => conv2d::depthwise(layer, &mut builder)?,
            LayerConfig::SeparableConv2d(layer) => conv2d::separable(layer, &mut builder)?,
            LayerConfig::Conv2dTransposed(layer) => conv2d::transposed(layer, &mut builder)?,
            LayerConfig::SpatialDropout(layer) => noise::build(Noise::Spatial { rate: layer.rate }, &mut builder)?,
            LayerConfig::GaussianDropout(layer) => noise::build(Noise::Factor { rate: layer.rate }, &mut builder)?,
            LayerConfig::GaussianNoise(layer) => {
                noise::build(Noise::Added { deviation: layer.deviation }, &mut builder)?;
            }
            LayerConfig::AlphaDropout(layer) => noise::build(Noise::Alpha { rate: layer.rate }, &mut builder)?,
            LayerConfig::Augment(layer) => augment::build(layer, &mut builder)?,
            LayerConfig::Upsampling2d(layer) => resizing::upsampling(layer, &mut builder)?,
            LayerConfig::Cropping2d(layer) => resizing::cropping(layer, &mut builder)?,
            LayerConfig::SpaceToDepth(layer) => resizing::space_to_depth(layer, &mut builder)?,
            LayerConfig::SpaceToBatch(layer) => resizing::space_to_batch(layer, &mut builder)?,
            LayerConfig::BatchToSpace(layer) => resizing::batch_to_space(layer, &mut builder)?,
            LayerConfig::LocallyConnected2d(layer) => local::locally_connected2d(layer, &mut builder)?,
            LayerConfig::LocallyConnected1d(layer) => local::locally_connected1d(layer, &mut builder)?,
            LayerConfig::Conv3d(layer) => volume::conv3d(layer, &mut builder)?,
            LayerConfig::Subsampling3d(layer) => volume::subsampling3d(layer, &mut builder)?,
            LayerConfig::ZeroPadding3d(layer) => volume::padding(layer, &mut builder)?,
            LayerConfig::Cropping3d(layer) => volume::cropping(layer, &mut builder)?,
            LayerConfig::Upsampling3d(layer) => volume::upsampling(layer, &mut builder)?,
            LayerConfig::Rbm(layer) => pretrained::rbm(layer, registry, &mut builder)?,
            LayerConfig::ConvolutionalRbm(layer) => pretrained::convolutional_rbm(layer, registry, &mut builder)?,
            LayerConfig::AutoEncoder(layer) => pretrained::auto_encoder(layer, registry, &mut builder)?,
            LayerConfig::SimpleRnn(layer) => recurrent::simple(layer, &mut builder)?,
            LayerConfig::Lstm(layer) => recurrent::lstm(layer, &mut builder)?,
            LayerConfig::Gru(layer) => recurrent::gru(layer, &mut builder)?,
            LayerConfig::RecurrentAttention(layer) => recurrent::attending(layer, &mut builder)?,
            LayerConfig::SelfAttention(layer) => attention::to_itself(layer, &mut builder)?,
            LayerConfig::LearnedSelfAttention(layer) => attention::learned(layer, &mut builder)?,
            LayerConfig::Attention(layer) => attention::between(layer, &mut builder)?,
            LayerConfig::LastTimeStep(_) => sequence::last(&mut builder)?,
            LayerConfig::ReverseTime(_) => sequence::reverse(&mut builder)?,
            LayerConfig::RepeatVector(layer) => sequence::repeat(layer, &mut builder)?,
            LayerConfig::MaskSteps(layer) => sequence::mask(layer, &mut builder)?,
            LayerConfig::Embedding(layer) => sequence::embedding(layer, &mut builder)?,
            LayerConfig::OneHot(layer) => sequence::one_hot(layer, &mut builder)?,
            LayerConfig::LayerNorm(layer) => sequence::layer_norm(layer, &mut builder)?,
            LayerConfig::Conv1d(layer) => sequence::conv1d(layer, &mut builder)?,
            LayerConfig::Subsampling1d(layer) => sequence::subsampling1d(layer, &mut builder)?,
            LayerConfig::ZeroPadding1d(layer) => sequence::padding(layer, &mut builder)?,
            LayerConfig::Cropping1d(layer) => sequence::cropping(layer, &mut builder)?,
            LayerConfig::Upsampling1d(layer) => sequence::upsampling(layer, &mut builder)?,
            LayerConfig::Vae(layer) => pretrained::variational(layer, registry, &mut builder)?,
            LayerConfig::Decoder(layer) => decoder::build(layer, &mut builder)?,
            LayerConfig::Reconstruction(layer) => decoder::judge(layer, registry, &mut builder)?,
            LayerConfig::Yolo2Output(layer) => objects::yolo2(layer, registry, &mut builder)?,
            LayerConfig::PrimaryCapsules(layer) => capsules::primary(layer, &mut builder)?,
            LayerConfig::Capsules(layer) => capsules::route(layer, &mut builder)?,
            LayerConfig::CapsuleStrength(_) => capsules::strength(&mut builder)?,
            LayerConfig::PRelu(layer) => own_weights::prelu(layer, &mut builder)?,
            LayerConfig::ElementWiseMultiplication(layer) => {
                own_weights::element_wise_multiplication(layer, &mut builder)?;
            }
        }
        builder.end()?;
    }
    builder.finish(config.clone())
}
