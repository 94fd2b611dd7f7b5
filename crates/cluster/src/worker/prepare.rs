//! Reads the job and the data, beside the loop that keeps in touch with the master.

use paceline_data::OpenOptions;
use paceline_exchange::rounds::Slots;
use paceline_nn::Registry;
use paceline_train::{CoreReplica, Job, Replica, ReplicaMode};

use super::host::Ready;
use crate::mode::replica_mode;
use crate::wire::JobText;
use crate::{ClusterError, brings};

/// Reads a job and its data, and makes a replica for it: cores of this machine, one for every slot.
pub fn read_job(
    text: JobText,
    slots: Slots,
    open: &OpenOptions,
    registry: &Registry,
) -> Result<(Ready, Box<dyn Replica>), ClusterError> {
    let mut job = Job::from_text(&text.text, text.is_json, &text.name, "the master's job", &text.settings)?;
    job.registry = registry.clone();
    // A master's job names files; only what lies below the data root is read.
    let open = OpenOptions { confined: true, ..open.clone() };
    let trainer = job.worker_trainer(&open)?;
    let brings = brings(&**trainer.train_source())?;
    let (normalisers, slots) = (trainer.fit_normalisers()?, slots as usize);
    let mode = replica_mode(trainer.options())?;
    let gives_nothing = mode == ReplicaMode::Sync;
    trainer.expect_memory_of_slots(slots)?;
    let replica = CoreReplica::new(&trainer, mode, slots, normalisers)?;
    let (width, layout) = (trainer.network().parameter_count(), replica.layout());
    Ok((Ready { job: text, brings, width, layout, gives_nothing }, Box::new(replica)))
}
