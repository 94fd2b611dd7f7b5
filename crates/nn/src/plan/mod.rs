//! A network lowered for one batch size and one purpose: a list of operations over ranges of one arena, planned once
//! and used for every step of that shape.
//!
//! Time runs 0 … n − 1 over the forward passes, n is the loss, n + 1 … 2n the backward passes in reverse; what
//! others are shown of the passes behind them lives until 2n + 1, when they are done with it. Buffers that are not alive at the same time may share memory.

mod arena;

use std::ops::Range;

use arena::Arena;

use crate::node::{Node, Op};
use crate::pass::Needs;
use crate::plain::Judged;
use crate::{Activation, Loss, Network};

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

/// Where the buffers of one operation lie in the arena; what is not needed is empty.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct BufferRanges {
    pub x: Range<usize>,
    pub y: Range<usize>,
    pub aux: Range<usize>,
    pub marks: Range<usize>,
    pub forward_scratch: Range<usize>,
    pub backward_scratch: Range<usize>,
    /// What went in, if the backward pass reads it.
    pub kept_x: Range<usize>,
    /// What came out, if the backward pass reads it.
    pub kept_y: Range<usize>,
    pub dy: Range<usize>,
    pub dx: Range<usize>,
}

/// The operations of one step, with their memory.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub examples: usize,
    pub purpose: Purpose,
    pub nodes: Vec<Node>,
    pub places: Vec<BufferRanges>,
    pub judged: Judged,
    /// What goes into the network.
    pub input: Range<usize>,
    /// What comes out of it.
    pub output: Range<usize>,
    /// What the loss is given, if its activation is merged into it; else empty.
    pub logits: Range<usize>,
    pub loss_scratch: Range<usize>,
    /// Slope of the loss by what it was given.
    pub dz: Range<usize>,
    /// Backward passes stop at this operation: nothing before it is trained.
    pub first_trained: usize,
    pub arena: usize,
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
        let mut nodes = if lowering.fused { crate::node::fuse(&network.nodes) } else { network.nodes.clone() };
        let merged = if lowering.fused { merge_into_loss(&mut nodes, network.loss()) } else { None };
        let judged = Judged { loss: network.loss().clone(), merged, width: network.output().len() };
        let train = purpose != Purpose::Predict;
        let n = nodes.len();
        let backward = |i: usize| 2 * n - i;
        let first_trained = nodes.iter().position(Node::is_trained).unwrap_or(n);
        let needs: Vec<Needs> = nodes.iter().map(|node| needs(node, examples)).collect();
        let trains = |i: usize| train && i >= first_trained;
        let is_kept = |i: usize| purpose == Purpose::TrainTogether && trains(i) && needs[i].has_rows;

        let mut arena = Arena::default();
        // Activations: index 0 is the input, i + 1 the output of operation i.
        let activations: Vec<_> = (0..=n)
            .map(|i| {
                let len = examples * if i == 0 { network.input().len() } else { nodes[i - 1].output.len() };
                let mut last = i;
                if i < n && trains(i) && needs[i].keeps_x {
                    last = last.max(backward(i));
                }
                if i > 0 && trains(i - 1) && needs[i - 1].keeps_y {
                    last = last.max(backward(i - 1));
                }
                if i < n && is_kept(i) {
                    last = 2 * n + 1;
                }
                // The outputs are read when all is over.
                if i == n && merged.is_none() {
                    last = 2 * n;
                }
                arena.ask(len, i.saturating_sub(1)..last + 1)
            })
            .collect();
        let outputs = match merged {
            Some(_) => arena.ask(examples * judged.width, n..2 * n + 1),
            None => activations[n],
        };
        let loss_scratch = arena.ask(judged.scratch(), n..n + 1);
        // Slopes: index i is by activation i.
        let slopes: Vec<_> = (0..=n)
            .map(|i| {
                let wanted = if i == n { train && first_trained < n } else { train && i > first_trained };
                let len = examples * if i == 0 { network.input().len() } else { nodes[i - 1].output.len() };
                let born = if i == n { n } else { backward(i) };
                let read = match i {
                    0 => born,
                    _ if is_kept(i - 1) => 2 * n + 1,
                    _ => backward(i - 1),
                };
                arena.ask(if wanted { len } else { 0 }, born..read + 1)
            })
            .collect();
        let mut marks = 0;
        let asked: Vec<_> = (0..n)
            .map(|i| {
                let Needs { aux, marks: own, forward_scratch, backward_scratch, .. } = needs[i];
                let end = if trains(i) { backward(i) } else { i };
                let begin = marks;
                marks += if train { own } else { 0 };
                (
                    arena.ask(if train { aux } else { 0 }, i..end + 1),
                    begin..marks,
                    arena.ask(forward_scratch, i..i + 1),
                    arena.ask(if trains(i) { backward_scratch } else { 0 }, backward(i)..backward(i) + 1),
                )
            })
            .collect();

        let arena = arena.place(lowering.shared_memory, 2 * n + 1);
        let places = asked
            .into_iter()
            .enumerate()
            .map(|(i, (aux, marks, forward_scratch, backward_scratch))| BufferRanges {
                x: arena.range(activations[i]),
                y: arena.range(activations[i + 1]),
                aux: arena.range(aux),
                marks,
                forward_scratch: arena.range(forward_scratch),
                backward_scratch: arena.range(backward_scratch),
                kept_x: if needs[i].keeps_x { arena.range(activations[i]) } else { 0..0 },
                kept_y: if needs[i].keeps_y { arena.range(activations[i + 1]) } else { 0..0 },
                dy: arena.range(slopes[i + 1]),
                dx: arena.range(slopes[i]),
            })
            .collect();
        Self {
            examples,
            purpose,
            places,
            input: arena.range(activations[0]),
            output: arena.range(outputs),
            logits: if merged.is_some() { arena.range(activations[n]) } else { 0..0 },
            loss_scratch: arena.range(loss_scratch),
            dz: arena.range(slopes[n]),
            judged,
            nodes,
            first_trained,
            arena: arena.len(),
            marks,
            dead_after: arena.dead_after(),
        }
    }
}

/// Takes the last activation into the loss where both together are simpler than each alone.
fn merge_into_loss(nodes: &mut Vec<Node>, loss: &Loss) -> Option<Activation> {
    let last = nodes.last_mut()?;
    match (&last.op, loss) {
        (Op::Activation(Activation::Softmax), Loss::CrossEntropy | Loss::SparseCrossEntropy | Loss::KlDivergence)
            if last.input.positions() == 1 =>
        {
            nodes.pop();
            Some(Activation::Softmax)
        }
        (_, Loss::BinaryCrossEntropy) if last.activation == Activation::Sigmoid => {
            last.activation = Activation::Identity;
            Some(Activation::Sigmoid)
        }
        (Op::Activation(Activation::Sigmoid), Loss::BinaryCrossEntropy) => {
            nodes.pop();
            Some(Activation::Sigmoid)
        }
        _ => None,
    }
}
