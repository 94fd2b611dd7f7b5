use paceline_model::{Batch, Targets};
use sha2::{Digest, Sha256};

use crate::{Error, Source};

/// Examples that are looked at, spread over the source.
const SAMPLED: usize = 64;

/// A number that tells two sources of the same size apart: it is made of the features, targets and weights of some examples, from the
/// first to the last.
pub fn fingerprint(source: &dyn Source) -> Result<u64, Error> {
    if let Some(partitions) = source.partitions() {
        let mut digest = Sha256::new();
        for (examples, fingerprint) in &partitions.notes().partitions {
            digest.update(examples.to_le_bytes());
            digest.update(fingerprint.to_le_bytes());
        }
        return Ok(first_number(&digest.finalize()));
    }
    let examples = source.examples();
    let sampled = SAMPLED.min(examples);
    let mut indices: Vec<u64> = (0..sampled).map(|n| (n * examples / sampled) as u64).collect();
    indices.extend(examples.checked_sub(1).map(|last| last as u64));
    indices.dedup();
    let mut batch = Batch::empty();
    source.read(&indices, &mut batch)?;
    let mut digest = Sha256::new();
    batch.features.iter().for_each(|value| digest.update(value.to_le_bytes()));
    match &batch.targets {
        Targets::Classes(classes) => classes.iter().for_each(|class| digest.update(class.to_le_bytes())),
        Targets::Values { values, .. } => values.iter().for_each(|value| digest.update(value.to_le_bytes())),
        Targets::None => {}
    }
    batch.weights.iter().flatten().for_each(|weight| digest.update(weight.to_le_bytes()));
    Ok(first_number(&digest.finalize()))
}

fn first_number(digest: &[u8]) -> u64 {
    u64::from_le_bytes(*digest.first_chunk().expect("a digest of 32 bytes"))
}
