//! What is computed in one pass with something else.

use crate::graph::{Graph, ValueId};
use crate::node::Op;
use crate::{Activation, Loss};

/// A graph for one kind of kernels.
pub(super) struct Lowered {
    pub graph: Graph,
    /// By head: the activation that its loss has taken in.
    pub merged: Vec<Option<Activation>>,
}

impl Lowered {
    /// The graph as it is.
    pub(super) fn plain(graph: &Graph) -> Self {
        Self { graph: graph.clone(), merged: vec![None; graph.heads.len()] }
    }

    /// With activations in the pass before them, or in the loss behind them.
    pub(super) fn fused(graph: &Graph) -> Self {
        let graph = fuse(&without_identities(graph));
        let merged = vec![None; graph.heads.len()];
        let mut lowered = Self { graph, merged };
        for head in 0..lowered.merged.len() {
            lowered.merged[head] = lowered.merge_into_loss(head);
        }
        lowered
    }

    /// Takes the last activation into the loss where both together are simpler than each alone, and nobody else reads it.
    fn merge_into_loss(&mut self, head: usize) -> Option<Activation> {
        let graph = &mut self.graph;
        let value = graph.heads[head].value;
        if readers(graph, value) > 1 {
            return None;
        }
        let at = graph.nodes.iter().position(|node| node.writes == value)?;
        let last = &mut graph.nodes[at];
        let activation = match (&last.op, &graph.heads[head].loss) {
            (
                Op::Activation(Activation::Softmax),
                Loss::CrossEntropy | Loss::SparseCrossEntropy | Loss::KlDivergence,
            ) if last.input.positions() == 1 || last.input.steps().is_some() => Activation::Softmax,
            (_, Loss::BinaryCrossEntropy) if last.activation == Activation::Sigmoid => {
                last.activation = Activation::Identity;
                return Some(Activation::Sigmoid);
            }
            (Op::Activation(Activation::Sigmoid), Loss::BinaryCrossEntropy) => Activation::Sigmoid,
            _ => return None,
        };
        graph.heads[head].value = last.reads[0];
        graph.nodes.remove(at);
        Some(activation)
    }
}

/// How often a value is read, by operations, heads and forces.
fn readers(graph: &Graph, value: ValueId) -> usize {
    let by_nodes = graph.nodes.iter().flat_map(|node| &node.reads).filter(|read| **read == value).count();
    by_nodes + graph.ends().filter(|end| *end == value).count()
}

/// Leaves out what does nothing.
fn without_identities(graph: &Graph) -> Graph {
    let mut rest = Graph { nodes: Vec::with_capacity(graph.nodes.len()), ..graph.clone() };
    let mut instead: Vec<ValueId> = (0..graph.values.len()).collect();
    for node in &graph.nodes {
        let mut node = node.clone();
        node.reads.iter_mut().for_each(|read| *read = instead[*read]);
        let is_first = rest.writer(node.reads[0]).is_none();
        match node.op {
            Op::Activation(Activation::Identity) if !is_first => instead[node.writes] = node.reads[0],
            _ => rest.nodes.push(node),
        }
    }
    for head in &mut rest.heads {
        head.value = instead[head.value];
        head.against = head.against.map(|value| instead[value]);
        head.mask = head.mask.map(|value| instead[value]);
    }
    rest.forces.iter_mut().for_each(|force| force.value = instead[force.value]);
    rest
}

/// Puts activations into the pass before them where their slope can be told from what came out, and nobody else wants what went in.
fn fuse(graph: &Graph) -> Graph {
    let mut fused = Graph { nodes: Vec::with_capacity(graph.nodes.len()), ..graph.clone() };
    for node in &graph.nodes {
        let before = fused.nodes.iter_mut().find(|before| before.writes == node.reads[0]);
        match (before, &node.op) {
            (Some(before), Op::Activation(activation))
                if before.takes_activation()
                    && before.activation == Activation::Identity
                    && activation.is_element_wise()
                    && activation.slope_from_output()
                    && readers(graph, before.writes) == 1 =>
            {
                before.activation = *activation;
                before.writes = node.writes;
            }
            _ => fused.nodes.push(node.clone()),
        }
    }
    fused
}
