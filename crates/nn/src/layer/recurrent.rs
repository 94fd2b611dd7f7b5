//! Layers that go through a sequence step by step.

use std::ops::Range;

use super::Builder;
use crate::config::{Directions, ElementWiseOp, Gru, Lstm, RecurrentAttention, SimpleRnn};
use crate::graph::ValueId;
use crate::node::{Attending, Op};
use crate::plain::recurrent::takes;
use crate::recurrence::{Cell, Recurrence};
use crate::{Activation, Error, Fan, Shape};

pub(super) fn simple(config: &SimpleRnn, builder: &mut Builder<'_>) -> Result<(), Error> {
    let &SimpleRnn { units, truncate, bidirectional, .. } = config;
    Layer { cell: Cell::Simple, units, gate: Activation::Identity, forget: 0.0, truncate, bidirectional }.build(builder)
}

pub(super) fn lstm(config: &Lstm, builder: &mut Builder<'_>) -> Result<(), Error> {
    let &Lstm { units, peepholes, gate_activation: gate, forget_bias: forget, truncate, bidirectional, .. } = config;
    if !forget.is_finite() {
        return Err(builder.wrong(format!("`forget_bias` must be a number, found {forget}")));
    }
    Layer { cell: Cell::Lstm { peepholes }, units, gate, forget, truncate, bidirectional }.build(builder)
}

pub(super) fn gru(config: &Gru, builder: &mut Builder<'_>) -> Result<(), Error> {
    let &Gru { units, gate_activation: gate, truncate, bidirectional, .. } = config;
    Layer { cell: Cell::Gru, units, gate, forget: 0.0, truncate, bidirectional }.build(builder)
}

/// What recurrent layers have in common.
struct Layer {
    cell: Cell,
    units: usize,
    gate: Activation,
    forget: f32,
    truncate: Option<usize>,
    bidirectional: Option<Directions>,
}

impl Layer {
    fn build(&self, builder: &mut Builder<'_>) -> Result<(), Error> {
        let [steps, inputs] = builder.sequence()?;
        let activation = activation_of(builder)?;
        if !takes(self.gate) {
            return Err(builder.wrong(cannot("gate_activation", self.gate)));
        }
        if self.units == 0 || self.truncate == Some(0) {
            let key = if self.units == 0 { "units" } else { "truncate" };
            return Err(builder.wrong(format!("`{key}` must be at least 1")));
        }
        let &Layer { cell, units, gate, truncate, bidirectional, .. } = self;
        let op = Recurrence { cell, steps, inputs, units, activation, gate, is_reversed: false, truncate };
        let read = builder.value();
        let there = self.direction(op, "", builder)?;
        if let Some(directions) = bidirectional {
            builder.continue_from(read);
            let back = self.direction(Recurrence { is_reversed: true, ..op }, "reverse_", builder)?;
            join(directions, [there, back], builder);
        }
        Ok(())
    }

    /// Adds one direction, whose parameters begin with a prefix.
    fn direction(&self, op: Recurrence, prefix: &str, builder: &mut Builder<'_>) -> Result<ValueId, Error> {
        let Recurrence { cell, inputs, units, steps, .. } = op;
        let columns = op.gates() * units;
        let name = |own: &str| format!("{prefix}{own}");
        let first = builder.weights(&name("weight"), vec![inputs, columns], Fan { inputs, outputs: units })?;
        let fan = Fan { inputs: units, outputs: units };
        let mut last = builder.weights(&name("recurrent_weight"), vec![units, columns], fan)?;
        if cell == (Cell::Lstm { peepholes: true }) {
            last = builder.weights(&name("peephole"), vec![3, units], fan)?;
        }
        let usual = builder.bias_start();
        let runs = match cell {
            // The second gate forgets.
            Cell::Lstm { .. } => vec![(units, usual), (units, self.forget), (2 * units, usual)],
            _ => vec![(op.biases(), usual)],
        };
        let bias = builder.biases(&name("bias"), runs);
        let output = Shape::Sequence { steps, features: units };
        builder.push_masked(Op::Recurrence(op), output, first.start..last.end, bias);
        Ok(builder.value())
    }
}

/// One value of two directions.
fn join(directions: Directions, values: [ValueId; 2], builder: &mut Builder<'_>) {
    let (shape, copies) = (builder.shape, builder.copies());
    let units = shape.channels();
    let (op, output) = match directions {
        Directions::Concat => (Op::Merge { channels: vec![units; 2] }, shape.with_channels(2 * units)),
        Directions::Add => (Op::ElementWise(ElementWiseOp::Add), shape),
        Directions::Multiply => (Op::ElementWise(ElementWiseOp::Product), shape),
        Directions::Average => (Op::ElementWise(ElementWiseOp::Average), shape),
    };
    builder.join_values(op, values.to_vec(), output, copies);
}

fn activation_of(builder: &Builder<'_>) -> Result<Activation, Error> {
    let activation = builder.activation_or(Activation::Tanh);
    if takes(activation) { Ok(activation) } else { Err(builder.wrong(cannot("activation", activation))) }
}

fn cannot(key: &str, activation: Activation) -> String {
    let found = serde_json::to_string(&activation).unwrap_or_default();
    format!(
        "`{key}`: expected one whose slope can be told from what comes out of it, such as `tanh`, `sigmoid`, `hard_sigmoid`, `relu` or \
         `identity`, found {found}"
    )
}

/// hₜ = f(xₜ W + aₜ R + b), where aₜ is what hₜ₋₁ Q finds among the keys of all steps.
pub(super) fn attending(config: &RecurrentAttention, builder: &mut Builder<'_>) -> Result<(), Error> {
    let [steps, _] = builder.sequence()?;
    let (units, heads) = (config.units, config.heads);
    let activation = activation_of(builder)?;
    let size = super::attention::head_size(units, heads, config.head_size, builder)?;
    let (read, width) = (builder.value(), heads * size);
    let mut given = Vec::new();
    for (name, outputs, bias) in [("weight", units, true), ("key_weight", width, false), ("value_weight", width, false)]
    {
        builder.continue_from(read);
        super::dense::weigh_with(name, outputs, bias, builder)?;
        given.push(builder.value());
    }
    let questions = builder.weights("query_weight", vec![units, width], Fan { inputs: units, outputs: width })?;
    let recurrent = builder.weights("recurrent_weight", vec![width, units], Fan { inputs: width, outputs: units })?;
    given.extend(builder.mask());
    let op = Op::AttendingRecurrence(Attending { heads, size, steps, units, activation });
    let weights: Range<usize> = questions.start..recurrent.end;
    builder.push_reading(op, given, Shape::Sequence { steps, features: units }, weights);
    Ok(())
}
