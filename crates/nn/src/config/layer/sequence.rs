//! Layers over sequences: what comes in at one step after the other.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use super::super::{Settings, table};
use super::{Padding, Pool, yes};
use crate::Activation;

/// How the two directions of a recurrent layer become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Directions {
    /// Side by side.
    Concat,
    /// Their sum.
    Add,
    /// Their product.
    Multiply,
    /// Their mean.
    Average,
}

/// hₜ = f(xₜ W + hₜ₋₁ R + b), with f the activation: `tanh` if none is set.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SimpleRnn {
    /// Numbers that come out at every step.
    pub units: usize,
    /// Steps that slopes go back at most; all of them if not set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub truncate: Option<usize>,
    /// A second layer that reads from the end, and how the two become one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bidirectional: Option<Directions>,
    /// What every layer may have.
    #[serde(skip)]
    pub settings: Settings,
}

/// Long short-term memory (Hochreiter and Schmidhuber 1997; gates that forget, Gers et al. 2000).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lstm {
    /// Numbers that come out at every step.
    pub units: usize,
    /// Whether the gates see the cell (Graves 2013).
    #[serde(default)]
    pub peepholes: bool,
    /// What opens and closes.
    #[serde(default = "sigmoid", deserialize_with = "table::required")]
    pub gate_activation: Activation,
    /// What the biases of the gates that forget start with: above 0 they remember at first.
    #[serde(default = "one")]
    pub forget_bias: f32,
    /// Steps that slopes go back at most; all of them if not set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub truncate: Option<usize>,
    /// A second layer that reads from the end, and how the two become one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bidirectional: Option<Directions>,
    /// What every layer may have.
    #[serde(skip)]
    pub settings: Settings,
}

/// A gated recurrent unit (Cho et al. 2014), with the gate behind the product, as cuDNN and PyTorch have it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gru {
    /// Numbers that come out at every step.
    pub units: usize,
    /// What opens and closes.
    #[serde(default = "sigmoid", deserialize_with = "table::required")]
    pub gate_activation: Activation,
    /// Steps that slopes go back at most; all of them if not set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub truncate: Option<usize>,
    /// A second layer that reads from the end, and how the two become one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bidirectional: Option<Directions>,
    /// What every layer may have.
    #[serde(skip)]
    pub settings: Settings,
}

/// What comes in at the last step that is there.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LastTimeStep {
    /// What every layer may have.
    #[serde(skip)]
    pub settings: Settings,
}

/// The steps from the last that is there to the first.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReverseTime {
    /// What every layer may have.
    #[serde(skip)]
    pub settings: Settings,
}

/// The same row at every step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RepeatVector {
    /// How many steps; as many as the second of two values that come in if not set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steps: Option<usize>,
    /// What every layer may have.
    #[serde(skip)]
    pub settings: Settings,
}

/// Takes steps whose numbers all have one value for steps that are not there.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MaskSteps {
    /// The value.
    #[serde(default)]
    pub value: f32,
    /// What every layer may have.
    #[serde(skip)]
    pub settings: Settings,
}

/// A learned row of numbers for the number of each thing that comes in.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Embedding {
    /// Things that there are: numbers from 0 to one less.
    pub count: usize,
    /// Numbers for each.
    pub units: usize,
    /// Whether a bias is added.
    #[serde(default)]
    pub bias: bool,
    /// What every layer may have.
    #[serde(skip)]
    pub settings: Settings,
}

/// A 1 at the place of the thing whose number comes in, and 0 elsewhere.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OneHot {
    /// Things that there are.
    pub count: usize,
    /// What every layer may have.
    #[serde(skip)]
    pub settings: Settings,
}

/// Brings what comes in to mean 0 and variance 1, each row, step or pixel by itself (Ba et al. 2016).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LayerNorm {
    /// Added to the variance.
    #[serde(default = "epsilon")]
    pub epsilon: f32,
    /// What every layer may have.
    #[serde(skip)]
    pub settings: Settings,
}

/// Every step looks at all steps and takes from each as much as fits what it asks for (Vaswani et al. 2017).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SelfAttention {
    /// Numbers that come out at every step.
    pub units: usize,
    /// How many look, each in its own way.
    #[serde(default = "one_head")]
    pub heads: usize,
    /// Numbers by which each compares; `units` shared among the heads if not set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head_size: Option<usize>,
    /// Whether a step sees only itself and what came before.
    #[serde(default)]
    pub causal: bool,
    /// What every layer may have.
    #[serde(skip)]
    pub settings: Settings,
}

/// The same with questions that are learned, so that as many steps come out as there are questions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LearnedSelfAttention {
    /// Numbers that come out at every step.
    pub units: usize,
    /// Questions.
    pub queries: usize,
    /// How many look, each in its own way.
    #[serde(default = "one_head")]
    pub heads: usize,
    /// Numbers by which each compares; `units` shared among the heads if not set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head_size: Option<usize>,
    /// What every layer may have.
    #[serde(skip)]
    pub settings: Settings,
}

