//! Proves that two processes see the same data.

use paceline_data::{Source, fingerprint};
use paceline_exchange::rounds::message::DataProof;

use crate::ClusterError;

/// Count and fingerprint of a source.
pub fn prove(source: &dyn Source) -> Result<DataProof, ClusterError> {
    Ok(DataProof { examples: source.examples() as u64, fingerprint: fingerprint(source)? })
}
