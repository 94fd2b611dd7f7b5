mod ends;
mod operands;
mod parameters;

use std::ops::Range;

use super::joining;
use super::wiring::{self, Origin};
use crate::config::{NetworkConfig, Settings};
use crate::graph::{Graph, Input, ValueId};
use crate::network::{LayerInfo, Parameter};
use crate::node::{Gather, Node, Op};
use crate::updater::Segment;
use crate::window::{Misfit, Window};
use crate::{Activation, Error, Shape};

/// More numbers in one place than any machine has memory for: whoever asks for them has made a mistake.
const MOST: usize = 1 << 40;

/// The numbers of one example, if they can be counted.
pub(super) fn count(shape: Shape) -> Option<usize> {
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
            stream: 0,
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
    /// The input before dropout, where a layer drops some of it.
    clean: Option<ValueId>,
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
            clean: None,
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
                self.clean = Some(self.value);
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
        let own = self.graph.nodes.iter().filter(|node| node.layer == layer && node.op.is_random());
        let stream = if op.is_random() { own.count() as u64 } else { 0 };
        self.graph.nodes.push(Node {
            layer,
            stream,
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

    /// The activation of the settings, or another one if they say nothing.
    pub(super) fn activation_or(&self, activation: Activation) -> Activation {
        self.settings.activation.unwrap_or(activation)
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

    /// Whether the layer stays as it is: then it works in training as when predicting.
    pub(super) fn is_frozen(&self) -> bool {
        self.settings.frozen == Some(true)
    }

    /// The input of the layer before any of it is dropped.
    pub(super) fn clean_input(&self) -> ValueId {
        self.clean.unwrap_or(self.value)
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
        let window = window.map_err(|misfit| match misfit {
            Misfit::LeftOver([rows, columns]) => self
                .misfit(format!("an image whose pixels are all seen, as it is `strict` (left over: {rows}×{columns})")),
            Misfit::Zero(name) => self.wrong(format!("`{name}` must be at least 1 in both directions")),
            Misfit::TooSmall([height, width]) => self
                .misfit(format!("an image of at least {height}×{width} for its kernel of {}×{}", kernel[0], kernel[1])),
        })?;
        let Window { before, after, channels, .. } = window;
        let padded = |d: usize, size: usize| size.saturating_add(before[d]).saturating_add(after[d]);
        let (height, width) = (padded(0, window.height), padded(1, window.width));
        if count(Shape::Image { height, width, channels }).is_none() {
            return Err(self.wrong(format!("with its padding the image is more than {MOST} numbers")));
        }
        Ok(window)
    }

    pub(super) fn wrong(&self, message: String) -> Error {
        Error::Layer { index: self.index, kind: self.kind.into(), message }
    }

    pub(super) fn misfit(&self, expected: String) -> Error {
        Error::Shape { index: self.index, kind: self.kind, expected, found: self.shape.to_string() }
    }
}
