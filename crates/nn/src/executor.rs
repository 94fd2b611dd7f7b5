//! Runs plans. An executor owns the arena and the kernels; parameters and gradients are handed in.

use std::ops::Range;

use paceline_model::{Batch, Error, Flat, Loss, Number, Targets};

use crate::factors::Packed;
use crate::graph::TargetColumns;
use crate::node::{Node, Op};
use crate::pass::{Backward, Draw, Forward, Needs, RowsOfGradient, WrittenNext};
use crate::plain::{judge, push};
use crate::plan::{BackPlaces, ForcePlaces, HeadPlaces, InputPlace, Lowering, Places, Plan, Purpose, Sum};
use crate::weight_noise::Disturbed;
use crate::{Loss as LossFunction, Network, Real};

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
    /// What came out of several heads, side by side.
    outputs: Vec<K::R>,
    /// Where running statistics go that nobody wants to keep.
    idle_running: Vec<K::R>,
    /// By operation: what a recurrence has come to, where sequences come in stretches.
    carried: Vec<Vec<K::R>>,
    /// Gradients of whole batches that were computed so far.
    pub(crate) passes: u64,
    poison: bool,
    /// The step that is next, counted from the beginning of the run.
    pub(crate) iteration: u64,
    /// Where weights are disturbed in training.
    disturbed: Option<Disturbed<K::R>>,
    /// By layer, if anybody wants to know: seconds of the forward and of the backward passes.
    pub(crate) seconds: Option<Vec<[f64; 2]>>,
}

/// Batch sizes change little: the full one, the short last one, one for evaluation; and a few of each purpose where a step is
/// shared out by speed.
const CACHED_PLANS: usize = 32;

impl<K: Kernels> Executor<K> {
    pub(crate) fn new(network: Network, kernels: K) -> Self {
        let idle_running = vec![K::R::ZERO; network.running_count()];
        let disturbed = Disturbed::new(&network);
        Self {
            network,
            kernels,
            plans: Vec::new(),
            arena: Flat::zeros(0),
            packed: Vec::new(),
            marks: Vec::new(),
            outputs: Vec::new(),
            idle_running,
            carried: Vec::new(),
            passes: 0,
            poison: false,
            iteration: 0,
            disturbed,
            seconds: None,
        }
    }

    /// Numbers that the plan of a training step of so many examples needs, without making it.
    pub(crate) fn planned_arena(&mut self, examples: usize) -> usize {
        Plan::new(&self.network, examples, Purpose::Train, K::LOWERING, |node, n| self.kernels.needs(node, n)).arena
    }

    /// Fills every range of the arena with NaN as soon as nobody should read it any more.
    pub(crate) fn poison(&mut self) {
        self.poison = true;
    }

    /// Predicts for the next stretch of sequences that go on where the last one ended: those of as many examples, in the same order.
    /// The first time, and after [`Self::forget`], they begin.
    pub(crate) fn predict_next(
        &mut self,
        batch: &Batch,
        parameters: &[K::R],
        running: &[K::R],
    ) -> Result<(&[K::R], Option<Loss>), Error> {
        check(&self.network, batch)?;
        let examples = batch.examples();
        let plan = self.plan(examples, Purpose::Predict)?;
        let Plan { nodes, places, .. } = &self.plans[plan];
        let needed = |(node, place): (&Node, &Places)| match &node.op {
            Op::Recurrence(op) => op.carried() * place.rows,
            _ => 0,
        };
        let needed: Vec<usize> = nodes.iter().zip(places).map(needed).collect();
        if !self.carried.iter().map(Vec::len).eq(needed.iter().copied()) {
            self.carried = needed.into_iter().map(|numbers| vec![K::R::ZERO; numbers]).collect();
        }
        self.predict(batch, parameters, running)
    }

