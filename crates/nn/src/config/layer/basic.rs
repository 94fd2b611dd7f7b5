use serde::{Deserialize, Serialize};

use super::super::{Settings, table};
use super::yes;
use crate::Loss;

/// Every output is a weighted sum of all inputs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Dense {
    /// Number of outputs.
    pub units: usize,
    /// Whether each output has a bias.
    #[serde(default = "yes")]
    pub bias: bool,
    /// What every layer may have.
    #[serde(skip)]
    pub settings: Settings,
}

/// Batch normalisation (Ioffe and Szegedy 2015), per channel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BatchNorm {
    /// Added to the variance.
    #[serde(default = "epsilon")]
    pub epsilon: f32,
    /// Share of the running statistics that a step keeps.
    #[serde(default = "decay")]
    pub decay: f32,
    /// Whether a scale and a shift are learned.
    #[serde(default = "yes")]
    pub learned: bool,
    /// What every layer may have.
    #[serde(skip)]
    pub settings: Settings,
}

/// Dropout as a layer: the rest is scaled up, so that nothing need be done when predicting.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Dropout {
    /// Probability that a number is set to 0 in training.
    pub rate: f32,
    /// What every layer may have.
    #[serde(skip)]
    pub settings: Settings,
}

/// An activation as a layer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ActivationLayer {
    /// Which one; the network's default if not set.
    #[serde(default, deserialize_with = "table::optional", skip_serializing_if = "Option::is_none")]
    pub function: Option<crate::Activation>,
    /// What every layer may have.
    #[serde(skip)]
    pub settings: Settings,
}

/// A rectifier whose slope below 0 is learned, for every number of a row or every channel of an image (He et al. 2015).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PRelu {
    /// What the slopes start with.
    #[serde(default = "quarter")]
    pub alpha: f32,
    /// What every layer may have.
    #[serde(skip)]
    pub settings: Settings,
}

/// Every number times a weight of its own, plus a bias of its own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ElementWiseMultiplication {
    /// Whether each number has a bias.
    #[serde(default = "yes")]
    pub bias: bool,
    /// What every layer may have.
    #[serde(skip)]
    pub settings: Settings,
}

impl Default for PRelu {
    fn default() -> Self {
        Self { alpha: quarter(), settings: Settings::default() }
    }
}

impl Default for ElementWiseMultiplication {
    fn default() -> Self {
        Self { bias: true, settings: Settings::default() }
    }
}

/// A dense layer with a loss: the end of a network.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Output {
    /// Number of outputs.
    pub units: usize,
    /// Whether each output has a bias.
    #[serde(default = "yes")]
    pub bias: bool,
    /// What the outputs are judged by; what suits the activation and the task if not stated.
    #[serde(default, deserialize_with = "table::optional", skip_serializing_if = "Option::is_none")]
    pub loss: Option<Loss>,
    /// What its loss counts, where a network has several ends.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub loss_weight: f32,
    /// The share of a target that is spread over all classes while something is learned.
    #[serde(default, skip_serializing_if = "is_none")]
    pub label_smoothing: f32,
    /// Pulls what comes in towards the centre of its class.
    #[serde(default, alias = "center_loss", skip_serializing_if = "Option::is_none")]
    pub centre_loss: Option<CentreLoss>,
    /// What every layer may have.
    #[serde(skip)]
    pub settings: Settings,
}

/// Half of the squared distance between what comes into an output and the centre of its class, beside the loss of the output:
/// it makes examples of a class alike (Wen et al. 2016).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CentreLoss {
    /// How far a centre moves in a step towards the examples of its class, from 0 to 1, when all classes are as frequent.
    #[serde(default = "step_of_centres")]
    pub alpha: f32,
    /// What it counts beside the loss of the output.
    #[serde(default = "pull_of_centres")]
    pub lambda: f32,
}

fn step_of_centres() -> f32 {
    0.05
}

fn pull_of_centres() -> f32 {
    2e-4
}

impl Default for CentreLoss {
    fn default() -> Self {
        Self { alpha: step_of_centres(), lambda: pull_of_centres() }
    }
}

