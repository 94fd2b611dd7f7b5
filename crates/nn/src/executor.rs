//! Runs plans. An executor owns the arena and the kernels; parameters and gradients are handed in.

use std::ops::Range;

use paceline_model::{Batch, Error, Flat, Loss, Number, Targets};

use crate::factors::Packed;
use crate::node::Node;
use crate::pass::{Backward, Draw, Forward, Needs, RowsOfGradient, WrittenNext};
use crate::plain::judge;
use crate::plan::{Lowering, Plan, Purpose};
use crate::{Network, Real};

/// How operations are carried out.
pub(crate) trait Kernels: Send {
    /// The precision.
    type R: Real;
    /// How networks are lowered for these kernels.
    const LOWERING: Lowering;
    fn needs(&mut self, node: &Node, examples: usize) -> Needs;
    fn forward(&mut self, node: &Node, pass: &mut Forward<'_, Self::R>);
    /// Without `dweights` where [`Self::gradient_rows`] says that they can come later.
    fn backward(&mut self, node: &Node, pass: &mut Backward<'_, Self::R>);
    /// Rows of the weights whose gradient is best computed, and used, at a time; none if all come at once.
    fn gradient_rows(&self, _node: &Node) -> Option<usize> {
        None
    }
    /// The gradient of some rows of the weights, after [`Self::backward`] without `dweights`.
    fn weight_gradient(&mut self, node: &Node, _pass: RowsOfGradient<'_, Self::R>) {
        unreachable!("{:?} has no rows", node.op)
    }
    /// Numbers of scratch that [`Self::weight_gradient`] needs.
    fn weight_gradient_scratch(&self, _node: &Node, _examples: usize) -> usize {
        0
    }
}

/// Parameters that are looked at part by part: others may be changing the rest.
pub(crate) trait Parameters<R> {
    fn part(&self, range: Range<usize>) -> &[R];
}

impl<R> Parameters<R> for [R] {
    fn part(&self, range: Range<usize>) -> &[R] {
        &self[range]
    }
}

impl<R: Number> Parameters<R> for Flat<R> {
    fn part(&self, range: Range<usize>) -> &[R] {
        Flat::part(self, range)
    }
}

/// Whoever uses a gradient part by part.
pub(crate) trait Take<R> {
    /// What is worth bringing near before this part is taken, besides its gradient.
    fn will_read<'a>(&'a self, parameters: &'a [R], part: Range<usize>) -> [&'a [R]; 2];
    /// Uses the gradient of a part.
    fn take(&mut self, parameters: &mut [R], gradient: &mut [R], part: Range<usize>);
}

/// Runs the plans of one network.
pub(crate) struct Executor<K: Kernels> {
    pub(crate) network: Network,
    pub(crate) kernels: K,
    pub(crate) plans: Vec<Plan>,
    pub(crate) arena: Flat<K::R>,
    /// By the number of the sum, see `MOST_PACKED`.
    pub(crate) packed: Vec<Packed<K::R>>,
    marks: Vec<u16>,
    /// Where running statistics go that nobody wants to keep.
    idle_running: Vec<K::R>,
    poison: bool,
    /// By layer, if anybody wants to know: seconds of the forward and of the backward passes.
    pub(crate) seconds: Option<Vec<[f64; 2]>>,
}

/// Batch sizes change little: the full one, the short last one, one for evaluation; and a few of each purpose where a step is
/// shared out by speed.
const CACHED_PLANS: usize = 32;

impl<K: Kernels> Executor<K> {
    pub(crate) fn new(network: Network, kernels: K) -> Self {
        let idle_running = vec![K::R::ZERO; network.running_count()];
        Self {
            network,
            kernels,
            plans: Vec::new(),
            arena: Flat::zeros(0),
            packed: Vec::new(),
            marks: Vec::new(),
            idle_running,
            poison: false,
            seconds: None,
        }
    }

    /// Fills every range of the arena with NaN as soon as nobody should read it any more.
    pub(crate) fn poison(&mut self) {
        self.poison = true;
    }

