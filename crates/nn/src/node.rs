//! The operations that a network is lowered to, before the batch size is known.

use std::ops::Range;
use std::sync::Arc;

use crate::config::Pool;
use crate::custom::CustomLayer;
use crate::window::Window;
use crate::{Activation, Shape};

/// One operation on a batch.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    /// The layer that it came from; random numbers are counted by it.
    pub layer: usize,
    pub op: Op,
    pub input: Shape,
    pub output: Shape,
    pub weights: Range<usize>,
    pub bias: Range<usize>,
    pub running: Range<usize>,
    /// Done to what comes out, in the same pass; identity where nothing was fused.
    pub activation: Activation,
}

#[derive(Clone, Debug)]
pub(crate) enum Op {
    Dense { inputs: usize, outputs: usize },
    Conv2d(Conv),
    Pool { window: Window, pool: Pool },
    GlobalPool { positions: usize, channels: usize, pool: Pool },
    BatchNorm { channels: usize, positions: usize, epsilon: f32, decay: f32 },
    Dropout { rate: f32 },
    Activation(Activation),
    Lrn { channels: usize, k: f32, n: usize, alpha: f32, beta: f32 },
    ZeroPad { height: usize, width: usize, channels: usize, padding: [usize; 4] },
    Custom(Arc<dyn CustomLayer>),
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

impl Node {
    /// Whether an activation may be computed in the same pass.
    fn takes_activation(&self) -> bool {
        matches!(self.op, Op::Dense { .. } | Op::Conv2d(_) | Op::BatchNorm { .. })
    }

    pub(crate) fn is_trained(&self) -> bool {
        !self.weights.is_empty() || !self.bias.is_empty()
    }
}

/// Puts activations into the pass before them where their slope can be told from what came out.
pub(crate) fn fuse(nodes: &[Node]) -> Vec<Node> {
    let mut fused: Vec<Node> = Vec::with_capacity(nodes.len());
    for node in nodes {
        match (fused.last_mut(), &node.op) {
            (Some(_), Op::Activation(Activation::Identity)) => {}
            (Some(last), Op::Activation(activation))
                if last.takes_activation()
                    && last.activation == Activation::Identity
                    && activation.is_element_wise()
                    && activation.slope_from_output() =>
            {
                last.activation = *activation;
            }
            _ => fused.push(node.clone()),
        }
    }
    fused
}
