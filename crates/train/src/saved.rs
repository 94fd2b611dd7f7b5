use std::borrow::Cow;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use paceline_data::{Loader, LoaderOptions, Schema, Source};
use paceline_model::Batch;
use paceline_nn::evaluation::Thresholds;
use paceline_nn::{Engine, ModelFile, OutputInfo, Registry};

use crate::normalisers::predict;
use crate::run::resume::read_extra;
use crate::run::trainer::fits_features;
use crate::scores::name_outputs;
use crate::{Error, KeptEpoch, Normalisers, Scores, evaluate};

/// One of several ends of a model, which tells classes apart.
#[derive(Clone, Debug, PartialEq)]
pub struct ClassEnd {
    /// The name of the end.
    pub name: String,
    /// Its outputs in a row of all.
    pub columns: Range<usize>,
    /// A name for each class.
    pub classes: Vec<String>,
}

/// A trained model, ready to judge and to predict.
pub struct SavedModel {
    /// What the file holds.
    pub file: ModelFile,
    /// What is done to features before they go in, and to targets when it was trained.
    pub normalisers: Normalisers,
    /// Columns and classes of the data that it was trained on.
    pub schema: Option<Schema>,
    engine: Engine,
}

impl SavedModel {
    /// Reads a model file.
    pub fn load(path: &Path) -> Result<Self, Error> {
        Self::load_with_registry(path, &Registry::default())
    }

    /// Reads a model file whose network has layers or losses of other crates.
    pub fn load_with_registry(path: &Path, registry: &Registry) -> Result<Self, Error> {
        Self::check(load(path, registry)?, path)
    }

    /// A model that is in memory already, such as the outcome of a run.
    pub fn new(file: ModelFile) -> Result<Self, Error> {
        Self::check(file, Path::new("the model in memory"))
    }

    /// Reads what lies beside the parameters, and trusts none of it.
    fn check(mut file: ModelFile, path: &Path) -> Result<Self, Error> {
        // A checkpoint is judged as its run is.
        if let Cow::Owned(presented) = file.network.presented(&file.state, file.progress) {
            file.state = presented;
        }
        let normalisers = Normalisers::read(&file, path)?;
        let schema: Option<Schema> = read_extra(&file, path, "schema")?;
        if let Some((key, error)) = normalisers.problem(&file.network) {
            return Err(untrusted(path, format!("a `{key}` that fits its network"), error.to_string()));
        }
        let outputs = file.network.output().len();
        if let Some(names) = schema.as_ref().and_then(Schema::class_names)
            && names.len() > outputs.max(2)
        {
            let expected = format!("a `schema` for {outputs} outputs");
            return Err(untrusted(path, expected, format!("{} classes", names.len())));
        }
        let engine = Engine::new(file.network.clone());
        Ok(Self { file, normalisers, schema, engine })
    }

