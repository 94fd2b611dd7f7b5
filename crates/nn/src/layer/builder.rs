use std::ops::Range;

use super::joining;
use super::wiring::{self, Origin};
use crate::Updater;
use crate::config::{ElementWiseOp, NetworkConfig, Settings, nearest};
use crate::graph::{Force, ForceKind, Graph, Head, Input, ValueId};
use crate::network::{LayerInfo, Parameter, Start};
use crate::node::{Gather, Node, Op};
use crate::updater::Segment;
use crate::window::{Misfit, Window};
use crate::{Activation, Error, Fan, GradientNormalisation, Loss, Network, Registry, Shape};

/// More numbers in one place than any machine has memory for: whoever asks for them has made a mistake.
const MOST: usize = 1 << 40;

/// The numbers of one example, if they can be counted.
fn count(shape: Shape) -> Option<usize> {
    let counted = match shape {
        Shape::Flat(n) => Some(n),
        Shape::Image { height, width, channels } => height.checked_mul(width)?.checked_mul(channels),
        Shape::Volume { depth, height, width, channels } => {
            depth.checked_mul(height)?.checked_mul(width)?.checked_mul(channels)
        }
        Shape::Sequence { steps, features } => steps.checked_mul(features),
    };
    counted.filter(|n| *n <= MOST)
}

/// What layers read of a sequence that comes in: it says itself which steps are there, and the others are 0.
fn fill(graph: &mut Graph, raw: ValueId) -> ValueId {
    let shape = graph.values[raw].shape;
    let features = shape.channels();
    let mut add = |op: Op, output: Shape| {
        let writes = graph.add(output, 1);
        graph.nodes.push(Node {
            layer: 0,
            op,
            reads: vec![raw],
            writes,
            input: shape,
            output,
            weights: 0..0,
            bias: 0..0,
            running: 0..0,
            activation: Activation::Identity,
            is_frozen: true,
        });
        writes
    };
    let mask = add(Op::PresentSteps { features }, Shape::Flat(shape.positions()));
    let filled = add(Op::FillSteps { features }, shape);
    graph.values[filled].mask = Some(mask);
    filled
}

/// Why a loss cannot judge outputs of a shape.
fn misfit_of(loss: &Loss, shape: Shape) -> String {
    match loss {
        Loss::MixtureDensity { gaussians } => format!(
            "`mixture_density` of {gaussians} distributions needs a multiple of {gaussians} outputs: for each distribution a share, a \
             deviation, and as many means as there are targets; found {shape}"
        ),
        _ => format!("its loss cannot judge {shape}"),
    }
}

/// Collects what the layers ask for, one after the other.
pub(super) struct Builder<'a> {
    config: &'a NetworkConfig,
    index: usize,
    kind: &'static str,
    name: String,
    settings: Settings,
    /// What the layer's next operation gets.
    pub(super) shape: Shape,
    begun: (Shape, usize),
    /// By input: what layers read of it.
    inputs: Vec<ValueId>,
    /// By layer, once it is there: what comes out of it.
    built: Vec<Option<(LayerInfo, ValueId)>>,
    parameters: Vec<(Parameter, Segment)>,
    running: Vec<Parameter>,
    graph: Graph,
    /// What the layer's next operation reads.
    value: ValueId,
    /// What goes into the layer.
    operands: Vec<(Origin, ValueId)>,
    /// Whether nothing is learned by the operations that are added now.
    is_given: bool,
}

