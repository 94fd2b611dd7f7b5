use std::path::Path;

use paceline_model::Targets;

use crate::bytes::Bytes;
use crate::fetch::{self, FetchOptions};
use crate::idx::{IdxData, IdxFile};
use crate::{Error, ExampleShape, NormaliserKind, Schema, TargetShape};

/// Opens the training or the test part, fetching it first if need be.
pub(crate) fn open(train: bool, options: &FetchOptions) -> Result<Bytes, Error> {
    let folder = fetch::ensure_mnist(options)?;
    let part = if train { "train" } else { "t10k" };
    let images = folder.join(format!("{part}-images-idx3-ubyte"));
    let labels = folder.join(format!("{part}-labels-idx1-ubyte"));
    let features = bytes_of(&images, 3)?;
    let classes: Vec<u32> = bytes_of(&labels, 1)?.into_iter().map(u32::from).collect();
    if let Some(at) = classes.iter().position(|class| *class > 9) {
        let origin = format!("`{}`", labels.display());
        return Err(Error::LabelOutOfRange { origin, example: at as u64, found: classes[at].into(), last: 9 });
    }
    if features.len() != classes.len() * 784 {
        let (examples, labels_found) = (features.len() / 784, classes.len());
        return Err(Error::LabelCount { features: images, examples, targets: labels, labels: labels_found });
    }
    let names: Vec<String> = (0..10).map(|digit| digit.to_string()).collect();
    Ok(Bytes {
        schema: Some(Schema::of_classes(names.clone())),
        shape: ExampleShape { features: vec![28, 28, 1], targets: TargetShape::Classes { names } },
        features,
        targets: Targets::Classes(classes),
        normaliser: NormaliserKind::Image,
    })
}

fn bytes_of(path: &Path, rank: usize) -> Result<Vec<u8>, Error> {
    match IdxFile::read(path)? {
        IdxFile { dimensions, data: IdxData::Bytes(bytes) } if dimensions.len() == rank => Ok(bytes),
        other => Err(Error::IdxRank {
            path: path.to_owned(),
            purpose: "MNIST files of bytes",
            expected: if rank == 3 { "3" } else { "1" },
            found: other.dimensions.len(),
        }),
    }
}
