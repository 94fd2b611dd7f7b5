use std::ops::Range;

use paceline_model::State;

use crate::config::{Assumed, NetworkConfig, gives_probabilities};
use crate::graph::{Graph, TargetColumns};
use crate::node::{Node, Op};
use crate::random::Counted;
use crate::updater::{Segment, SegmentTable};
use crate::{Error, Fan, Flat, Loss, Registry, Shape, WeightInit};

/// A network whose shapes are known: what plans are made from.
#[derive(Clone, Debug)]
pub struct Network {
    config: NetworkConfig,
    layers: Vec<LayerInfo>,
    parameters: Vec<Parameter>,
    running: Vec<Parameter>,
    segments: SegmentTable,
    pub(crate) graph: Graph,
    /// By layer: what of an end was not stated.
    assumed: Vec<Assumed>,
}

/// What a layer takes and gives.
#[derive(Clone, Debug, PartialEq)]
pub struct LayerInfo {
    /// Its kind, as in files.
    pub kind: &'static str,
    /// Its own name, or its index.
    pub name: String,
    /// The names of the layers and inputs that go in.
    pub after: Vec<String>,
    /// What goes in; the first of it, if it is joined.
    pub input: Shape,
    /// What comes out.
    pub output: Shape,
    /// Where its parameters lie.
    pub parameters: Range<usize>,
}

/// One of the ends of a network.
#[derive(Clone, Debug, PartialEq)]
pub struct OutputInfo<'a> {
    /// The name of its layer.
    pub name: &'a str,
    /// What comes out for one example.
    pub shape: Shape,
    /// Where that lies in a row of all outputs.
    pub columns: Range<usize>,
    /// What it is judged by.
    pub loss: &'a Loss,
}

/// One named array in a flat buffer.
#[derive(Clone, Debug, PartialEq)]
pub struct Parameter {
    /// The layer's name and its own, such as `0.weight`.
    pub name: String,
    /// Its shape; the last dimension counts outputs.
    pub shape: Vec<usize>,
    /// Where it lies in the flat buffer.
    pub range: Range<usize>,
    /// The layer that owns it.
    pub layer: usize,
    pub(crate) start: Start,
}

/// What a parameter starts with.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Start {
    Weights(WeightInit, Fan),
    Constant(f32),
    /// Runs of numbers, each so long.
    Constants(Vec<(usize, f32)>),
}

impl Network {
    /// Infers all shapes and lays out the parameters.
    pub fn new(config: NetworkConfig) -> Result<Self, Error> {
        Self::with_registry(config, &Registry::default())
    }

    /// The same, for a configuration that names layers or losses of other crates.
    pub fn with_registry(config: NetworkConfig, registry: &Registry) -> Result<Self, Error> {
        let (config, assumed) = config.settled()?;
        Ok(Self { assumed, ..crate::layer::build(config, registry)? })
    }

    /// One that was saved, whose end is as it was then.
    pub(crate) fn from_saved(config: NetworkConfig, registry: &Registry) -> Result<Self, Error> {
        crate::layer::build(config.settled_as_saved(), registry)
    }

    /// The same, judged by the mean squared error if no loss was stated: what suits targets that are numbers, not classes.
    #[must_use]
    pub fn for_values(mut self) -> Self {
        (0..self.graph.heads.len()).for_each(|head| self.judge_values(head));
        self
    }

    /// The same for a row of so many targets, which may hold the number of a class for an end that tells classes apart.
    #[must_use]
    pub fn for_targets(mut self, width: usize) -> Self {
        let columns = self.graph.target_columns();
        if columns.is_empty() {
            return self.for_values();
        }
        let (full, short) = TargetColumns::row_lengths(&columns);
        let holds_classes = full != short && width == short;
        for (head, columns) in columns.iter().enumerate() {
            let own = &self.graph.heads[head];
            let assumed = self.assumed.get(own.layer).copied().unwrap_or_default();
            // A stated sigmoid of one unit, among several ends, tells two classes apart.
            let is_pair =
                own.loss == Loss::BinaryCrossEntropy && !assumed.activation && columns.range(width).len() == 1;
            if !(is_pair || holds_classes && own.loss.is_of_classes()) {
                self.judge_values(head);
            }
        }
        self
    }

    fn judge_values(&mut self, head: usize) {
        let Graph { nodes, heads, .. } = &mut self.graph;
        let head = &mut heads[head];
        let assumed = self.assumed.get_mut(head.layer).map(std::mem::take).unwrap_or_default();
        if !assumed.loss {
            return;
        }
        let own = nodes.iter().position(|node| node.writes == head.value && matches!(node.op, Op::Activation(_)));
        if let Some(own) = own.filter(|_| assumed.activation) {
            head.value = nodes.remove(own).reads[0];
        }
        head.loss = Loss::Mse;
        self.config.settle_for_values(head.layer, assumed);
    }

    /// Whether what comes out are probabilities: numbers between 0 and 1.
    pub fn gives_probabilities(&self) -> bool {
        let mut value = self.graph.heads[0].value;
        loop {
            match self.graph.writer(value) {
                Some(Node { op: Op::Dropout { .. }, reads, .. }) => value = reads[0],
                Some(Node { op: Op::Activation(activation), .. }) => return gives_probabilities(*activation),
                _ => return false,
            }
        }
    }

    /// True if the network has one end whose outputs are those of a dense layer without an activation: any number can be an output.
    pub fn ends_linear(&self) -> bool {
        let [head] = &self.graph.heads[..] else { return false };
        matches!(self.graph.writer(head.value), Some(Node { op: Op::Dense { .. }, .. }))
    }

