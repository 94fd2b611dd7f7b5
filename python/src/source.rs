//! Data: from arrays that Python holds, or by its specification.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use numpy::{PyArray1, PyReadonlyArray1};
use paceline::data::{
    self, Arrays, Column, ColumnKind, ExampleShape, LabelType, LeftOut, NormaliserKind, OpenOptions, Order,
    PartitionNote, PartitionNotes, Partitions, Schema, SchemaTarget, TargetShape, inspect,
};
use paceline::model::{Batch, Targets};
use pyo3::prelude::*;

use crate::failure::{SettingError, of_data};
use crate::numbers::{BorrowedRows, RowNumbers, shift_of};
use crate::view;

/// Examples with random access.
#[pyclass(module = "paceline._native", frozen)]
pub(crate) struct Source {
    pub(crate) inner: Arc<dyn data::Source>,
}

/// How sources are opened by name.
pub(crate) fn options(cache: Option<PathBuf>, offline: bool, root: Option<PathBuf>) -> OpenOptions {
    OpenOptions { cache, offline, root, ..OpenOptions::default() }
}

#[pymethods]
impl Source {
    /// Opens a source by its specification, such as `mnist:train`; `like` is the schema whose columns and classes hold for it too.
    #[staticmethod]
    #[pyo3(signature = (spec, *, cache=None, offline=false, root=None, targets=true, like=None))]
    fn open(
        py: Python<'_>,
        spec: &str,
        cache: Option<PathBuf>,
        offline: bool,
        root: Option<PathBuf>,
        targets: bool,
        like: Option<&str>,
    ) -> PyResult<Self> {
        let schema = like.map(read_schema).transpose()?;
        let options = OpenOptions { targets, schema, ..options(cache, offline, root) };
        let inner = py.detach(|| data::open(spec, &options)).map_err(|error| of_data(&error))?;
        Ok(Self { inner })
    }

