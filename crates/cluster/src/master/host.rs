//! What surrounds a master's loop: the loop is handed one input at a time, and never blocks, sleeps or asks a clock itself.

use std::path::PathBuf;

use paceline_exchange::Bulk;
use paceline_exchange::rounds::{Incarnation, Now, Operator, Round, Schedule, Told};
use paceline_model::Progress;
use paceline_train::{Event, KeptEpoch, Scores};

use super::judging::Kept;
use crate::coordination::{Leadership, RunRecord};
use crate::record::Record;
use crate::transport::{Transport, TransportEvent};
use crate::{ClusterError, Whereabouts};

/// What happens to a master.
#[derive(Debug)]
pub enum Input {
    /// On a link.
    Link(TransportEvent),
    /// Somebody gives an order: over HTTP, or with Ctrl-C.
    Asked(Operator),
    /// An operation has come to its end.
    Done(Answer),
    /// Nothing, but the time has come that the loop wanted to be woken at.
    Wake,
}

/// Everything that a loop does besides sending frames. Each is answered once, by the [`Answer`] of the same name; those of one
/// kind in order.
#[derive(Clone, Debug)]
pub enum Operation {
    /// Waits until this master leads. Answered when it does; [`Answer::Standby`] may come before.
    Lead,
    /// Reads the state that a run goes on from.
    Load(RunRecord),
    /// Makes a record the newest, unless another master has taken a later term.
    Publish(RunRecord),
    /// Writes a checkpoint under a name of its own.
    Save(Checkpoint),
    /// Removes all checkpoints but the newest few. Not answered.
    Tidy(PathBuf),
    /// Judges a state with the test data.
    Judge {
        /// The epoch that it ended, or the last one.
        epoch: u64,
        /// The state.
        state: Bulk,
        /// How far it is.
        progress: Progress,
    },
    /// Writes a state as the best model so far.
    KeepBest {
        /// The state.
        state: Bulk,
        /// How far it is.
        progress: Progress,
    },
    /// Writes the model, and reads it back.
    Export {
        /// The last state.
        state: Bulk,
        /// How far it is.
        progress: Progress,
        /// Whether the best model takes its place, if it can be read.
        prefers_best: bool,
        /// Whether it is written as the best model, too.
        keeps_best: bool,
        /// The epoch of the last state, where it is the best and the run keeps the best.
        kept: Option<KeptEpoch>,
    },
    /// Steps down, so that another one leads at once. Not answered.
    Resign,
}

/// A state, and all that a run needs to go on from it.
#[derive(Clone, Debug)]
pub struct Checkpoint {
    /// The run.
    pub run: u64,
    /// The term that it is written in.
    pub term: u64,
    /// The round that the state is of.
    pub round: Round,
    /// What is left to do behind it.
    pub rest: Schedule,
    /// Whether the run trains no further.
    pub is_finished: bool,
    /// What was judged so far.
    pub judged: Kept,
    /// The state.
    pub state: Bulk,
}

/// Where a run stands when a term begins.
#[derive(Clone, Debug)]
pub struct Begun {
    /// The run.
    pub run: u64,
    /// The round that the state is of.
    pub round: Round,
    /// What is left to do behind it.
    pub rest: Schedule,
    /// What members start from.
    pub state: Bulk,
    /// What was judged before.
    pub judged: Kept,
    /// The file that it was read from.
    pub path: Option<PathBuf>,
    /// Whether the run trains no further.
    pub is_finished: bool,
    /// What people should know of how it was read.
    pub remark: Option<String>,
}

impl Answer {
    /// Whether it is the answer to an operation.
    pub fn is_asked_for(&self) -> bool {
        !matches!(self, Self::Standby | Self::Unled(_) | Self::CoordinatorAway(_) | Self::CoordinatorBack)
    }
}

/// What an operation came to.
#[derive(Debug)]
pub enum Answer {
    /// Another master leads; this one waits.
    Standby,
    /// This one leads.
    Led(Result<Leadership, ClusterError>),
    /// The state that was read.
    Loaded(Result<Box<Begun>, ClusterError>),
    /// This master leads no more: another one has taken a term. Nobody has asked.
    Unled(ClusterError),
    /// The coordinator does not answer: another one may have taken a term. Nobody has asked.
    CoordinatorAway(String),
    /// It answers again, and this master leads as before. Nobody has asked.
    CoordinatorBack,
    /// Whether the record is the newest.
    Published(Result<(), Unpublished>),
    /// Where the checkpoint of a round lies, or why it does not.
    Saved(Round, Result<PathBuf, String>),
    /// What a state is worth; nothing without test data.
    Judged {
        /// The epoch.
        epoch: u64,
        /// The state.
        state: Bulk,
        /// What it is worth.
        scores: Result<Option<Box<Scores>>, ClusterError>,
    },
    /// Why the best model could not be written, if it could not.
    BestKept(Result<(), String>),
    /// The model stands, or why it does not.
    Exported(Result<Box<Exported>, ClusterError>),
}

/// Why a record could not be published.
#[derive(Debug)]
pub enum Unpublished {
    /// It may be tried again.
    Failed(String),
    /// This master does not lead any more, and has been told so.
    NotLeading,
}

/// A model that was written and read back.
#[derive(Debug)]
pub struct Exported {
    /// Where it lies.
    pub path: PathBuf,
    /// What its bytes come to.
    pub digest: String,
    /// What the best model is worth, if it is that.
    pub scores: Option<Scores>,
    /// Epochs that the best model was trained for, if it is that.
    pub kept: Option<u64>,
}

/// Gives a master's loop the time and its links, and carries out its operations.
pub trait MasterHost {
    /// Milliseconds on a clock that never goes back.
    fn now(&self) -> Now;

    /// The links.
    fn links(&mut self) -> &mut dyn Transport;

    /// Begins an operation and returns at once.
    fn begin(&mut self, operation: Operation);

    /// Tells people.
    fn tell(&mut self, event: &Event);

    /// It holds a state that it saves later: the run may go back to it from now on. Whoever watches is told.
    fn holds(&mut self, _round: Round, _rest: &Schedule, _state: &Bulk) {}

    /// Hears what the rules tell, before people do.
    fn hear(&mut self, _told: &Told) {}

    /// Where the rules' events are noted.
    fn record(&mut self) -> &mut Record;

    /// Something that nobody can guess, as hexadecimal digits.
    fn nonce(&mut self) -> Result<String, ClusterError>;

    /// A number that no other run has.
    fn run_number(&mut self) -> u64;

    /// Begins to show how things are over HTTP, if that is wanted; says where.
    fn show(&mut self) -> Result<Option<String>, ClusterError>;

    /// A file of a run that nobody has a record of, where this one would write.
    fn of_another_run(&mut self) -> Option<PathBuf> {
        None
    }

    /// What a new network starts from.
    fn initial_state(&mut self) -> Result<Bulk, ClusterError>;

    /// Whether the kernel has killed a worker for memory, as far as that can be seen from here.
    fn was_killed(&mut self, _: &mut Whereabouts) -> bool {
        false
    }

    /// A certificate for a member, with its key; none where links are plain.
    fn certificate(&mut self, member: Incarnation) -> Result<Option<Vec<u8>>, ClusterError>;
}
