use paceline_model::{Batch, Targets};

use crate::source::{begin, check_indices, copy_targets};
use crate::{Error, ExampleShape, NormaliserKind, Schema, Source};

/// Examples held as the bytes that they were stored as; they become floats only in a batch, a quarter of the memory.
#[derive(Clone, Debug)]
pub(crate) struct Bytes {
    pub(crate) shape: ExampleShape,
    pub(crate) features: Vec<u8>,
    pub(crate) targets: Targets,
    pub(crate) schema: Option<Schema>,
    pub(crate) normaliser: NormaliserKind,
}

impl Source for Bytes {
    fn examples(&self) -> usize {
        self.features.len() / self.shape.width()
    }

    fn shape(&self) -> &ExampleShape {
        &self.shape
    }

    fn read(&self, indices: &[u64], batch: &mut Batch) -> Result<(), Error> {
        check_indices(indices, self.examples())?;
        let width = self.shape.width();
        begin(batch, indices, width);
        for index in indices {
            let at = *index as usize * width;
            batch.features.extend(self.features[at..at + width].iter().map(|byte| f32::from(*byte)));
        }
        copy_targets(&self.targets, indices, batch);
        batch.weights = None;
        Ok(())
    }

    fn schema(&self) -> Option<&Schema> {
        self.schema.as_ref()
    }

    fn default_normaliser(&self) -> NormaliserKind {
        self.normaliser
    }
}