/// The steps of a first value look at those of a second, and take from a third, or from the second.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Attention {
    /// Numbers that come out at every step.
    pub units: usize,
    /// How many look, each in its own way.
    #[serde(default = "one_head")]
    pub heads: usize,
    /// Numbers by which each compares; `units` shared among the heads if not set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head_size: Option<usize>,
    /// Whether what comes in goes through weights first, and what comes out, too.
    #[serde(default = "yes")]
    pub project: bool,
    /// What every layer may have.
    #[serde(skip)]
    pub settings: Settings,
}

/// hₜ = f(xₜ W + aₜ R + b), where aₜ is what hₜ₋₁ finds when it looks at the whole sequence.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecurrentAttention {
    /// Numbers that come out at every step.
    pub units: usize,
    /// How many look, each in its own way.
    #[serde(default = "one_head")]
    pub heads: usize,
    /// Numbers by which each compares; `units` shared among the heads if not set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head_size: Option<usize>,
    /// What every layer may have.
    #[serde(skip)]
    pub settings: Settings,
}

/// Filters that move over the steps of a sequence.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Conv1d {
    /// How many; each gives one number a step.
    pub filters: usize,
    /// Steps that a filter sees.
    pub kernel: usize,
    /// Steps from one place to the next.
    #[serde(default = "one_step")]
    pub stride: usize,
    /// Steps between those that it sees.
    #[serde(default = "one_step")]
    pub dilation: usize,
    /// What lies before the first step and behind the last.
    #[serde(default)]
    pub padding: Padding1d,
    /// Whether each filter has a bias.
    #[serde(default = "yes")]
    pub bias: bool,
    /// What every layer may have.
    #[serde(skip)]
    pub settings: Settings,
}

/// What lies around a sequence where windows move over it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Padding1d {
    /// Nothing: windows lie in the sequence.
    #[default]
    Valid,
    /// As many zeros as let steps / stride come out.
    Same,
    /// All of them before the first step, so that nothing sees what comes later.
    Causal,
    /// So many on both sides.
    Explicit(usize),
}

/// One number for a few steps of each channel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Subsampling1d {
    /// How.
    #[serde(default, deserialize_with = "table::required")]
    pub pool: Pool,
    /// Steps of a window.
    pub kernel: usize,
    /// Steps from one window to the next; as long as a window if not set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stride: Option<usize>,
    /// What lies before the first step and behind the last.
    #[serde(default)]
    pub padding: Padding1d,
    /// What every layer may have.
    #[serde(skip)]
    pub settings: Settings,
}

/// Steps of zeros before the first and behind the last.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ZeroPadding1d {
    /// Before and behind.
    pub padding: [usize; 2],
    /// What every layer may have.
    #[serde(skip)]
    pub settings: Settings,
}

/// Cuts the first and the last steps off.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cropping1d {
    /// Of the first and of the last.
    pub cropping: [usize; 2],
    /// What every layer may have.
    #[serde(skip)]
    pub settings: Settings,
}

/// Every step again and again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Upsampling1d {
    /// How often.
    #[serde(default = "twice")]
    pub size: usize,
    /// What every layer may have.
    #[serde(skip)]
    pub settings: Settings,
}

fn sigmoid() -> Activation {
    Activation::Sigmoid
}
fn one() -> f32 {
    1.0
}
fn epsilon() -> f32 {
    1e-5
}
fn one_head() -> usize {
    1
}
fn one_step() -> usize {
    1
}
fn twice() -> usize {
    2
}

impl Padding1d {
    /// As of an image that is one pixel wide; what is causal is padded apart.
    pub(crate) fn of_image(self) -> Padding {
        match self {
            Padding1d::Valid | Padding1d::Causal => Padding::Valid,
            Padding1d::Same => Padding::Same,
            Padding1d::Explicit(steps) => Padding::Explicit([steps, 0]),
        }
    }
}

impl Serialize for Padding1d {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Padding1d::Valid => "valid".serialize(serializer),
            Padding1d::Same => "same".serialize(serializer),
            Padding1d::Causal => "causal".serialize(serializer),
            Padding1d::Explicit(steps) => steps.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Padding1d {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        match (value.as_str(), value.as_u64()) {
            (Some("valid"), _) => Ok(Padding1d::Valid),
            (Some("same"), _) => Ok(Padding1d::Same),
            (Some("causal"), _) => Ok(Padding1d::Causal),
            (_, Some(steps)) => Ok(Padding1d::Explicit(steps as usize)),
            _ => Err(D::Error::custom(format!(
                "`padding` expects \"valid\", \"same\", \"causal\" or a number of steps, found {value}"
            ))),
        }
    }
}

