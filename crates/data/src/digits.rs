use std::io::Read;
use std::sync::Arc;

use flate2::read::GzDecoder;
use paceline_model::Targets;

use crate::bytes::Bytes;
use crate::subset::split;
use crate::{Error, ExampleShape, NormaliserKind, Schema, Source, TargetShape};

/// The digits themselves; `assets/README.md` says where they come from.
static DIGITS: &[u8] = include_bytes!("../assets/digits.csv.gz");

const PIXELS: usize = 64;

/// What divides training from test examples; part of the meaning of `digits:train`, never to be changed.
const SPLIT_SEED: u64 = 1998;

/// Opens all digits, or the training or test part of them.
pub(crate) fn open(part: &str) -> Result<Arc<dyn Source>, Error> {
    let all: Arc<dyn Source> = Arc::new(decode());
    let (train, test) = match part {
        "" => return Ok(all),
        _ => split(all, 0.8, SPLIT_SEED)?,
    };
    Ok(if part == "train" { train } else { test })
}

fn decode() -> Bytes {
    let mut text = String::new();
    GzDecoder::new(DIGITS).read_to_string(&mut text).expect("the embedded file is whole");
    let (mut features, mut classes) = (Vec::new(), Vec::new());
    for line in text.lines() {
        let start = features.len();
        features.extend(line.split(',').map(|cell| cell.parse::<u8>().expect("the embedded file holds bytes")));
        classes.push(features.pop().expect("a line is not empty").into());
        assert_eq!(features.len() - start, PIXELS, "a line of the embedded file has 64 pixels and a digit");
    }
    let names: Vec<String> = (0..10).map(|digit| digit.to_string()).collect();
    Bytes {
        schema: Some(Schema::of_classes(names.clone())),
        shape: ExampleShape { features: vec![8, 8, 1], targets: TargetShape::Classes { names } },
        features,
        targets: Targets::Classes(classes),
        normaliser: NormaliserKind::MinMax,
    }
}

#[cfg(test)]
mod tests {
    use super::decode;
    use crate::Source;

    #[test]
    fn the_embedded_digits_are_all_there() {
        let digits = decode();
        assert_eq!(digits.examples(), 1797);
        assert_eq!(digits.features.iter().max(), Some(&16));
        // The sum over all pixels as numpy gives it: `sklearn.datasets.load_digits().data.sum()`.
        assert_eq!(digits.features.iter().map(|pixel| u64::from(*pixel)).sum::<u64>(), 561_718);
    }
}
