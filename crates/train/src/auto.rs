//! What a job leaves to its data: the shape of what goes in, and how many outputs there are.

use paceline_data::{ExampleShape, Schema, TargetShape};
use paceline_nn::InputType;
use paceline_nn::config::{LayerConfig, NetworkConfig};
use serde_json::{Value, json};

use crate::Error;

/// The word for it in a job file.
const AUTO: &str = "auto";

/// What of a network is not known before its data is.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Auto {
    input: bool,
    /// The layers whose `units` are as many as there are classes or targets.
    units: Vec<usize>,
}

impl Auto {
    /// Takes the words out of a description, and puts something in their place that can be read.
    pub(crate) fn take(network: &mut Value) -> Self {
        let mut auto = Self::default();
        if network.get("input").is_some_and(|input| input == AUTO) {
            network["input"] = json!({ "feed_forward": 1 });
            auto.input = true;
        }
        for (index, layer) in network.get_mut("layers").and_then(Value::as_array_mut).into_iter().flatten().enumerate()
        {
            let units = layer.get_mut("output").and_then(|output| output.get_mut("units"));
            if let Some(units) = units.filter(|units| **units == AUTO) {
                *units = json!(1);
                auto.units.push(index);
            }
        }
        auto
    }

    /// Whether nothing is left to the data.
    pub(crate) fn is_nothing(&self) -> bool {
        *self == Self::default()
    }

    /// The network for examples of this shape.
    pub(crate) fn settle(
        &self,
        mut network: NetworkConfig,
        shape: &ExampleShape,
        schema: Option<&Schema>,
    ) -> Result<NetworkConfig, Error> {
        // Steps that have a class each, as characters of a text, have it as a number.
        let classes_of_steps = schema.and_then(Schema::class_names).map(<[String]>::len);
        let steps = if let [steps, _] = shape.features[..] { steps } else { 1 };
        let bad = |setting, message: String| Err(Error::Unsuitable { setting, message });
        if let (true, [input]) = (self.input, &mut network.inputs[..]) {
            let Some(kind) = InputType::of_shape(&shape.features) else {
                let message = format!(
                    "cannot be `auto` for examples of shape {:?}, which are no rows, sequences, images or volumes: set it",
                    shape.features
                );
                return bad("network.input", message);
            };
            input.kind = kind;
        }
        let ends = network.layers.iter().enumerate().filter(|(_, layer)| layer.is_end()).map(|(at, _)| at);
        let ends: Vec<usize> = ends.collect();
        let of_ends = schema.map(|schema| &schema.target_classes[..]).filter(|classes| classes.len() == ends.len());
        for index in &self.units {
            let own = ends.iter().position(|end| end == index);
            let count = match &shape.targets {
                // Each of several ends has a target column: classes, or a number.
                TargetShape::Values { names } if ends.len() > 1 && names.len() == ends.len() => {
                    let classes = own.and_then(|own| of_ends.map(|classes| classes[own].len()));
                    classes.unwrap_or(1).max(1)
                }
                TargetShape::Classes { names } if names.len() < 2 => {
                    return bad(
                        "units",
                        "cannot be `auto`: the data has only one class, and there is nothing to tell apart".into(),
                    );
                }
                TargetShape::Classes { names } => names.len(),
                TargetShape::Values { names } => match classes_of_steps {
                    Some(classes) => classes,
                    None if are_of_steps(names, steps) => names.len() / steps,
                    None => names.len(),
                },
                TargetShape::None => {
                    return bad(
                        "units",
                        "cannot be `auto`: the data has no targets, name the label column or set a number".into(),
                    );
                }
            };
            if let LayerConfig::Output(output) = &mut network.layers[*index] {
                output.units = count;
            }
        }
        Ok(network)
    }
}

/// True if these targets are those of every step of a sequence: the names of the first step end with `.1`, and so on.
fn are_of_steps(names: &[String], steps: usize) -> bool {
    let width = names.len() / steps.max(1);
    let is_of = |(at, name): (usize, &String)| name.ends_with(&format!(".{}", at / width + 1));
    steps > 1 && width > 0 && names.len().is_multiple_of(steps) && names.iter().enumerate().all(is_of)
}