impl CentreLoss {
    /// With this step of the centres, and this weight beside the loss of the output.
    pub fn new(alpha: f32, lambda: f32) -> Self {
        Self { alpha, lambda }
    }

    pub(crate) fn problem(&self) -> Option<String> {
        let Self { alpha, lambda } = *self;
        if !(alpha > 0.0 && alpha <= 1.0) {
            return Some(format!("`centre_loss.alpha` must be above 0 and at most 1, found {alpha}"));
        }
        (!(lambda > 0.0 && lambda.is_finite())).then(|| format!("`centre_loss.lambda` must be above 0, found {lambda}"))
    }
}

/// A loss alone: what comes in is judged, after the activation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LossLayer {
    /// What the outputs are judged by.
    #[serde(default, deserialize_with = "table::required")]
    pub loss: Loss,
    /// What it counts, where a network has several ends.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub loss_weight: f32,
    /// The share of a target that is spread over all classes while something is learned.
    #[serde(default, skip_serializing_if = "is_none")]
    pub label_smoothing: f32,
    /// What every layer may have.
    #[serde(skip)]
    pub settings: Settings,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
fn is_none(share: &f32) -> bool {
    *share == 0.0
}

fn quarter() -> f32 {
    0.25
}

fn one() -> f32 {
    1.0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
fn is_one(weight: &f32) -> bool {
    *weight == 1.0
}

fn epsilon() -> f32 {
    1e-5
}
fn decay() -> f32 {
    0.9
}

impl Dense {
    /// Leaves the biases out.
    #[must_use]
    pub fn without_bias(mut self) -> Self {
        self.bias = false;
        self
    }

    /// A layer with so many outputs.
    pub fn new(units: usize) -> Self {
        Self { units, bias: true, settings: Settings::default() }
    }
}

impl Default for BatchNorm {
    fn default() -> Self {
        Self { epsilon: epsilon(), decay: decay(), learned: true, settings: Settings::default() }
    }
}

impl Dropout {
    /// Sets each number to 0 with this probability.
    pub fn new(rate: f32) -> Self {
        Self { rate, settings: Settings::default() }
    }
}

impl ActivationLayer {
    /// This function.
    pub fn new(function: crate::Activation) -> Self {
        Self { function: Some(function), settings: Settings::default() }
    }
}

impl Output {
    /// So many outputs, judged by this loss.
    pub fn new(units: usize, loss: Loss) -> Self {
        Self { loss: Some(loss), ..Self::by_task(units) }
    }

    /// So many outputs, with the activation and the loss that suit the task: cross-entropy for classes, after softmax or, for
    /// one output, sigmoid; the mean squared error for numbers.
    pub fn by_task(units: usize) -> Self {
        Self {
            units,
            bias: true,
            loss: None,
            loss_weight: 1.0,
            label_smoothing: 0.0,
            centre_loss: None,
            settings: Settings::default(),
        }
    }
}

impl Output {
    /// Pulls what comes in towards the centre of its class.
    #[must_use]
    pub fn centre_loss(mut self, centre_loss: CentreLoss) -> Self {
        self.centre_loss = Some(centre_loss);
        self
    }

    /// Spreads this share of every target over all classes while something is learned.
    #[must_use]
    pub fn label_smoothing(mut self, share: f32) -> Self {
        self.label_smoothing = share;
        self
    }

    /// What its loss counts, where a network has several ends.
    #[must_use]
    pub fn loss_weight(mut self, weight: f32) -> Self {
        self.loss_weight = weight;
        self
    }
}

impl LossLayer {
    /// Spreads this share of every target over all classes while something is learned.
    #[must_use]
    pub fn label_smoothing(mut self, share: f32) -> Self {
        self.label_smoothing = share;
        self
    }

    /// What it counts, where a network has several ends.
    #[must_use]
    pub fn loss_weight(mut self, weight: f32) -> Self {
        self.loss_weight = weight;
        self
    }

    /// Judged by this loss.
    pub fn new(loss: Loss) -> Self {
        Self { loss, loss_weight: 1.0, label_smoothing: 0.0, settings: Settings::default() }
    }
}
