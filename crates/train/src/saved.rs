use std::path::Path;
use std::sync::Arc;

use paceline_data::{Loader, LoaderOptions, Normaliser, Schema, Source};
use paceline_model::{Batch, Model};
use paceline_nn::{Engine, ModelFile};

use crate::trainer::read_extra;
use crate::{Error, Scores, evaluate};

/// A trained model, ready to judge and to predict.
pub struct SavedModel {
    /// What the file holds.
    pub file: ModelFile,
    /// What is done to features before they go in.
    pub normaliser: Option<Normaliser>,
    /// Columns and classes of the data that it was trained on.
    pub schema: Option<Schema>,
    engine: Engine,
}

impl SavedModel {
    /// Reads a model file.
    pub fn load(path: &Path) -> Result<Self, Error> {
        let file = ModelFile::load(path)?;
        let read = |key| file.extra.get(key).map(|json: &String| (key, json));
        let normaliser = read("normaliser").map(|(key, json)| read_extra(path, key, json)).transpose()?;
        let schema = read("schema").map(|(key, json)| read_extra(path, key, json)).transpose()?;
        if let Some(normaliser) = &normaliser {
            Normaliser::check(normaliser, file.network.input().len())?;
        }
        let engine = Engine::new(file.network.clone());
        Ok(Self { file, normaliser, schema, engine })
    }

    /// A name for every output: the classes, the target columns, or plain numbers.
    pub fn output_names(&self) -> Vec<String> {
        use paceline_data::SchemaTarget;
        let outputs = self.file.network.output().len();
        let mut names = match self.schema.as_ref().map(|s| &s.target) {
            Some(SchemaTarget::Classes { names, .. }) => names.clone(),
            Some(SchemaTarget::Values { columns }) => columns.clone(),
            _ => Vec::new(),
        };
        if outputs == 1 && names.len() == 2 {
            return names;
        }
        (names.len()..outputs).for_each(|n| names.push(n.to_string()));
        names
    }

    /// Whether the outputs tell classes apart.
    pub fn predicts_classes(&self) -> bool {
        self.schema.as_ref().is_some_and(|s| s.class_names().is_some())
    }

    /// How good the model is on this data; `None` if it has no targets.
    pub fn evaluate(&mut self, source: Arc<dyn Source>, batch: usize) -> Result<Option<Scores>, Error> {
        let options = self.loader_options(batch);
        evaluate(&mut self.engine, &self.file.state, source, options)
    }

    /// Hands every batch with its outputs, row after row, to `each`.
    pub fn predict<E: From<Error>>(
        &mut self,
        source: Arc<dyn Source>,
        batch: usize,
        mut each: impl FnMut(&Batch, &[f32]) -> Result<(), E>,
    ) -> Result<(), E> {
        let loader = Loader::new(source, self.loader_options(batch)).map_err(Error::from)?;
        let mut outputs = Vec::new();
        let mut batches = loader.epoch(0, 0);
        while let Some(batch) = batches.next() {
            let mut batch = batch.map_err(Error::from)?;
            // Whatever the targets are, they have no say here.
            batch.targets = paceline_model::Targets::None;
            self.engine.predict(&batch, &self.file.state, &mut outputs).map_err(Error::from)?;
            each(&batch, &outputs)?;
            batches.recycle(batch);
        }
        Ok(())
    }

    fn loader_options(&self, batch: usize) -> LoaderOptions {
        LoaderOptions { batch, shuffle: false, normaliser: self.normaliser.clone(), ..LoaderOptions::default() }
    }
}
