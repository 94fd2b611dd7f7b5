//! The binary files of CIFAR-10: for every image a byte for its class, then 1,024 bytes each of red, green and blue.
//!
//! ```text
//! | class | 32 × 32 red | 32 × 32 green | 32 × 32 blue |   3,073 bytes an image, one after the other
//! ```

use std::path::{Path, PathBuf};
use std::sync::Arc;

use paceline_model::Targets;

use crate::bytes::Bytes;
use crate::{Error, ExampleShape, NormaliserKind, Schema, Source, TargetShape};

const PLANE: usize = 32 * 32;
const RECORD: usize = 1 + 3 * PLANE;
const NAMES: [&str; 10] = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"];

/// Opens one file, or of a folder those of the training part (`data_batch_1.bin` and so on).
pub(crate) fn open(path: &Path) -> Result<Arc<dyn Source>, Error> {
    let (mut features, mut classes) = (Vec::new(), Vec::new());
    for file in files(path)? {
        let bytes =
            std::fs::read(&file).map_err(|source| Error::File { action: "read", path: file.clone(), source })?;
        if bytes.is_empty() || !bytes.len().is_multiple_of(RECORD) {
            let expected = format!("a file of whole images of {RECORD} bytes");
            let found = format!("`{}` with {} bytes", file.display(), bytes.len());
            return Err(Error::BadSetting { setting: "cifar10:", expected, found });
        }
        for record in bytes.chunks_exact(RECORD) {
            if record[0] > 9 {
                let origin = format!("`{}`", file.display());
                return Err(Error::LabelOutOfRange {
                    origin,
                    example: classes.len() as u64,
                    found: record[0].into(),
                    last: 9,
                });
            }
            classes.push(u32::from(record[0]));
            // From a plane for each colour to three colours for each pixel.
            features.extend((0..PLANE).flat_map(|pixel| (0..3).map(move |colour| record[1 + colour * PLANE + pixel])));
        }
    }
    let names: Vec<String> = NAMES.map(str::to_owned).to_vec();
    Ok(Arc::new(Bytes {
        schema: Some(Schema::of_classes(names.clone())),
        shape: ExampleShape { features: vec![32, 32, 3], targets: TargetShape::Classes { names } },
        features,
        targets: Targets::Classes(classes),
        normaliser: NormaliserKind::Image,
    }))
}

fn files(path: &Path) -> Result<Vec<PathBuf>, Error> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let batches: Vec<PathBuf> =
        (1..=5).map(|number| path.join(format!("data_batch_{number}.bin"))).filter(|file| file.exists()).collect();
    match batches.is_empty() {
        false => Ok(batches),
        true => Err(Error::BadSetting {
            setting: "cifar10:",
            expected: "a file such as `test_batch.bin`, or a folder with `data_batch_1.bin`".into(),
            found: format!("`{}`", path.display()),
        }),
    }
}
