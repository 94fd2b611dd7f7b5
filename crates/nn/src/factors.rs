//! Gradients of rows of weights, computed from what replicas of a process have shown of their backward passes: what went
//! in and the slopes of what came out. A replica that sums such rows over all examples writes no gradient that others
//! would have to read.

use std::ops::Range;

use paceline_model::{Batch, Error, FactorSum, Flat, Loss, SharedFactors, TakeFactors};

use crate::executor::{Executor, Kernels};
use crate::pass::{RowsOfGradient, WrittenNext};
use crate::plan::{Plan, Purpose};

/// What was made ready of the factors of a sum.
#[derive(Default)]
pub(crate) struct Packed<R> {
    /// The operation, the step and the number of the sum that they are of.
    of: Option<(usize, u64, usize)>,
    scratch: Flat<R>,
}

/// Sums of which that is kept; of more, some are made ready again for every part.
const MOST_PACKED: usize = 8;

/// Parameters whose gradient can come from factors.
pub(crate) struct Factored {
    /// Where they lie.
    pub range: Range<usize>,
    /// As many go together.
    pub part: usize,
}

impl<K: Kernels<R = f32>> Executor<K> {
    /// All parameters whose gradient can come from factors, in their order.
    pub(crate) fn factored(&self) -> Vec<Factored> {
        let graph = &self.network.graph;
        let nodes = graph.nodes.iter().filter(|node| node.is_trained() && graph.has_rows(node));
        let rows = |node| self.kernels.gradient_rows(node);
        let mut factored: Vec<Factored> = nodes
            .filter_map(|node| rows(node).map(|rows| (node, rows)))
            .map(|(node, rows)| Factored { range: node.weights.clone(), part: rows * node.output.len() })
            .collect();
        factored.sort_by_key(|factored| factored.range.start);
        factored
    }

    /// The gradient by all other parameters, and the factors of those that are [`Self::factored`]: see
    /// [`paceline_model::PartwiseModel::factored_gradient`].
    pub(crate) fn factored_gradient(
        &mut self,
        batch: &Batch,
        parameters: &Flat,
        running: &mut [f32],
        gradient: &mut [f32],
        passed: &mut dyn TakeFactors,
    ) -> Result<Loss, Error> {
        self.packed.iter_mut().for_each(|packed| packed.of = None);
        let plan = self.plan_to_learn(batch, Purpose::TrainTogether)?;
        let sum = self.forward(plan, batch, parameters, running);
        if sum.is_finite() {
            let examples = batch.examples();
            let show = |arena: &mut Flat, from| passed.passed(&SharedFactors { examples, values: arena.share() }, from);
            self.back(plan, batch, parameters, gradient, show);
        }
        Ok(Loss { sum, weight: f64::from(batch.weight()) })
    }

    /// The gradient of a part of factored parameters over the examples of replicas, one after the other. `step` tells one
    /// step's factors from another's, `next` is what is written next.
    ///
    /// The bits are those of one replica that has all these examples.
    pub(crate) fn gradient_of_factors(
        &mut self,
        part: &Range<usize>,
        sum: FactorSum<'_>,
        step: u64,
        next: [&[f32]; 2],
        gradient: &mut [f32],
    ) {
        let holds = |weights: &Range<usize>| weights.start <= part.start && part.end <= weights.end;
        let (mut x, mut dy) = (Vec::with_capacity(sum.factors.len()), Vec::with_capacity(sum.factors.len()));
        let (mut of, mut examples) = (None, 0);
        for shown in sum.factors.iter().filter(|shown| shown.examples > 0) {
            let plan = self.lowered(shown.examples, Purpose::TrainTogether);
            let Plan { nodes, places, .. } = &self.plans[plan];
            let index = nodes.iter().position(|node| holds(&node.weights)).expect("a part of one layer's weights");
            let back = places[index].back.as_ref().expect("weights that are trained");
            x.push(shown.values.part(back.kept[0].clone()));
            dy.push(shown.values.part(back.dy.clone()));
            (of, examples) = (Some((plan, index)), examples + shown.examples);
        }
        let (plan, index) = of.expect("factors of those who have examples");
        let Self { plans, kernels, packed, .. } = self;
        let node = &plans[plan].nodes[index];
        let width = node.output.len();
        let needed = kernels.weight_gradient_scratch(node, examples);
        let room = sum.number % MOST_PACKED;
        if packed.len() <= room {
            packed.resize_with(room + 1, Packed::default);
        }
        let packed = &mut packed[room];
        if packed.scratch.len() < needed {
            *packed = Packed { of: None, scratch: Flat::zeros(needed) };
        }
        let key = (index, step, sum.number);
        let pass = RowsOfGradient {
            examples,
            rows: (part.start - node.weights.start) / width..(part.end - node.weights.start) / width,
            x: &x,
            dy: &dy,
            dweights: gradient,
            goes_on: packed.of.replace(key) == Some(key),
            scratch: &mut packed.scratch,
            next: WrittenNext { values: next, from_others: true },
        };
        kernels.weight_gradient(node, pass);
    }
}
