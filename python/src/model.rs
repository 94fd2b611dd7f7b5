//! Models: what came out of a run, or out of a file.

use std::path::{Path, PathBuf};

use numpy::PyArray1;
use paceline::nn::{ModelFile, Registry};
use paceline::train::{ParallelInference, SavedModel};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::failure::{Error, of_network, of_train};
use crate::source::Source;

/// A trained model.
#[pyclass(module = "paceline._native", frozen)]
pub(crate) struct Model {
    file: ModelFile,
    classes: Option<Vec<String>>,
    names: Vec<String>,
    gives_probabilities: bool,
}

impl Model {
    pub(crate) fn new(file: ModelFile) -> PyResult<Self> {
        Self::of(SavedModel::new(file).map_err(of_train)?)
    }

    pub(crate) fn read(path: &Path) -> PyResult<Self> {
        Self::of(SavedModel::load(path).map_err(of_train)?)
    }

    fn of(saved: SavedModel) -> PyResult<Self> {
        let (names, gives_probabilities) = (saved.output_names(), saved.gives_probabilities());
        let classes = saved.predicts_classes().then(|| names.clone());
        Ok(Self { file: saved.file, classes, names, gives_probabilities })
    }

    fn inference(&self, workers: Option<usize>) -> PyResult<ParallelInference> {
        let builder = ParallelInference::builder(self.file.clone()).sequential();
        let builder = match workers {
            Some(workers) => builder.workers(workers),
            None => builder,
        };
        builder.build().map_err(of_train)
    }
}

#[pymethods]
impl Model {
    #[staticmethod]
    fn load(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        py.detach(|| Self::read(&path))
    }

    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        py.detach(|| self.file.save(&path)).map_err(|error| of_network(&error))
    }

    /// The bytes of its file.
    fn to_bytes<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &py.detach(|| self.file.to_bytes()))
    }

    #[staticmethod]
    fn from_bytes(py: Python<'_>, bytes: &[u8]) -> PyResult<Self> {
        let bytes = bytes.to_vec();
        let read = py.detach(|| ModelFile::from_bytes(bytes, "the model in memory", &Registry::default()));
        Self::new(read.map_err(|error| of_network(&error))?)
    }

    /// The network as JSON.
    fn network(&self) -> String {
        self.file.network.config().to_json()
    }

    /// Names of the classes that it tells apart; none if it predicts numbers.
    #[getter]
    fn classes(&self) -> Option<Vec<String>> {
        self.classes.clone()
    }

    /// A name for every output.
    #[getter]
    fn output_names(&self) -> Vec<String> {
        self.names.clone()
    }

    #[getter]
    fn gives_probabilities(&self) -> bool {
        self.gives_probabilities
    }

    #[getter]
    fn iteration(&self) -> u64 {
        self.file.progress.iteration
    }

    #[getter]
    fn epoch(&self) -> u64 {
        self.file.progress.epoch
    }

    /// Its outputs for all examples, row after row.
    #[pyo3(signature = (source, *, batch=256, workers=None))]
    fn outputs<'py>(
        &self,
        py: Python<'py>,
        source: &Source,
        batch: usize,
        workers: Option<usize>,
    ) -> PyResult<Bound<'py, PyArray1<f32>>> {
        let outputs = py.detach(|| {
            let inference = self.inference(workers)?;
            let mut all = Vec::with_capacity(source.inner.examples() * self.names.len());
            inference
                .predict(source.inner.clone(), batch, |_, outputs| {
                    all.extend_from_slice(outputs);
                    Ok::<(), paceline::train::Error>(())
                })
                .map_err(of_train)?;
            Ok::<_, PyErr>(all)
        })?;
        Ok(PyArray1::from_vec(py, outputs))
    }

    /// How good it is on data with targets, as JSON and in words.
    #[pyo3(signature = (source, *, batch=256, workers=None))]
    fn evaluate(
        &self,
        py: Python<'_>,
        source: &Source,
        batch: usize,
        workers: Option<usize>,
    ) -> PyResult<(String, String)> {
        let scores = py.detach(|| self.inference(workers)?.evaluate(source.inner.clone(), batch).map_err(of_train))?;
        let scores = scores.ok_or_else(|| Error::new_err("this data has no targets that a model can be judged by"))?;
        Ok((serde_json::to_string(&scores).expect("names and numbers can be written"), scores.to_string()))
    }

    /// Names, shapes and numbers of its parameters and running statistics.
    fn parameters<'py>(&self, py: Python<'py>) -> Vec<(String, Vec<usize>, Bound<'py, PyArray1<f32>>)> {
        let (network, state) = (&self.file.network, &self.file.state);
        let of = |parameter: &paceline::nn::Parameter, all: &[f32]| {
            let numbers = PyArray1::from_slice(py, &all[parameter.range.clone()]);
            (parameter.name.clone(), parameter.shape.clone(), numbers)
        };
        let trained = network.parameters().iter().map(|parameter| of(parameter, &state.parameters));
        trained.chain(network.running().iter().map(|parameter| of(parameter, &state.running))).collect()
    }
}
