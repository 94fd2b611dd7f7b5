//! The operations that a network is lowered to.

use std::ops::Range;
use std::sync::Arc;

use crate::config::{ElementWiseOp, Pool};
use crate::custom::CustomLayer;
use crate::graph::ValueId;
use crate::recurrence::Recurrence;
use crate::window::{Cube, Window};
use crate::{Activation, Shape};

/// One operation on a batch.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    /// The layer that it came from; random numbers are counted by it.
    pub layer: usize,
    /// The random stream of the operation among those of its layer.
    pub stream: u64,
    pub op: Op,
    /// What it reads, in the order in which the operation wants it.
    pub reads: Vec<ValueId>,
    pub writes: ValueId,
    /// One row of what is read first: an example, or a step of one where all steps are treated alike.
    pub input: Shape,
    /// One row of what is written, likewise.
    pub output: Shape,
    /// All its weights, one array after the other. Operations that share them have the same range, never a part of one.
    pub weights: Range<usize>,
    /// Shared as weights are.
    pub bias: Range<usize>,
    pub running: Range<usize>,
    /// Done to what comes out, in the same pass; identity where nothing was fused.
    pub activation: Activation,
    /// Whether nothing of it is learned.
    pub is_frozen: bool,
}

#[derive(Clone, Debug)]
pub(crate) enum Op {
    Dense {
        inputs: usize,
        outputs: usize,
    },
    Conv2d(Conv),
    Pool {
        window: Window,
        pool: Pool,
    },
    GlobalPool {
        positions: usize,
        channels: usize,
        pool: Pool,
    },
    BatchNorm {
        channels: usize,
        positions: usize,
        epsilon: f32,
        decay: f32,
    },
    /// The same with the running statistics, whatever is in the batch.
    FixedNorm {
        channels: usize,
        epsilon: f32,
    },
    Dropout {
        rate: f32,
    },
    Activation(Activation),
    Lrn {
        channels: usize,
        k: f32,
        n: usize,
        alpha: f32,
        beta: f32,
    },
    ZeroPad {
        height: usize,
        width: usize,
        channels: usize,
        padding: [usize; 4],
    },
    Custom(Arc<dyn CustomLayer>),
    /// Channels side by side, so many of each operand.
    Merge {
        channels: Vec<usize>,
    },
    ElementWise(ElementWiseOp),
    /// Some of the channels.
    Subset {
        first: usize,
    },
    /// Rows below each other, so many an example of each operand.
    Stack {
        copies: Vec<usize>,
    },
    Unstack {
        index: usize,
    },
    Linear {
        factor: f32,
        offset: f32,
    },
    L2Normalise {
        epsilon: f32,
    },
    L2Distance {
        epsilon: f32,
    },
    /// The same numbers in another shape.
    Reshape,
    Noise(Noise),
    Resize(Resize),
    Augment(Augmentation),
    /// A slope below 0 for every channel.
    PRelu,
    /// A weight and a bias for every number.
    Weigh,
    /// Capsules of so many numbers, made shorter than 1.
    Squash {
        size: usize,
    },
    /// The length of every capsule.
    Lengths {
        size: usize,
    },
    Capsules(Capsules),
    /// Boxes of every cell from what a cell says of each: place and sureness by sigmoids, size by an exponential, a softmax of classes.
    Boxes {
        sizes: Arc<[[f32; 2]]>,
        classes: usize,
    },
    /// Half of the squared distances to points, which go so many times as far as their slopes say.
    Centres {
        strength: f32,
    },
    Transposed(Transposed),
    /// y = x Wᵀ, with the weights of a dense operation from `outputs` to `inputs`.
    TiedDense {
        inputs: usize,
        outputs: usize,
    },
    AddBias,
    /// What units are that are given this, drawn by chance; when predicting, what they are on average. Nothing is learned through it.
    Sample {
        unit: Unit,
        /// Which draw of its layer it is.
        draw: u64,
    },
    /// Which steps are there, for steps of so many numbers.
    PresentSteps {
        features: usize,
    },
    /// 0 where steps are not there.
    FillSteps {
        features: usize,
    },
    /// Steps that are not there, or have this value throughout, are not there.
    DifferentSteps {
        features: usize,
        value: f32,
    },
    /// This number where a mask says that a step is not there.
    HideSteps {
        features: usize,
        instead: f32,
    },
    Recurrence(Recurrence),
    LastStep {
        steps: usize,
    },
    RepeatSteps {
        steps: usize,
    },
    ReverseSteps {
        steps: usize,
    },
    Embedding {
        count: usize,
    },
    OneHot {
        count: usize,
    },
    LayerNorm {
        channels: usize,
        epsilon: f32,
    },
    Attention(Looking),
    AttendingRecurrence(Attending),
    /// Its weights, for every example.
    Learned,
    /// Numbers drawn around means, with variances of which the logarithms are given; when predicting, the means.
    Latent,
    /// The chance that any unit of a block is on.
    PoolChances(Blocks),
    Conv3d {
        cube: Cube,
        filters: usize,
    },
    Pool3d {
        cube: Cube,
        pool: Pool,
    },
    /// A convolution with filters of their own at every place.
    Local {
        window: Window,
        filters: usize,
    },
    Gather(Gather),
}

