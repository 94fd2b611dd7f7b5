//! Models: what came out of a run, or out of a file.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crossbeam_channel::{RecvTimeoutError, bounded};
use numpy::{PyArray1, PyReadonlyArray1};
use paceline::data::{self, Schema, TargetShape};
use paceline::model::{Batch, Loss, Targets};
use paceline::nn::evaluation::Thresholds;
use paceline::nn::{ModelFile, Registry};
use paceline::train::{Evaluator, Measures, ParallelInference, SavedModel};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::failure::{Error, SettingError, of_network, of_train};
use crate::source::{Source, read_schema};
use crate::view::Interruptible;

/// A trained model.
#[pyclass(module = "paceline._native", frozen)]
pub(crate) struct Model {
    file: ModelFile,
    classes: Option<Vec<String>>,
    names: Vec<String>,
    gives_probabilities: bool,
    schema: Option<Schema>,
}

/// The time between two looks whether the interpreter was interrupted.
const LOOK: Duration = Duration::from_millis(50);

impl Model {
    /// What it is.
    pub(crate) fn file(&self) -> &ModelFile {
        &self.file
    }

    pub(crate) fn new(file: ModelFile) -> PyResult<Self> {
        Self::of(SavedModel::new(file).map_err(of_train)?)
    }

    pub(crate) fn read(path: &Path) -> PyResult<Self> {
        Self::of(SavedModel::load(path).map_err(of_train)?)
    }

    fn of(saved: SavedModel) -> PyResult<Self> {
        let (names, gives_probabilities) = (saved.output_names(), saved.gives_probabilities());
        let classes = saved.predicts_classes().then(|| names.clone());
        Ok(Self { schema: saved.schema, file: saved.file, classes, names, gives_probabilities })
    }

