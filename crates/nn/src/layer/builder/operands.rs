//! What goes into a layer, and which of its steps are there.

use super::Builder;
use crate::config::ElementWiseOp;
use crate::graph::ValueId;
use crate::layer::wiring::{self, Origin};
use crate::node::Op;
use crate::{Error, Shape};

impl Builder<'_> {
    pub(super) fn value_of(&self, origin: Origin) -> ValueId {
        match origin {
            Origin::Input(at) => self.inputs[at],
            Origin::Layer(layer) => self.built[layer].as_ref().expect("layers come after all that they read").1,
        }
    }

    /// The shapes of all that goes in.
    pub(in crate::layer) fn shapes(&self) -> Vec<Shape> {
        self.operands.iter().map(|(_, value)| self.graph.values[*value].shape).collect()
    }

    /// Rows that an example has in each value that goes in.
    pub(in crate::layer) fn operand_copies(&self) -> Vec<usize> {
        self.operands.iter().map(|(_, value)| self.graph.values[*value].copies).collect()
    }

    /// Rows that an example has in what the next operation reads.
    pub(in crate::layer) fn copies(&self) -> usize {
        self.graph.values[self.value].copies
    }

    /// What a value that goes in is called.
    pub(in crate::layer) fn operand_name(&self, operand: usize) -> String {
        match self.operands[operand].0 {
            Origin::Input(at) => self.config.inputs[at].name.clone(),
            Origin::Layer(layer) => wiring::name_of(self.config, layer),
        }
    }

    /// Refuses values that differ in how many rows an example has.
    pub(in crate::layer) fn same_copies(&self) -> Result<(), Error> {
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
    pub(in crate::layer) fn same_shapes(&self) -> Result<(), Error> {
        self.same_shapes_of_any_copies()?;
        self.same_copies()
    }

    /// Refuses values whose rows differ.
    pub(in crate::layer) fn same_shapes_of_any_copies(&self) -> Result<(), Error> {
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
    pub(in crate::layer) fn operands(&self) -> Vec<ValueId> {
        self.operands.iter().map(|(_, value)| *value).collect()
    }

    /// Adds an operation that reads all that goes in. A step of what comes out is there where it is in any of them.
    pub(in crate::layer) fn join(&mut self, op: Op, output: Shape, copies: usize) {
        self.join_values(op, self.operands(), output, copies);
    }

    /// The same for values of which some may not be operands.
    pub(in crate::layer) fn join_values(&mut self, op: Op, reads: Vec<ValueId>, output: Shape, copies: usize) {
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
    pub(in crate::layer) fn mask(&self) -> Option<ValueId> {
        self.graph.values[self.value].mask
    }

    /// The masks of these values, one for each, or none if none of them has one: where another has one, what has all steps says so.
    pub(in crate::layer) fn masks_of(&mut self, values: &[ValueId]) -> Vec<ValueId> {
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
    pub(in crate::layer) fn set_mask(&mut self, mask: Option<ValueId>) {
        self.graph.values[self.value].mask = mask;
    }
}