    /// Narrows rows of numbers to 32 bits: an array, or a list of arrays and columns of Arrow side by side. `names` are those of columns,
    /// `classes` are names for the numbers of `labels`, and `values` are names for the numbers of a row of `targets`, which repeat
    /// `steps` times. `like` is the schema of data or of a model whose offsets hold for these rows too. `remarks` are kept beside our own.
    #[staticmethod]
    #[pyo3(signature = (
        features, shape, *, names=None, labels=None, classes=None, label_type="text", targets=None, values=None, steps=1, weights=None, images=false,
        like=None, remarks=Vec::new()
    ))]
    #[expect(clippy::too_many_arguments, reason = "all that makes an example")]
    fn arrays(
        py: Python<'_>,
        features: &Bound<'_, PyAny>,
        shape: Vec<usize>,
        names: Option<Vec<String>>,
        labels: Option<PyReadonlyArray1<'_, u32>>,
        classes: Option<Vec<String>>,
        label_type: &str,
        targets: Option<&Bound<'_, PyAny>>,
        values: Option<Vec<String>>,
        steps: usize,
        weights: Option<PyReadonlyArray1<'_, f32>>,
        images: bool,
        like: Option<&str>,
        remarks: Vec<String>,
    ) -> PyResult<Self> {
        let like = like.map(read_schema).transpose()?.unwrap_or_default();
        let label_type = read_label_type(label_type)?;
        let rows = BorrowedRows::new(features)?;
        let numbers = rows.view();
        let wanted = targets.map(BorrowedRows::new).transpose()?;
        let wanted = wanted.as_ref().map(BorrowedRows::view);
        let weights = weights.map(|weights| weights.as_slice().map(<[f32]>::to_vec)).transpose()?;
        let labels = labels.map(|labels| labels.as_slice().map(<[u32]>::to_vec)).transpose()?;
        let made = py.detach(|| {
            let columns = columns_of(&numbers, &shape, names, &like);
            let mut remarks = remarks;
            if like.columns.is_empty() {
                remarks.extend(numbers.remarks(&columns));
            }
            if shape.len() > 2 {
                remarks.extend(numbers.remark_on_images());
            }
            let shifts: Vec<f64> = columns.iter().map(shift_of).collect();
            let (target, shape_of, targets) = match (labels, classes, wanted, values) {
                (None, None, None, None) => (SchemaTarget::None, TargetShape::None, Targets::None),
                (Some(labels), Some(names), None, None) => (
                    SchemaTarget::Classes { column: String::new(), names: names.clone() },
                    TargetShape::Classes { names },
                    Targets::Classes(labels),
                ),
                (None, None, Some(wanted), Some(names)) => {
                    let shifts = target_shifts(&wanted, &names, steps.max(1), &like, &mut remarks);
                    let values = wanted.narrow(&shifts);
                    let (width, is_shifted) = (names.len(), shifts.iter().any(|shift| *shift != 0.0));
                    let shifts = if is_shifted { shifts } else { Vec::new() };
                    let target = SchemaTarget::Values { columns: names.clone(), shifts };
                    (target, TargetShape::Values { names }, Targets::Values { values, width })
                }
                _ => {
                    return Err(SettingError::new_err(
                        "expected labels with classes, or targets with names, or neither",
                    ));
                }
            };
            let schema = Schema { columns, target, labels: label_type, ..Schema::default() };
            let shape = ExampleShape { features: shape, targets: shape_of };
            finished(numbers.narrow(&shifts), shape, targets, weights, schema, remarks)
                .map(|arrays| arrays.suits(if images { NormaliserKind::Image } else { NormaliserKind::None }))
                .map_err(|error| of_data(&error))
        });
        Ok(Self { inner: Arc::new(made?) })
    }

    /// Data from its examples and its `state`.
    #[staticmethod]
    #[expect(clippy::too_many_arguments, reason = "all that a source has")]
    fn of_state(
        py: Python<'_>,
        features: PyReadonlyArray1<'_, f32>,
        shape: &str,
        labels: Option<PyReadonlyArray1<'_, u32>>,
        targets: Option<PyReadonlyArray1<'_, f32>>,
        weights: Option<PyReadonlyArray1<'_, f32>>,
        schema: Option<&str>,
        normaliser: &str,
        remarks: Vec<String>,
        block: Option<usize>,
        groups: Option<Vec<u32>>,
        left_out: Vec<(u64, String)>,
    ) -> PyResult<Self> {
        let unread = |error: serde_json::Error| SettingError::new_err(format!("this is not data: {error}"));
        let shape: ExampleShape = serde_json::from_str(shape).map_err(unread)?;
        let normaliser: NormaliserKind = serde_json::from_str(normaliser).map_err(unread)?;
        let schema = schema.map(read_schema).transpose()?.unwrap_or_default();
        let targets = match (labels, targets, &shape.targets) {
            (Some(labels), None, _) => Targets::Classes(labels.as_slice()?.to_vec()),
            (None, Some(values), TargetShape::Values { names }) => {
                Targets::Values { values: values.as_slice()?.to_vec(), width: names.len() }
            }
            _ => Targets::None,
        };
        let features = features.as_slice()?.to_vec();
        let weights = weights.map(|weights| weights.as_slice().map(<[f32]>::to_vec)).transpose()?;
        let made = py.detach(|| finished(features, shape, targets, weights, schema, remarks));
        let arrays = made.map_err(|error| of_data(&error))?.suits(normaliser);
        let order = match block {
            None => Order::Any,
            Some(0) => Order::Sequential,
            Some(size) => Order::Blocks { size },
        };
        if order == Order::Any && groups.is_none() && left_out.is_empty() {
            return Ok(Self { inner: Arc::new(arrays) });
        }
        let left_out = left_out.into_iter().map(|(row, reason)| LeftOut { row, reason }).collect();
        Ok(Self { inner: Arc::new(view::MemorySource { source: arrays, order, groups, left_out }) })
    }

    /// The state of this data beside its examples: shape, schema and normaliser as JSON, the size of its blocks (0 where it is read in
    /// order only), groups, and rows that were left out.
    #[expect(clippy::type_complexity, reason = "one of each kind")]
    fn state(&self) -> (String, Option<String>, String, Option<usize>, Option<Vec<u32>>, Vec<(u64, String)>) {
        let (shape, normaliser) = (self.inner.shape(), self.inner.default_normaliser());
        let written = "names and numbers can be written";
        let block = match self.inner.order() {
            Order::Any => None,
            Order::Sequential => Some(0),
            Order::Blocks { size } => Some(size),
        };
        (
            serde_json::to_string(shape).expect(written),
            self.schema(),
            serde_json::to_string(&normaliser).expect(written),
            block,
            self.inner.groups(),
            self.inner.left_out().iter().map(|LeftOut { row, reason }| (*row, reason.clone())).collect(),
        )
    }

    /// Columns, classes and offsets as JSON; none where there are no columns and no targets.
    #[getter]
    fn schema(&self) -> Option<String> {
        self.inner.schema().map(|schema| serde_json::to_string(schema).expect("names and numbers can be written"))
    }

    /// This data with the columns, offsets and classes of another schema.
    fn matched(&self, schema: &str) -> PyResult<Self> {
        Ok(Self { inner: view::matched(&self.inner, &read_schema(schema)?)? })
    }

    /// Data that lives with workers, from the notes of all its partitions.
    #[staticmethod]
    fn partitions(notes: Vec<String>) -> PyResult<Self> {
        let note = |text: &String| serde_json::from_str::<PartitionNote>(text);
        let notes = notes.iter().map(note).collect::<Result<Vec<_>, _>>();
        let notes =
            notes.map_err(|error| SettingError::new_err(format!("this is not the note of a partition: {error}")))?;
        let made = PartitionNotes::merge(notes).and_then(|notes| Partitions::new(notes, BTreeMap::new()));
        Ok(Self { inner: Arc::new(made.map_err(|error| of_data(&error))?) })
    }

    /// The note of a partition that these examples are, for a master that does not have them.
    fn describe(&self, py: Python<'_>, partition: u32) -> PyResult<String> {
        let note = py.detach(|| PartitionNote::of(partition, &*self.inner)).map_err(|error| of_data(&error))?;
        Ok(serde_json::to_string(&note).expect("words and numbers can be written"))
    }

    fn __len__(&self) -> usize {
        self.inner.examples()
    }

    /// The shape of one example.
    #[getter]
    fn shape(&self) -> Vec<usize> {
        self.inner.shape().features.clone()
    }

    /// Names of the classes; none if there are no classes.
    #[getter]
    fn classes(&self) -> Option<Vec<String>> {
        match &self.inner.shape().targets {
            TargetShape::Classes { names } => Some(names.clone()),
            _ => None,
        }
    }

    /// Names of the numbers that are to be predicted; none if there are none.
    #[getter]
    fn values(&self) -> Option<Vec<String>> {
        match &self.inner.shape().targets {
            TargetShape::Values { names } => Some(names.clone()),
            _ => None,
        }
    }

    /// What whoever opens it should know.
    #[getter]
    fn remarks(&self) -> Vec<String> {
        self.inner.remarks().to_vec()
    }

    /// What it holds, in words.
    fn inspect(&self, py: Python<'_>) -> PyResult<String> {
        let report = py.detach(|| inspect(&*self.inner)).map_err(|error| of_data(&error))?;
        Ok(report.to_string())
    }

    /// Some examples: features row after row, labels, targets, weights.
    #[expect(clippy::type_complexity, reason = "one of each kind")]
    fn read<'py>(
        &self,
        py: Python<'py>,
        indices: Vec<u64>,
    ) -> PyResult<(
        Bound<'py, PyArray1<f32>>,
        Option<Bound<'py, PyArray1<u32>>>,
        Option<Bound<'py, PyArray1<f32>>>,
        Option<Bound<'py, PyArray1<f32>>>,
    )> {
        let mut batch = Batch::empty();
        py.detach(|| self.inner.read(&indices, &mut batch)).map_err(|error| of_data(&error))?;
        let (labels, targets) = match batch.targets {
            Targets::None => (None, None),
            Targets::Classes(labels) => (Some(PyArray1::from_vec(py, labels)), None),
            Targets::Values { values, .. } => (None, Some(PyArray1::from_vec(py, values))),
        };
        let weights = batch.weights.map(|weights| PyArray1::from_vec(py, weights));
        Ok((PyArray1::from_vec(py, batch.features), labels, targets, weights))
    }

    /// Two parts, drawn by the seed: the first has this share.
    fn split(&self, share: f64, seed: u64) -> PyResult<(Self, Self)> {
        let (one, two) = data::split(self.inner.clone(), share, seed).map_err(|error| of_data(&error))?;
        Ok((Self { inner: one }, Self { inner: two }))
    }
}

