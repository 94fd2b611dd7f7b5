//! Layers that learn what goes into them before they learn what it means.

use serde::{Deserialize, Serialize};

use super::super::{Settings, table};
use crate::{Activation, Loss};

/// A restricted Boltzmann machine. Pretrained by contrastive divergence (Hinton 2002); to other layers it is a dense layer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rbm {
    /// Number of hidden units.
    pub units: usize,
    /// What goes in.
    #[serde(default)]
    pub visible: Visible,
    /// What comes out.
    #[serde(default)]
    pub hidden: Hidden,
    /// Steps of sampling between the data and what is set against it.
    #[serde(default = "one")]
    pub k: usize,
    /// How often units shall be on; as often as it comes if not set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sparsity: Option<Sparsity>,
    /// What every layer may have.
    #[serde(skip)]
    pub settings: Settings,
}

/// A restricted Boltzmann machine over images (Lee et al. 2009): filters that move over them, and blocks of hidden units of which at most
/// one is on. To other layers it gives the chances that any unit of a block is on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConvolutionalRbm {
    /// Number of filters.
    pub filters: usize,
    /// Rows and columns of a filter.
    pub kernel: [usize; 2],
    /// Rows and columns of a block.
    #[serde(default = "two")]
    pub pool: [usize; 2],
    /// What goes in.
    #[serde(default)]
    pub visible: Visible,
    /// Steps of sampling between the data and what is set against it.
    #[serde(default = "one")]
    pub k: usize,
    /// How often units shall be on; as often as it comes if not set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sparsity: Option<Sparsity>,
    /// What every layer may have.
    #[serde(skip)]
    pub settings: Settings,
}

/// Units that shall be on rarely, which keeps them from all learning the same: their biases fall while they are on more often.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sparsity {
    /// How often a unit shall be on, from 0 to 1.
    pub target: f32,
    /// What it counts in the gradient of biases, beside contrastive divergence.
    #[serde(default = "whole")]
    pub cost: f32,
}

impl Sparsity {
    /// How often a unit shall be on, and what it counts beside contrastive divergence.
    pub fn new(target: f32, cost: f32) -> Self {
        Self { target, cost }
    }

    pub(crate) fn problem(self) -> Option<String> {
        let Self { target, cost } = self;
        if !(0.0..=1.0).contains(&target) {
            return Some(format!("`sparsity.target` must be from 0 to 1, found {target}"));
        }
        (!(cost >= 0.0 && cost.is_finite())).then(|| format!("`sparsity.cost` must be at least 0, found {cost}"))
    }
}

/// What the visible units of a Boltzmann machine stand for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Visible {
    /// Chances: numbers from 0 to 1.
    #[default]
    Binary,
    /// Any numbers, of variance 1 around their mean.
    Gaussian,
    /// Any numbers; the same without noise.
    Linear,
    /// The chances of classes, which sum to 1.
    Softmax,
}

/// What the hidden units of a Boltzmann machine are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Hidden {
    /// On or off.
    #[default]
    Binary,
    /// Numbers from 0 on: as many copies of a binary unit as are on (Nair and Hinton 2010).
    Rectified,
    /// Any numbers, of variance 1 around their mean.
    Gaussian,
    /// One of them is on.
    Softmax,
}

/// An autoencoder. Pretrained to give back what went in, through weights that are used in both directions; to other layers it is a
/// dense layer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AutoEncoder {
    /// Number of hidden units.
    pub units: usize,
    /// Probability that a number that goes in is set to 0 in pretraining, so that it must be told from the others (Vincent et al. 2008).
    #[serde(default)]
    pub corruption: f32,
    /// What is given back is judged by this.
    #[serde(default = "mse", deserialize_with = "table::required")]
    pub loss: Loss,
    /// What is given back goes through this; what suits the loss if it is not stated.
    #[serde(default, deserialize_with = "table::optional", skip_serializing_if = "Option::is_none")]
    pub visible_activation: Option<Activation>,
    /// What every layer may have.
    #[serde(skip)]
    pub settings: Settings,
}

/// A variational autoencoder (Kingma and Welling 2014). Pretrained to give back what went in from numbers that are drawn around what it
/// makes of it, and that shall lie as if drawn from the normal distribution; to other layers it gives their means.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Vae {
    /// Numbers that an example becomes.
    pub units: usize,
    /// Units of the layers before them.
    #[serde(default)]
    pub encoder: Vec<usize>,
    /// Units of the layers behind them.
    #[serde(default)]
    pub decoder: Vec<usize>,
    /// What is given back is judged by this.
    #[serde(default = "chances", deserialize_with = "table::required")]
    pub loss: Loss,
    /// What is given back goes through this; what suits the loss if it is not stated.
    #[serde(default, deserialize_with = "table::optional", skip_serializing_if = "Option::is_none")]
    pub visible_activation: Option<Activation>,
    /// What every layer may have; the activation is that of the encoder and the decoder.
    #[serde(skip)]
    pub settings: Settings,
}

fn chances() -> Loss {
    Loss::BinaryCrossEntropy
}