impl<'a> Builder<'a> {
    pub(super) fn new(config: &'a NetworkConfig) -> Result<Self, Error> {
        let mut graph = Graph::default();
        let (mut columns, mut inputs) = (0..0, Vec::new());
        for input in &config.inputs {
            let shape = input.kind.shape();
            if count(shape).is_none_or(|n| n == 0) {
                let message = format!("expected sizes of at least 1 and at most {MOST} numbers in all, found {shape}");
                return Err(Error::Config { path: input.name.clone(), message });
            }
            columns = columns.end..columns.end + shape.len();
            let value = graph.add(shape, 1);
            graph.inputs.push(Input { value, columns: columns.clone() });
            inputs.push(if shape.steps().is_some() { fill(&mut graph, value) } else { value });
        }
        let (value, shape) = (inputs[0], config.inputs[0].kind.shape());
        Ok(Self {
            config,
            index: 0,
            kind: "",
            name: String::new(),
            settings: Settings::default(),
            shape,
            begun: (shape, 0),
            inputs,
            built: vec![None; config.layers.len()],
            operands: Vec::new(),
            is_given: false,
            parameters: Vec::new(),
            running: Vec::new(),
            graph,
            value,
        })
    }

    pub(super) fn begin(&mut self, index: usize, reads: &[Origin]) -> Result<(), Error> {
        let layer = &self.config.layers[index];
        self.index = index;
        self.kind = layer.kind();
        self.settings = layer.settings().or(&self.config.defaults);
        if self.config.pretrains.is_some() && !self.is_pretrained() {
            self.settings.frozen = Some(true);
        }
        self.name = wiring::name_of(self.config, index);
        self.operands = reads.iter().map(|origin| (*origin, self.value_of(*origin))).collect();
        self.value = self.operands[0].1;
        self.shape = self.graph.values[self.value].shape;
        if let Some(problem) = layer.problem().or_else(|| self.settings.problem()) {
            return Err(self.wrong(problem));
        }
        if self.operands.len() > 1 && !layer.joins() {
            // A layer that takes one value takes several side by side.
            joining::merge(self)?;
        }
        self.begun = (self.shape, self.parameter_count());
        if let Some(rate) = self.settings.dropout.filter(|&rate| rate > 0.0) {
            // Only what has weights has inputs to drop by default; a layer that asks for it itself gets it anyway.
            if layer.weighs() || layer.settings().dropout.is_some() {
                self.drop_numbers(rate);
            }
        }
        Ok(())
    }

    pub(super) fn end(&mut self) -> Result<(), Error> {
        if count(self.shape).is_none() {
            return Err(self.wrong(format!("what comes out of it, {}, is more than {MOST} numbers", self.shape)));
        }
        let info = LayerInfo {
            kind: self.kind,
            name: self.name.clone(),
            after: (0..self.operands.len()).map(|operand| self.operand_name(operand)).collect(),
            input: self.begun.0,
            output: self.shape,
            parameters: self.begun.1..self.parameter_count(),
        };
        self.built[self.index] = Some((info, self.value));
        Ok(())
    }

    fn value_of(&self, origin: Origin) -> ValueId {
        match origin {
            Origin::Input(at) => self.inputs[at],
            Origin::Layer(layer) => self.built[layer].as_ref().expect("layers come after all that they read").1,
        }
    }

    /// The shapes of all that goes in.
    pub(super) fn shapes(&self) -> Vec<Shape> {
        self.operands.iter().map(|(_, value)| self.graph.values[*value].shape).collect()
    }

    /// Rows that an example has in each value that goes in.
    pub(super) fn operand_copies(&self) -> Vec<usize> {
        self.operands.iter().map(|(_, value)| self.graph.values[*value].copies).collect()
    }

    /// Rows that an example has in what the next operation reads.
    pub(super) fn copies(&self) -> usize {
        self.graph.values[self.value].copies
    }

    /// What a value that goes in is called.
    pub(super) fn operand_name(&self, operand: usize) -> String {
        match self.operands[operand].0 {
            Origin::Input(at) => self.config.inputs[at].name.clone(),
            Origin::Layer(layer) => wiring::name_of(self.config, layer),
        }
    }

