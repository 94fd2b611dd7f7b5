//! Every activation, as a part of a dense layer and as a layer over images.

use paceline_nn::config::LayerConfig;
use paceline_nn::{Activation, Network};

use super::case::agree_with_pytorch;

/// What PyTorch does not have, or has by another formula: its hard sigmoid is x/6 + 1/2.
const OURS_ALONE: [Activation; 4] =
    [Activation::Cube, Activation::HardSigmoid, Activation::RationalTanh, Activation::RectifiedTanh];

#[test]
fn activations_agree_with_pytorch() {
    let networks = agree_with_pytorch("activations.json");
    for activation in Activation::ALL {
        let compared = networks.iter().any(|network| uses(network, activation));
        assert_ne!(
            compared,
            OURS_ALONE.contains(&activation),
            "{activation:?} is compared with PyTorch's if it has one"
        );
    }
}

/// Whether the first layer has this activation, or it is a layer of its own.
fn uses(network: &Network, activation: Activation) -> bool {
    network.config().layers.iter().any(|layer| match layer {
        LayerConfig::Dense(dense) => dense.settings.activation == Some(activation),
        LayerConfig::Activation(layer) => layer.function == Some(activation),
        _ => false,
    })
}