/// Columns with their means and offsets; none for images, and for numbers of 32 bits without names.
fn columns_of(numbers: &RowNumbers<'_>, shape: &[usize], names: Option<Vec<String>>, like: &Schema) -> Vec<Column> {
    let numbered =
        |columns: &[Column]| columns.iter().all(|Column { kind, .. }| matches!(kind, ColumnKind::Number { .. }));
    let width = match shape {
        [features] | [_, features] => *features,
        // Images have offsets only where rows of them were trained on.
        _ if like.columns.len() == shape.iter().product::<usize>() && numbered(&like.columns) => {
            return like.columns.clone();
        }
        _ => return Vec::new(),
    };
    // Offsets belong to columns by their names; columns in another order are matched afterwards.
    let is_alike = |names: &Vec<String>| names.iter().eq(like.columns.iter().map(|column| &column.name));
    let fits = !view::is_named(like) || names.as_ref().is_none_or(is_alike);
    if like.columns.len() == width && numbered(&like.columns) && fits {
        return like.columns.clone();
    }
    if names.is_none() && numbers.is_narrow() {
        return Vec::new();
    }
    let is_named = names.is_some();
    let columns = numbers.columns(names.unwrap_or_else(|| (0..width).map(|place| place.to_string()).collect()));
    // Without names the places say all, unless an offset is to be kept.
    if is_named || columns.iter().any(|column| shift_of(column) != 0.0) { columns } else { Vec::new() }
}

