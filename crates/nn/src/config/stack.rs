//! Networks that are known by a name: each stands for a list of layers.

use serde::Deserialize;
use serde_json::Value;

use super::wording::{explain, nearest};
use super::{AutoEncoder, Hidden, LayerConfig, Output, Rbm, Visible};
use crate::{Activation, Error, Loss};

/// A deep belief net (Hinton, Osindero and Teh 2006): Boltzmann machines on top of each other, and an output.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeepBeliefNet {
    /// Hidden units of each machine, first to last.
    pub hidden: Vec<usize>,
    /// Outputs at the end; without them it is only pretrained.
    #[serde(default)]
    pub outputs: Option<usize>,
    /// What goes in.
    #[serde(default)]
    pub visible: Visible,
    /// What the hidden units are.
    #[serde(default)]
    pub units: Hidden,
    /// Steps of sampling.
    #[serde(default = "one")]
    pub k: usize,
}

/// Denoising autoencoders on top of each other (Vincent et al. 2010), and an output.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StackedAutoEncoder {
    /// Hidden units of each autoencoder, first to last.
    pub hidden: Vec<usize>,
    /// Outputs at the end; without them it is only pretrained.
    #[serde(default)]
    pub outputs: Option<usize>,
    /// Probability that a number that goes in is set to 0 in pretraining.
    #[serde(default = "third")]
    pub corruption: f32,
}

fn one() -> usize {
    1
}

fn third() -> f32 {
    0.3
}

/// The names of networks, as in files.
const NAMES: [&str; 2] = ["dbn", "sda"];

impl DeepBeliefNet {
    /// Binary units in layers of these sizes.
    pub fn new(hidden: impl Into<Vec<usize>>) -> Self {
        let (visible, units) = (Visible::default(), Hidden::default());
        Self { hidden: hidden.into(), outputs: None, visible, units, k: one() }
    }

    /// So many outputs at the end.
    #[must_use]
    pub fn outputs(mut self, outputs: usize) -> Self {
        self.outputs = Some(outputs);
        self
    }

    /// What goes in.
    #[must_use]
    pub fn visible(mut self, visible: Visible) -> Self {
        self.visible = visible;
        self
    }

    /// The layers that it stands for.
    pub fn layers(&self) -> Vec<LayerConfig> {
        let shown_as = |below: Option<Hidden>| match below {
            None => self.visible,
            Some(Hidden::Binary) => Visible::Binary,
            Some(Hidden::Rectified) => Visible::Linear,
            Some(Hidden::Gaussian) => Visible::Gaussian,
            Some(Hidden::Softmax) => Visible::Softmax,
        };
        let machine = |(at, units): (usize, &usize)| {
            let visible = shown_as((at > 0).then_some(self.units));
            Rbm::new(*units).visible(visible).hidden(self.units).k(self.k).into()
        };
        let machines = self.hidden.iter().enumerate().map(machine);
        machines.chain(self.outputs.map(|outputs| Output::by_task(outputs).into())).collect()
    }
}

impl StackedAutoEncoder {
    /// Layers of these sizes, which see seven tenths of what goes in.
    pub fn new(hidden: impl Into<Vec<usize>>) -> Self {
        Self { hidden: hidden.into(), outputs: None, corruption: third() }
    }

    /// So many outputs at the end.
    #[must_use]
    pub fn outputs(mut self, outputs: usize) -> Self {
        self.outputs = Some(outputs);
        self
    }

    /// Probability that a number that goes in is set to 0 in pretraining.
    #[must_use]
    pub fn corruption(mut self, corruption: f32) -> Self {
        self.corruption = corruption;
        self
    }

    /// The layers that it stands for: sigmoids, judged by what is lost of chances.
    pub fn layers(&self) -> Vec<LayerConfig> {
        let encoder = |units: &usize| {
            let layer = AutoEncoder::new(*units).corruption(self.corruption).loss(Loss::BinaryCrossEntropy);
            layer.activation(Activation::Sigmoid).into()
        };
        let encoders = self.hidden.iter().map(encoder);
        encoders.chain(self.outputs.map(|outputs| Output::by_task(outputs).into())).collect()
    }
}

/// The layers of a network that a file names, as in `{ dbn = { hidden = [1000, 500, 250], outputs = 10 } }`.
pub(super) fn spelt_out(layers: &Value) -> Result<Option<Vec<LayerConfig>>, Error> {
    let Value::Object(table) = layers else { return Ok(None) };
    let wrong = |message: String| Error::Config { path: "layers".into(), message };
    let (name, settings) = match table.iter().collect::<Vec<_>>()[..] {
        [(name, settings)] => (name, settings.clone()),
        _ => {
            return Err(wrong(format!("expected a list of layers, or one of {}, with its settings", NAMES.join(", "))));
        }
    };
    let layers = match name.as_str() {
        "dbn" => serde_json::from_value(settings).map(|net: DeepBeliefNet| net.layers()),
        "sda" => serde_json::from_value(settings).map(|net: StackedAutoEncoder| net.layers()),
        _ => {
            let hint = nearest(name, NAMES);
            let known = || format!("expected a list, or one of {}", NAMES.join(", "));
            let hint = hint.map_or_else(known, |near| format!("did you mean `{near}`?"));
            return Err(wrong(format!("there is no such kind of network as `{name}`; {hint}")));
        }
    };
    let layers = layers.map_err(|error| wrong(format!("in `{name}`: {}", explain(&error.to_string(), &[]))))?;
    Ok(Some(layers))
}