    /// The gradient of the summed loss by all parameters, written over `gradient`.
    pub(crate) fn gradient(
        &mut self,
        batch: &Batch,
        parameters: &[K::R],
        running: &mut [K::R],
        gradient: &mut [K::R],
    ) -> Result<Loss, Error> {
        let plan = self.plan_to_learn(batch, Purpose::Train)?;
        let sum = self.forward(plan, batch, parameters, running);
        self.back(plan, batch, parameters, gradient, |_, _| {});
        Ok(Loss { sum, weight: f64::from(batch.weight()) })
    }

    /// The way back. With [`Purpose::TrainTogether`] it leaves out the gradients that can be computed by rows. `passed` is
    /// told from where on weights are not read any more, and given the arena that shows what they were given.
    pub(crate) fn back(
        &mut self,
        plan: usize,
        batch: &Batch,
        parameters: &(impl Parameters<K::R> + ?Sized),
        gradient: &mut [K::R],
        mut passed: impl FnMut(&mut Flat<K::R>, usize),
    ) {
        let plan = &self.plans[plan];
        for (index, node) in plan.nodes.iter().enumerate().skip(plan.first_trained).rev() {
            let comes_later = plan.purpose == Purpose::TrainTogether && self.kernels.gradient_rows(node).is_some();
            let weights = if comes_later { 0..0 } else { node.weights.clone() };
            let slopes = gradient.get_disjoint_mut([weights, node.bias.clone()]).expect("parameters do not overlap");
            let weights = parameters.part(node.weights.clone());
            let draw = Draw::new(self.network.config().seed, node.layer, batch);
            let mut pass = backward_pass(plan, index, &mut self.arena, &self.marks, draw, weights, slopes);
            timed(&mut self.seconds, node.layer, 1, || self.kernels.backward(node, &mut pass));
            if self.poison {
                bury(&mut self.arena, plan, 2 * plan.nodes.len() - index);
            }
            let from = plan.nodes[..index].iter().map(|node| node.weights.end).max();
            passed(&mut self.arena, from.unwrap_or(0));
        }
    }

    /// The same in parts: each is taken as soon as it is there and its parameters are not needed any more, while it is
    /// in the cache. `gradient` is left with remains.
    ///
    /// Nothing is taken when the loss is not finite.
    pub(crate) fn gradient_in_parts(
        &mut self,
        batch: &Batch,
        parameters: &mut Flat<K::R>,
        running: &mut [K::R],
        gradient: &mut [K::R],
        taker: &mut impl Take<K::R>,
    ) -> Result<Loss, Error> {
        let plan = self.plan_to_learn(batch, Purpose::Train)?;
        let sum = self.forward(plan, batch, parameters, running);
        let loss = Loss { sum, weight: f64::from(batch.weight()) };
        if !sum.is_finite() {
            return Ok(loss);
        }
        let plan = &self.plans[plan];
        for (index, node) in plan.nodes.iter().enumerate().skip(plan.first_trained).rev() {
            let draw = Draw::new(self.network.config().seed, node.layer, batch);
            let rows = self.kernels.gradient_rows(node);
            let weights = if rows.is_some() { 0..0 } else { node.weights.clone() };
            let slopes = gradient.get_disjoint_mut([weights, node.bias.clone()]).expect("parameters do not overlap");
            let (arena, marks) = (&mut self.arena, &self.marks);
            let weights = parameters.part(node.weights.clone());
            let mut pass = backward_pass(plan, index, arena, marks, draw, weights, slopes);
            timed(&mut self.seconds, node.layer, 1, || self.kernels.backward(node, &mut pass));
            // The bias first: the rows of the weights are written over the start of the buffer.
            let bias = parameters.part_mut(node.bias.clone());
            taker.take(bias, &mut gradient[node.bias.clone()], node.bias.clone());
            let (height, width) = (node.input.len(), node.output.len());
            for first in rows.into_iter().flat_map(|rows| (0..height).step_by(rows)) {
                let rows = first..height.min(first + rows.unwrap_or(height));
                let part = node.weights.start + first * width..node.weights.start + rows.end * width;
                let pass = backward_pass(plan, index, &mut self.arena, &self.marks, draw, &[], [&mut [], &mut []]);
                let rows = RowsOfGradient {
                    examples: plan.examples,
                    goes_on: first > 0,
                    rows,
                    x: &[pass.x],
                    dy: &[pass.dy],
                    dweights: &mut gradient[..part.len()],
                    scratch: pass.scratch,
                    next: WrittenNext {
                        values: taker.will_read(parameters.part(part.clone()), part.clone()),
                        from_others: false,
                    },
                };
                timed(&mut self.seconds, node.layer, 1, || self.kernels.weight_gradient(node, rows));
                taker.take(parameters.part_mut(part.clone()), &mut gradient[..part.len()], part);
            }
            if rows.is_none() {
                let weights = parameters.part_mut(node.weights.clone());
                taker.take(weights, &mut gradient[node.weights.clone()], node.weights.clone());
            }
            if self.poison {
                bury(&mut self.arena, plan, 2 * plan.nodes.len() - index);
            }
        }
        Ok(loss)
    }