    /// Refuses values that differ in how many rows an example has.
    pub(super) fn same_copies(&self) -> Result<(), Error> {
        let copies = self.operand_copies();
        match copies.iter().position(|other| *other != copies[0]) {
            Some(at) => Err(self.wrong(format!(
                "`{}` has {} rows an example, and `{}` has {}: stack and unstack them alike",
                self.operand_name(0),
                copies[0],
                self.operand_name(at),
                copies[at]
            ))),
            None => Ok(()),
        }
    }

    /// Refuses values that differ in anything.
    pub(super) fn same_shapes(&self) -> Result<(), Error> {
        self.same_shapes_of_any_copies()?;
        self.same_copies()
    }

    /// Refuses values whose rows differ.
    pub(super) fn same_shapes_of_any_copies(&self) -> Result<(), Error> {
        let shapes = self.shapes();
        match shapes.iter().position(|other| *other != shapes[0]) {
            Some(at) => Err(self.wrong(format!(
                "expected values of one shape: `{}` gives {}, and `{}` gives {}",
                self.operand_name(0),
                shapes[0],
                self.operand_name(at),
                shapes[at]
            ))),
            None => Ok(()),
        }
    }

    /// What goes in.
    pub(super) fn operands(&self) -> Vec<ValueId> {
        self.operands.iter().map(|(_, value)| *value).collect()
    }

    /// Adds an operation that reads all that goes in. A step of what comes out is there where it is in any of them.
    pub(super) fn join(&mut self, op: Op, output: Shape, copies: usize) {
        self.join_values(op, self.operands(), output, copies);
    }

    /// The same for values of which some may not be operands.
    pub(super) fn join_values(&mut self, op: Op, reads: Vec<ValueId>, output: Shape, copies: usize) {
        let mut masks: Vec<Option<ValueId>> = reads.iter().map(|value| self.graph.values[*value].mask).collect();
        masks.dedup();
        self.add(op, reads, output, copies, [0..0, 0..0, 0..0]);
        let joined = self.value;
        let mask = match masks[..] {
            _ if output.steps().is_none() => None,
            [only] => only,
            // Where one of them has all steps, all are there.
            _ if masks.contains(&None) => None,
            _ => {
                let masks: Vec<ValueId> = masks.into_iter().flatten().collect();
                let shape = self.graph.values[masks[0]].shape;
                self.add(Op::ElementWise(ElementWiseOp::Max), masks, shape, copies, [0..0, 0..0, 0..0]);
                Some(self.value)
            }
        };
        self.continue_from(joined);
        self.graph.values[joined].mask = mask;
    }

    /// Which steps of what the next operation reads are there; all of them if nothing says otherwise.
    pub(super) fn mask(&self) -> Option<ValueId> {
        self.graph.values[self.value].mask
    }

    /// The masks of these values, one for each, or none if none of them has one: where another has one, what has all steps says so.
    pub(super) fn masks_of(&mut self, values: &[ValueId]) -> Vec<ValueId> {
        if values.iter().all(|value| self.graph.values[*value].mask.is_none()) {
            return Vec::new();
        }
        let before = self.value;
        let mask = |value: &ValueId| {
            self.graph.values[*value].mask.unwrap_or_else(|| {
                let shape = self.graph.values[*value].shape;
                self.continue_from(*value);
                // Nothing is equal to what is no number.
                let op = Op::DifferentSteps { features: shape.channels(), value: f32::NAN };
                self.push(op, Shape::Flat(shape.positions()));
                self.value
            })
        };
        let masks = values.iter().map(mask).collect();
        self.continue_from(before);
        masks
    }

    /// Says which steps of what the next operation reads are there.
    pub(super) fn set_mask(&mut self, mask: Option<ValueId>) {
        self.graph.values[self.value].mask = mask;
    }

    /// Adds an operation that reads a value, and behind it which of its steps are there.
    pub(super) fn push_masked(&mut self, op: Op, output: Shape, weights: Range<usize>, bias: Range<usize>) {
        let reads = [Some(self.value), self.mask()].into_iter().flatten().collect();
        self.add(op, reads, output, self.copies(), [weights, bias, 0..0]);
    }