    /// Lets sequences begin anew.
    pub(crate) fn forget(&mut self) {
        self.carried.clear();
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
        self.passes += 1;
        let mut disturbed = self.disturbed.take();
        let parameters = disturbed
            .as_mut()
            .map_or(parameters, |disturbed| disturbed.draw(&self.network, self.iteration, parameters));
        let sum = self.forward(plan, batch, parameters, running);
        self.back(plan, batch, parameters, gradient, |_, _| {});
        if let Some(disturbed) = &disturbed {
            disturbed.pull_back(gradient);
        }
        self.disturbed = disturbed;
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
        for range in &self.plans[plan].untouched {
            gradient[range.clone()].fill(K::R::ZERO);
        }
        for index in (0..self.plans[plan].nodes.len()).rev() {
            let Plan { nodes, purpose, places, .. } = &self.plans[plan];
            let Some(back) = &places[index].back else { continue };
            let comes_later = *purpose == Purpose::TrainTogether && back.by_rows;
            let weights = parameters.part(nodes[index].weights.clone());
            let from = nodes[..index].iter().map(|node| node.weights.end).max();
            self.back_through(plan, index, batch, weights, gradient, comes_later);
            if self.poison {
                bury(&mut self.arena, &self.plans[plan], self.plans[plan].moment_back(index));
            }
            passed(&mut self.arena, from.unwrap_or(0));
        }
    }

    /// The backward pass of one operation; what it says is added to what others have said. With `by_rows` it leaves out the gradient
    /// of the weights.
    fn back_through(
        &mut self,
        plan: usize,
        index: usize,
        batch: &Batch,
        weights: &[K::R],
        gradient: &mut [K::R],
        by_rows: bool,
    ) {
        let Self { network, kernels, plans, arena, marks, seconds, .. } = self;
        let Plan { nodes, places, .. } = &plans[plan];
        let (node, place) = (&nodes[index], &places[index]);
        let back = place.back.as_ref().expect("an operation on the way back");
        let own_weights = if by_rows || node.is_frozen { 0..0 } else { node.weights.clone() };
        let own_bias = if node.is_frozen { 0..0 } else { node.bias.clone() };
        let [dweights, dbias] = gradient.get_disjoint_mut([own_weights, own_bias]).expect("parameters do not overlap");
        let BackPlaces { scratch, kept, dy, dx, weights: of_weights, bias: of_bias, .. } = back;
        let written = [&place.aux, scratch, dy, &dx[0], &of_weights.apart, &of_bias.apart].map(Clone::clone);
        let ([aux, scratch, dy, dx, weights_apart, bias_apart], more_dx, kept) =
            arena.parts(written, &dx[1..], kept).unwrap_or_else(|| fall_back(index));
        let (dweights, weights_sum) = in_turn(dweights, weights_apart);
        let (dbias, bias_sum) = in_turn(dbias, bias_apart);
        let mut pass = Backward {
            examples: place.rows,
            draw: Draw::new(network.config().seed, node.layer, node.stream, batch),
            weights,
            x: kept.get(0),
            y: kept.get(kept.len() - 1),
            kept,
            aux,
            marks: &marks[place.marks.clone()],
            scratch,
            dy,
            dweights,
            dbias,
            dx,
            more_dx,
        };
        timed(seconds, node.layer, 1, || kernels.backward(node, &mut pass));
        weights_sum.into_iter().for_each(|sum| add(pass.dweights, sum));
        bias_sum.into_iter().for_each(|sum| add(pass.dbias, sum));
        back.sums.iter().for_each(|sum| add_up(arena, sum, index));
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
        for index in (0..self.plans[plan].nodes.len()).rev() {
            let node = &self.plans[plan].nodes[index];
            let Some(back) = &self.plans[plan].places[index].back else { continue };
            let rows = self.kernels.gradient_rows(node).filter(|_| back.by_rows);
            let weights = parameters.part(node.weights.clone());
            self.back_through(plan, index, batch, weights, gradient, rows.is_some());
            let Self { plans, kernels, arena, seconds, .. } = self;
            let Plan { nodes, places, examples, .. } = &plans[plan];
            let node = &nodes[index];
            let back = places[index].back.as_ref().expect("an operation on the way back");
            if back.bias.are_final {
                // The bias first: the rows of the weights are written over the start of the buffer.
                let bias = parameters.part_mut(node.bias.clone());
                taker.take(bias, &mut gradient[node.bias.clone()], node.bias.clone());
            }
            let (height, width) = (node.input.len(), node.output.len());
            for first in rows.into_iter().flat_map(|rows| (0..height).step_by(rows)) {
                let rows = first..height.min(first + rows.unwrap_or(height));
                let part = node.weights.start + first * width..node.weights.start + rows.end * width;
                let shown = [back.kept[0].clone(), back.dy.clone()];
                let ([scratch], _, shown) =
                    arena.parts([back.scratch.clone()], &[], &shown).unwrap_or_else(|| fall_back(index));
                let rows = RowsOfGradient {
                    examples: *examples,
                    goes_on: first > 0,
                    rows,
                    x: &[shown.get(0)],
                    dy: &[shown.get(1)],
                    dweights: &mut gradient[..part.len()],
                    scratch,
                    next: WrittenNext {
                        values: taker.will_read(parameters.part(part.clone()), part.clone()),
                        from_others: false,
                    },
                };
                timed(seconds, node.layer, 1, || kernels.weight_gradient(node, rows));
                taker.take(parameters.part_mut(part.clone()), &mut gradient[..part.len()], part);
            }
            if rows.is_none() && back.weights.are_final {
                let weights = parameters.part_mut(node.weights.clone());
                taker.take(weights, &mut gradient[node.weights.clone()], node.weights.clone());
            }
            if self.poison {
                bury(&mut self.arena, &self.plans[plan], self.plans[plan].moment_back(index));
            }
        }
        for range in &self.plans[plan].untouched {
            gradient[range.clone()].fill(K::R::ZERO);
            taker.take(parameters.part_mut(range.clone()), &mut gradient[range.clone()], range.clone());
        }
        Ok(loss)
    }

