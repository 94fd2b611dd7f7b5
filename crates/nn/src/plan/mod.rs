//! A network lowered for one batch size and one purpose: a list of operations over ranges of one arena, planned once
//! and used for every step of that shape.
//!
//! Time runs 0 … n − 1 over the forward passes, n is the losses, n + 1 … 2n the backward passes in reverse; what
//! others are shown of the passes behind them lives until 2n + 1, when they are done with it. Buffers that are not alive at the same time may share memory.
//!
//! # Layout
//!
//! - `lower`: what is computed in one pass with something else.
//! - `planner`: who needs which buffer from when to when.
//! - `arena`: where they lie.

mod arena;
mod lower;
mod planner;

use std::ops::Range;

use lower::Lowered;
use planner::Planner;

use crate::Network;
use crate::graph::ForceKind;
use crate::node::Node;
use crate::pass::Needs;
use crate::plain::Judged;

/// What a plan is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    Train,
    /// As `Train`, but what gradients of rows are computed from is kept beyond the last backward pass.
    TrainTogether,
    Predict,
}

/// How a network is lowered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lowering {
    /// Whether activations go into the pass before them, and softmax into the loss.
    pub fused: bool,
    /// Whether buffers that are never alive together share memory.
    pub shared_memory: bool,
}

/// The buffers of one operation, as ranges of the arena; what is not needed is empty.
#[derive(Clone, Debug)]
pub(crate) struct Places<B = Range<usize>> {
    /// Rows of what comes out.
    pub rows: usize,
    /// What goes in, by operand.
    pub x: Vec<B>,
    pub y: B,
    pub aux: B,
    pub marks: Range<usize>,
    pub scratch: B,
    /// None if nothing is learned by it and nothing that is learned comes before it.
    pub back: Option<BackPlaces<B>>,
}

/// The buffers of its backward pass.
#[derive(Clone, Debug)]
pub(crate) struct BackPlaces<B = Range<usize>> {
    pub scratch: B,
    /// What went in, by operand, and at the end what came out; empty where the pass does not read it.
    pub kept: Vec<B>,
    pub dy: B,
    /// By operand; empty where nobody needs it.
    pub dx: Vec<B>,
    pub sums: Vec<Sum<B>>,
    pub weights: Slopes<B>,
    pub bias: Slopes<B>,
    /// Whether the gradient of the weights may be computed by rows, after the pass.
    pub by_rows: bool,
}

/// The slope of a value that several operations read is the sum of what each of them says: the one that comes first on the way back
/// writes it, what the others say is added when they are done.
#[derive(Clone, Debug)]
pub(crate) struct Sum<B = Range<usize>> {
    pub from: B,
    pub to: B,
}

/// What a backward pass does about the gradient of some parameters.
#[derive(Clone, Debug)]
pub(crate) struct Slopes<B = Range<usize>> {
    /// Where it is written if another operation that uses them has written theirs before: then it is added.
    pub apart: B,
    /// Whether no other operation will add to it.
    pub are_final: bool,
}

/// The buffers of a head.
#[derive(Clone, Debug)]
pub(crate) struct HeadPlaces<B = Range<usize>> {
    pub judged: Judged,
    /// What it is given, if its activation is merged into it; else empty.
    pub logits: B,
    /// What it is compared with, if that is a value; else empty.
    pub against: B,
    /// Which steps are judged; empty if all are.
    pub mask: B,
    /// What comes out.
    pub output: B,
    pub scratch: B,
    /// Slope of the loss by what it was given.
    pub dz: B,
    /// If another head has judged the same value before.
    pub sum: Option<Sum<B>>,
}

/// The buffers of a force.
#[derive(Clone, Debug)]
pub(crate) struct ForcePlaces<B = Range<usize>> {
    pub kind: ForceKind,
    pub value: B,
    /// Empty where nobody needs it.
    pub dz: B,
    /// If the value has another slope already.
    pub sum: Option<Sum<B>>,
}

/// What goes into the network.
#[derive(Clone, Debug)]
pub(crate) struct InputPlace<B = Range<usize>> {
    pub value: B,
    /// Where it lies in a row of features.
    pub columns: Range<usize>,
}

/// The operations of one step, with their memory.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub examples: usize,
    pub purpose: Purpose,
    pub nodes: Vec<Node>,
    pub places: Vec<Places>,
    pub heads: Vec<HeadPlaces>,
    pub forces: Vec<ForcePlaces>,
    pub inputs: Vec<InputPlace>,
    /// Parameters that no backward pass says anything of.
    pub untouched: Vec<Range<usize>>,
    pub arena: usize,
    /// Numbers that are alive at one time, at most.
    #[cfg(test)]
    pub most_alive: usize,
    pub marks: usize,
    /// By time: the ranges that nobody will read any more once that moment is over.
    pub dead_after: Vec<Vec<Range<usize>>>,
}

