//! What surrounds a worker's loop: the loop is handed one input at a time, and never blocks, sleeps or asks a clock itself.

use crossbeam_channel::Sender;
use paceline_exchange::rounds::{Brings, Now, Term};
use paceline_train::{Layout, Spent};

use super::WorkerEvent;
use super::compute::{ReplicaDone, ReplicaTask};
use crate::record::Record;
use crate::transport::{Transport, TransportEvent};
use crate::trust::Fingerprint;
use crate::wire::JobText;
use crate::{ClusterError, Whereabouts};

/// What happens to a worker.
#[derive(Debug)]
pub enum Input {
    /// On a link.
    Link(TransportEvent),
    /// Where a master is, if there is one; the answer to [`WorkerHost::find`].
    Found(Result<Option<Found>, ClusterError>),
    /// The job and the data are read, and a replica stands; the answer to [`WorkerHost::prepare`].
    Ready(Result<Ready, ClusterError>),
    /// The replica has done something; the answer to [`WorkerHost::compute`].
    Done(ReplicaDone),
    /// This process is to end.
    AskedToGo,
    /// Nothing, but the time has come that the loop wanted to be woken at.
    Wake,
}

/// Where a master was found.
#[derive(Clone, Debug)]
pub struct Found {
    /// Its address.
    pub address: String,
    /// The fingerprint of its key.
    pub key: Option<Fingerprint>,
    /// The term that it leads, if that is known.
    pub term: Option<Term>,
}

/// A job that is ready to be worked on.
#[derive(Clone, Debug)]
pub struct Ready {
    /// The job.
    pub job: JobText,
    /// What is here of its data.
    pub brings: Brings,
    /// Parameters of the network.
    pub width: usize,
    /// What a contribution is made of.
    pub layout: Layout,
    /// Whether one without examples needs no computing.
    pub gives_nothing: bool,
}

/// Gives a worker's loop the time and its links, finds masters, and computes.
pub trait WorkerHost {
    /// Milliseconds on a clock that never goes back.
    fn now(&self) -> Now;

    /// The links.
    fn links(&mut self) -> &mut dyn Transport;

    /// Something that nobody can guess, as hexadecimal digits.
    fn nonce(&mut self) -> Result<String, ClusterError>;

    /// Looks for a master of this term or a later one; answered after a while if there is none.
    fn find(&mut self, known: Term);

    /// Reads a job and its data, and makes a replica for it, which takes the place of the last one.
    fn prepare(&mut self, job: JobText);

    /// Gives the replica something to do, after all that it was given before.
    fn compute(&mut self, task: ReplicaTask);

    /// All that this worker adds up in a round is here: from now on only the network is waited for.
    fn all_in(&mut self) {}

    /// What the replica's time went into since this was last asked, where it is measured.
    fn spent(&mut self) -> Option<Spent> {
        None
    }

    /// Where what the replica has done is put; it comes back as [`Input::Done`].
    fn outbox(&self) -> Sender<ReplicaDone>;

    /// What this machine is called; empty if that is not known.
    fn machine(&self) -> String {
        String::new()
    }

    /// Where this process runs, if the system tells.
    fn whereabouts(&self) -> Option<Whereabouts> {
        None
    }

    /// Tells people.
    fn tell(&mut self, event: &WorkerEvent);

    /// Where the rules' events are noted.
    fn record(&mut self) -> &mut Record;
}
