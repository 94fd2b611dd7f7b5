//! Reads the job and the data, beside the loop that keeps in touch with the master.

use std::path::{Component, Path};

use paceline_data::OpenOptions;
use paceline_exchange::rounds::Slots;
use paceline_train::{CoreReplica, Job, Replica, ReplicaMode};

use super::host::Ready;
use crate::mode::replica_mode;
use crate::wire::JobText;
use crate::{ClusterError, prove};

/// Reads a job and its data, and makes a replica for it.
pub(super) fn read(text: JobText, slots: Slots, open: &OpenOptions) -> Result<(Ready, Box<dyn Replica>), ClusterError> {
    let job = Job::from_text(&text.text, text.is_json, &text.name, "the master's job", &text.settings)?;
    for spec in [Some(&job.data.train), job.data.test.as_ref()].into_iter().flatten() {
        within_root(spec)?;
    }
    let trainer = job.cluster_trainer(None, open)?;
    let proof = prove(&**trainer.train_source())?;
    let (normaliser, slots) = (trainer.fit_normaliser()?, slots as usize);
    let mode = replica_mode(trainer.options())?;
    let gives_nothing = mode == ReplicaMode::Sync;
    let replica = CoreReplica::new(&trainer, mode, slots, normaliser)?;
    let (width, layout) = (trainer.network().parameter_count(), replica.layout());
    Ok((Ready { job: text, proof, width, layout, gives_nothing }, Box::new(replica)))
}

/// A master's job names files; only what lies below the data root is read.
fn within_root(spec: &str) -> Result<(), ClusterError> {
    let (kind, rest) = spec.split_once(':').unwrap_or(("", spec));
    if matches!(kind, "mnist" | "digits") {
        return Ok(());
    }
    let files = rest.split('?').next().unwrap_or_default();
    let is_below =
        |path: &str| Path::new(path).components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
    match files.split(',').all(is_below) {
        true => Ok(()),
        false => Err(ClusterError::OutsideRoot { spec: spec.to_owned() }),
    }
}

#[cfg(test)]
mod tests {
    use super::within_root;

    #[test]
    fn only_what_lies_below_the_root_is_read() {
        for inside in ["mnist:train", "digits:", "idx:a/b.idx,c.idx", "csv:./iris.csv?label=x/../y"] {
            assert!(within_root(inside).is_ok(), "{inside}");
        }
        for outside in ["csv:/etc/passwd", "idx:a.idx,../b.idx", "csv:a/../../b.csv", "/etc/passwd"] {
            assert!(within_root(outside).is_err(), "{outside}");
        }
    }
}