/// Capsules that others agree on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Capsules {
    pub inputs: usize,
    /// Numbers of a capsule that comes in.
    pub features: usize,
    pub outputs: usize,
    /// Numbers of a capsule that comes out.
    pub size: usize,
    pub routings: usize,
}

/// Numbers in other places.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Gather {
    /// By place of what comes out, the place of what goes in; 0 comes out where there is none.
    pub from: Arc<[Option<u32>]>,
    /// Places of what goes in.
    pub places: usize,
    /// Numbers of a place.
    pub run: usize,
}

/// Units of an image in blocks of neighbours of one channel, of which at most one is on (Lee et al. 2009).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Blocks {
    /// Height, width, channels, in whole blocks.
    pub image: [usize; 3],
    pub block: [usize; 2],
}

impl Blocks {
    /// Height, width, channels with a number for every block.
    pub(crate) fn pooled(&self) -> [usize; 3] {
        let [height, width, channels] = self.image;
        [height / self.block[0], width / self.block[1], channels]
    }

    /// The units of a block, by their numbers in the image.
    pub(crate) fn units(self, block: usize) -> impl Iterator<Item = usize> {
        let [_, width, channels] = self.image;
        let (across, channel) = (self.pooled()[1], block % channels);
        let (row, column) = (block / channels / across, block / channels % across);
        let [down, right] = self.block;
        (row * down..(row + 1) * down).flat_map(move |y| {
            (column * right..(column + 1) * right).map(move |x| (y * width + x) * channels + channel)
        })
    }
}

/// A recurrence whose states look at the steps of a sequence.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Attending {
    pub heads: usize,
    /// Numbers of a head.
    pub size: usize,
    pub steps: usize,
    pub units: usize,
    pub activation: Activation,
}

/// Questions that look at the steps of a sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Looking {
    pub heads: usize,
    /// Numbers of a head.
    pub size: usize,
    pub queries: usize,
    pub steps: usize,
    /// Whether a question sees only the steps up to its own.
    pub causal: bool,
}

/// A unit of a Boltzmann machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    Binary,
    /// The chance that a binary unit is on.
    Chance,
    Gaussian,
    Linear,
    Rectified,
    /// One of a row is on.
    OneOf,
    /// The chance of each of a row.
    Chances,
    /// At most one of a block is on.
    OneOfBlocks(Blocks),
}

/// A transposed convolution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Transposed {
    /// Height, width, channels.
    pub input: [usize; 3],
    pub filters: usize,
    pub kernel: [usize; 2],
    pub stride: [usize; 2],
    pub dilation: [usize; 2],
    /// Rows that are cut off above, columns that are cut off to the left.
    pub before: [usize; 2],
    /// Height and width of what comes out.
    pub out: [usize; 2],
}

