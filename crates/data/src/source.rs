use std::sync::Arc;

use paceline_model::{Batch, Targets};

use serde::{Deserialize, Serialize};

use crate::{Error, NormaliserKind, Partitions, Schema};

/// What one example looks like.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExampleShape {
    /// `[n]` for rows of numbers, `[height, width, channels]` for images.
    pub features: Vec<usize>,
    /// What comes with the features.
    pub targets: TargetShape,
}

impl ExampleShape {
    /// Numbers per example.
    pub fn width(&self) -> usize {
        self.features.iter().product()
    }
}

/// What the targets of an example are.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum TargetShape {
    /// There are none: data to predict on, or to learn from without labels.
    None,
    /// One of these classes.
    Classes {
        /// The class names, in the order of their indices.
        names: Vec<String>,
    },
    /// One number for each of these names.
    Values {
        /// What the numbers are.
        names: Vec<String>,
    },
}

/// In which order examples are cheap to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Every example costs the same.
    Any,
    /// Cheap within a block of consecutive indices: shuffled by blocks, then within a window of a few blocks.
    Blocks {
        /// Examples in a block.
        size: usize,
    },
    /// Only from first to last: never shuffled.
    Sequential,
}

/// A row that no example was made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// The row, from 0, headers not counted.
    pub row: u64,
    /// Why.
    pub reason: String,
}

/// What a source has to say of how it was read.
#[derive(Clone, Debug, Default)]
pub(crate) struct Notes {
    pub remarks: Vec<String>,
    pub left_out: Vec<LeftOut>,
}

/// A collection of examples with random access by index, so that shuffling, sharding, leases and resuming are
/// arithmetic on indices.
pub trait Source: Send + Sync {
    /// The number of examples.
    fn examples(&self) -> usize;

    /// What one example looks like.
    fn shape(&self) -> &ExampleShape;

    /// Replaces the content of `batch` with these examples, reusing its vectors; leaves `batch.epoch` alone.
    fn read(&self, indices: &[u64], batch: &mut Batch) -> Result<(), Error>;

    /// In which order examples are cheap to read.
    fn order(&self) -> Order {
        Order::Any
    }

    /// The columns and class names, for a source that found them in its file.
    fn schema(&self) -> Option<&Schema> {
        None
    }

    /// What usually brings these features near 0 to 1, or to mean 0 and deviation 1.
    fn default_normaliser(&self) -> NormaliserKind {
        NormaliserKind::None
    }

    /// What whoever opens it should know: values that cannot be told apart, rows that are left out. A sentence each.
    fn remarks(&self) -> &[String] {
        &[]
    }

    /// Rows of its file that no example was made of, where the file is read to predict on, or says what belongs together.
    fn left_out(&self) -> &[LeftOut] {
        &[]
    }

    /// The name of every example, and of the column that it comes from, where examples are more than rows: the ids of sequences.
    fn example_names(&self) -> Option<(&str, &[String])> {
        None
    }

    /// The group of every example, where the source names what belongs together.
    fn groups(&self) -> Option<Vec<u32>> {
        None
    }

    /// The same examples, read by a schema (columns, categories, classes, means) that is fitted to `learned` alone, so that held-out
    /// examples have no say in what a model learns. None where nothing of the source is fitted to its examples.
    fn fitted_to(&self, learned: &[u64]) -> Result<Option<Arc<dyn Source>>, Error> {
        let _ = learned;
        Ok(None)
    }

    /// Whether every example carries its own weight.
    fn weighted(&self) -> bool {
        false
    }

    /// Its partitions, where data lives with workers.
    fn partitions(&self) -> Option<&Partitions> {
        None
    }
}

/// Fails on the first index that a source of `examples` examples does not have.
pub(crate) fn check_indices(indices: &[u64], examples: usize) -> Result<(), Error> {
    match indices.iter().find(|index| **index >= examples as u64) {
        Some(&index) => Err(Error::IndexOutOfRange { index, examples }),
        None => Ok(()),
    }
}

/// Empties a batch for these examples; its vectors keep their memory.
pub(crate) fn begin(batch: &mut Batch, indices: &[u64], width: usize) {
    batch.indices.clear();
    batch.indices.extend_from_slice(indices);
    batch.width = width;
    batch.features.clear();
    batch.features.reserve(indices.len() * width);
}

/// The class vector of a batch, emptied; kept if the batch had one.
pub(crate) fn class_targets(batch: &mut Batch) -> &mut Vec<u32> {
    if !matches!(batch.targets, Targets::Classes(_)) {
        batch.targets = Targets::Classes(Vec::new());
    }
    let Targets::Classes(classes) = &mut batch.targets else { unreachable!("was just made one") };
    classes.clear();
    classes
}

/// The value vector of a batch, emptied; kept if the batch had one.
pub(crate) fn value_targets(batch: &mut Batch, of_width: usize) -> &mut Vec<f32> {
    if !matches!(batch.targets, Targets::Values { .. }) {
        batch.targets = Targets::Values { width: of_width, values: Vec::new() };
    }
    let Targets::Values { width, values } = &mut batch.targets else { unreachable!("was just made one") };
    *width = of_width;
    values.clear();
    values
}

/// Fills the targets of a batch with those at `indices` of all targets.
pub(crate) fn copy_targets(all: &Targets, indices: &[u64], batch: &mut Batch) {
    match all {
        Targets::None => batch.targets = Targets::None,
        Targets::Classes(all) => class_targets(batch).extend(indices.iter().map(|index| all[*index as usize])),
        Targets::Values { width, values: all } => {
            let values = value_targets(batch, *width);
            for index in indices {
                values.extend_from_slice(&all[*index as usize * width..(*index as usize + 1) * width]);
            }
        }
    }
}

/// Visits a whole source in order, a bounded piece at a time.
pub(crate) fn for_each_piece(
    source: &dyn Source,
    mut visit: impl FnMut(&Batch) -> Result<(), Error>,
) -> Result<(), Error> {
    // A quarter of a million floats, 1 MiB, whatever the width.
    let piece = (262_144 / source.shape().width().max(1)).clamp(1, 4096) as u64;
    let (mut batch, mut indices) = (Batch::empty(), Vec::new());
    let examples = source.examples() as u64;
    let mut from = 0;
    while from < examples {
        let to = (from + piece).min(examples);
        indices.clear();
        indices.extend(from..to);
        source.read(&indices, &mut batch)?;
        visit(&batch)?;
        from = to;
    }
    Ok(())
}
