//! Proves that two processes see the same data.

use paceline_data::Source;
use paceline_exchange::rounds::message::DataProof;
use paceline_model::{Batch, Targets};
use sha2::{Digest, Sha256};

use crate::ClusterError;

/// Examples that are looked at, spread over the source.
const SAMPLED: usize = 64;

/// Count and fingerprint of a source: the numbers and targets of examples from its first to its last.
pub fn prove(source: &dyn Source) -> Result<DataProof, ClusterError> {
    let examples = source.examples();
    let mut indices: Vec<u64> =
        (0..SAMPLED.min(examples)).map(|n| (n * examples / SAMPLED.min(examples)) as u64).collect();
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
    let digest = digest.finalize();
    let first = digest.first_chunk::<8>().expect("a digest of 32 bytes");
    Ok(DataProof { examples: examples as u64, fingerprint: u64::from_le_bytes(*first) })
}