impl Plan {
    pub(crate) fn new(
        network: &Network,
        examples: usize,
        purpose: Purpose,
        lowering: Lowering,
        mut needs: impl FnMut(&Node, usize) -> Needs,
    ) -> Self {
        let graph = &network.graph;
        let lowered = if lowering.fused { Lowered::fused(graph) } else { Lowered::plain(graph) };
        let rows = |node: &Node| lowered.graph.rows(node, examples);
        let needs = lowered.graph.nodes.iter().map(|node| needs(node, rows(node))).collect();
        let mut plan = Planner::new(lowered, examples, purpose, needs).plan(lowering.shared_memory);
        plan.untouched = plan.find_untouched(network);
        plan
    }

    fn find_untouched(&self, network: &Network) -> Vec<Range<usize>> {
        let passes =
            self.nodes.iter().zip(&self.places).filter(|(node, places)| places.back.is_some() && node.is_trained());
        let touched: Vec<Range<usize>> =
            passes.flat_map(|(node, _)| [node.weights.clone(), node.bias.clone()]).collect();
        let is_touched =
            |range: &Range<usize>| touched.iter().any(|own| own.start <= range.start && range.end <= own.end);
        let ranges = network.parameters().iter().map(|parameter| parameter.range.clone());
        ranges.filter(|range| !is_touched(range)).collect()
    }

    /// When the backward pass of an operation is.
    pub(crate) fn moment_back(&self, index: usize) -> usize {
        2 * self.nodes.len() - index
    }
}

#[cfg(test)]
mod tests {
    use super::{Lowering, Plan, Purpose};
    use crate::config::{
        ActivationLayer, BatchNorm, Conv2d, ElementWise, ElementWiseOp, GlobalPooling, NetworkConfig, Output, Padding,
        Pool,
    };
    use crate::pass::Needs;
    use crate::{Activation, Network};

    /// Twenty blocks of two convolutions with a way around them, of widths 32, 64 and 128.
    fn residual() -> Network {
        let conv = |filters: usize, kernel: usize| Conv2d::new(filters, [kernel; 2]).padding(Padding::Same);
        let mut config = NetworkConfig::image(32, 32, 3)
            .layer(conv(32, 3))
            .layer(BatchNorm::default().activation(Activation::Relu).name("x0"));
        let widths = [32; 7].into_iter().chain([64; 7]).chain([128; 6]).collect::<Vec<usize>>();
        for (block, &width) in widths.iter().enumerate() {
            let is_larger = block > 0 && widths[block - 1] != width;
            let stride = if is_larger { [2, 2] } else { [1, 1] };
            let (x, end, next) = (format!("x{block}"), format!("b{block}"), format!("x{}", block + 1));
            config = config
                .layer(conv(width, 3).stride(stride).after([x.as_str()]))
                .layer(BatchNorm::default().activation(Activation::Relu))
                .layer(conv(width, 3))
                .layer(BatchNorm::default().name(&end));
            let mut side = x.clone();
            if is_larger {
                side = format!("s{block}");
                config = config.layer(conv(width, 1).stride(stride).after([x.as_str()]));
                config = config.layer(BatchNorm::default().name(&side));
            }
            config = config
                .layer(ElementWise::new(ElementWiseOp::Add).after([end.as_str(), side.as_str()]))
                .layer(ActivationLayer::new(Activation::Relu).name(&next));
        }
        let config = config.layer(GlobalPooling::new(Pool::Average)).layer(Output::by_task(10));
        Network::new(config).expect("a network")
    }

    #[test]
    fn predicting_takes_hardly_more_memory_than_is_alive_at_one_time() {
        let lowering = Lowering { fused: true, shared_memory: true };
        for examples in [1, 64] {
            let plan = Plan::new(&residual(), examples, Purpose::Predict, lowering, |_, _| Needs::default());
            let (arena, most) = (plan.arena as f64, plan.most_alive as f64);
            assert!(arena <= 1.1 * most, "{examples} examples: {arena} numbers for {most} that are alive at one time");
            // Three images of the first width are alive in a block, and no more than that.
            assert!(most <= (3 * examples * 32 * 32 * 32) as f64, "{most}");
        }
    }
}