    /// Adds an operation that reads these values, all of which have the rows of the first.
    pub(super) fn push_reading(&mut self, op: Op, reads: Vec<ValueId>, output: Shape, weights: Range<usize>) {
        let copies = self.graph.values[reads[0]].copies;
        self.add(op, reads, output, copies, [weights, 0..0, 0..0]);
    }

    /// Adds an operation that does the same with every step of a sequence, or with a row.
    pub(super) fn push_per_step(&mut self, op: Op, outputs: usize, weights: Range<usize>, bias: Range<usize>) {
        let (of_step, output) = match self.shape.steps() {
            Some(_) => (Shape::Flat(self.shape.channels()), self.shape.with_channels(outputs)),
            None => (self.shape, Shape::Flat(outputs)),
        };
        self.push_with(op, output, weights, bias, 0..0);
        let node = self.graph.nodes.last_mut().expect("it was added just now");
        (node.input, node.output) = (of_step, Shape::Flat(outputs));
    }

    /// The sequence that comes in, as steps and features, or an error that names what did.
    pub(super) fn sequence(&self) -> Result<[usize; 2], Error> {
        match self.shape {
            Shape::Sequence { steps, features } => Ok([steps, features]),
            _ => Err(self.misfit("a sequence".into())),
        }
    }

    fn add(
        &mut self,
        op: Op,
        reads: Vec<ValueId>,
        output: Shape,
        copies: usize,
        [weights, bias, running]: [Range<usize>; 3],
    ) {
        let (layer, input, activation) = (self.index, self.graph.values[reads[0]].shape, Activation::Identity);
        let (read, writes) = (reads[0], self.graph.add(output, copies));
        // What has the same steps lacks the same.
        if output.steps().is_some() && output.steps() == input.steps() && copies == self.graph.values[read].copies {
            self.graph.values[writes].mask = self.graph.values[read].mask;
        }
        let is_frozen = self.is_frozen() || self.is_given;
        self.graph.nodes.push(Node {
            layer,
            op,
            reads,
            writes,
            input,
            output,
            weights,
            bias,
            running,
            activation,
            is_frozen,
        });
        (self.value, self.shape) = (writes, output);
    }

