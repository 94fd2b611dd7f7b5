use std::sync::Arc;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

use super::Settings;
use super::settings::settings_setters;
use super::table;
use super::wording::{explain, nearest};
use crate::Loss;
use crate::custom::{CustomLayer, Layer};

/// A layer: its kind with what only this kind has, and the settings that every layer may have.
#[derive(Clone, Debug, PartialEq)]
pub enum LayerConfig {
    /// Every output is a weighted sum of all inputs.
    Dense(Dense),
    /// A convolution over images.
    Conv2d(Conv2d),
    /// Pooling over images.
    Subsampling(Subsampling),
    /// Batch normalisation.
    BatchNorm(BatchNorm),
    /// Dropout as a layer.
    Dropout(Dropout),
    /// An activation as a layer.
    Activation(ActivationLayer),
    /// Pooling over whole images.
    GlobalPooling(GlobalPooling),
    /// Local response normalisation.
    LocalResponseNormalisation(LocalResponseNormalisation),
    /// Zeros around images.
    ZeroPadding(ZeroPadding),
    /// A dense layer with a loss.
    Output(Output),
    /// A loss alone.
    Loss(LossLayer),
    /// A layer of another crate.
    Custom(CustomConfig),
}

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

/// A convolution over images (cross-correlation, as everywhere in this field).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Conv2d {
    /// Number of filters: the channels that come out.
    pub filters: usize,
    /// Height and width of a filter.
    pub kernel: [usize; 2],
    /// How far the filter moves, down and right.
    #[serde(default = "ones")]
    pub stride: [usize; 2],
    /// What is around the image.
    #[serde(default)]
    pub padding: Padding,
    /// How far apart the filter's cells are.
    #[serde(default = "ones")]
    pub dilation: [usize; 2],
    /// Channels and filters are cut into so many groups that do not see each other.
    #[serde(default = "unit")]
    pub groups: usize,
    /// Whether each filter has a bias.
    #[serde(default = "yes")]
    pub bias: bool,
    /// What every layer may have.
    #[serde(skip)]
    pub settings: Settings,
}

/// What is around an image when a window moves over it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Padding {
    /// Nothing: the window stays inside.
    #[default]
    Valid,
    /// So much that the output has ⌈input / stride⌉ positions; the odd one goes to the bottom and right.
    Same,
    /// So many rows above and below, and columns left and right.
    Explicit([usize; 2]),
}

/// How the numbers of a window become one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Pool {
    /// The largest.
    #[default]
    Max,
    /// The mean of those that are inside the image.
    #[serde(alias = "avg")]
    Average,
    /// The sum.
    Sum,
    /// (Σ |x|ᵖ)^(1/p)
    Pnorm {
        /// The exponent.
        #[serde(default = "two")]
        p: f32,
    },
}

/// Pooling over images.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Subsampling {
    /// How the numbers of a window become one.
    #[serde(default, deserialize_with = "table::required")]
    pub pool: Pool,
    /// Height and width of the window.
    #[serde(default = "twos")]
    pub kernel: [usize; 2],
    /// How far the window moves; the kernel's size if not set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stride: Option<[usize; 2]>,
    /// What is around the image; it never wins a maximum and never counts in a mean.
    #[serde(default)]
    pub padding: Padding,
    /// How far apart the window's cells are.
    #[serde(default = "ones")]
    pub dilation: [usize; 2],
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

/// Pooling over whole images: one number per channel comes out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GlobalPooling {
    /// How all pixels become one.
    #[serde(default, deserialize_with = "table::required")]
    pub pool: Pool,
    /// What every layer may have.
    #[serde(skip)]
    pub settings: Settings,
}

