//! Data: from arrays that Python holds, or by its specification.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use numpy::{PyArray1, PyReadonlyArray1};
use paceline::data::{
    self, Arrays, ExampleShape, NormaliserKind, OpenOptions, PartitionNote, PartitionNotes, Partitions, TargetShape,
    inspect,
};
use paceline::model::{Batch, Targets};
use pyo3::prelude::*;

use crate::failure::{SettingError, of_data};

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
    /// Opens a source by its specification, such as `mnist:train`; `like` is one whose columns and classes hold for it too.
    #[staticmethod]
    #[pyo3(signature = (spec, *, cache=None, offline=false, root=None, targets=true, like=None))]
    fn open(
        py: Python<'_>,
        spec: &str,
        cache: Option<PathBuf>,
        offline: bool,
        root: Option<PathBuf>,
        targets: bool,
        like: Option<&Source>,
    ) -> PyResult<Self> {
        let schema = like.and_then(|like| like.inner.schema().cloned());
        let options = OpenOptions { targets, schema, ..options(cache, offline, root) };
        let inner = py.detach(|| data::open(spec, &options)).map_err(|error| of_data(&error))?;
        Ok(Self { inner })
    }

    /// Takes a copy of rows of numbers. `classes` has names for the numbers of `labels`; `values` has a name for each number of a
    /// row of `targets`.
    #[staticmethod]
    #[pyo3(signature = (features, shape, *, labels=None, classes=None, targets=None, values=None, weights=None, images=false))]
    #[expect(clippy::too_many_arguments, reason = "all that makes an example")]
    fn arrays(
        py: Python<'_>,
        features: PyReadonlyArray1<'_, f32>,
        shape: Vec<usize>,
        labels: Option<PyReadonlyArray1<'_, u32>>,
        classes: Option<Vec<String>>,
        targets: Option<PyReadonlyArray1<'_, f32>>,
        values: Option<Vec<String>>,
        weights: Option<PyReadonlyArray1<'_, f32>>,
        images: bool,
    ) -> PyResult<Self> {
        let features = features.as_slice()?.to_vec();
        let (shape_of, targets) = match (labels, classes, targets, values) {
            (None, None, None, None) => (TargetShape::None, Targets::None),
            (Some(labels), Some(names), None, None) => {
                (TargetShape::Classes { names }, Targets::Classes(labels.as_slice()?.to_vec()))
            }
            (None, None, Some(targets), Some(names)) => {
                let width = names.len();
                (TargetShape::Values { names }, Targets::Values { values: targets.as_slice()?.to_vec(), width })
            }
            _ => return Err(SettingError::new_err("expected labels with classes, or targets with names, or neither")),
        };
        let weights = weights.map(|weights| weights.as_slice().map(<[f32]>::to_vec)).transpose()?;
        let made = py.detach(|| {
            let arrays = Arrays::new(features, ExampleShape { features: shape, targets: shape_of }, targets)?;
            let arrays = arrays.suits(if images { NormaliserKind::Image } else { NormaliserKind::None });
            match weights {
                Some(weights) => arrays.with_weights(weights),
                None => Ok(arrays),
            }
        });
        Ok(Self { inner: Arc::new(made.map_err(|error| of_data(&error))?) })
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
