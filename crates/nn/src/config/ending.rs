//! What a network ends with: an activation and a loss that belong together.
//!
//! Whoever states neither gets what suits the task, whoever states one gets the other by it, and a pair that makes no sense is
//! refused with the one that was probably meant.

use super::{
    ActivationLayer, AutoEncoder, BatchNorm, Conv2d, Conv2dTransposed, Decoder, Dense, DepthwiseConv2d,
    ElementWiseMultiplication, LayerConfig, LossLayer, NetworkConfig, Output, Rbm, Reconstruction, SeparableConv2d,
    Settings,
};
use crate::{Activation, Error, Loss};

/// Which of both was not stated, but follows from the other, or from targets that are taken to be classes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Assumed {
    pub activation: bool,
    pub loss: bool,
}

impl NetworkConfig {
    /// With all ends stated in full, unless one makes no sense; and what was assumed of each, by layer.
    pub(crate) fn settled(mut self) -> Result<(Self, Vec<Assumed>), Error> {
        let mut assumed = vec![Assumed::default(); self.layers.len()];
        for (index, assumed) in assumed.iter_mut().enumerate() {
            let before = self.before(index).and_then(|layer| own_activation(layer, &self));
            let refuse = |kind: &str, message: String| Err(Error::Layer { index, kind: kind.into(), message });
            match &mut self.layers[index] {
                LayerConfig::Output(output) => {
                    *assumed = output.settle();
                    if let Some(problem) = misfit(output.activation_of(), output.loss.as_ref(), Some(output.units)) {
                        return refuse("output", problem);
                    }
                }
                // Both compare values as they come, unless they have an activation.
                LayerConfig::Loss(LossLayer { loss, settings, .. })
                | LayerConfig::Reconstruction(Reconstruction { loss, settings, .. }) => {
                    let own = *settings.activation.get_or_insert_default();
                    let shown = if own == Activation::Identity { before } else { Some(own) };
                    if let Some(problem) = shown.and_then(|activation| misfit(activation, Some(loss), None)) {
                        return refuse(self.layers[index].kind(), problem);
                    }
                }
                _ => {}
            }
        }
        Ok((self, assumed))
    }

    /// The layer whose output an end compares: the one that it comes after, or the first of the two of a reconstruction.
    fn before(&self, index: usize) -> Option<&LayerConfig> {
        let is_reconstruction = matches!(self.layers[index], LayerConfig::Reconstruction(_));
        match self.layers[index].settings().after.as_deref() {
            None => self.layers.get(index.checked_sub(1)?),
            Some([name, others @ ..]) if others.is_empty() || is_reconstruction => {
                let named = |(at, layer): &(usize, &LayerConfig)| match &layer.settings().name {
                    Some(own) => own == name,
                    None => at.to_string() == *name,
                };
                self.layers.iter().enumerate().find(named).map(|(_, layer)| layer)
            }
            Some(_) => None,
        }
    }

    /// With the end as models were saved with it before it was always stated in full: then the network's activation, or none.
    pub(crate) fn settled_as_saved(mut self) -> Self {
        let activation = self.defaults.activation.unwrap_or_default();
        for layer in &mut self.layers {
            match layer {
                LayerConfig::Output(Output { settings, loss, .. }) => {
                    settings.activation.get_or_insert(activation);
                    loss.get_or_insert_default();
                }
                LayerConfig::Loss(layer) => {
                    layer.settings.activation.get_or_insert(activation);
                }
                _ => {}
            }
        }
        self
    }

    /// With an output judged by the mean squared error where no loss was stated, as suits targets that are numbers.
    pub(crate) fn settle_for_values(&mut self, layer: usize, assumed: Assumed) {
        if let LayerConfig::Output(Output { settings, loss, .. }) = &mut self.layers[layer] {
            *loss = Some(Loss::Mse);
            if assumed.activation {
                settings.activation = Some(Activation::Identity);
            }
        }
    }
}

impl Output {
    fn settle(&mut self) -> Assumed {
        let assumed = Assumed { activation: self.settings.activation.is_none(), loss: self.loss.is_none() };
        let (activation, loss) = match (self.settings.activation, self.loss.take()) {
            (Some(activation), Some(loss)) => (activation, loss),
            (Some(activation), None) => (activation, loss_after(activation)),
            (None, Some(loss)) => (activation_before(&loss), loss),
            (None, None) if self.units == 1 => (Activation::Sigmoid, Loss::BinaryCrossEntropy),
            (None, None) => (Activation::Softmax, Loss::CrossEntropy),
        };
        (self.settings.activation, self.loss) = (Some(activation), Some(loss));
        assumed
    }

    fn activation_of(&self) -> Activation {
        self.settings.activation.unwrap_or_default()
    }
}

