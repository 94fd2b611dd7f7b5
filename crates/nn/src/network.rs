use std::ops::Range;

use paceline_model::State;

use crate::config::{Assumed, NetworkConfig, gives_probabilities};
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
    pub(crate) nodes: Vec<Node>,
    pub(crate) loss: Loss,
    /// What of its end was not stated.
    assumed: Assumed,
}

/// What a layer takes and gives.
#[derive(Clone, Debug, PartialEq)]
pub struct LayerInfo {
    /// Its kind, as in files.
    pub kind: &'static str,
    /// Its own name, or its index.
    pub name: String,
    /// What goes in.
    pub input: Shape,
    /// What comes out.
    pub output: Shape,
    /// Where its parameters lie.
    pub parameters: Range<usize>,
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
        if self.assumed.loss {
            if self.assumed.activation && matches!(self.nodes.last(), Some(Node { op: Op::Activation(_), .. })) {
                self.nodes.pop();
            }
            self.config.settle_for_values(self.assumed);
            (self.loss, self.assumed) = (Loss::Mse, Assumed::default());
        }
        self
    }

    /// Whether what comes out are probabilities: numbers between 0 and 1.
    pub fn gives_probabilities(&self) -> bool {
        let last = self.nodes.iter().rev().find(|node| !matches!(node.op, Op::Dropout { .. }));
        matches!(last, Some(Node { op: Op::Activation(activation), .. }) if gives_probabilities(*activation))
    }

    pub(crate) fn from_parts(
        config: NetworkConfig,
        layers: Vec<LayerInfo>,
        parameters: Vec<(Parameter, Segment)>,
        running: Vec<Parameter>,
        nodes: Vec<Node>,
        loss: Loss,
    ) -> Self {
        let (parameters, segments) = parameters.into_iter().unzip();
        Self {
            config,
            layers,
            parameters,
            running,
            segments: SegmentTable::new(segments),
            nodes,
            loss,
            assumed: Assumed::default(),
        }
    }

    /// The description that it was made from.
    pub fn config(&self) -> &NetworkConfig {
        &self.config
    }

    /// What goes in.
    pub fn input(&self) -> Shape {
        self.config.input.shape()
    }

    /// What comes out.
    pub fn output(&self) -> Shape {
        self.layers.last().expect("a network has layers").output
    }

    /// The loss at the end.
    pub fn loss(&self) -> &Loss {
        &self.loss
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

    /// A replica as the seed says it starts.
    pub fn initial_state(&self) -> State {
        let count = self.parameter_count();
        let mut state = State {
            parameters: Flat::zeros(count),
            gradient: Flat::zeros(count),
            slots: vec![Flat::zeros(count); self.segments.slots()],
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

impl Parameter {
    fn fill(&self, flat: &mut [f32], stream: Counted) {
        let values = &mut flat[self.range.clone()];
        match &self.start {
            Start::Constant(value) => values.fill(*value),
            Start::Weights(init, fan) => {
                let columns = *self.shape.last().expect("weights have a dimension");
                init.fill(values, columns, *fan, stream);
            }
        }
    }
}