/// What recurrent layers have in common.
macro_rules! recurrent {
    ($($type:ident),*) => {
        $(impl $type {
            /// Slopes go back so many steps at most.
            #[must_use]
            pub fn truncate(mut self, steps: usize) -> Self {
                self.truncate = Some(steps);
                self
            }

            /// A second layer reads from the end.
            #[must_use]
            pub fn bidirectional(mut self, directions: Directions) -> Self {
                self.bidirectional = Some(directions);
                self
            }
        })*
    };
}

recurrent!(SimpleRnn, Lstm, Gru);

impl SimpleRnn {
    /// So many numbers at every step.
    pub fn new(units: usize) -> Self {
        Self { units, truncate: None, bidirectional: None, settings: Settings::default() }
    }
}

impl Lstm {
    /// So many numbers at every step.
    pub fn new(units: usize) -> Self {
        Self {
            units,
            peepholes: false,
            gate_activation: sigmoid(),
            forget_bias: one(),
            truncate: None,
            bidirectional: None,
            settings: Settings::default(),
        }
    }

    /// Lets the gates see the cell.
    #[must_use]
    pub fn peepholes(mut self) -> Self {
        self.peepholes = true;
        self
    }
}

impl Gru {
    /// So many numbers at every step.
    pub fn new(units: usize) -> Self {
        Self { units, gate_activation: sigmoid(), truncate: None, bidirectional: None, settings: Settings::default() }
    }
}

impl RepeatVector {
    /// So many steps.
    pub fn new(steps: usize) -> Self {
        Self { steps: Some(steps), settings: Settings::default() }
    }

    /// As many steps as the second of two values that come in.
    pub fn as_long() -> Self {
        Self { steps: None, settings: Settings::default() }
    }
}

impl MaskSteps {
    /// Steps of this value are not there.
    pub fn new(value: f32) -> Self {
        Self { value, settings: Settings::default() }
    }
}

impl Embedding {
    /// So many numbers for each of so many things.
    pub fn new(count: usize, units: usize) -> Self {
        Self { count, units, bias: false, settings: Settings::default() }
    }
}

impl OneHot {
    /// Of so many things.
    pub fn new(count: usize) -> Self {
        Self { count, settings: Settings::default() }
    }
}

impl Default for LayerNorm {
    fn default() -> Self {
        Self { epsilon: epsilon(), settings: Settings::default() }
    }
}

impl SelfAttention {
    /// So many numbers at every step, found by so many heads.
    pub fn new(units: usize, heads: usize) -> Self {
        Self { units, heads, head_size: None, causal: false, settings: Settings::default() }
    }

    /// Lets a step see only itself and what came before.
    #[must_use]
    pub fn causal(mut self) -> Self {
        self.causal = true;
        self
    }
}

impl LearnedSelfAttention {
    /// So many numbers for each of so many questions, found by so many heads.
    pub fn new(units: usize, queries: usize, heads: usize) -> Self {
        Self { units, queries, heads, head_size: None, settings: Settings::default() }
    }
}

impl Attention {
    /// So many numbers at every step, found by so many heads.
    pub fn new(units: usize, heads: usize) -> Self {
        Self { units, heads, head_size: None, project: true, settings: Settings::default() }
    }
}

impl RecurrentAttention {
    /// So many numbers at every step, found by so many heads.
    pub fn new(units: usize, heads: usize) -> Self {
        Self { units, heads, head_size: None, settings: Settings::default() }
    }
}

impl Conv1d {
    /// So many filters that see so many steps.
    pub fn new(filters: usize, kernel: usize) -> Self {
        Self {
            filters,
            kernel,
            stride: 1,
            dilation: 1,
            padding: Padding1d::Valid,
            bias: true,
            settings: Settings::default(),
        }
    }

    /// What lies around the sequence.
    #[must_use]
    pub fn padding(mut self, padding: Padding1d) -> Self {
        self.padding = padding;
        self
    }

    /// Steps from one place to the next.
    #[must_use]
    pub fn stride(mut self, stride: usize) -> Self {
        self.stride = stride;
        self
    }
}

impl Subsampling1d {
    /// The largest of so many steps.
    pub fn max(kernel: usize) -> Self {
        Self { pool: Pool::Max, kernel, stride: None, padding: Padding1d::Valid, settings: Settings::default() }
    }
}

impl ZeroPadding1d {
    /// So many before and behind.
    pub fn new(padding: [usize; 2]) -> Self {
        Self { padding, settings: Settings::default() }
    }
}

impl Cropping1d {
    /// So many of the first and of the last.
    pub fn new(cropping: [usize; 2]) -> Self {
        Self { cropping, settings: Settings::default() }
    }
}

impl Upsampling1d {
    /// Every step so often.
    pub fn new(size: usize) -> Self {
        Self { size, settings: Settings::default() }
    }
}