/// What comes out of a layer that has an activation of its own; nothing where that cannot be told.
fn own_activation(layer: &LayerConfig, network: &NetworkConfig) -> Option<Activation> {
    let of = |settings: &Settings| settings.activation.or(network.defaults.activation).unwrap_or_default();
    match layer {
        LayerConfig::Dense(Dense { settings, .. })
        | LayerConfig::Conv2d(Conv2d { settings, .. })
        | LayerConfig::DepthwiseConv2d(DepthwiseConv2d { settings, .. })
        | LayerConfig::SeparableConv2d(SeparableConv2d { settings, .. })
        | LayerConfig::Conv2dTransposed(Conv2dTransposed { settings, .. })
        | LayerConfig::ElementWiseMultiplication(ElementWiseMultiplication { settings, .. })
        | LayerConfig::AutoEncoder(AutoEncoder { settings, .. })
        | LayerConfig::BatchNorm(BatchNorm { settings, .. }) => Some(of(settings)),
        LayerConfig::Rbm(Rbm { settings, hidden, .. }) => {
            Some(settings.activation.or(network.defaults.activation).unwrap_or(hidden.mean()))
        }
        LayerConfig::Decoder(Decoder { settings, .. }) => {
            Some(settings.activation.or(network.defaults.activation).unwrap_or(Activation::Sigmoid))
        }
        LayerConfig::Activation(ActivationLayer { function, settings }) => {
            Some(function.unwrap_or_else(|| of(settings)))
        }
        _ => None,
    }
}

/// The loss that is meant when only the activation is stated.
fn loss_after(activation: Activation) -> Loss {
    match activation {
        Activation::Softmax => Loss::CrossEntropy,
        Activation::Sigmoid => Loss::BinaryCrossEntropy,
        _ => Loss::Mse,
    }
}

/// The activation that is meant when only the loss is stated.
pub(crate) fn activation_before(loss: &Loss) -> Activation {
    match loss {
        Loss::CrossEntropy | Loss::SparseCrossEntropy | Loss::KlDivergence => Activation::Softmax,
        Loss::BinaryCrossEntropy => Activation::Sigmoid,
        Loss::Poisson => Activation::Softplus,
        _ => Activation::Identity,
    }
}

/// What an activation gives.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Range {
    /// Shares of a whole.
    Shares,
    /// Numbers from 0 to 1.
    Between0And1,
    /// Numbers of 0 or more.
    Positive,
    /// Numbers of either sign.
    Any,
}

fn range(activation: Activation) -> Range {
    match activation {
        Activation::Softmax => Range::Shares,
        Activation::Sigmoid | Activation::HardSigmoid => Range::Between0And1,
        Activation::Relu | Activation::Relu6 | Activation::Softplus | Activation::RectifiedTanh => Range::Positive,
        _ => Range::Any,
    }
}

/// Whether what comes out of an activation can be read as probabilities.
pub(crate) fn gives_probabilities(activation: Activation) -> bool {
    matches!(range(activation), Range::Shares | Range::Between0And1)
}

/// Why an activation and a loss make no sense together, if they do not.
fn misfit(activation: Activation, loss: Option<&Loss>, units: Option<usize>) -> Option<String> {
    let range = range(activation);
    let (wanted, instead) = match loss? {
        _ if units == Some(1) && range == Range::Shares => {
            return Some(
                "a softmax over one output is always 1; expected `activation = \"sigmoid\"` with \
                 `loss = \"binary_cross_entropy\"` for two classes, or two outputs"
                    .into(),
            );
        }
        Loss::CrossEntropy | Loss::SparseCrossEntropy if range != Range::Shares => {
            let instead = if range == Range::Between0And1 {
                "`activation = \"softmax\"`, or `loss = \"binary_cross_entropy\"`"
            } else {
                "`activation = \"softmax\"`"
            };
            ("outputs that sum to 1", instead)
        }
        Loss::BinaryCrossEntropy if matches!(range, Range::Positive | Range::Any) => {
            ("outputs between 0 and 1", "`activation = \"sigmoid\"`")
        }
        Loss::KlDivergence if range == Range::Any => ("outputs that are not negative", "`activation = \"softmax\"`"),
        Loss::Poisson if range == Range::Any => ("outputs that are not negative", "`activation = \"softplus\"`"),
        Loss::Hinge | Loss::SquaredHinge | Loss::MixtureDensity { .. } if range != Range::Any => {
            ("outputs of either sign", "`activation = \"identity\"`")
        }
        _ => return None,
    };
    let [loss, activation] = [serde_json::to_value(loss), serde_json::to_value(activation)].map(shown);
    Some(format!("`loss = {loss}` needs {wanted}, which `activation = {activation}` does not give; expected {instead}"))
}

/// As a file has it: the name, without its settings.
fn shown(value: Result<serde_json::Value, serde_json::Error>) -> String {
    let value = value.unwrap_or_default();
    let name = value.as_object().and_then(|table| table.keys().next().cloned());
    name.map_or_else(|| value.to_string(), |name| format!("\"{name}\""))
}

#[cfg(test)]
mod tests {
    use crate::config::{Dense, Dropout, LossLayer, NetworkConfig, Output};
    use crate::{Activation, Loss, Network};

