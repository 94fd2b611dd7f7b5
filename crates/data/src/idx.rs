use std::path::Path;
use std::sync::Arc;

use paceline_model::Targets;

use crate::bytes::Bytes;
use crate::{Arrays, Error, ExampleShape, NormaliserKind, Schema, Source, TargetShape};

mod format;

pub(crate) use format::write_header;
pub use format::{IdxData, IdxFile};

/// The most classes that a file of labels may stand for; a damaged label must not make a billion names.
const MOST_CLASSES: i64 = 1 << 20;

/// Opens features and labels. Bytes stay bytes; other types become floats.
pub(crate) fn open(
    features: &Path,
    labels: Option<&Path>,
    schema: Option<&Schema>,
    bytes_normaliser: NormaliserKind,
) -> Result<Arc<dyn Source>, Error> {
    let file = IdxFile::read(features)?;
    let (examples, shape) = match file.dimensions[..] {
        [n, width] => (n, vec![width]),
        [n, height, width] => (n, vec![height, width, 1]),
        [n, height, width, channels] => (n, vec![height, width, channels]),
        _ => {
            let (purpose, expected, found) = ("features", "2, 3 or 4", file.dimensions.len());
            return Err(Error::IdxRank { path: features.to_owned(), purpose, expected, found });
        }
    };
    if examples == 0 || shape.contains(&0) {
        return Err(Error::NothingLeft { path: features.to_owned(), what: "examples" });
    }
    let (targets, target_shape) = match labels {
        Some(path) => read_labels(path, features, examples, schema)?,
        None => (Targets::None, TargetShape::None),
    };
    let shape = ExampleShape { features: shape, targets: target_shape };
    let schema = match &shape.targets {
        TargetShape::Classes { names } => Some(Schema::of_classes(names.clone())),
        _ => schema.cloned(),
    };
    Ok(match file.data {
        IdxData::Bytes(features) => Arc::new(Bytes { shape, features, targets, schema, normaliser: bytes_normaliser }),
        IdxData::Integers(values) => {
            let values = values.into_iter().map(|value| value as f32).collect();
            Arc::new(Arrays::new(values, shape, targets)?.described(schema, NormaliserKind::Standardise))
        }
        IdxData::Floats(values) => {
            Arc::new(Arrays::new(values, shape, targets)?.described(schema, NormaliserKind::None))
        }
    })
}

/// Whole numbers are classes, floats are values to predict.
fn read_labels(
    path: &Path,
    features: &Path,
    examples: usize,
    schema: Option<&Schema>,
) -> Result<(Targets, TargetShape), Error> {
    let file = IdxFile::read(path)?;
    let count = file.dimensions[0];
    if count != examples {
        let (features, targets) = (features.to_owned(), path.to_owned());
        return Err(Error::LabelCount { features, examples, targets, labels: count });
    }
    let rank = file.dimensions.len();
    let bad_rank =
        |expected| Err(Error::IdxRank { path: path.to_owned(), purpose: "labels of this type", expected, found: rank });
    let labels = match file.data {
        IdxData::Bytes(_) | IdxData::Integers(_) if rank != 1 => return bad_rank("1"),
        IdxData::Floats(_) if rank > 2 => return bad_rank("1 or 2"),
        IdxData::Floats(values) => {
            let width = file.dimensions.get(1).copied().unwrap_or(1);
            let names = (0..width).map(|at| format!("target {at}")).collect();
            return Ok((Targets::Values { width, values }, TargetShape::Values { names }));
        }
        IdxData::Bytes(labels) => labels.into_iter().map(i64::from).collect::<Vec<_>>(),
        IdxData::Integers(labels) => labels.into_iter().map(i64::from).collect(),
    };
    let names = match schema.and_then(Schema::class_names) {
        Some(names) => names.to_vec(),
        None => {
            let most = labels.iter().copied().max().unwrap_or(0).clamp(0, MOST_CLASSES - 1);
            (0..=most).map(|class| class.to_string()).collect()
        }
    };
    let last = names.len() as i64 - 1;
    if let Some(at) = labels.iter().position(|label| !(0..=last).contains(label)) {
        let origin = format!("`{}`", path.display());
        return Err(Error::LabelOutOfRange { origin, example: at as u64, found: labels[at], last });
    }
    let classes = labels.into_iter().map(|label| label as u32).collect();
    Ok((Targets::Classes(classes), TargetShape::Classes { names }))
}
