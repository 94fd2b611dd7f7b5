//! Sources that show another one: matched to the schema of a model, or interruptible.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use paceline::data::{
    Arrays, Column, ColumnKind, Error, ExampleShape, LabelType, LeftOut, NormaliserKind, Order, Schema, SchemaTarget,
    Source, TargetShape,
};
use paceline::model::{Batch, Targets};
use pyo3::PyResult;

use crate::failure::SettingError;

/// A source whose features have the order and offsets of another schema, and whose targets have its classes and offsets.
struct Matched {
    source: Arc<dyn Source>,
    shape: ExampleShape,
    schema: Schema,
    /// For every feature of a row, its place in a row of `source`; none where the order is the same.
    order: Option<Vec<usize>>,
    /// The number added to each feature; empty: nothing.
    deltas: Vec<f64>,
    /// For every class of `source`, its number here; none where the classes are the same.
    classes: Option<Vec<u32>>,
    /// The number added to each target; empty: nothing.
    target_deltas: Vec<f64>,
}

/// Shows a source as data of this schema: columns are matched by name, or by place if one side has no names.
pub(crate) fn matched(source: &Arc<dyn Source>, to: &Schema) -> PyResult<Arc<dyn Source>> {
    if source.partitions().is_some() {
        return Ok(source.clone());
    }
    let own = source.schema().cloned().unwrap_or_default();
    let mut shape = source.shape().clone();
    let mut schema = own.clone();
    let width = match shape.features[..] {
        [_, features] => features,
        _ => shape.width(),
    };
    let (mut order, mut deltas) = (None, Vec::new());
    if to.width() == width || is_by_name(&own, to) {
        let places = places(&own, to, width)?;
        let (before, after) = (shifts(&own, width), shifts(to, places.len()));
        deltas = places.iter().zip(&after).map(|(place, after)| before[*place] - after).collect();
        if deltas.iter().all(|delta| *delta == 0.0) {
            deltas = Vec::new();
        }
        match shape.features[..] {
            [_, ref mut features] | [ref mut features] => *features = places.len(),
            _ => {}
        }
        order = Some(places).filter(|places| places.len() != width || !places.iter().copied().eq(0..width));
        if !to.columns.is_empty() {
            schema.columns = to.columns.clone();
        }
    } else if to.columns.is_empty() && own.columns.iter().any(|column| shift(column) != 0.0) {
        deltas = shifts(&own, width);
        schema.columns.clear();
    }
    let (mut classes, mut target_deltas) = (None, Vec::new());
    match (&mut shape.targets, &to.target) {
        (TargetShape::Classes { names: own }, SchemaTarget::Classes { names, .. }) if *own != *names => {
            let (from, into) = (schema.labels, to.labels);
            let place = |name: &String| {
                let is_equal = |known: &String| is_one_label(from, name, into, known);
                let found = names.iter().position(|known| known == name).or_else(|| names.iter().position(is_equal));
                found.map(|place| place as u32).ok_or_else(|| {
                    let known = names.iter().take(10).map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
                    SettingError::new_err(format!(
                        "the data has the class `{name}`, which was not there in training; the classes are {known}"
                    ))
                })
            };
            classes = Some(own.iter().map(place).collect::<PyResult<_>>()?);
            own.clone_from(names);
            (schema.target, schema.labels) = (to.target.clone(), to.labels);
        }
        (TargetShape::Values { names: own_names }, SchemaTarget::Values { columns, .. })
            if own_names.len() == columns.len() =>
        {
            let all = |shifts: &[f64]| match shifts.is_empty() {
                true => vec![0.0; columns.len()],
                false => shifts.to_vec(),
            };
            let (before, after) = (all(own.target_shifts()), all(to.target_shifts()));
            target_deltas = before.iter().zip(&after).map(|(before, after)| before - after).collect();
            if target_deltas.iter().all(|delta| *delta == 0.0) {
                target_deltas = Vec::new();
            }
            own_names.clone_from(columns);
            schema.target = to.target.clone();
        }
        _ => {}
    }
    if order.is_none() && deltas.is_empty() && classes.is_none() && target_deltas.is_empty() && schema == own {
        return Ok(source.clone());
    }
    Ok(Arc::new(Matched { source: source.clone(), shape, schema, order, deltas, classes, target_deltas }))
}

/// True if columns have names that are not just their places.
pub(crate) fn is_named(schema: &Schema) -> bool {
    schema.columns.iter().enumerate().any(|(place, column)| column.name != place.to_string())
}

/// True if columns are matched by name: both sides have names, or one has numbers for names, and so has the other.
fn is_by_name(own: &Schema, to: &Schema) -> bool {
    let here: HashSet<String> = own.feature_names().into_iter().collect();
    is_named(own) && is_named(to) || !to.columns.is_empty() && to.feature_names().iter().all(|name| here.contains(name))
}

fn places(own: &Schema, to: &Schema, width: usize) -> PyResult<Vec<usize>> {
    if !is_by_name(own, to) {
        return Ok((0..width).collect());
    }
    let here = own.feature_names();
    let place = |name: String| {
        here.iter().position(|other| *other == name).ok_or_else(|| {
            SettingError::new_err(format!(
                "the data has no column `{name}`, which the model was trained with: its columns are {}",
                here.join(", ")
            ))
        })
    };
    to.feature_names().into_iter().map(place).collect()
}