    pub(crate) fn plan_to_learn(&mut self, batch: &Batch, purpose: Purpose) -> Result<usize, Error> {
        check(&self.network, batch)?;
        if matches!(batch.targets, Targets::None) {
            let expected = "something to learn from".into();
            return Err(Error::BadBatch { what: "targets", expected, found: "none".into() });
        }
        self.plan(batch.examples(), purpose)
    }

    /// The outputs of every example, and the loss if the batch has targets.
    pub(crate) fn predict(
        &mut self,
        batch: &Batch,
        parameters: &[K::R],
        running: &[K::R],
    ) -> Result<(&[K::R], Option<Loss>), Error> {
        check(&self.network, batch)?;
        let plan = self.plan(batch.examples(), Purpose::Predict)?;
        let mut idle = std::mem::take(&mut self.idle_running);
        idle.copy_from_slice(running);
        let sum = self.forward(plan, batch, parameters, &mut idle);
        self.idle_running = idle;
        let known = !matches!(batch.targets, Targets::None);
        let loss = known.then(|| Loss { sum, weight: f64::from(batch.weight()) });
        Ok((&self.arena[self.plans[plan].output.clone()], loss))
    }

    pub(crate) fn forward(
        &mut self,
        plan: usize,
        batch: &Batch,
        parameters: &(impl Parameters<K::R> + ?Sized),
        running: &mut [K::R],
    ) -> f64 {
        let Self { network, kernels, plans, arena, marks, poison, seconds, .. } = self;
        let plan = &plans[plan];
        if *poison {
            arena.fill(K::R::of(f64::NAN));
        }
        K::R::copy(&batch.features, &mut arena[plan.input.clone()]);
        for (index, node) in plan.nodes.iter().enumerate() {
            let place = &plan.places[index];
            let [x, y, aux, scratch] = arena
                .get_disjoint_mut([place.x.clone(), place.y.clone(), place.aux.clone(), place.forward_scratch.clone()])
                .unwrap_or_else(|_| fall_back(index));
            let mut pass = Forward {
                examples: plan.examples,
                training: plan.purpose != Purpose::Predict,
                draw: Draw::new(network.config().seed, node.layer, batch),
                weights: parameters.part(node.weights.clone()),
                bias: parameters.part(node.bias.clone()),
                running: &mut running[node.running.clone()],
                x,
                y,
                aux,
                marks: &mut marks[place.marks.clone()],
                scratch,
            };
            timed(seconds, node.layer, 0, || kernels.forward(node, &mut pass));
            if *poison {
                bury(arena, plan, index);
            }
        }
        let [z, y, dz, scratch] = arena
            .get_disjoint_mut([plan.logits.clone(), plan.output.clone(), plan.dz.clone(), plan.loss_scratch.clone()])
            .unwrap_or_else(|_| fall_back(plan.nodes.len()));
        let sum = judge(&plan.judged, batch, z, y, dz, scratch);
        if *poison {
            bury(arena, plan, plan.nodes.len());
        }
        sum
    }

