//! What a master is told, and what it does.

use serde::{Deserialize, Serialize};

use super::super::message::{DataProof, ToMaster, ToMember};
use crate::rounds::{Incarnation, Now, Round, Schedule, Told, ViewNumber};
use crate::sharing::Have;

/// What the job and the command line decide.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MasterOptions {
    /// A view of more members is a tree.
    pub mesh_limit: usize,
    /// Members that a view needs.
    pub min_workers: usize,
    /// Members that the first view waits for; it begins without those who do not come.
    pub expected_workers: usize,
    /// How long it waits for them from the first one on, in milliseconds.
    pub expected_within: Now,
    /// A member that was not heard of for so long is lost, in milliseconds.
    pub silence_limit: Now,
    /// How long a run waits for enough members before it fails, in milliseconds.
    pub waiting_limit: Now,
    /// How often it says what it waits for, in milliseconds.
    pub waiting_told_every: Now,
    /// Whether examples that were lost with two members end the run instead of being set aside.
    pub stops_on_poison: bool,
    /// Whether members compute the next round while the last one is summed.
    pub overlap: bool,
    /// What every worker must prove to have; none where data lives in partitions, which the schedule knows.
    pub data: Option<DataProof>,
    /// Whether another phase of the run follows, for which members are to come again.
    #[serde(default)]
    pub goes_on: bool,
}

impl MasterOptions {
    /// What members are told when it is over: why, and whether they are welcome to come again. Nobody waits for a phase that does not
    /// come because the run has failed, or was asked to stop.
    pub(crate) fn farewell(&self, error: Option<&str>, is_stopping: bool) -> ToMember {
        let goes_on = self.goes_on && error.is_none() && !is_stopping;
        let reason = match error {
            Some(error) => error,
            None if goes_on => "this phase of the run has ended, and another one begins",
            None => "the run has ended",
        };
        ToMember::Stop { reason: reason.into(), rejoin: goes_on }
    }
}

/// What an operator may ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Operator {
    /// No new rounds.
    Pause,
    /// Rounds again.
    Resume,
    /// A checkpoint as soon as one can be had.
    Save,
    /// A checkpoint, then the end.
    Stop,
}

/// What happens to a master.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum MasterEvent {
    /// A worker of the right version and with the right token is here; it has been given this incarnation.
    Joined(Incarnation),
    /// A member says something.
    Said(Incarnation, ToMaster),
    /// Something long of a member is on its way: it is slow, not silent.
    Arriving(Incarnation),
    /// The link to a member is gone.
    LinkLost(Incarnation, String),
    /// The state of a round has arrived from a member, with what is left behind it; the driver holds it.
    StateArrived(Incarnation, Round, Schedule),
    /// In `shared`: a state has arrived from a member in a view, for a checkpoint of an epoch, with the messages that are in it; the
    /// driver holds it under the number of examples that are in it.
    SharedStateArrived {
        /// Who.
        member: Incarnation,
        /// The view.
        view: ViewNumber,
        /// The epoch.
        epoch: u64,
        /// The examples.
        round: Round,
        /// The messages.
        vector: Vec<(Incarnation, Have)>,
    },
    /// The checkpoint of a round stands on the disk, and is published.
    Persisted(Round),
    /// The checkpoint of a round could not be published; the one before stays. The driver keeps the state.
    SaveFailed(Round, String),
    /// This master was away itself, stopped or starved: it has not listened, and knows nothing about who was silent meanwhile.
    WasAway,
    /// The coordinator does not answer, or answers again: meanwhile nobody can say whether this master still leads.
    CoordinatorAway(bool),
    /// An operator asks.
    Asked(Operator),
    /// A timer rang, or nothing did.
    Tick,
}

/// What a master does. Carried out in order; a `Persist` is answered when it has come to an end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum MasterAction {
    /// Says something to a member.
    Send(Incarnation, ToMember),
    /// Ends the link to a member.
    Close(Incarnation),
    /// Refuses one that has joined, and ends its link.
    Refuse(Incarnation, String),
    /// Publishes the state of a round, which has arrived, as the newest checkpoint, with what is left to do. Answered by
    /// [`MasterEvent::Persisted`] or [`MasterEvent::SaveFailed`]; until it is persisted, the driver keeps the state.
    Persist {
        /// The round.
        round: Round,
        /// What is left behind it.
        rest: Schedule,
    },
    /// Keeps the state of a round, which has arrived, in place of the one that could not be saved: it is published instead of it, later.
    Keep {
        /// The round.
        round: Round,
        /// What is left behind it.
        rest: Schedule,
    },
    /// Forgets the state of a round that arrived and will not be published.
    Discard(Round),
    /// Rings at the latest then.
    SetTimer(Now),
    /// Tells people and logs.
    Tell(Told),
    /// The run has ended; with an error if there is one.
    End(Option<String>),
}