/// True if two names stand for equal labels of their types, as `1` of whole numbers and `1.0` of numbers with fractions.
fn is_one_label(from: LabelType, name: &str, into: LabelType, known: &str) -> bool {
    let value = |of: LabelType, name: &str| match (of, name) {
        (LabelType::Text, _) => None,
        (LabelType::Boolean, "True" | "true") => Some(1.0),
        (LabelType::Boolean, "False" | "false") => Some(0.0),
        (_, name) => name.parse::<f64>().ok(),
    };
    value(from, name).is_some_and(|label| value(into, known) == Some(label))
}

fn shift(column: &Column) -> f64 {
    crate::numbers::shift_of(column)
}

/// The offset of every feature.
fn shifts(schema: &Schema, width: usize) -> Vec<f64> {
    let of = |column: &Column| match &column.kind {
        ColumnKind::Number { shift, .. } => vec![*shift],
        ColumnKind::Category { names } => vec![0.0; names.len()],
        ColumnKind::Characters { steps, .. } => vec![0.0; *steps],
    };
    let found: Vec<f64> = schema.columns.iter().flat_map(of).collect();
    if found.len() == width { found } else { vec![0.0; width] }
}

impl Source for Matched {
    fn examples(&self) -> usize {
        self.source.examples()
    }

    fn shape(&self) -> &ExampleShape {
        &self.shape
    }

    fn read(&self, indices: &[u64], batch: &mut Batch) -> Result<(), Error> {
        self.source.read(indices, batch)?;
        if let Some(order) = &self.order {
            let before = match self.source.shape().features[..] {
                [_, features] => features,
                _ => self.source.shape().width(),
            };
            let rows = batch.features.chunks_exact(before);
            batch.features = rows.flat_map(|row| order.iter().map(|place| row[*place])).collect();
            batch.width = self.shape.width();
        }
        if !self.deltas.is_empty() {
            for row in batch.features.chunks_exact_mut(self.deltas.len()) {
                row.iter_mut().zip(&self.deltas).for_each(|(value, delta)| *value = (f64::from(*value) + delta) as f32);
            }
        }
        match (&mut batch.targets, &self.classes) {
            (Targets::Classes(classes), Some(places)) => {
                classes.iter_mut().for_each(|class| *class = places[*class as usize]);
            }
            (Targets::Values { values, width }, _) if !self.target_deltas.is_empty() => {
                for row in values.chunks_exact_mut((*width).max(1)) {
                    let each = row.iter_mut().zip(&self.target_deltas);
                    each.for_each(|(value, delta)| *value = (f64::from(*value) + delta) as f32);
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn order(&self) -> Order {
        self.source.order()
    }

    fn groups(&self) -> Option<Vec<u32>> {
        self.source.groups()
    }

    fn schema(&self) -> Option<&Schema> {
        Some(&self.schema)
    }

    fn default_normaliser(&self) -> NormaliserKind {
        self.source.default_normaliser()
    }

    fn remarks(&self) -> &[String] {
        self.source.remarks()
    }

    fn left_out(&self) -> &[LeftOut] {
        self.source.left_out()
    }

    fn weighted(&self) -> bool {
        self.source.weighted()
    }
}

/// Examples in memory with what their source has said of them.
pub(crate) struct MemorySource {
    pub(crate) source: Arrays,
    pub(crate) order: Order,
    pub(crate) groups: Option<Vec<u32>>,
    pub(crate) left_out: Vec<LeftOut>,
}

impl Source for MemorySource {
    fn examples(&self) -> usize {
        self.source.examples()
    }

    fn shape(&self) -> &ExampleShape {
        self.source.shape()
    }

    fn read(&self, indices: &[u64], batch: &mut Batch) -> Result<(), Error> {
        self.source.read(indices, batch)
    }

    fn order(&self) -> Order {
        self.order
    }

    fn groups(&self) -> Option<Vec<u32>> {
        self.groups.clone()
    }

    fn schema(&self) -> Option<&Schema> {
        self.source.schema()
    }

    fn default_normaliser(&self) -> NormaliserKind {
        self.source.default_normaliser()
    }

    fn remarks(&self) -> &[String] {
        self.source.remarks()
    }

    fn left_out(&self) -> &[LeftOut] {
        &self.left_out
    }

    fn weighted(&self) -> bool {
        self.source.weighted()
    }
}

/// A source that fails as soon as a flag is set, so that work on it ends.
pub(crate) struct Interruptible {
    pub(crate) source: Arc<dyn Source>,
    pub(crate) is_interrupted: Arc<AtomicBool>,
}

impl Source for Interruptible {
    fn examples(&self) -> usize {
        self.source.examples()
    }

    fn shape(&self) -> &ExampleShape {
        self.source.shape()
    }

    fn read(&self, indices: &[u64], batch: &mut Batch) -> Result<(), Error> {
        if self.is_interrupted.load(Ordering::Relaxed) {
            let (expected, found) = ("uninterrupted".to_owned(), "an interrupt".to_owned());
            return Err(Error::BadSetting { setting: "the evaluation", expected, found });
        }
        self.source.read(indices, batch)
    }

    fn order(&self) -> Order {
        self.source.order()
    }

    fn groups(&self) -> Option<Vec<u32>> {
        self.source.groups()
    }

    fn schema(&self) -> Option<&Schema> {
        self.source.schema()
    }

    fn default_normaliser(&self) -> NormaliserKind {
        self.source.default_normaliser()
    }

    fn remarks(&self) -> &[String] {
        self.source.remarks()
    }

    fn left_out(&self) -> &[LeftOut] {
        self.source.left_out()
    }

    fn weighted(&self) -> bool {
        self.source.weighted()
    }
}