    /// The plan for this many examples, made now if it is not there yet, with memory to run it.
    fn plan(&mut self, examples: usize, purpose: Purpose) -> Result<usize, Error> {
        let index = self.lowered(examples, purpose);
        let Plan { arena, marks, .. } = self.plans[index];
        let bytes = arena.saturating_mul(size_of::<K::R>());
        self.arena.grow(arena).map_err(|_| Error::OutOfMemory { examples, bytes })?;
        self.marks.resize(self.marks.len().max(marks), 0);
        Ok(index)
    }

    /// The plan, to look at.
    pub(crate) fn lowered(&mut self, examples: usize, purpose: Purpose) -> usize {
        if let Some(found) = self.plans.iter().position(|p| p.examples == examples && p.purpose == purpose) {
            return found;
        }
        if self.plans.len() == CACHED_PLANS {
            self.plans.remove(0);
        }
        self.plans
            .push(Plan::new(&self.network, examples, purpose, K::LOWERING, |node, n| self.kernels.needs(node, n)));
        self.plans.len() - 1
    }
}

fn backward_pass<'a, R: Real>(
    plan: &Plan,
    index: usize,
    arena: &'a mut Flat<R>,
    marks: &'a [u16],
    draw: Draw<'a>,
    weights: &'a [R],
    [dweights, dbias]: [&'a mut [R]; 2],
) -> Backward<'a, R> {
    let place = &plan.places[index];
    let written = [place.aux.clone(), place.backward_scratch.clone(), place.dy.clone(), place.dx.clone()];
    let ([aux, scratch, dy, dx], [x, y]) =
        arena.parts(written, [place.kept_x.clone(), place.kept_y.clone()]).unwrap_or_else(|| fall_back(index));
    let marks = &marks[place.marks.clone()];
    Backward { examples: plan.examples, draw, weights, x, y, aux, marks, scratch, dy, dweights, dbias, dx }
}

/// Buffers of one operation are alive together, so the plan never lets them overlap.
fn fall_back(index: usize) -> ! {
    unreachable!("the plan gave operation {index} buffers that overlap")
}

/// Runs one pass of a layer, and takes its time if anybody wants to know.
fn timed(seconds: &mut Option<Vec<[f64; 2]>>, layer: usize, direction: usize, pass: impl FnOnce()) {
    match seconds {
        None => pass(),
        Some(seconds) => {
            let start = std::time::Instant::now();
            pass();
            seconds[layer][direction] += start.elapsed().as_secs_f64();
        }
    }
}

fn bury<R: Real>(arena: &mut Flat<R>, plan: &Plan, moment: usize) {
    for range in &plan.dead_after[moment] {
        arena.part_mut(range.clone()).fill(R::of(f64::NAN));
    }
}

/// Whether a batch fits a network.
fn check(network: &Network, batch: &Batch) -> Result<(), Error> {
    let bad = |what, expected: String, found: String| Err(Error::BadBatch { what, expected, found });
    let (inputs, outputs) = (network.input().len(), network.output().len());
    let rows = batch.examples();
    if rows == 0 {
        return bad("examples", "at least 1".into(), "0".into());
    }
    if batch.width != inputs || batch.features.len() != rows * inputs {
        let found = format!("{} ({} in all for {rows} examples)", batch.width, batch.features.len());
        return bad("features per example", inputs.to_string(), found);
    }
    if let Some(weights) = &batch.weights
        && weights.len() != rows
    {
        return bad("weights", rows.to_string(), weights.len().to_string());
    }
    match &batch.targets {
        Targets::None => Ok(()),
        Targets::Classes(classes) if classes.len() != rows => {
            bad("classes", rows.to_string(), classes.len().to_string())
        }
        Targets::Classes(classes) => {
            // One output tells two classes apart.
            let known = if outputs == 1 { 2 } else { outputs };
            match classes.iter().position(|&c| c as usize >= known) {
                Some(row) => {
                    let (example, class) = (batch.indices[row], classes[row]);
                    Err(Error::ClassOutOfRange { example, class, classes: known })
                }
                None => Ok(()),
            }
        }
        Targets::Values { width, values } if *width != outputs || values.len() != rows * outputs => {
            bad("targets per example", outputs.to_string(), width.to_string())
        }
        Targets::Values { .. } => Ok(()),
    }
}
