//! The kinds of layers, and how they are read and written.

mod augment;
mod basic;
mod capsules;
mod custom;
mod image;
mod joining;
mod local;
mod noise;
mod objects;
mod pretrained;
mod resizing;
mod sequence;
mod volume;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

pub use augment::{Augment, Flip, Outside};
pub use basic::{
    ActivationLayer, BatchNorm, CentreLoss, Dense, Dropout, ElementWiseMultiplication, LossLayer, Output, PRelu,
};
pub use capsules::{CapsuleLayer, CapsuleStrength, PrimaryCapsules};
pub use custom::CustomConfig;
pub use image::{
    Conv2d, Conv2dTransposed, DepthwiseConv2d, GlobalPooling, LocalResponseNormalisation, Padding, Pool,
    SeparableConv2d, Subsampling, ZeroPadding,
};
pub use joining::{
    ElementWise, ElementWiseOp, L2Distance, L2Normalise, Merge, Reshape, Scale, Shift, Stack, Subset, Unstack,
};
pub use local::{LocallyConnected1d, LocallyConnected2d};
pub use noise::{AlphaDropout, GaussianDropout, GaussianNoise, SpatialDropout};
pub use objects::Yolo2Output;
pub use pretrained::{AutoEncoder, ConvolutionalRbm, Decoder, Hidden, Rbm, Reconstruction, Sparsity, Vae, Visible};
pub use resizing::{BatchToSpace, Cropping2d, SpaceToBatch, SpaceToDepth, Upsampling2d};
pub use sequence::{
    Attention, Conv1d, Cropping1d, Directions, Embedding, Gru, LastTimeStep, LayerNorm, LearnedSelfAttention, Lstm,
    MaskSteps, OneHot, Padding1d, RecurrentAttention, RepeatVector, ReverseTime, SelfAttention, SimpleRnn,
    Subsampling1d, Upsampling1d, ZeroPadding1d,
};
pub use volume::{Conv3d, Cropping3d, Subsampling3d, Upsampling3d, ZeroPadding3d};

use super::Settings;
use super::settings::settings_setters;
use super::wording::{explain, nearest};

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
    /// Values side by side.
    Merge(Merge),
    /// Values number by number.
    ElementWise(ElementWise),
    /// Some of the numbers.
    Subset(Subset),
    /// Values below each other.
    Stack(Stack),
    /// One of several that were stacked.
    Unstack(Unstack),
    /// Every number times another.
    Scale(Scale),
    /// Every number plus another.
    Shift(Shift),
    /// Divided by its length.
    L2Normalise(L2Normalise),
    /// The distance of two values.
    L2Distance(L2Distance),
    /// The same numbers in another shape.
    Reshape(Reshape),
    /// A convolution of each channel by itself.
    DepthwiseConv2d(DepthwiseConv2d),
    /// The same, and then one over the channels of single pixels.
    SeparableConv2d(SeparableConv2d),
    /// Every pixel spread over a window.
    Conv2dTransposed(Conv2dTransposed),
    /// Dropout of whole channels.
    SpatialDropout(SpatialDropout),
    /// Times normal numbers.
    GaussianDropout(GaussianDropout),
    /// Plus normal numbers.
    GaussianNoise(GaussianNoise),
    /// Dropout that keeps mean and variance.
    AlphaDropout(AlphaDropout),
    /// Images changed by chance.
    Augment(Augment),
    /// Every pixel again and again.
    Upsampling2d(Upsampling2d),
    /// Rows and columns cut off.
    Cropping2d(Cropping2d),
    /// Blocks of pixels as channels.
    SpaceToDepth(SpaceToDepth),
    /// Blocks of pixels taken apart.
    SpaceToBatch(SpaceToBatch),
    /// Blocks of pixels put together.
    BatchToSpace(BatchToSpace),
    /// A convolution with filters of their own at every place.
    LocallyConnected2d(LocallyConnected2d),
    /// The same over steps.
    LocallyConnected1d(LocallyConnected1d),
    /// A convolution over volumes.
    Conv3d(Conv3d),
    /// Pooling over volumes.
    Subsampling3d(Subsampling3d),
    /// Zeros around volumes.
    ZeroPadding3d(ZeroPadding3d),
    /// Images, rows and columns cut off.
    Cropping3d(Cropping3d),
    /// Every pixel of a volume again and again.
    Upsampling3d(Upsampling3d),
    /// A rectifier with learned slopes.
    PRelu(PRelu),
    /// A weight for every number.
    ElementWiseMultiplication(ElementWiseMultiplication),
    /// A restricted Boltzmann machine.
    Rbm(Rbm),
    /// A restricted Boltzmann machine over images.
    ConvolutionalRbm(ConvolutionalRbm),
    /// An autoencoder.
    AutoEncoder(AutoEncoder),
    /// A variational autoencoder.
    Vae(Vae),
    /// What is hidden in another layer told back.
    Decoder(Decoder),
    /// An end that is judged by what went in.
    Reconstruction(Reconstruction),
    /// An end that finds things in images.
    Yolo2Output(Yolo2Output),
    /// The capsules of an image.
    PrimaryCapsules(PrimaryCapsules),
    /// Capsules that others agree on.
    Capsules(CapsuleLayer),
    /// The length of every capsule.
    CapsuleStrength(CapsuleStrength),
    /// A recurrence.
    SimpleRnn(SimpleRnn),
    /// Long short-term memory.
    Lstm(Lstm),
    /// A gated recurrent unit.
    Gru(Gru),
    /// The last step that is there.
    LastTimeStep(LastTimeStep),
    /// Steps from the last to the first.
    ReverseTime(ReverseTime),
    /// The same row at every step.
    RepeatVector(RepeatVector),
    /// Says which steps are not there.
    MaskSteps(MaskSteps),
    /// A learned row for the number of a thing.
    Embedding(Embedding),
    /// A 1 at the place of a thing.
    OneHot(OneHot),
    /// Rows of mean 0 and variance 1.
    LayerNorm(LayerNorm),
    /// Steps that look at each other.
    SelfAttention(SelfAttention),
    /// Learned questions that look at all steps.
    LearnedSelfAttention(LearnedSelfAttention),
    /// Steps of one value that look at those of another.
    Attention(Attention),
    /// A recurrence that looks at all steps.
    RecurrentAttention(RecurrentAttention),
    /// Filters that move over steps.
    Conv1d(Conv1d),
    /// One number for a few steps.
    Subsampling1d(Subsampling1d),
    /// Steps of zeros around a sequence.
    ZeroPadding1d(ZeroPadding1d),
    /// Steps cut off.
    Cropping1d(Cropping1d),
    /// Every step again and again.
    Upsampling1d(Upsampling1d),
}