    pub(super) fn finish(mut self, config: NetworkConfig) -> Result<Network, Error> {
        let mut names: Vec<&str> = self.parameters.iter().map(|(p, _)| p.name.as_str()).collect();
        names.sort_unstable();
        if let Some(twice) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(self.wrong(format!("the parameter `{}` is asked for twice", twice[0])));
        }
        self.graph.prune();
        if self.graph.heads.is_empty() {
            return Err(Error::Incomplete("an `output` or `loss` layer at its end"));
        }
        if self.graph.heads.len() > 1 && self.graph.forces.iter().any(|f| matches!(f.kind, ForceKind::OfClass { .. })) {
            return Err(self.wrong("`centre_loss` is for networks with one end".into()));
        }
        self.graph.heads.sort_by_key(|head| head.layer);
        let layers = self.built.into_iter().flatten().map(|(info, _)| info).collect();
        let network = Network::from_parts(config, layers, self.parameters, self.running, self.graph);
        if network.config().optimiser.searches() {
            if network.graph.forces.iter().any(|force| matches!(force.kind, ForceKind::Energy { .. })) {
                return Err(Error::not_for_searches("contrastive divergence of an `rbm`"));
            }
            if network.graph.forces.iter().any(|force| matches!(force.kind, ForceKind::OfClass { .. })) {
                return Err(Error::not_for_searches("centre_loss"));
            }
            for segment in network.segments().segments() {
                let GradientNormalisation::None = segment.normalisation else {
                    return Err(Error::not_for_searches("gradient_normalisation"));
                };
                let set = [
                    ("l1", segment.l1 != 0.0),
                    ("weight_decay", segment.weight_decay != 0.0),
                    ("constraints", !segment.constraints.is_empty()),
                    ("weight_noise", segment.noise.is_some()),
                ];
                if let Some((name, _)) = set.into_iter().find(|(_, is_set)| *is_set) {
                    return Err(Error::not_for_searches(name));
                }
            }
        }
        // Asked for and given back: better a sentence now than an abort later.
        let (parameters, buffers) = (network.parameter_count(), 2 + network.slots());
        let numbers = parameters.saturating_mul(buffers);
        if Vec::<f32>::new().try_reserve_exact(numbers).is_err() {
            return Err(Error::TooLarge { parameters, bytes: numbers.saturating_mul(4) });
        }
        Ok(network)
    }

    fn parameter_count(&self) -> usize {
        self.parameters.last().map_or(0, |(p, _)| p.range.end)
    }

    /// Asks for weights; decay, constraints and dropout of the settings are theirs.
    pub(super) fn weights(&mut self, name: &str, shape: Vec<usize>, fan: Fan) -> Result<Range<usize>, Error> {
        let init = self.settings.weight_init.clone().unwrap_or_default();
        let columns = *shape.last().expect("weights have a dimension");
        let counted = shape.iter().try_fold(1usize, |n, d| n.checked_mul(*d));
        if counted.is_none_or(|n| n > MOST) {
            return Err(self.wrong(format!("its weights of shape {shape:?} are more than {MOST} numbers")));
        }
        if init == crate::WeightInit::Identity && shape.iter().product::<usize>() != columns * columns {
            return Err(self.wrong(format!("`weight_init = \"identity\"` expects square weights, found {shape:?}")));
        }
        Ok(self.parameter(name, shape, Start::Weights(init, fan), true))
    }

    /// Asks for biases.
    pub(super) fn bias(&mut self, name: &str, count: usize) -> Range<usize> {
        self.parameter(name, vec![count], Start::Constant(self.bias_start()), false)
    }

    /// Asks for biases that start with runs of numbers, each so long.
    pub(super) fn biases(&mut self, name: &str, runs: Vec<(usize, f32)>) -> Range<usize> {
        let count = runs.iter().map(|(len, _)| len).sum();
        self.parameter(name, vec![count], Start::Constants(runs), false)
    }

    /// Asks for the biases of what is visible, which only pretraining learns.
    pub(super) fn visible_bias(&mut self, count: usize) -> Range<usize> {
        let range = self.parameter("visible_bias", vec![count], Start::Constant(0.0), false);
        if !self.is_pretrained()
            && let Some((_, segment)) = self.parameters.last_mut()
        {
            (segment.updater, segment.learning_rate) = (Updater::Noop, None);
        }
        range
    }

    /// The parameters of a layer that is there already, by its name, and the shape of what goes into it.
    pub(super) fn parameters_of<const N: usize>(
        &mut self,
        layer: &str,
        names: [&str; N],
    ) -> Option<([Range<usize>; N], Shape)> {
        let input = self.built.iter().flatten().find(|(info, _)| info.name == layer)?.0.input;
        let mut found = [(); N].map(|()| 0..0);
        for (range, name) in found.iter_mut().zip(names) {
            *range = self.parameters.iter().find(|(p, _)| p.name == format!("{layer}.{name}"))?.0.range.clone();
        }
        Some((found, input))
    }

    /// Lets biases of what is visible be learned outside of pretraining, too, as other biases are.
    pub(super) fn learn_visible_bias(&mut self, range: &Range<usize>) {
        let layer = self.parameters.iter().find(|(p, _)| p.range == *range).map(|(p, _)| p.layer);
        let Some(layer) = layer.filter(|_| self.config.pretrains.is_none()) else { return };
        let settings = self.config.layers[layer].settings().or(&self.config.defaults);
        let (updater, learning_rate) = match settings.bias_updater {
            Some(own) => (own, None),
            None => (settings.updater.unwrap_or_default(), settings.learning_rate),
        };
        if settings.frozen != Some(true)
            && let Some((_, segment)) = self.parameters.iter_mut().find(|(p, _)| p.range == *range)
        {
            (segment.updater, segment.learning_rate) = (updater, learning_rate);
        }
    }

    /// How many parameters were asked for so far.
    pub(super) fn asked(&self) -> usize {
        self.parameters.len()
    }

    /// Lets the parameters that were asked for from here on be learned only while the layer is pretrained.
    pub(super) fn only_pretrained(&mut self, from: usize) {
        if self.is_pretrained() {
            return;
        }
        for (_, segment) in &mut self.parameters[from..] {
            (segment.updater, segment.learning_rate) = (Updater::Noop, None);
            (segment.l1, segment.l2, segment.weight_decay) = (0.0, 0.0, 0.0);
            segment.constraints.clear();
            segment.noise = None;
        }
    }

    /// Asks for trained numbers that start alike and know no decay.
    pub(super) fn constant(&mut self, name: &str, count: usize, value: f32) -> Range<usize> {
        self.parameter(name, vec![count], Start::Constant(value), false)
    }

    /// Asks for points, so many of so many numbers, that start at 0 and go this part of the way that their gradient says.
    pub(super) fn points(&mut self, name: &str, [count, size]: [usize; 2], step: f32) -> Range<usize> {
        let range = self.parameter(name, vec![count, size], Start::Constant(0.0), false);
        if !self.is_frozen()
            && let Some((_, segment)) = self.parameters.last_mut()
        {
            (segment.updater, segment.learning_rate) = (Updater::Sgd { learning_rate: f64::from(step).into() }, None);
            segment.normalisation = GradientNormalisation::None;
        }
        range
    }

    fn parameter(&mut self, name: &str, shape: Vec<usize>, start: Start, weights: bool) -> Range<usize> {
        let begin = self.parameter_count();
        let range = begin..begin + shape.iter().product::<usize>();
        let settings = &self.settings;
        let is_frozen = settings.frozen == Some(true);
        let only_weights = |value: Option<f32>| if weights && !is_frozen { value.unwrap_or(0.0) } else { 0.0 };
        // The network's rate was meant for the network's updater.
        let (updater, learning_rate) = match (&start, &settings.bias_updater) {
            _ if is_frozen => (Updater::Noop, None),
            (Start::Constant(_) | Start::Constants(_), Some(own)) if ["bias", "reverse_bias"].contains(&name) => {
                (own.clone(), None)
            }
            _ => (settings.updater.clone().unwrap_or_default(), settings.learning_rate.clone()),
        };
        let segment = Segment {
            range: range.clone(),
            layer: self.index,
            outputs: *shape.last().expect("a parameter has a dimension"),
            updater,
            learning_rate,
            l1: only_weights(settings.l1),
            l2: only_weights(settings.l2),
            weight_decay: only_weights(settings.weight_decay),
            normalisation: settings.gradient_normalisation.filter(|_| !is_frozen).unwrap_or_default(),
            constraints: settings.constraints.clone().filter(|_| weights && !is_frozen).unwrap_or_default(),
            noise: settings.weight_noise.filter(|_| weights && !is_frozen),
        };
        let name = format!("{}.{name}", self.name);
        self.parameters.push((Parameter { name, shape, range: range.clone(), layer: self.index, start }, segment));
        range
    }

    /// What biases start with.
    pub(super) fn bias_start(&self) -> f32 {
        self.settings.bias_init.unwrap_or(0.0)
    }

    /// The activation of the settings, or another one if they say nothing.
    pub(super) fn activation_or(&self, activation: Activation) -> Activation {
        self.settings.activation.unwrap_or(activation)
    }

    /// Asks for numbers that are learned but not trained; calls of one operation lie one after the other.
    pub(super) fn running(&mut self, name: &str, count: usize, value: f32) -> Range<usize> {
        let begin = self.running.last().map_or(0, |p| p.range.end);
        let range = begin..begin + count;
        self.running.push(Parameter {
            name: format!("{}.{name}", self.name),
            shape: vec![count],
            range: range.clone(),
            layer: self.index,
            start: Start::Constant(value),
        });
        range
    }

    /// Adds an operation without parameters.
    pub(super) fn push(&mut self, op: Op, output: Shape) {
        self.push_with(op, output, 0..0, 0..0, 0..0);
    }

    /// Takes numbers from other places, each of so many channels: `from` says of a place which it is, or that it is 0.
    pub(super) fn gather(
        &mut self,
        output: Shape,
        channels: usize,
        from: impl Fn(usize) -> Option<usize>,
    ) -> Result<(), Error> {
        let places = self.shape.len() / channels;
        let wanted = count(output).filter(|all| *all <= u32::MAX as usize && places <= u32::MAX as usize);
        let Some(all) = wanted else {
            return Err(self.wrong(format!("what comes out of it, {output}, is more than {} numbers", u32::MAX)));
        };
        let from = (0..all / channels).map(|at| from(at).map(|place| place as u32)).collect();
        self.push(Op::Gather(Gather { from, places, run: channels }), output);
        Ok(())
    }

    /// Adds an operation with its parameters.
    pub(super) fn push_with(
        &mut self,
        op: Op,
        output: Shape,
        weights: Range<usize>,
        bias: Range<usize>,
        running: Range<usize>,
    ) {
        self.add(op, vec![self.value], output, self.copies(), [weights, bias, running]);
    }

    /// Adds the activation of the settings.
    pub(super) fn activate(&mut self) {
        self.activate_with(self.settings.activation.unwrap_or_default());
    }

    /// Adds the activation of the settings, or another one if they say nothing.
    pub(super) fn activate_or(&mut self, activation: Activation) {
        self.activate_with(self.activation_or(activation));
    }

    /// Whether the layer is the one that learns from what goes into it.
    pub(super) fn is_pretrained(&self) -> bool {
        self.config.pretrains == Some(self.index)
    }

    /// Whether some layer learns from what goes into it, and no end is judged.
    pub(super) fn pretrains(&self) -> bool {
        self.config.pretrains.is_some()
    }

    /// Says whether nothing is learned by the operations that come next.
    pub(super) fn taken_as_given(&mut self, is_given: bool) {
        self.is_given = is_given;
    }

    /// What the layer's next operation reads.
    pub(super) fn value(&self) -> ValueId {
        self.value
    }

    /// Lets the layer's next operation read this.
    pub(super) fn continue_from(&mut self, value: ValueId) {
        (self.value, self.shape) = (value, self.graph.values[value].shape);
    }

    /// Takes the same numbers in another shape.
    pub(super) fn view_as(&mut self, shape: Shape) {
        self.graph.values[self.value].shape = shape;
        self.shape = shape;
    }

    /// Gives a value another slope besides those of the losses.
    pub(super) fn force(&mut self, value: ValueId, kind: ForceKind) {
        self.graph.forces.push(Force { value, kind });
    }

    /// Whether the layer stays as it is: then it works in training as when predicting.
    pub(super) fn is_frozen(&self) -> bool {
        self.settings.frozen == Some(true)
    }

    /// Adds dropout, unless the layer is frozen.
    pub(super) fn drop_numbers(&mut self, rate: f32) {
        if !self.is_frozen() {
            self.push(Op::Dropout { rate }, self.shape);
        }
    }

    pub(super) fn activate_with(&mut self, activation: Activation) {
        let activation = match activation {
            Activation::RandomRelu { lower, upper } if self.is_frozen() => {
                Activation::LeakyRelu { alpha: (lower + upper) / 2.0 }
            }
            other => other,
        };
        if activation != Activation::Identity {
            self.push(Op::Activation(activation), self.shape);
        }
    }

    /// The image that comes in, or an error that names what did.
    pub(super) fn image(&self) -> Result<[usize; 3], Error> {
        match self.shape {
            Shape::Image { height, width, channels } => Ok([height, width, channels]),
            _ => Err(self.misfit("an image".into())),
        }
    }

    /// A window that fits the image that comes in.
    pub(super) fn window(
        &self,
        kernel: [usize; 2],
        stride: [usize; 2],
        dilation: [usize; 2],
        padding: crate::config::Padding,
        is_strict: bool,
    ) -> Result<Window, Error> {
        let window = Window::new(self.image()?, kernel, stride, dilation, padding);
        let window = if is_strict { window.and_then(Window::strict) } else { window };
        window.map_err(|misfit| match misfit {
            Misfit::LeftOver([rows, columns]) => self.misfit(format!(
                "an image whose pixels are all seen, as it is `strict`; {rows} rows and {columns} columns are left over"
            )),
            Misfit::Zero(name) => self.wrong(format!("`{name}` must be at least 1 in both directions")),
            Misfit::TooSmall([height, width]) => self
                .misfit(format!("an image of at least {height}×{width} for its kernel of {}×{}", kernel[0], kernel[1])),
        })
    }

    /// Ends the network with a loss; one that is pretrained ends elsewhere.
    pub(super) fn end_with(&mut self, loss: &Loss, weight: f32, registry: &Registry) -> Result<(), Error> {
        let head = self.head(loss, weight, None, registry)?;
        if self.config.pretrains.is_none() {
            self.graph.heads.push(head);
        }
        Ok(())
    }

    /// Compares what the next operation would read with a value.
    pub(super) fn judge_against(
        &mut self,
        value: ValueId,
        loss: &Loss,
        weight: f32,
        registry: &Registry,
    ) -> Result<(), Error> {
        let head = self.head(loss, weight, Some(value), registry)?;
        if self.config.pretrains.is_none() || self.is_pretrained() {
            self.graph.heads.push(head);
        }
        Ok(())
    }

    fn head(&self, loss: &Loss, weight: f32, against: Option<ValueId>, registry: &Registry) -> Result<Head, Error> {
        if !(weight > 0.0 && weight.is_finite()) {
            return Err(self.wrong(format!("`loss_weight` must be above 0, found {weight}")));
        }
        let mut loss = loss.clone();
        if let Loss::Custom(named) = &mut loss
            && named.found.is_none()
        {
            named.found = registry.find_loss(&named.name);
            if named.found.is_none() {
                return Err(self.unregistered("loss", &named.name, registry.loss_names()));
            }
        }
        if self.copies() > 1 {
            return Err(self.wrong("what comes in was stacked: `unstack` it before it is judged".into()));
        }
        let (shape, mask) = (self.shape, self.mask().filter(|_| against.is_none()));
        if loss.targets(shape).is_none_or(|targets| against.is_some() && targets != shape.len()) {
            return Err(self.wrong(misfit_of(&loss, shape)));
        }
        Ok(Head { layer: self.index, value: self.value, loss, weight, against, mask })
    }

    pub(super) fn unregistered<'n>(&self, what: &str, name: &str, known: impl Iterator<Item = &'n str>) -> Error {
        let hint = nearest(name, known).map(|n| format!("; did you mean `{n}`?")).unwrap_or_default();
        self.wrong(format!("no {what} `{name}` was registered{hint}"))
    }

    pub(super) fn wrong(&self, message: String) -> Error {
        Error::Layer { index: self.index, kind: self.kind.into(), message }
    }

    pub(super) fn misfit(&self, expected: String) -> Error {
        Error::Shape { index: self.index, kind: self.kind, expected, found: self.shape.to_string() }
    }
}