    fn of(output: &str) -> Result<Network, String> {
        let json =
            format!(r#"{{"input": {{"feed_forward": 3}}, "activation": "relu", "layers": [{{"output": {output}}}]}}"#);
        let config = NetworkConfig::from_json(&json).map_err(|error| error.to_string())?;
        Network::new(config).map_err(|error| error.to_string())
    }

    /// The end as it is written down.
    fn end(network: &Network) -> (Activation, Loss) {
        let layer = network.config().layers.last().expect("a layer");
        (layer.settings().activation.expect("stated"), network.loss().clone())
    }

    #[test]
    fn an_end_that_is_not_stated_follows_the_task() {
        let cases = [
            (r#"{"units": 3}"#, Activation::Softmax, Loss::CrossEntropy),
            (r#"{"units": 1}"#, Activation::Sigmoid, Loss::BinaryCrossEntropy),
            (r#"{"units": 3, "loss": "mse"}"#, Activation::Identity, Loss::Mse),
            (r#"{"units": 3, "loss": "poisson"}"#, Activation::Softplus, Loss::Poisson),
            (r#"{"units": 3, "activation": "sigmoid"}"#, Activation::Sigmoid, Loss::BinaryCrossEntropy),
            (r#"{"units": 3, "activation": "tanh"}"#, Activation::Tanh, Loss::Mse),
        ];
        for (output, activation, loss) in cases {
            let network = of(output).unwrap_or_else(|error| panic!("{output}: {error}"));
            assert_eq!(end(&network), (activation, loss), "{output}");
            // What is written down says all, so that a file means the same ever after.
            let again = Network::new(NetworkConfig::from_json(&network.config().to_json()).expect("readable"));
            assert_eq!(end(&again.expect("a network")), end(&network), "{output}");
        }
    }

    #[test]
    fn numbers_are_judged_by_their_squared_error_unless_a_loss_is_stated() {
        let for_values = |output: &str| {
            let network = of(output).expect("a network").for_values();
            assert_eq!(network.loss(), &end(&network).1);
            end(&network)
        };
        assert_eq!(for_values(r#"{"units": 2}"#), (Activation::Identity, Loss::Mse));
        assert_eq!(for_values(r#"{"units": 1, "activation": "sigmoid"}"#), (Activation::Sigmoid, Loss::Mse));
        assert_eq!(for_values(r#"{"units": 1, "loss": "mae"}"#), (Activation::Identity, Loss::Mae));
        let softmax = for_values(r#"{"units": 2, "loss": "cross_entropy"}"#);
        assert_eq!(softmax, (Activation::Softmax, Loss::CrossEntropy), "shares of a whole are numbers, too");
        let outputs = of(r#"{"units": 2}"#).expect("a network").for_values();
        assert!(!outputs.gives_probabilities());
    }

    #[test]
    fn pairs_that_make_no_sense_are_refused_with_what_was_meant() {
        let cases = [
            (r#"{"units": 3, "activation": "identity", "loss": "cross_entropy"}"#, r#"`activation = "softmax"`"#),
            (r#"{"units": 3, "activation": "sigmoid", "loss": "mcxent"}"#, r#"`loss = "binary_cross_entropy"`"#),
            (r#"{"units": 3, "activation": "tanh", "loss": "xent"}"#, r#"`activation = "sigmoid"`"#),
            (r#"{"units": 1, "activation": "softmax"}"#, "always 1"),
            (r#"{"units": 1, "loss": "cross_entropy"}"#, "always 1"),
            (r#"{"units": 2, "activation": "identity", "loss": "poisson"}"#, r#"`activation = "softplus"`"#),
            (r#"{"units": 2, "activation": {"leaky_relu": {}}, "loss": "kld"}"#, r#""leaky_relu""#),
            (r#"{"units": 2, "activation": "softmax", "loss": "hinge"}"#, r#"`activation = "identity"`"#),
            (
                r#"{"units": 6, "activation": "softmax", "loss": {"mixture_density": {"gaussians": 2}}}"#,
                r#"`activation = "identity"`"#,
            ),
        ];
        for (output, part) in cases {
            let error = of(output).expect_err(output);
            assert!(error.starts_with("layer 0 (output): ") && error.contains(part), "{output}: {error}");
        }
    }

    #[test]
    fn a_loss_layer_takes_what_comes_in_if_that_can_be_right() {
        let with = |layer: Dense| NetworkConfig::feed_forward(3).layer(layer);
        let softmax = || Dense::new(2).activation(Activation::Softmax);
        let judged = LossLayer::new(Loss::CrossEntropy);
        assert!(Network::new(with(softmax()).layer(judged.clone())).is_ok());
        assert!(Network::new(with(softmax()).layer(Dropout::new(0.1)).layer(judged.clone())).is_ok());
        let error = Network::new(with(Dense::new(2)).layer(judged.clone())).expect_err("sums of any size").to_string();
        assert!(error.starts_with("layer 1 (loss): ") && error.contains("softmax"), "{error}");
        assert!(Network::new(with(Dense::new(2)).layer(judged.activation(Activation::Softmax))).is_ok());
    }

    #[test]
    fn a_saved_network_means_what_it_meant() {
        let config = NetworkConfig::feed_forward(3).activation(Activation::Tanh).layer(Output::new(2, Loss::Mse));
        let end = config.settled_as_saved().layers[0].settings().activation;
        assert_eq!(end, Some(Activation::Tanh));
    }
}