    pub(crate) fn from_parts(
        config: NetworkConfig,
        layers: Vec<LayerInfo>,
        parameters: Vec<(Parameter, Segment)>,
        running: Vec<Parameter>,
        graph: Graph,
    ) -> Self {
        let (parameters, segments) = parameters.into_iter().unzip();
        let segments = SegmentTable::new(segments).with_moving_average(config.moving_average);
        Self { config, layers, parameters, running, segments, graph, assumed: Vec::new() }
    }

    /// The description that it was made from.
    pub fn config(&self) -> &NetworkConfig {
        &self.config
    }

    /// What goes in.
    pub fn input(&self) -> Shape {
        whole(self.config.inputs.iter().map(|input| input.kind.shape()))
    }

    /// What comes out.
    pub fn output(&self) -> Shape {
        whole(self.graph.heads.iter().map(|head| self.graph.values[head.value].shape))
    }

    /// What comes out at each of its ends, one after the other.
    pub fn outputs(&self) -> impl Iterator<Item = OutputInfo<'_>> {
        let mut end = 0;
        self.graph.heads.iter().map(move |head| {
            let shape = self.graph.values[head.value].shape;
            let columns = end..end + shape.len();
            end = columns.end;
            OutputInfo { name: &self.layers[head.layer].name, shape, columns, loss: &head.loss }
        })
    }

    /// Where the targets of each end are in a row of so many; nothing if that is not what it learns from.
    ///
    /// A row has a number for every output. Where there are several ends it may be shorter: with the number of a class for each that
    /// tells classes apart.
    pub fn targets_of(&self, width: usize) -> Option<Vec<Range<usize>>> {
        let columns = self.graph.target_columns();
        if columns.is_empty() {
            let all = 0..width;
            return (width == self.graph.targets(&self.graph.heads[0])).then(|| vec![all]);
        }
        let (full, short) = TargetColumns::row_lengths(&columns);
        (width == full || width == short).then(|| columns.iter().map(|columns| columns.range(width)).collect())
    }

    /// A layer that cannot take the steps of a sequence one after the other, if there is one.
    pub(crate) fn needs_whole_sequences(&self) -> Option<usize> {
        let needs_all = |node: &&Node| match &node.op {
            Op::Recurrence(op) => op.is_reversed,
            Op::ReverseSteps { .. } | Op::Attention(_) | Op::AttendingRecurrence(_) | Op::RepeatSteps { .. } => true,
            Op::Conv2d(_) | Op::Pool { .. } | Op::GlobalPool { .. } | Op::ZeroPad { .. } | Op::Resize(_) => {
                self.graph.values[node.reads[0]].shape.steps().is_some()
            }
            _ => false,
        };
        self.graph.nodes.iter().find(needs_all).map(|node| node.layer)
    }

    /// Whether it learns from targets; one that is pretrained learns from features alone.
    pub fn wants_targets(&self) -> bool {
        self.graph.wants_targets()
    }

    /// The loss at the end; at the first, if it has several.
    pub fn loss(&self) -> &Loss {
        &self.graph.heads[0].loss
    }

    /// The layers, first to last.
    pub fn layers(&self) -> &[LayerInfo] {
        &self.layers
    }

    /// The trained arrays, in the order of the flat layout.
    pub fn parameters(&self) -> &[Parameter] {
        &self.parameters
    }

    /// The arrays that are learned but not trained, in the order of theirs.
    pub fn running(&self) -> &[Parameter] {
        &self.running
    }

    /// What differs by layer when a gradient becomes an update.
    pub fn segments(&self) -> &SegmentTable {
        &self.segments
    }

    /// The number of trained numbers.
    pub fn parameter_count(&self) -> usize {
        self.parameters.last().map_or(0, |p| p.range.end)
    }

    /// How many running statistics there are.
    pub fn running_count(&self) -> usize {
        self.running.last().map_or(0, |p| p.range.end)
    }

    /// Buffers of a state for what updaters or the optimiser remember.
    pub fn slots(&self) -> usize {
        let Self { config, segments, .. } = self;
        if config.optimiser.searches() { config.optimiser.slots() } else { segments.slots() }
    }

    /// A replica as the seed says it starts.
    pub fn initial_state(&self) -> State {
        let count = self.parameter_count();
        let mut state = State {
            parameters: Flat::zeros(count),
            gradient: Flat::zeros(count),
            slots: vec![Flat::zeros(count); self.slots()],
            running: Flat::zeros(self.running_count()),
        };
        for (index, parameter) in self.parameters.iter().enumerate() {
            let stream = Counted::new(self.config.seed, index as u64, u64::MAX, 0);
            parameter.fill(&mut state.parameters, stream);
        }
        for parameter in &self.running {
            parameter.fill(&mut state.running, Counted::new(0, 0, 0, 0));
        }
        state
    }
}

/// A row that holds all of these, one after the other.
fn whole(mut shapes: impl Iterator<Item = Shape>) -> Shape {
    let first = shapes.next().expect("a network has inputs and outputs");
    match shapes.map(Shape::len).sum() {
        0 => first,
        others => Shape::Flat(first.len() + others),
    }
}

impl Parameter {
    fn fill(&self, flat: &mut [f32], stream: Counted) {
        let values = &mut flat[self.range.clone()];
        match &self.start {
            Start::Constant(value) => values.fill(*value),
            Start::Constants(runs) => {
                let mut rest = values;
                for (len, value) in runs {
                    let (run, behind) = rest.split_at_mut(*len);
                    run.fill(*value);
                    rest = behind;
                }
            }
            Start::Weights(init, fan) => {
                let columns = *self.shape.last().expect("weights have a dimension");
                init.fill(values, columns, *fan, stream);
            }
        }
    }
}