    /// Does work on a source beside the interpreter; Ctrl-C ends it between two batches.
    fn interruptible<T: Send>(
        py: Python<'_>,
        source: &Source,
        work: impl FnOnce(Arc<dyn data::Source>) -> PyResult<T> + Send,
    ) -> PyResult<T> {
        let is_interrupted = Arc::new(AtomicBool::new(false));
        let source = Interruptible { source: source.inner.clone(), is_interrupted: is_interrupted.clone() };
        py.detach(|| {
            std::thread::scope(|scope| {
                let (sender, done) = bounded(1);
                scope.spawn(move || {
                    // Nobody is waiting any more after an interrupt.
                    let _ = sender.send(work(Arc::new(source)));
                });
                loop {
                    match done.recv_timeout(LOOK) {
                        Ok(done) => return done,
                        Err(RecvTimeoutError::Timeout) => {
                            if let Err(interrupt) = Python::attach(|py| py.check_signals()) {
                                is_interrupted.store(true, Ordering::Relaxed);
                                return Err(interrupt);
                            }
                        }
                        Err(RecvTimeoutError::Disconnected) => {
                            return Err(Error::new_err("the evaluation has panicked"));
                        }
                    }
                }
            })
        })
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

    /// Columns, classes and offsets of the data that it was trained on, as JSON.
    #[getter]
    fn schema(&self) -> Option<String> {
        self.schema.as_ref().map(to_json)
    }

    /// The same model with another schema, where a program knows more of the columns and labels than the data did.
    fn with_schema(&self, schema: &str) -> PyResult<Self> {
        let mut file = self.file.clone();
        file.extra.insert("schema".into(), to_json(&read_schema(schema)?));
        Self::new(file)
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
        let outputs = Self::interruptible(py, source, |source| {
            let inference = self.inference(workers)?;
            let mut all = Vec::with_capacity(source.examples() * self.names.len());
            inference
                .predict(source, batch, |_, outputs| {
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
        let scores = Self::interruptible(py, source, |source| {
            self.inference(workers)?.evaluate(source, batch).map_err(of_train)
        })?;
        let scores = scores.ok_or_else(|| Error::new_err("this data has no targets that a model can be judged by"))?;
        Ok((to_json(&scores), scores.to_string()))
    }

    /// What it says of a part of some data, to be judged with the other parts: its outputs, and the sums of losses and of weights,
    /// one for every `batch` examples.
    #[pyo3(signature = (source, *, batch=256, workers=None))]
    #[expect(clippy::type_complexity, reason = "three arrays")]
    fn judge_part<'py>(
        &self,
        py: Python<'py>,
        source: &Source,
        batch: usize,
        workers: Option<usize>,
    ) -> PyResult<(Bound<'py, PyArray1<f32>>, Bound<'py, PyArray1<f64>>, Bound<'py, PyArray1<f64>>)> {
        let (outputs, losses, weights) = Self::interruptible(py, source, |source| {
            let (mut all, mut losses, mut weights) = (Vec::new(), Vec::new(), Vec::new());
            let each = |_: &Batch, outputs: &[f32], loss: Loss| {
                all.extend_from_slice(outputs);
                losses.push(loss.sum);
                weights.push(loss.weight);
            };
            self.inference(workers)?.predict_with_loss(source, batch, each).map_err(of_train)?;
            Ok::<_, PyErr>((all, losses, weights))
        })?;
        Ok((PyArray1::from_vec(py, outputs), PyArray1::from_vec(py, losses), PyArray1::from_vec(py, weights)))
    }

    /// How good it is, from what it said of all parts: figures as JSON, in words, and every class or column as JSON.
    #[pyo3(signature = (outputs, loss, *, labels=None, targets=None, weights=None, auc_thresholds=None))]
    #[expect(clippy::too_many_arguments, reason = "all that is judged by")]
    fn judge(
        &self,
        py: Python<'_>,
        outputs: PyReadonlyArray1<'_, f32>,
        loss: (f64, f64),
        labels: Option<PyReadonlyArray1<'_, u32>>,
        targets: Option<PyReadonlyArray1<'_, f32>>,
        weights: Option<PyReadonlyArray1<'_, f32>>,
        auc_thresholds: Option<usize>,
    ) -> PyResult<(String, String, String)> {
        let outputs = outputs.as_slice()?;
        let width = self.file.network.output().len();
        let (shape, targets) = match (labels, targets) {
            (Some(labels), None) => {
                let names = self.classes.clone().unwrap_or_default();
                (TargetShape::Classes { names }, Targets::Classes(labels.as_slice()?.to_vec()))
            }
            (None, Some(targets)) => {
                let values = targets.as_slice()?.to_vec();
                let width = values.len() / (outputs.len() / width.max(1)).max(1);
                let names = match width == self.names.len() {
                    true => self.names.clone(),
                    false => (0..width).map(|column| column.to_string()).collect(),
                };
                (TargetShape::Values { names }, Targets::Values { width, values })
            }
            _ => return Err(SettingError::new_err("expected either labels or targets")),
        };
        let rows = outputs.len() / width.max(1);
        let weights = weights.map(|weights| weights.as_slice().map(<[f32]>::to_vec)).transpose()?;
        let classes = self.names.len().max(2) as u32;
        let fits = match &targets {
            Targets::Classes(labels) => labels.len() == rows && labels.iter().all(|label| *label < classes),
            Targets::Values { width, values } => {
                values.len() == rows * width && self.file.network.targets_of(*width).is_some()
            }
            Targets::None => false,
        };
        let weighs = |weights: &Vec<f32>| {
            weights.len() == rows && weights.iter().all(|weight| weight.is_finite() && *weight >= 0.0)
        };
        if !fits || outputs.len() != rows * width || !weights.as_ref().is_none_or(weighs) {
            return Err(SettingError::new_err("expected a label or target, and a weight, for every row of outputs"));
        }
        let steps = auc_thresholds.filter(|steps| *steps > 0);
        let network = &self.file.network;
        let scores = py.detach(|| {
            let batch = Batch { targets, weights, ..Batch::empty() };
            let mut evaluator = Evaluator::new(&shape, network, Thresholds::of(steps))?;
            evaluator.add_outputs(&batch, outputs, Loss { sum: loss.0, weight: loss.1 });
            Some(evaluator.scores())
        });
        let scores = scores.ok_or_else(|| Error::new_err("there is nothing to judge by"))?;
        let details = match &scores.measures {
            Measures::Classes(classes) => serde_json::json!({
                "classes": classes.report(),
                "roc": scores.roc.as_ref().map(paceline::nn::evaluation::MultiClassRoc::report),
            }),
            Measures::Values(values) => serde_json::json!({ "values": values.report() }),
            Measures::Nothing => serde_json::json!({}),
        };
        Ok((to_json(&scores), scores.to_string(), details.to_string()))
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

fn to_json(what: &impl serde::Serialize) -> String {
    serde_json::to_string(what).expect("names and numbers can be written")
}