    pub(crate) fn plan_to_learn(&mut self, batch: &Batch, purpose: Purpose) -> Result<usize, Error> {
        check(&self.network, batch)?;
        if matches!(batch.targets, Targets::None) && self.network.wants_targets() {
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
        let known = !matches!(batch.targets, Targets::None) || !self.network.wants_targets();
        let loss = known.then(|| Loss { sum, weight: f64::from(batch.weight()) });
        let Self { plans, arena, outputs, .. } = self;
        match &plans[plan].heads[..] {
            [only] => Ok((&arena[only.output.clone()], loss)),
            several => {
                outputs.clear();
                for row in 0..batch.examples() {
                    for HeadPlaces { judged, output, .. } in several {
                        outputs.extend_from_slice(&arena[output.clone()][row * judged.row()..][..judged.row()]);
                    }
                }
                Ok((outputs, loss))
            }
        }
    }

    pub(crate) fn forward(
        &mut self,
        plan: usize,
        batch: &Batch,
        parameters: &(impl Parameters<K::R> + ?Sized),
        running: &mut [K::R],
    ) -> f64 {
        let Self { network, kernels, plans, arena, marks, poison, seconds, carried, .. } = self;
        let plan = &plans[plan];
        if *poison {
            arena.fill(K::R::of(f64::NAN));
        }
        for InputPlace { value, columns } in &plan.inputs {
            copy_columns(batch, columns, arena.part_mut(value.clone()));
        }
        for (index, node) in plan.nodes.iter().enumerate() {
            let place = &plan.places[index];
            let written = [place.y.clone(), place.aux.clone(), place.scratch.clone()];
            let ([y, aux, scratch], _, operands) =
                arena.parts(written, &[], &place.x).unwrap_or_else(|| fall_back(index));
            let mut pass = Forward {
                examples: place.rows,
                training: plan.purpose != Purpose::Predict,
                draw: Draw::new(network.config().seed, node.layer, node.stream, batch),
                weights: parameters.part(node.weights.clone()),
                bias: parameters.part(node.bias.clone()),
                running: &mut running[node.running.clone()],
                x: operands.get(0),
                operands,
                y,
                aux,
                marks: &mut marks[place.marks.clone()],
                scratch,
                carried: carried.get_mut(index).map_or(&mut [], |carried| &mut carried[..]),
            };
            timed(seconds, node.layer, 0, || kernels.forward(node, &mut pass));
            if *poison {
                bury(arena, plan, index);
            }
        }
        let mut sum = 0.0;
        for HeadPlaces { judged, logits, against, mask, output, scratch, dz, sum: adds } in &plan.heads {
            let written = [output.clone(), dz.clone(), scratch.clone()];
            let read = [logits.clone(), against.clone(), mask.clone()];
            let ([y, dz, scratch], _, z) =
                arena.parts(written, &[], &read).unwrap_or_else(|| fall_back(plan.nodes.len()));
            sum += judge(judged, batch, [z.get(0), z.get(1), z.get(2)], y, dz, scratch);
            adds.iter().for_each(|adds| add_up(arena, adds, plan.nodes.len()));
        }
        for ForcePlaces { kind, value, dz, sum: adds } in plan.forces.iter().filter(|force| !force.dz.is_empty()) {
            let ([dz], _, z) = arena
                .parts([dz.clone()], &[], std::slice::from_ref(value))
                .unwrap_or_else(|| fall_back(plan.nodes.len()));
            sum += push(*kind, batch, z.get(0), dz);
            adds.iter().for_each(|adds| add_up(arena, adds, plan.nodes.len()));
        }
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
            // Those that nobody has used for the longest time come first.
            self.plans[found..].rotate_left(1);
            return self.plans.len() - 1;
        }
        if self.plans.len() == CACHED_PLANS {
            self.plans.remove(0);
        }
        self.plans
            .push(Plan::new(&self.network, examples, purpose, K::LOWERING, |node, n| self.kernels.needs(node, n)));
        self.plans.len() - 1
    }
}

