//! Proves that two processes see the same data.

use paceline_data::{Source, fingerprint};
use paceline_exchange::rounds::message::DataProof;
use paceline_exchange::rounds::{Brings, Brought, Held};

use crate::ClusterError;

/// Count and fingerprint of a source.
pub fn prove(source: &dyn Source) -> Result<DataProof, ClusterError> {
    Ok(DataProof { examples: source.examples() as u64, fingerprint: fingerprint(source)? })
}

/// What a source has of the data: all of it, or some partitions.
pub fn brings(source: &dyn Source) -> Result<Brings, ClusterError> {
    let Some(partitions) = source.partitions() else { return Ok(Brings::Whole(prove(source)?)) };
    let brought = partitions.held().iter().map(|(partition, held)| {
        let proof = prove(&*held.source)?;
        Ok(Brought { held: Held { partition: *partition, epoch: held.epoch }, proof })
    });
    let brought = brought.collect::<Result<Vec<Brought>, ClusterError>>()?;
    if brought.is_empty() {
        return Err(ClusterError::NoPartition);
    }
    Ok(Brings::Partitions(brought))
}