/// Local response normalisation across channels (Krizhevsky et al. 2012): y = x / (k + α Σ x²)^β.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LocalResponseNormalisation {
    /// k
    #[serde(default = "lrn_k")]
    pub k: f32,
    /// Channels in the sum, the own one in the middle.
    #[serde(default = "lrn_n")]
    pub n: usize,
    /// α
    #[serde(default = "lrn_alpha")]
    pub alpha: f32,
    /// β
    #[serde(default = "lrn_beta")]
    pub beta: f32,
    /// What every layer may have.
    #[serde(skip)]
    pub settings: Settings,
}

/// Zeros around images.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ZeroPadding {
    /// Top, bottom, left, right.
    pub padding: [usize; 4],
    /// What every layer may have.
    #[serde(skip)]
    pub settings: Settings,
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
    /// What every layer may have.
    #[serde(skip)]
    pub settings: Settings,
}

/// A loss alone: what comes in is judged, after the activation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LossLayer {
    /// What the outputs are judged by.
    #[serde(default, deserialize_with = "table::required")]
    pub loss: Loss,
    /// What every layer may have.
    #[serde(skip)]
    pub settings: Settings,
}

/// A layer of another crate, by name until a [`crate::Registry`] has made it.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CustomConfig {
    /// The name in the registry.
    #[serde(rename = "kind")]
    pub name: String,
    /// What the registry makes it from.
    #[serde(default)]
    pub options: Value,
    /// What every layer may have.
    #[serde(skip)]
    pub settings: Settings,
    #[serde(skip)]
    pub(crate) made: Option<Arc<dyn CustomLayer>>,
}

impl PartialEq for CustomConfig {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name && self.options == other.options && self.settings == other.settings
    }
}