/// Copies what one input is of every row of features.
fn copy_columns<R: Real>(batch: &Batch, columns: &Range<usize>, value: &mut [R]) {
    if columns.len() == batch.width {
        return R::copy(&batch.features, value);
    }
    for (row, value) in value.chunks_exact_mut(columns.len()).enumerate() {
        R::copy(&batch.row(row)[columns.clone()], value);
    }
}

/// What a pass writes: the gradient itself, or room apart that is added to it then.
fn in_turn<'a, R>(gradient: &'a mut [R], apart: &'a mut [R]) -> (&'a mut [R], Option<&'a mut [R]>) {
    if apart.is_empty() { (gradient, None) } else { (apart, Some(gradient)) }
}

fn add<R: Real>(from: &[R], to: &mut [R]) {
    to.iter_mut().zip(from).for_each(|(to, from)| *to += *from);
}

fn add_up<R: Real>(arena: &mut Flat<R>, Sum { from, to }: &Sum, index: usize) {
    let ([to], _, from) =
        arena.parts([to.clone()], &[], std::slice::from_ref(from)).unwrap_or_else(|| fall_back(index));
    add(from.get(0), to);
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
    let wanted = network.graph.targets(&network.graph.heads[0]);
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
    if !network.wants_targets() {
        return Ok(());
    }
    let columns = network.graph.target_columns();
    check_numbers(network, batch)?;
    if !columns.is_empty() {
        return check_several(network, &columns, batch);
    }
    match &batch.targets {
        Targets::None => Ok(()),
        Targets::Classes(_) if wanted != outputs => bad("targets per example", wanted.to_string(), "1 class".into()),
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
        Targets::Values { width, values } if *width != wanted || values.len() != rows * wanted => {
            bad("targets per example", wanted.to_string(), width.to_string())
        }
        Targets::Values { width, values } => values
            .chunks_exact(*width)
            .enumerate()
            .try_for_each(|(row, own)| check_range(&network.graph.heads[0].loss, own, batch.indices[row])),
    }
}