impl Vae {
    /// An example becomes so many numbers, through one layer of units on each side.
    pub fn new(units: usize, hidden: usize) -> Self {
        Self {
            units,
            encoder: vec![hidden],
            decoder: vec![hidden],
            loss: chances(),
            visible_activation: None,
            settings: Settings::default(),
        }
    }

    /// What is given back is judged by this.
    #[must_use]
    pub fn loss(mut self, loss: Loss) -> Self {
        self.loss = loss;
        self
    }
}

/// What is hidden in a layer told back by its own weights: those of an `rbm` or an `autoencoder`, the other way round.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Decoder {
    /// The name of that layer.
    pub of: String,
    /// What every layer may have; what is said of weights is said where they are.
    #[serde(skip)]
    pub settings: Settings,
}

impl Decoder {
    /// Of the layer with this name.
    pub fn new(of: impl Into<String>) -> Self {
        Self { of: of.into(), settings: Settings::default() }
    }
}

/// The end of a network that gives back what went in: the first of two values is judged by the second, and no targets are needed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reconstruction {
    /// What it is judged by.
    #[serde(default = "chances", deserialize_with = "table::required")]
    pub loss: Loss,
    /// What it counts, where a network has several ends.
    #[serde(default = "whole", skip_serializing_if = "is_whole")]
    pub loss_weight: f32,
    /// What every layer may have.
    #[serde(skip)]
    pub settings: Settings,
}

impl Reconstruction {
    /// Judged by this loss.
    pub fn new(loss: Loss) -> Self {
        Self { loss, loss_weight: 1.0, settings: Settings::default() }
    }

    /// What it counts, where a network has several ends.
    #[must_use]
    pub fn loss_weight(mut self, weight: f32) -> Self {
        self.loss_weight = weight;
        self
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
fn is_whole(value: &f32) -> bool {
    *value == 1.0
}

fn one() -> usize {
    1
}

fn two() -> [usize; 2] {
    [2, 2]
}

fn whole() -> f32 {
    1.0
}

fn mse() -> Loss {
    Loss::Mse
}

impl Rbm {
    /// Binary units on both sides, and one step of sampling.
    pub fn new(units: usize) -> Self {
        let (visible, hidden) = (Visible::default(), Hidden::default());
        Self { units, visible, hidden, k: one(), sparsity: None, settings: Settings::default() }
    }

    /// What goes in.
    #[must_use]
    pub fn visible(mut self, visible: Visible) -> Self {
        self.visible = visible;
        self
    }

    /// What comes out.
    #[must_use]
    pub fn hidden(mut self, hidden: Hidden) -> Self {
        self.hidden = hidden;
        self
    }

    /// Steps of sampling between the data and what is set against it.
    #[must_use]
    pub fn k(mut self, k: usize) -> Self {
        self.k = k;
        self
    }

    /// How often units shall be on.
    #[must_use]
    pub fn sparsity(mut self, sparsity: Sparsity) -> Self {
        self.sparsity = Some(sparsity);
        self
    }
}

impl ConvolutionalRbm {
    /// Filters of so many rows and columns over binary pixels, in blocks of 2×2, with one step of sampling.
    pub fn new(filters: usize, kernel: [usize; 2]) -> Self {
        Self {
            filters,
            kernel,
            pool: two(),
            visible: Visible::default(),
            k: one(),
            sparsity: None,
            settings: Settings::default(),
        }
    }

    /// Rows and columns of a block.
    #[must_use]
    pub fn pool(mut self, pool: [usize; 2]) -> Self {
        self.pool = pool;
        self
    }

    /// What goes in.
    #[must_use]
    pub fn visible(mut self, visible: Visible) -> Self {
        self.visible = visible;
        self
    }

    /// Steps of sampling between the data and what is set against it.
    #[must_use]
    pub fn k(mut self, k: usize) -> Self {
        self.k = k;
        self
    }

    /// How often units shall be on.
    #[must_use]
    pub fn sparsity(mut self, sparsity: Sparsity) -> Self {
        self.sparsity = Some(sparsity);
        self
    }
}

impl Hidden {
    /// What a unit is on average.
    pub(crate) fn mean(self) -> Activation {
        match self {
            Hidden::Binary => Activation::Sigmoid,
            Hidden::Rectified => Activation::Relu,
            Hidden::Gaussian => Activation::Identity,
            Hidden::Softmax => Activation::Softmax,
        }
    }
}

impl AutoEncoder {
    /// So many hidden units, and nothing of what goes in is corrupted.
    pub fn new(units: usize) -> Self {
        Self { units, corruption: 0.0, loss: mse(), visible_activation: None, settings: Settings::default() }
    }

    /// Probability that a number that goes in is set to 0 in pretraining.
    #[must_use]
    pub fn corruption(mut self, corruption: f32) -> Self {
        self.corruption = corruption;
        self
    }

    /// What is given back is judged by this.
    #[must_use]
    pub fn loss(mut self, loss: Loss) -> Self {
        self.loss = loss;
        self
    }

    /// What is given back goes through this.
    #[must_use]
    pub fn visible_activation(mut self, activation: Activation) -> Self {
        self.visible_activation = Some(activation);
        self
    }
}
