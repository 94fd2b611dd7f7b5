use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use super::super::{Settings, table};
use super::yes;

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
    /// Whether an image of which a window would not see every pixel is refused.
    #[serde(default, skip_serializing_if = "is_not")]
    pub strict: bool,
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

/// A convolution in which every channel has filters of its own, which see nothing of the others.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DepthwiseConv2d {
    /// Filters of each channel.
    #[serde(default = "unit")]
    pub multiplier: usize,
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
    /// Whether an image of which a window would not see every pixel is refused.
    #[serde(default, skip_serializing_if = "is_not")]
    pub strict: bool,
    /// Whether each filter has a bias.
    #[serde(default = "yes")]
    pub bias: bool,
    /// What every layer may have.
    #[serde(skip)]
    pub settings: Settings,
}

/// A convolution of each channel by itself, and then one over the channels of single pixels.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SeparableConv2d {
    /// Number of filters: the channels that come out.
    pub filters: usize,
    /// Filters of each channel in between.
    #[serde(default = "unit")]
    pub multiplier: usize,
    /// Height and width of a filter of one channel.
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
    /// Whether an image of which a window would not see every pixel is refused.
    #[serde(default, skip_serializing_if = "is_not")]
    pub strict: bool,
    /// Whether each filter has a bias.
    #[serde(default = "yes")]
    pub bias: bool,
    /// What every layer may have.
    #[serde(skip)]
    pub settings: Settings,
}

/// A transposed convolution: every pixel is spread over a window of what comes out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Conv2dTransposed {
    /// Number of filters: the channels that come out.
    pub filters: usize,
    /// Height and width of a filter.
    pub kernel: [usize; 2],
    /// How far apart the windows of neighbouring pixels are.
    #[serde(default = "ones")]
    pub stride: [usize; 2],
    /// What is cut off what comes out; with `same`, so much that it is `stride` times as high and wide as what goes in.
    #[serde(default)]
    pub padding: Padding,
    /// How far apart the filter's cells are.
    #[serde(default = "ones")]
    pub dilation: [usize; 2],
    /// Whether each filter has a bias.
    #[serde(default = "yes")]
    pub bias: bool,
    /// What every layer may have.
    #[serde(skip)]
    pub settings: Settings,
}

impl Conv2dTransposed {
    /// So many filters of this height and width.
    pub fn new(filters: usize, kernel: [usize; 2]) -> Self {
        Self {
            filters,
            kernel,
            stride: ones(),
            padding: Padding::Valid,
            dilation: ones(),
            bias: true,
            settings: Settings::default(),
        }
    }

    /// How far apart the windows of neighbouring pixels are.
    #[must_use]
    pub fn stride(mut self, stride: [usize; 2]) -> Self {
        self.stride = stride;
        self
    }

    /// What is cut off.
    #[must_use]
    pub fn padding(mut self, padding: Padding) -> Self {
        self.padding = padding;
        self
    }
}

impl DepthwiseConv2d {
    /// One filter of this height and width for each channel.
    pub fn new(kernel: [usize; 2]) -> Self {
        Self {
            multiplier: 1,
            kernel,
            stride: ones(),
            padding: Padding::Valid,
            strict: false,
            dilation: ones(),
            bias: true,
            settings: Settings::default(),
        }
    }

    /// So many filters for each channel.
    #[must_use]
    pub fn multiplier(mut self, multiplier: usize) -> Self {
        self.multiplier = multiplier;
        self
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

    /// Refuses images of which a window would not see every pixel.
    #[must_use]
    pub fn strict(mut self) -> Self {
        self.strict = true;
        self
    }
}

impl SeparableConv2d {
    /// So many filters; one of this height and width for each channel before them.
    pub fn new(filters: usize, kernel: [usize; 2]) -> Self {
        Self {
            filters,
            multiplier: 1,
            kernel,
            stride: ones(),
            padding: Padding::Valid,
            strict: false,
            dilation: ones(),
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

    /// Refuses images of which a window would not see every pixel.
    #[must_use]
    pub fn strict(mut self) -> Self {
        self.strict = true;
        self
    }
}

/// What is around an image when a window moves over it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Padding<const D: usize = 2> {
    /// Nothing: the window stays inside.
    #[default]
    Valid,
    /// So much that the output has ⌈input / stride⌉ positions; the odd one goes to the bottom and right.
    Same,
    /// So many rows above and below, and columns left and right; of volumes, images before and behind first.
    Explicit([usize; D]),
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
    /// Whether an image of which a window would not see every pixel is refused.
    #[serde(default, skip_serializing_if = "is_not")]
    pub strict: bool,
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

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
fn is_not(strict: &bool) -> bool {
    !strict
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
            strict: false,
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

    /// Refuses images of which a window would not see every pixel.
    #[must_use]
    pub fn strict(mut self) -> Self {
        self.strict = true;
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
        Self { pool, kernel, stride: None, padding: Padding::Valid, dilation: ones(), strict: false, settings }
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

    /// Refuses images of which a window would not see every pixel.
    #[must_use]
    pub fn strict(mut self) -> Self {
        self.strict = true;
        self
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

impl<const D: usize> Serialize for Padding<D> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Padding::Valid => "valid".serialize(serializer),
            Padding::Same => "same".serialize(serializer),
            Padding::Explicit(padding) => padding[..].serialize(serializer),
        }
    }
}

impl<'de, const D: usize> Deserialize<'de> for Padding<D> {
    fn deserialize<T: Deserializer<'de>>(deserializer: T) -> Result<Self, T::Error> {
        let value = Value::deserialize(deserializer)?;
        let each = || serde_json::from_value(value.clone()).ok().and_then(|each: Vec<usize>| each.try_into().ok());
        match value.as_str() {
            Some("valid") => Ok(Padding::Valid),
            Some("same") => Ok(Padding::Same),
            _ => each().map(Padding::Explicit).ok_or_else(|| {
                let sizes = if D == 3 { "[images, rows, columns]" } else { "[rows, columns]" };
                T::Error::custom(format!("`padding` expects \"valid\", \"same\" or {sizes}, found {value}"))
            }),
        }
    }
}