/// Fails for targets outside the domain of a loss, for which it has no minimum.
fn check_range(loss: &LossFunction, targets: &[f32], example: u64) -> Result<(), Error> {
    let (most, expected) = match loss {
        LossFunction::BinaryCrossEntropy => (1.0, "numbers from 0 to 1 for `binary_cross_entropy`"),
        LossFunction::CrossEntropy => (f32::MAX, "numbers that are not negative for `cross_entropy`"),
        LossFunction::KlDivergence => (f32::MAX, "numbers that are not negative for `kl_divergence`"),
        LossFunction::Poisson => (f32::MAX, "numbers that are not negative for `poisson`"),
        _ => return Ok(()),
    };
    // A step without a target is not judged.
    match targets.iter().find(|target| **target < 0.0 || **target > most) {
        None => Ok(()),
        Some(wrong) => {
            let found = format!("{wrong} in example {example}, counted from 0");
            Err(Error::BadBatch { what: "targets:", expected: expected.into(), found })
        }
    }
}

/// Whether the targets of a batch fit a network with several heads.
fn check_several(network: &Network, columns: &[TargetColumns], batch: &Batch) -> Result<(), Error> {
    let (full, short) = TargetColumns::row_lengths(columns);
    let expected = || if full == short { full.to_string() } else { format!("{short} or {full}") };
    let bad = |found: String| Err(Error::BadBatch { what: "targets per example", expected: expected(), found });
    let (width, values) = match &batch.targets {
        Targets::None => return Ok(()),
        Targets::Classes(_) => return bad("1 class".into()),
        Targets::Values { width, values } => (*width, values),
    };
    if ![full, short].contains(&width) || values.len() != batch.examples() * width {
        return bad(width.to_string());
    }
    for (head, columns) in network.graph.heads.iter().zip(columns) {
        let shape = network.graph.values[head.value].shape;
        let (classes, is_sequence) = shape.steps().map_or((shape.len(), false), |_| (shape.channels(), true));
        for (row, targets) in values.chunks_exact(width).enumerate() {
            let own = &targets[columns.range(width)];
            if own.len() == network.graph.targets(head) {
                check_range(&head.loss, own, batch.indices[row])?;
                continue;
            }
            // A step without a target is not judged.
            let is_class = |class: f32| {
                (class >= 0.0 && class.fract() == 0.0 && class < classes as f32) || (is_sequence && class.is_nan())
            };
            if let Some(wrong) = own.iter().find(|class| !is_class(**class)) {
                let layer = &network.layers()[head.layer].name;
                let expected = format!("the number of a class of the output `{layer}`, from 0 to {}", classes - 1);
                let found = format!("{wrong} in example {}, counted from 0", batch.indices[row]);
                return Err(Error::BadBatch { what: "a label:", expected, found });
            }
        }
    }
    Ok(())
}

/// Whether the numbers of things that come in are numbers of things that there are.
fn check_numbers(network: &Network, batch: &Batch) -> Result<(), Error> {
    for (columns, count, is_sequence) in &network.graph.numbered_inputs() {
        for row in 0..batch.examples() {
            let is_number =
                |x: f32| (x >= 0.0 && x.fract() == 0.0 && x < *count as f32) || (*is_sequence && x.is_nan());
            if let Some(wrong) = batch.row(row)[columns.clone()].iter().find(|x| !is_number(**x)) {
                let expected = format!("one of the numbers from 0 to {}", count - 1);
                let found = format!("{wrong} in example {}", batch.indices[row]);
                return Err(Error::BadBatch { what: "things to look up:", expected, found });
            }
        }
    }
    Ok(())
}