fn yes() -> bool {
    true
}
fn ones() -> [usize; 2] {
    [1, 1]
}
fn twos() -> [usize; 2] {
    [2, 2]
}
fn unit() -> usize {
    1
}
fn two() -> f32 {
    2.0
}
fn epsilon() -> f32 {
    1e-5
}
fn decay() -> f32 {
    0.9
}
fn lrn_k() -> f32 {
    2.0
}
fn lrn_n() -> usize {
    5
}
fn lrn_alpha() -> f32 {
    1e-4
}
fn lrn_beta() -> f32 {
    0.75
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

impl Conv2d {
    /// Leaves the biases out.
    #[must_use]
    pub fn without_bias(mut self) -> Self {
        self.bias = false;
        self
    }

    /// So many filters of this height and width.
    pub fn new(filters: usize, kernel: [usize; 2]) -> Self {
        Self {
            filters,
            kernel,
            stride: ones(),
            padding: Padding::Valid,
            dilation: ones(),
            groups: 1,
            bias: true,
            settings: Settings::default(),
        }
    }

    /// How far the filter moves.
    #[must_use]
    pub fn stride(mut self, stride: [usize; 2]) -> Self {
        self.stride = stride;
        self
    }

    /// What is around the image.
    #[must_use]
    pub fn padding(mut self, padding: Padding) -> Self {
        self.padding = padding;
        self
    }

    /// How far apart the filter's cells are.
    #[must_use]
    pub fn dilation(mut self, dilation: [usize; 2]) -> Self {
        self.dilation = dilation;
        self
    }

    /// Groups that do not see each other.
    #[must_use]
    pub fn groups(mut self, groups: usize) -> Self {
        self.groups = groups;
        self
    }
}

impl Subsampling {
    /// The largest number of windows of this height and width, which do not overlap.
    pub fn max(kernel: [usize; 2]) -> Self {
        Self::new(Pool::Max, kernel)
    }

    /// The mean of windows of this height and width, which do not overlap.
    pub fn average(kernel: [usize; 2]) -> Self {
        Self::new(Pool::Average, kernel)
    }

    /// Windows of this height and width, which do not overlap.
    pub fn new(pool: Pool, kernel: [usize; 2]) -> Self {
        let settings = Settings::default();
        Self { pool, kernel, stride: None, padding: Padding::Valid, dilation: ones(), settings }
    }

    /// How far the window moves.
    #[must_use]
    pub fn stride(mut self, stride: [usize; 2]) -> Self {
        self.stride = Some(stride);
        self
    }

    /// What is around the image.
    #[must_use]
    pub fn padding(mut self, padding: Padding) -> Self {
        self.padding = padding;
        self
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

impl GlobalPooling {
    /// Pools whole images this way.
    pub fn new(pool: Pool) -> Self {
        Self { pool, settings: Settings::default() }
    }
}

impl Default for LocalResponseNormalisation {
    fn default() -> Self {
        let settings = Settings::default();
        Self { k: lrn_k(), n: lrn_n(), alpha: lrn_alpha(), beta: lrn_beta(), settings }
    }
}

impl ZeroPadding {
    /// Top, bottom, left, right.
    pub fn new(padding: [usize; 4]) -> Self {
        Self { padding, settings: Settings::default() }
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
        Self { units, bias: true, loss: None, settings: Settings::default() }
    }
}

impl LossLayer {
    /// Judged by this loss.
    pub fn new(loss: Loss) -> Self {
        Self { loss, settings: Settings::default() }
    }
}

impl CustomConfig {
    /// A layer of another crate.
    pub fn new(layer: impl Layer) -> Self {
        let (name, options) = (Layer::name(&layer).to_owned(), Layer::options(&layer));
        Self { name, options, settings: Settings::default(), made: Some(Arc::new(layer)) }
    }
}

/// One line per kind: the name in files, the variant, the struct.
macro_rules! kinds {
    ($($name:literal, $variant:ident, $type:ty;)*) => {
        $(settings_setters!($type, settings);
        impl $type {
            /// What names of parameters start with.
            #[must_use]
            pub fn name(mut self, name: &str) -> Self {
                self.settings.name = Some(name.into());
                self
            }
        }
        impl From<$type> for LayerConfig {
            fn from(config: $type) -> Self {
                LayerConfig::$variant(config)
            }
        })*

        impl LayerConfig {
            /// The names of all kinds, as in files.
            pub const KINDS: &'static [&'static str] = &[$($name),*];

            /// The name of the kind, as in files.
            pub fn kind(&self) -> &'static str {
                match self {
                    $(LayerConfig::$variant(_) => $name,)*
                }
            }

            /// What every layer may have.
            pub fn settings(&self) -> &Settings {
                match self {
                    $(LayerConfig::$variant(config) => &config.settings,)*
                }
            }

            fn read(kind: &str, table: Value, settings: Settings) -> Result<Self, String> {
                match kind {
                    $($name => {
                        let mut config: $type = serde_json::from_value(table)
                            .map_err(|e| format!("{kind}: {}", explain(&e.to_string(), &Settings::KEYS)))?;
                        config.settings = settings;
                        Ok(LayerConfig::$variant(config))
                    })*
                    _ => {
                        let hint = match nearest(kind, Self::KINDS.iter().copied()) {
                            Some(name) => format!("did you mean `{name}`?"),
                            None => format!("expected one of {}", Self::KINDS.join(", ")),
                        };
                        Err(format!("{kind}: there is no such kind of layer; {hint}"))
                    }
                }
            }

            fn write(&self) -> Result<(Value, &Settings), serde_json::Error> {
                match self {
                    $(LayerConfig::$variant(config) => Ok((serde_json::to_value(config)?, &config.settings)),)*
                }
            }
        }
    };
}

kinds! {
    "dense", Dense, Dense;
    "conv2d", Conv2d, Conv2d;
    "subsampling", Subsampling, Subsampling;
    "batch_norm", BatchNorm, BatchNorm;
    "dropout", Dropout, Dropout;
    "activation", Activation, ActivationLayer;
    "global_pooling", GlobalPooling, GlobalPooling;
    "local_response_normalisation", LocalResponseNormalisation, LocalResponseNormalisation;
    "zero_padding", ZeroPadding, ZeroPadding;
    "output", Output, Output;
    "loss", Loss, LossLayer;
    "custom", Custom, CustomConfig;
}

/// Settings of layers without weights.
const OF_ALL: &[&str] = &["name", "dropout"];

impl LayerConfig {
    /// What is set here and means nothing to this kind of layer, if anything.
    pub(crate) fn problem(&self) -> Option<String> {
        let usable: &[&str] = match self {
            LayerConfig::Dense(_) | LayerConfig::Conv2d(_) | LayerConfig::Output(_) | LayerConfig::Custom(_) => {
                return None;
            }
            LayerConfig::Subsampling(_)
            | LayerConfig::GlobalPooling(_)
            | LayerConfig::LocalResponseNormalisation(_)
            | LayerConfig::ZeroPadding(_) => OF_ALL,
            LayerConfig::BatchNorm(BatchNorm { learned: true, .. }) => {
                &["name", "dropout", "activation", "updater", "learning_rate", "gradient_normalisation"]
            }
            // What has `function` needs no second word for it.
            LayerConfig::Activation(ActivationLayer { function: Some(_), .. }) => OF_ALL,
            LayerConfig::BatchNorm(_) | LayerConfig::Activation(_) | LayerConfig::Loss(_) => {
                &["name", "dropout", "activation"]
            }
            LayerConfig::Dropout(_) => &["name"],
        };
        let unused = self.settings().keys().find(|key| !usable.contains(key))?;
        let usable: Vec<String> = usable.iter().map(|key| format!("`{key}`")).collect();
        Some(format!("`{unused}` means nothing to it; of the settings of layers it takes {}", usable.join(", ")))
    }
}

impl Serialize for LayerConfig {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::Error;
        let (mut table, settings) = self.write().map_err(S::Error::custom)?;
        if let (Value::Object(table), Value::Object(more)) =
            (&mut table, serde_json::to_value(settings).map_err(S::Error::custom)?)
        {
            table.extend(more);
        }
        Map::from_iter([(self.kind().to_owned(), table)]).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for LayerConfig {
    /// Messages start with the kind and a colon; [`super::NetworkConfig`] puts the index before it.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let (kind, table) = match Value::deserialize(deserializer)? {
            Value::String(kind) => (kind, Map::new()),
            Value::Object(map) if map.len() == 1 => {
                let (kind, table) = map.into_iter().next().expect("one entry");
                match table {
                    Value::Object(table) => (kind, table),
                    other => {
                        return Err(D::Error::custom(format!("{kind}: expected a table of settings, found {other}")));
                    }
                }
            }
            other => {
                let found = match &other {
                    Value::Object(map) => format!("a table of {} entries", map.len()),
                    _ => other.to_string(),
                };
                let message = format!(
                    "unreadable: expected one kind with its settings, as in {{ dense = {{ units = 10 }} }}, found {found}"
                );
                return Err(D::Error::custom(message));
            }
        };
        let (shared, own): (Map<_, _>, Map<_, _>) =
            table.into_iter().partition(|(key, _)| Settings::KEYS.contains(&key.as_str()));
        let settings: Settings = serde_path_to_error::deserialize(Value::Object(shared)).map_err(|e| {
            let path = e.path().to_string();
            D::Error::custom(format!("{kind}: `{path}`: {}", explain(&e.into_inner().to_string(), &[])))
        })?;
        LayerConfig::read(&kind, Value::Object(own), settings).map_err(D::Error::custom)
    }
}

impl Serialize for Padding {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Padding::Valid => "valid".serialize(serializer),
            Padding::Same => "same".serialize(serializer),
            Padding::Explicit(padding) => padding.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Padding {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        match value.as_str() {
            Some("valid") => Ok(Padding::Valid),
            Some("same") => Ok(Padding::Same),
            _ => serde_json::from_value(value.clone()).map(Padding::Explicit).map_err(|_| {
                D::Error::custom(format!("`padding` expects \"valid\", \"same\" or [rows, columns], found {value}"))
            }),
        }
    }
}