fn yes() -> bool {
    true
}

/// One line per kind: the name in files, the variant, the struct.
macro_rules! kinds {
    ($($name:literal, $variant:ident, $type:ty;)*) => {
        $(settings_setters!($type, settings);
        impl $type {
            /// What names of parameters start with, and what other layers call it by.
            #[must_use]
            pub fn name(mut self, name: &str) -> Self {
                self.settings.name = Some(name.into());
                self
            }

            /// What goes in: names of layers and inputs. The layer before it if this is not said.
            #[must_use]
            pub fn after<'a>(mut self, names: impl IntoIterator<Item = &'a str>) -> Self {
                self.settings.after = Some(names.into_iter().map(str::to_owned).collect());
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

            pub(crate) fn settings_mut(&mut self) -> &mut Settings {
                match self {
                    $(LayerConfig::$variant(config) => &mut config.settings,)*
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
    "merge", Merge, Merge;
    "element_wise", ElementWise, ElementWise;
    "subset", Subset, Subset;
    "stack", Stack, Stack;
    "unstack", Unstack, Unstack;
    "scale", Scale, Scale;
    "shift", Shift, Shift;
    "l2_normalise", L2Normalise, L2Normalise;
    "l2_distance", L2Distance, L2Distance;
    "reshape", Reshape, Reshape;
    "depthwise_conv2d", DepthwiseConv2d, DepthwiseConv2d;
    "separable_conv2d", SeparableConv2d, SeparableConv2d;
    "conv2d_transposed", Conv2dTransposed, Conv2dTransposed;
    "spatial_dropout", SpatialDropout, SpatialDropout;
    "gaussian_dropout", GaussianDropout, GaussianDropout;
    "gaussian_noise", GaussianNoise, GaussianNoise;
    "alpha_dropout", AlphaDropout, AlphaDropout;
    "augment", Augment, Augment;
    "upsampling2d", Upsampling2d, Upsampling2d;
    "cropping2d", Cropping2d, Cropping2d;
    "space_to_depth", SpaceToDepth, SpaceToDepth;
    "space_to_batch", SpaceToBatch, SpaceToBatch;
    "batch_to_space", BatchToSpace, BatchToSpace;
    "locally_connected2d", LocallyConnected2d, LocallyConnected2d;
    "locally_connected1d", LocallyConnected1d, LocallyConnected1d;
    "conv3d", Conv3d, Conv3d;
    "subsampling3d", Subsampling3d, Subsampling3d;
    "zero_padding3d", ZeroPadding3d, ZeroPadding3d;
    "cropping3d", Cropping3d, Cropping3d;
    "upsampling3d", Upsampling3d, Upsampling3d;
    "prelu", PRelu, PRelu;
    "element_wise_multiplication", ElementWiseMultiplication, ElementWiseMultiplication;
    "rbm", Rbm, Rbm;
    "convolutional_rbm", ConvolutionalRbm, ConvolutionalRbm;
    "autoencoder", AutoEncoder, AutoEncoder;
    "vae", Vae, Vae;
    "decoder", Decoder, Decoder;
    "reconstruction", Reconstruction, Reconstruction;
    "yolo2_output", Yolo2Output, Yolo2Output;
    "primary_capsules", PrimaryCapsules, PrimaryCapsules;
    "capsules", Capsules, CapsuleLayer;
    "capsule_strength", CapsuleStrength, CapsuleStrength;
    "simple_rnn", SimpleRnn, SimpleRnn;
    "lstm", Lstm, Lstm;
    "gru", Gru, Gru;
    "last_time_step", LastTimeStep, LastTimeStep;
    "reverse_time", ReverseTime, ReverseTime;
    "repeat_vector", RepeatVector, RepeatVector;
    "mask", MaskSteps, MaskSteps;
    "embedding", Embedding, Embedding;
    "one_hot", OneHot, OneHot;
    "layer_norm", LayerNorm, LayerNorm;
    "self_attention", SelfAttention, SelfAttention;
    "learned_self_attention", LearnedSelfAttention, LearnedSelfAttention;
    "attention", Attention, Attention;
    "recurrent_attention", RecurrentAttention, RecurrentAttention;
    "conv1d", Conv1d, Conv1d;
    "subsampling1d", Subsampling1d, Subsampling1d;
    "zero_padding1d", ZeroPadding1d, ZeroPadding1d;
    "cropping1d", Cropping1d, Cropping1d;
    "upsampling1d", Upsampling1d, Upsampling1d;
}

/// Settings of layers without weights.
const OF_ALL: &[&str] = &["name", "after", "dropout", "frozen"];

/// Settings of what only joins and cuts values.
const OF_JOINTS: &[&str] = &["name", "after", "frozen"];

/// Settings of layers with weights and an activation of their own.
const OF_WEIGHTS: &[&str] = &[
    "name",
    "after",
    "weight_init",
    "bias_init",
    "updater",
    "bias_updater",
    "learning_rate",
    "l1",
    "l2",
    "weight_decay",
    "dropout",
    "gradient_normalisation",
    "frozen",
    "constraints",
    "weight_noise",
];

impl LayerConfig {
    /// Whether it can learn from what goes into it alone.
    pub fn can_be_pretrained(&self) -> bool {
        matches!(
            self,
            LayerConfig::Rbm(_) | LayerConfig::ConvolutionalRbm(_) | LayerConfig::AutoEncoder(_) | LayerConfig::Vae(_)
        )
    }

    /// True if a network ends there.
    pub fn is_end(&self) -> bool {
        matches!(
            self,
            LayerConfig::Output(_)
                | LayerConfig::Loss(_)
                | LayerConfig::Reconstruction(_)
                | LayerConfig::Yolo2Output(_)
        )
    }

    /// Whether it takes several values as they are; others take them side by side.
    pub(crate) fn joins(&self) -> bool {
        matches!(
            self,
            LayerConfig::Merge(_)
                | LayerConfig::ElementWise(_)
                | LayerConfig::Stack(_)
                | LayerConfig::L2Distance(_)
                | LayerConfig::RepeatVector(_)
                | LayerConfig::Attention(_)
                | LayerConfig::Reconstruction(_)
        )
    }

    /// Whether it weighs what goes in, so that dropout of the whole network is for it, too.
    pub(crate) fn weighs(&self) -> bool {
        matches!(
            self,
            LayerConfig::Dense(_)
                | LayerConfig::Conv2d(_)
                | LayerConfig::DepthwiseConv2d(_)
                | LayerConfig::SeparableConv2d(_)
                | LayerConfig::Conv2dTransposed(_)
                | LayerConfig::Rbm(_)
                | LayerConfig::ConvolutionalRbm(_)
                | LayerConfig::AutoEncoder(_)
                | LayerConfig::Vae(_)
                | LayerConfig::SimpleRnn(_)
                | LayerConfig::Lstm(_)
                | LayerConfig::Gru(_)
                | LayerConfig::SelfAttention(_)
                | LayerConfig::LearnedSelfAttention(_)
                | LayerConfig::RecurrentAttention(_)
                | LayerConfig::Conv1d(_)
                | LayerConfig::Conv3d(_)
                | LayerConfig::LocallyConnected1d(_)
                | LayerConfig::LocallyConnected2d(_)
                | LayerConfig::PrimaryCapsules(_)
                | LayerConfig::Capsules(_)
                | LayerConfig::Output(_)
        )
    }

    /// What is set here and means nothing to this kind of layer, if anything.
    pub(crate) fn problem(&self) -> Option<String> {
        let usable: &[&str] = match self {
            LayerConfig::Dense(_)
            | LayerConfig::Conv2d(_)
            | LayerConfig::DepthwiseConv2d(_)
            | LayerConfig::SeparableConv2d(_)
            | LayerConfig::Conv2dTransposed(_)
            | LayerConfig::ElementWiseMultiplication(_)
            | LayerConfig::Rbm(_)
            | LayerConfig::AutoEncoder(_)
            | LayerConfig::Vae(_)
            | LayerConfig::SimpleRnn(_)
            | LayerConfig::Lstm(_)
            | LayerConfig::Gru(_)
            | LayerConfig::SelfAttention(_)
            | LayerConfig::LearnedSelfAttention(_)
            | LayerConfig::RecurrentAttention(_)
            | LayerConfig::Conv1d(_)
            | LayerConfig::Conv3d(_)
            | LayerConfig::LocallyConnected1d(_)
            | LayerConfig::LocallyConnected2d(_)
            | LayerConfig::Attention(_)
            | LayerConfig::Embedding(_)
            | LayerConfig::Output(_)
            | LayerConfig::Custom(_) => return None,
            LayerConfig::ConvolutionalRbm(_) | LayerConfig::PrimaryCapsules(_) | LayerConfig::Capsules(_) => OF_WEIGHTS,
            LayerConfig::PRelu(_) => {
                &["name", "after", "dropout", "frozen", "updater", "learning_rate", "gradient_normalisation"]
            }
            LayerConfig::Subsampling(_)
            | LayerConfig::GlobalPooling(_)
            | LayerConfig::LocalResponseNormalisation(_)
            | LayerConfig::ZeroPadding(_)
            | LayerConfig::Upsampling2d(_)
            | LayerConfig::Cropping2d(_)
            | LayerConfig::SpaceToDepth(_)
            | LayerConfig::Yolo2Output(_)
            | LayerConfig::CapsuleStrength(_)
            | LayerConfig::Subsampling3d(_)
            | LayerConfig::ZeroPadding3d(_)
            | LayerConfig::Cropping3d(_)
            | LayerConfig::Upsampling3d(_)
            | LayerConfig::LastTimeStep(_)
            | LayerConfig::Subsampling1d(_)
            | LayerConfig::ZeroPadding1d(_)
            | LayerConfig::Cropping1d(_)
            | LayerConfig::Upsampling1d(_) => OF_ALL,
            LayerConfig::BatchNorm(BatchNorm { learned: true, .. }) | LayerConfig::LayerNorm(_) => &[
                "name",
                "after",
                "dropout",
                "frozen",
                "activation",
                "updater",
                "learning_rate",
                "gradient_normalisation",
            ],
            // What has `function` needs no second word for it.
            LayerConfig::Activation(ActivationLayer { function: Some(_), .. }) => OF_ALL,
            LayerConfig::BatchNorm(_)
            | LayerConfig::Activation(_)
            | LayerConfig::Loss(_)
            | LayerConfig::Decoder(_)
            | LayerConfig::Reconstruction(_) => &["name", "after", "dropout", "frozen", "activation"],
            LayerConfig::Dropout(_)
            | LayerConfig::SpatialDropout(_)
            | LayerConfig::GaussianDropout(_)
            | LayerConfig::GaussianNoise(_)
            | LayerConfig::AlphaDropout(_)
            | LayerConfig::Augment(_)
            | LayerConfig::Merge(_)
            | LayerConfig::ElementWise(_)
            | LayerConfig::Subset(_)
            | LayerConfig::Stack(_)
            | LayerConfig::Unstack(_)
            | LayerConfig::SpaceToBatch(_)
            | LayerConfig::BatchToSpace(_)
            | LayerConfig::Scale(_)
            | LayerConfig::Shift(_)
            | LayerConfig::L2Normalise(_)
            | LayerConfig::L2Distance(_)
            | LayerConfig::ReverseTime(_)
            | LayerConfig::RepeatVector(_)
            | LayerConfig::MaskSteps(_)
            | LayerConfig::OneHot(_)
            | LayerConfig::Reshape(_) => OF_JOINTS,
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