/// Chance that works in training.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Noise {
    /// Whole channels are dropped.
    Spatial { rate: f32 },
    /// Times normal numbers of mean 1.
    Factor { rate: f32 },
    /// Plus normal numbers of mean 0.
    Added { deviation: f32 },
    /// Numbers become 0.
    Masked { rate: f32 },
    /// Numbers are dropped so that mean and variance stay.
    Alpha { rate: f32 },
}

/// Images made larger, smaller or deeper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Resize {
    /// Height, width, channels.
    pub input: [usize; 3],
    pub how: Resizing,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Resizing {
    Repeat([usize; 2]),
    Crop { first: [usize; 2], size: [usize; 2] },
    Deepen { block: usize },
}

impl Resize {
    /// Height, width, channels of what comes out.
    pub(crate) fn output(&self) -> [usize; 3] {
        let [height, width, channels] = self.input;
        match self.how {
            Resizing::Repeat([down, right]) => [height.saturating_mul(down), width.saturating_mul(right), channels],
            Resizing::Crop { size: [height, width], .. } => [height, width, channels],
            Resizing::Deepen { block } => [height / block, width / block, channels * block * block],
        }
    }

    /// Where a pixel comes from; `deep` counts those that lie in one.
    pub(crate) fn origin(&self, [y, x]: [usize; 2], deep: usize) -> (usize, usize) {
        match self.how {
            Resizing::Repeat([down, right]) => (y / down, x / right),
            Resizing::Crop { first: [top, left], .. } => (y + top, x + left),
            Resizing::Deepen { block } => (y * block + deep / block, x * block + deep % block),
        }
    }
}

/// What is done to images by chance.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Augmentation {
    /// Height, width, channels.
    pub input: [usize; 3],
    /// Height and width of what comes out.
    pub size: [usize; 2],
    /// Whether they are flipped upside down, and left to right.
    pub flips: [bool; 2],
    /// Degrees, at most.
    pub rotate: f32,
    /// Pixels down and aside, at most.
    pub shift: [usize; 2],
    /// Whether the edge goes on beside an image; else there is nothing.
    pub repeats_edge: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Conv {
    pub window: Window,
    pub filters: usize,
    pub groups: usize,
}

impl Conv {
    /// Channels that one filter sees.
    pub(crate) fn group_channels(&self) -> usize {
        self.window.channels / self.groups
    }

    /// Filters of one group.
    pub(crate) fn group_filters(&self) -> usize {
        self.filters / self.groups
    }

    /// Weights of one filter.
    pub(crate) fn depth(&self) -> usize {
        self.window.kernel[0] * self.window.kernel[1] * self.group_channels()
    }
}

impl Op {
    /// True if the operation draws from its layer's random streams; samples of a Boltzmann machine number their draws themselves.
    pub(crate) fn is_random(&self) -> bool {
        matches!(
            self,
            Self::Dropout { .. }
                | Self::Noise(_)
                | Self::Augment { .. }
                | Self::Latent
                | Self::Activation(Activation::RandomRelu { .. })
        )
    }

    /// True if a gradient of the output is passed on to the inputs: not through samples, masks and indices.
    pub(crate) fn passes_gradient(&self) -> bool {
        !matches!(
            self,
            Self::Sample { .. } | Self::DifferentSteps { .. } | Self::OneHot { .. } | Self::Embedding { .. }
        )
    }
}

impl Node {
    /// Whether an activation may be computed in the same pass.
    pub(crate) fn takes_activation(&self) -> bool {
        matches!(self.op, Op::Dense { .. } | Op::Conv2d(_) | Op::BatchNorm { .. })
    }

    pub(crate) fn is_trained(&self) -> bool {
        !self.is_frozen && (!self.weights.is_empty() || !self.bias.is_empty())
    }
}
