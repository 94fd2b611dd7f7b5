//! Networks that are known by a name: each stands for a list of layers.

use serde::Deserialize;
use serde_json::Value;

use super::network::ONLY_INPUT;
use super::wording::{explain, nearest};
use super::{
    ActivationLayer, AutoEncoder, ConvolutionalRbm, Decoder, GaussianNoise, Hidden, LayerConfig, Output, Rbm,
    Reconstruction, Sparsity, Visible,
};
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

/// A convolutional deep belief net (Lee et al. 2009): Boltzmann machines over images on top of each other, and an output.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConvolutionalDeepBeliefNet {
    /// Filters of each machine, first to last.
    pub filters: Vec<usize>,
    /// Rows and columns of the filters of each.
    pub kernels: Vec<[usize; 2]>,
    /// Rows and columns of a block of hidden units, of which at most one is on.
    #[serde(default = "two")]
    pub pool: [usize; 2],
    /// Hidden units of machines above them that see everything, first to last.
    #[serde(default)]
    pub hidden: Vec<usize>,
    /// Outputs at the end; without them it is only pretrained.
    #[serde(default)]
    pub outputs: Option<usize>,
    /// What goes in.
    #[serde(default)]
    pub visible: Visible,
    /// Steps of sampling.
    #[serde(default = "one")]
    pub k: usize,
    /// How often units of the machines over images shall be on; as often as it comes if not set.
    #[serde(default)]
    pub sparsity: Option<Sparsity>,
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

/// Codes of a few bits for what goes in, alike for what is alike (Salakhutdinov and Hinton 2007): Boltzmann machines on top of each
/// other, and the way back through the same weights. Noise drives the units of the code to one of both ends.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SemanticHashing {
    /// Hidden units of each machine below the code, first to last.
    pub hidden: Vec<usize>,
    /// Units of the code.
    pub code: usize,
    /// Deviation of the normal numbers that are added to what the units of the code are given, while all learns.
    #[serde(default = "four")]
    pub noise: f32,
    /// Steps of sampling.
    #[serde(default = "one")]
    pub k: usize,
}

impl SemanticHashing {
    /// A code of so many units above layers of these sizes.
    pub fn new(hidden: impl Into<Vec<usize>>, code: usize) -> Self {
        Self { hidden: hidden.into(), code, noise: four(), k: one() }
    }

    /// Deviation of what is added to what the units of the code are given.
    #[must_use]
    pub fn noise(mut self, noise: f32) -> Self {
        self.noise = noise;
        self
    }

    /// The layers that it stands for; the one before the first `decoder` gives the code.
    pub fn layers(&self) -> Vec<LayerConfig> {
        let machine = |units: usize| Rbm::new(units).k(self.k);
        let mut layers: Vec<LayerConfig> = self.hidden.iter().map(|units| machine(*units).into()).collect();
        let code = layers.len();
        layers.push(machine(self.code).activation(Activation::Identity).into());
        layers.push(GaussianNoise::new(self.noise).into());
        layers.push(ActivationLayer::new(Activation::Sigmoid).into());
        for of in (0..=code).rev() {
            layers.push(Decoder::new(of.to_string()).activation(Activation::Sigmoid).into());
        }
        let given_back = (layers.len() - 1).to_string();
        layers.push(Reconstruction::new(Loss::BinaryCrossEntropy).after([&given_back[..], ONLY_INPUT]).into());
        layers
    }
}

fn four() -> f32 {
    4.0
}

fn one() -> usize {
    1
}

fn two() -> [usize; 2] {
    [2, 2]
}

fn third() -> f32 {
    0.3
}

/// The names of networks, as in files.
const NAMES: [&str; 4] = ["dbn", "cdbn", "sda", "semantic_hashing"];

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

impl ConvolutionalDeepBeliefNet {
    /// Machines with so many filters of so many rows and columns each, and blocks of 2×2.
    pub fn new(machines: impl IntoIterator<Item = (usize, [usize; 2])>) -> Self {
        let (filters, kernels) = machines.into_iter().unzip();
        Self {
            filters,
            kernels,
            pool: two(),
            hidden: Vec::new(),
            outputs: None,
            visible: Visible::default(),
            k: one(),
            sparsity: None,
        }
    }

    /// Hidden units of machines above them that see everything.
    #[must_use]
    pub fn hidden(mut self, hidden: impl Into<Vec<usize>>) -> Self {
        self.hidden = hidden.into();
        self
    }

    /// So many outputs at the end.
    #[must_use]
    pub fn outputs(mut self, outputs: usize) -> Self {
        self.outputs = Some(outputs);
        self
    }

    /// How often units of the machines over images shall be on.
    #[must_use]
    pub fn sparsity(mut self, sparsity: Sparsity) -> Self {
        self.sparsity = Some(sparsity);
        self
    }

    /// The layers that it stands for.
    pub fn layers(&self) -> Vec<LayerConfig> {
        let machine = |(at, (filters, kernel)): (usize, (&usize, &[usize; 2]))| {
            let visible = if at == 0 { self.visible } else { Visible::Binary };
            let machine = ConvolutionalRbm { sparsity: self.sparsity, ..ConvolutionalRbm::new(*filters, *kernel) };
            machine.pool(self.pool).visible(visible).k(self.k).into()
        };
        let over_images = self.filters.iter().zip(&self.kernels).enumerate().map(machine);
        let above = self.hidden.iter().map(|units| Rbm::new(*units).k(self.k).into());
        over_images.chain(above).chain(self.outputs.map(|outputs| Output::by_task(outputs).into())).collect()
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
    if let Some([filters, kernels]) = unlike_lengths(&settings) {
        return Err(wrong(format!(
            "in `{name}`: expected a kernel for each of its {filters} `filters`, found {kernels}"
        )));
    }
    let layers = match name.as_str() {
        "dbn" => serde_json::from_value(settings).map(|net: DeepBeliefNet| net.layers()),
        "cdbn" => serde_json::from_value(settings).map(|net: ConvolutionalDeepBeliefNet| net.layers()),
        "sda" => serde_json::from_value(settings).map(|net: StackedAutoEncoder| net.layers()),
        "semantic_hashing" => serde_json::from_value(settings).map(|net: SemanticHashing| net.layers()),
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

/// How many filters and kernels there are, if a file gives another number of these than of those.
fn unlike_lengths(settings: &Value) -> Option<[usize; 2]> {
    let [filters, kernels] =
        ["filters", "kernels"].map(|key| settings.get(key).and_then(Value::as_array).map(Vec::len));
    filters.zip(kernels).filter(|(filters, kernels)| filters != kernels).map(|(filters, kernels)| [filters, kernels])
}
