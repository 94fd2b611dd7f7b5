//! What a network is lowered to before the size of a batch is known: values, the operations between them, and the heads that judge
//! what comes out. A list of layers is a graph in which every operation reads what the one before has written.

use std::ops::Range;

use crate::node::{Node, Op, Unit};
use crate::{Loss, Shape};

/// The number of a value in its graph.
pub(crate) type ValueId = usize;

/// An array with some rows for every example, which operations read and write.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Value {
    /// Of one row.
    pub shape: Shape,
    /// Rows that each example has: one, unless several values were stacked.
    pub copies: usize,
    /// Says of a sequence which steps are there; all of them if there is none.
    pub mask: Option<ValueId>,
}

/// What comes from the features of a batch.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Input {
    pub value: ValueId,
    /// Where it lies in a row of features.
    pub columns: Range<usize>,
}

/// Where a value is compared with a target.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Head {
    /// The layer that it came from.
    pub layer: usize,
    pub value: ValueId,
    pub loss: Loss,
    /// What its loss counts among those of others.
    pub weight: f32,
    /// The share of a target that is spread over all classes while something is learned.
    pub smoothing: f32,
    /// What it is compared with, if that is a value and not the target of the example.
    pub against: Option<ValueId>,
    /// Says which steps of a sequence are judged.
    pub mask: Option<ValueId>,
}

/// A slope that a value is given besides those of the heads.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Force {
    pub value: ValueId,
    pub kind: ForceKind,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum ForceKind {
    /// That of the free energy of hidden units, by what they are given.
    Energy { unit: Unit, sign: f32 },
    /// Of units that shall be on this often: what they are on average beyond it, times what that costs.
    Sparse { unit: Unit, target: f32, cost: f32 },
    /// Of distances to the centres of all classes: that to the own one shall be small, and counts this much in the loss.
    OfClass { lambda: f32 },
    /// Of means that shall be 0: half of their squares, which count in the loss.
    PriorMean,
    /// Of logarithms of variances that shall be 1: ½ (σ² − 1 − ln σ²), which count in the loss.
    PriorVariance,
}

/// Where the targets of one of several heads are in a row of targets. A row has a number for every output of every head, or is short
/// and has the number of a class for those that tell classes apart; of sequences for every step.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TargetColumns {
    full: Range<usize>,
    short: Range<usize>,
    /// Numbers of a short row.
    short_row: usize,
}

impl TargetColumns {
    /// Numbers of a full row and of a short one, of all heads.
    pub(crate) fn row_lengths(all: &[Self]) -> (usize, usize) {
        all.last().map_or((0, 0), |last| (last.full.end, last.short.end))
    }

    /// Where the targets of this head are in a row of so many.
    pub(crate) fn range(&self, width: usize) -> Range<usize> {
        if width == self.short_row { self.short.clone() } else { self.full.clone() }
    }
}

/// Values and what is done with them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Graph {
    pub values: Vec<Value>,
    pub inputs: Vec<Input>,
    /// In an order in which each reads only what was written before it.
    pub nodes: Vec<Node>,
    pub heads: Vec<Head>,
    pub forces: Vec<Force>,
}

impl Graph {
    /// Adds a value.
    pub(crate) fn add(&mut self, shape: Shape, copies: usize) -> ValueId {
        self.values.push(Value { shape, copies, mask: None });
        self.values.len() - 1
    }

    /// Numbers of a target of a head.
    pub(crate) fn targets(&self, head: &Head) -> usize {
        let shape = self.values[head.value].shape;
        head.loss.targets(shape).unwrap_or(shape.len())
    }

    /// By head, where its targets are; nothing if there is only one, which has them all, unless it judges sequences.
    pub(crate) fn target_columns(&self) -> Vec<TargetColumns> {
        if let [only] = &self.heads[..]
            && self.values[only.value].shape.steps().is_none()
        {
            return Vec::new();
        }
        let (mut full, mut short) = (0..0, 0..0);
        let mut columns: Vec<TargetColumns> = (self.heads.iter())
            .map(|head| {
                let shape = self.values[head.value].shape;
                let (width, classes) = (self.targets(head), shape.steps().unwrap_or(1));
                full = full.end..full.end + width;
                short = short.end..short.end + if head.loss.is_of_classes() { classes } else { width };
                TargetColumns { full: full.clone(), short: short.clone(), short_row: 0 }
            })
            .collect();
        columns.iter_mut().for_each(|columns| columns.short_row = short.end);
        columns
    }

    /// Whether the gradient of an operation's weights can be computed by rows, apart from all others.
    pub(crate) fn has_rows(&self, node: &Node) -> bool {
        let written = &self.values[node.writes];
        written.copies == 1 && written.shape.len() == node.output.len() && !self.shares_parameters()
    }

    /// Whether any parameters are used by more than one operation.
    fn shares_parameters(&self) -> bool {
        let trained = || self.nodes.iter().filter(|node| node.is_trained());
        let twice = |ranges: Vec<&Range<usize>>| {
            let mut starts: Vec<usize> =
                ranges.iter().filter(|range| !range.is_empty()).map(|range| range.start).collect();
            starts.sort_unstable();
            starts.windows(2).any(|pair| pair[0] == pair[1])
        };
        twice(trained().map(|node| &node.weights).collect()) || twice(trained().map(|node| &node.bias).collect())
    }

    /// Inputs that are numbers of things: their columns, how many things there are, and whether it is a sequence of them.
    pub(crate) fn numbered_inputs(&self) -> Vec<(Range<usize>, usize, bool)> {
        let looked_up = self.nodes.iter().filter_map(|node| match node.op {
            Op::Embedding { count } | Op::OneHot { count } => Some((node.reads[0], count)),
            _ => None,
        });
        // Sequences are filled up before anybody reads them.
        let origin = |value: ValueId| match self.writer(value) {
            Some(Node { op: Op::FillSteps { .. }, reads, .. }) => (reads[0], true),
            _ => (value, false),
        };
        let of_input = |(value, count): (ValueId, usize)| {
            let (value, is_sequence) = origin(value);
            let input = self.inputs.iter().find(|input| input.value == value)?;
            Some((input.columns.clone(), count, is_sequence))
        };
        looked_up.filter_map(of_input).collect()
    }

    /// Rows of what an operation writes for so many examples.
    pub(crate) fn rows(&self, node: &Node, examples: usize) -> usize {
        let Value { shape, copies, .. } = &self.values[node.writes];
        examples * copies * (shape.len() / node.output.len())
    }

    /// Whether anything is compared with the targets of examples.
    pub(crate) fn wants_targets(&self) -> bool {
        self.heads.iter().any(|head| head.against.is_none())
    }

    /// The values that are judged, compared with or pushed: what the operations are there for.
    pub(crate) fn ends(&self) -> impl Iterator<Item = ValueId> {
        let judged = self.heads.iter().flat_map(|head| [Some(head.value), head.against, head.mask]).flatten();
        judged.chain(self.forces.iter().map(|force| force.value))
    }

    /// Leaves out the operations that no end needs.
    pub(crate) fn prune(&mut self) {
        let mut is_needed = vec![false; self.values.len()];
        self.ends().for_each(|value| is_needed[value] = true);
        for node in self.nodes.iter().rev() {
            if is_needed[node.writes] {
                node.reads.iter().for_each(|read| is_needed[*read] = true);
            }
        }
        self.nodes.retain(|node| is_needed[node.writes]);
    }

    /// The operation that writes a value; none if it comes from the features.
    pub(crate) fn writer(&self, value: ValueId) -> Option<&Node> {
        self.nodes.iter().find(|node| node.writes == value)
    }
}