/// The offset subtracted from each target column.
fn target_shifts(
    wanted: &RowNumbers<'_>,
    names: &[String],
    steps: usize,
    like: &Schema,
    remarks: &mut Vec<String>,
) -> Vec<f64> {
    if let SchemaTarget::Values { columns, shifts } = &like.target
        && columns.len() == names.len()
    {
        return if shifts.is_empty() { vec![0.0; names.len()] } else { shifts.clone() };
    }
    if wanted.is_narrow() {
        return vec![0.0; names.len()];
    }
    let columns = wanted.columns(names[..names.len() / steps].to_vec());
    remarks.extend(wanted.remarks(&columns));
    columns.iter().map(shift_of).collect::<Vec<_>>().repeat(steps)
}

fn finished(
    features: Vec<f32>,
    shape: ExampleShape,
    targets: Targets,
    weights: Option<Vec<f32>>,
    schema: Schema,
    remarks: Vec<String>,
) -> Result<Arrays, data::Error> {
    let arrays = Arrays::new(features, shape, targets)?.with_remarks(remarks);
    let arrays = if schema == Schema::default() { arrays } else { arrays.with_schema(schema)? };
    match weights {
        Some(weights) => arrays.with_weights(weights),
        None => Ok(arrays),
    }
}

pub(crate) fn read_schema(text: &str) -> PyResult<Schema> {
    serde_json::from_str(text)
        .map_err(|error| SettingError::new_err(format!("this is not the schema of data: {error}")))
}

/// A type of labels by its name in a schema.
fn read_label_type(name: &str) -> PyResult<LabelType> {
    match name {
        "text" => Ok(LabelType::Text),
        "integer" => Ok(LabelType::Integer),
        "float" => Ok(LabelType::Float),
        "boolean" => Ok(LabelType::Boolean),
        other => Err(SettingError::new_err(format!("expected text, integer, float or boolean, found `{other}`"))),
    }
}