    /// A name for every output: the classes, the target columns, or plain numbers.
    pub fn output_names(&self) -> Vec<String> {
        use paceline_data::SchemaTarget;
        let outputs = self.file.network.output().len();
        if self.file.network.outputs().count() > 1 {
            // Of several ends each has its name, with a class or a number where it has several outputs.
            let ends = self.class_ends();
            let of = |output: OutputInfo<'_>| match output.columns.len() {
                1 => vec![output.name.to_owned()],
                several => {
                    let known = ends.iter().find(|end| end.columns == output.columns);
                    let name = |at: usize| known.map_or_else(|| at.to_string(), |end| end.classes[at].clone());
                    (0..several).map(|at| format!("{}.{}", output.name, name(at))).collect()
                }
            };
            return self.file.network.outputs().flat_map(of).collect();
        }
        if let Some(steps) = self.file.network.output().steps() {
            // Of sequences every step has its outputs.
            let width = outputs / steps;
            let known = self.schema.as_ref().and_then(Schema::class_names).unwrap_or_default();
            let names = name_outputs(&known[..known.len().min(width)], width);
            return (1..=steps)
                .flat_map(|step| names[..width].iter().map(move |name| format!("{step}.{name}")))
                .collect();
        }
        let mut names = match self.schema.as_ref().map(|s| &s.target) {
            Some(SchemaTarget::Classes { names, .. }) => names.clone(),
            Some(SchemaTarget::Values { columns, .. }) if columns.len() == outputs => columns.clone(),
            _ => Vec::new(),
        };
        if self.predicts_classes() {
            return name_outputs(&names, outputs);
        }
        (names.len()..outputs).for_each(|n| names.push(n.to_string()));
        names
    }

    /// Of a model with several ends those that tell apart the texts of a target column.
    pub fn class_ends(&self) -> Vec<ClassEnd> {
        let Some(schema) = self.schema.as_ref().filter(|schema| !schema.target_classes.is_empty()) else {
            return Vec::new();
        };
        let network = &self.file.network;
        let Some(targets) = network.targets_of(schema.target_classes.len()) else { return Vec::new() };
        let end = |(output, own): (OutputInfo<'_>, Range<usize>)| {
            let classes = schema.target_classes.get(own.start).filter(|names| own.len() == 1 && !names.is_empty())?;
            let outputs = output.columns.len();
            let fits = output.shape.steps().is_none() && classes.len() <= outputs.max(2);
            let (name, classes) = (output.name.to_owned(), name_outputs(classes, outputs));
            fits.then_some(ClassEnd { name, columns: output.columns, classes })
        };
        network.outputs().zip(targets).filter_map(end).collect()
    }

    /// Whether the outputs tell classes apart, one of an example.
    pub fn predicts_classes(&self) -> bool {
        let network = &self.file.network;
        network.wants_targets()
            && network.output().steps().is_none()
            && self.schema.as_ref().is_some_and(|s| s.class_names().is_some())
    }

    /// The epoch that early stopping has kept as the best of the run, if it has.
    pub fn kept_epoch(&self) -> Option<KeptEpoch> {
        KeptEpoch::of(&self.file.extra)
    }

    /// The offsets that make outputs numbers of the data: targets far from 0 are learned less an offset, and `predict` gives them so. Empty
    /// where there are none.
    pub fn output_offsets(&self) -> Vec<f64> {
        let offsets = self.schema.as_ref().map(Schema::target_shifts).unwrap_or_default();
        let outputs = self.file.network.output().len();
        if offsets.len() == outputs { offsets.to_vec() } else { Vec::new() }
    }

    /// Whether the outputs are probabilities.
    pub fn gives_probabilities(&self) -> bool {
        self.file.network.gives_probabilities()
    }

    /// How good the model is on this data; `None` if it has no targets.
    pub fn evaluate(&mut self, source: Arc<dyn Source>, batch: usize) -> Result<Option<Scores>, Error> {
        fits_features(&self.file.network, &*source, "given")?;
        let options = self.normalisers.clone().into_options(given_order(batch));
        evaluate(&mut self.engine, &self.file.state, &self.file.network, source, options, Thresholds::Exact)
    }

    /// Hands every batch with its outputs, row after row, to `each`; see [`Self::output_offsets`].
    pub fn predict<E: From<Error>>(
        &mut self,
        source: Arc<dyn Source>,
        batch: usize,
        mut each: impl FnMut(&Batch, &[f32]) -> Result<(), E>,
    ) -> Result<(), E> {
        fits_features(&self.file.network, &*source, "given")?;
        let options = LoaderOptions { normaliser: self.normalisers.features.clone(), ..given_order(batch) };
        let loader = Loader::new(source, options).map_err(Error::from)?;
        let undone = self.normalisers.targets.as_ref();
        let mut outputs = Vec::new();
        let mut batches = loader.epoch(0, 0);
        while let Some(batch) = batches.next() {
            let mut batch = batch.map_err(Error::from)?;
            // Whatever the targets are, they have no say here.
            batch.targets = paceline_model::Targets::None;
            predict(&mut self.engine, &self.file.state, &mut batch, undone, &mut outputs).map_err(Error::from)?;
            each(&batch, &outputs)?;
            batches.recycle(batch);
        }
        Ok(())
    }
}

fn given_order(batch: usize) -> LoaderOptions {
    LoaderOptions { batch, shuffle: false, ..LoaderOptions::default() }
}

/// Reads a model file. A description of a network that makes no sense is the file's fault, not the job's.
pub(crate) fn load(path: &Path, registry: &Registry) -> Result<ModelFile, Error> {
    use paceline_nn::Error as Refused;
    ModelFile::load_with_registry(path, registry).map_err(|error| match error {
        Refused::Config { .. }
        | Refused::Layer { .. }
        | Refused::Shape { .. }
        | Refused::TooLarge { .. }
        | Refused::Incomplete(_) => untrusted(path, "a network that can be made".into(), error.to_string()),
        other => Error::Network(other),
    })
}

fn untrusted(path: &Path, expected: String, found: String) -> Error {
    Error::Network(paceline_nn::Error::ModelFile { path: path.to_owned(), expected, found })
}
