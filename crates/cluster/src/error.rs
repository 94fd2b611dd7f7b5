use std::path::PathBuf;

use paceline_train::Holds;

use crate::coordination::CoordinationError;
use crate::transport::TransportError;
use crate::trust::TrustError;

impl ClusterError {
    /// Whether what was asked for cannot be understood, rather than done.
    pub fn is_misuse(&self) -> bool {
        use crate::tracker::TrackerError;
        match self {
            Self::Transport(error) => matches!(
                error,
                TransportError::BadListenAddress { .. }
                    | TransportError::BadAdvertisedAddress { .. }
                    | TransportError::NothingToAdvertise { .. }
            ),
            Self::Tracker(error) => matches!(
                error,
                TrackerError::BadListenAddress { .. }
                    | TrackerError::BadAdvertisedAddress { .. }
                    | TrackerError::NoToken { .. }
            ),
            Self::NotFollowed { .. } | Self::StepsOfNoSize | Self::StepsOfPartitions => true,
            _ => false,
        }
    }
}

/// What can go wrong in a run on many machines.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    /// A folder with something else than a run on many machines.
    #[error("`{}` holds {} already: `--output` chooses another folder, `--restart` replaces it", path.display(), holds.noun())]
    FolderHolds {
        /// The folder.
        path: PathBuf,
        /// What is there.
        holds: Holds,
    },
    /// The job, the data or the network.
    #[error(transparent)]
    Train(#[from] paceline_train::Error),
    /// The data.
    #[error(transparent)]
    Data(#[from] paceline_data::Error),
    /// The coordinator.
    #[error(transparent)]
    Coordination(#[from] CoordinationError),
    /// The network.
    #[error(transparent)]
    Transport(#[from] TransportError),
    /// The state tracker.
    #[error(transparent)]
    Tracker(#[from] crate::tracker::TrackerError),
    /// Tokens and certificates.
    #[error(transparent)]
    Trust(#[from] TrustError),
    /// A model file.
    #[error(transparent)]
    Network(#[from] paceline_nn::Error),
    /// Nobody to join.
    #[error("no master answered at `{address}`: {reason}; start one there, or look at the address")]
    NoMaster {
        /// Where.
        address: String,
        /// What was seen.
        reason: String,
    },
    /// The master does not want this worker.
    #[error("the master at `{address}` refuses this worker: {reason}")]
    Refused {
        /// Where.
        address: String,
        /// Why.
        reason: String,
    },
    /// A process that leads a pass of a trained model does not want this helper.
    #[error("the process at `{address}` takes no help from this one: {reason}")]
    HelpRefused {
        /// Where.
        address: String,
        /// Why.
        reason: String,
    },
    /// A run of another job is there already.
    #[error("another run is there already: {what}; choose another `--output`, or begin anew with `--restart`")]
    OtherRun {
        /// What differs.
        what: String,
    },
    /// The run failed.
    #[error("{reason}")]
    RunFailed {
        /// Why.
        reason: String,
    },
    /// This worker is of no use to the run, which goes on.
    #[error("this worker cannot go on and leaves the run to the others: {reason}")]
    WorkerBroken {
        /// Why.
        reason: String,
    },
    /// A setting that a run on many machines does not follow yet.
    #[error("`{setting}` is not followed by a run on many machines yet: leave it out")]
    NotFollowed {
        /// The setting.
        setting: &'static str,
    },
    /// Steps whose size depends on who is there.
    #[error(
        "`train.steps` on many machines needs `data.global_batch`: without it the examples of a step depend on who is there"
    )]
    StepsOfNoSize,
    /// A limit that only makes sense where an epoch has an order.
    #[error("`train.steps` cannot be had with partitions, which have no order in common: set `train.epochs`")]
    StepsOfPartitions,
    /// A model whose features were treated in another way.
    #[error(
        "the normaliser of the model to begin with differs from the one of this data: train on the same data, or without one \
         (`data.normaliser = \"none\"`)"
    )]
    OtherNormaliser,
    /// A worker without any data.
    #[error(
        "the data of this job lives with its workers, and this worker brings none of it: name its part with `--partition NUMBER=SOURCE`"
    )]
    NoPartition,
    /// A checkpoint that cannot be gone on from.
    #[error("`{}`: expected {expected}, found {found}", path.display())]
    BadCheckpoint {
        /// The file.
        path: PathBuf,
        /// What it should hold.
        expected: String,
        /// What it holds.
        found: String,
    },
    /// A file that was asked for cannot be written.
    #[error("cannot write {what} to `{}`: {source}", path.display())]
    Unwritable {
        /// What it would hold, and which option asks for it.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// Files of a run that nothing is known of.
    #[error(
        "`{}` is of a run whose record is missing: choose another `--output`, bring the record back, or begin anew with `--restart`", path.display()
    )]
    UnknownRun {
        /// A file of it.
        path: PathBuf,
    },
    /// A master that stands by and sees another folder than the one that leads.
    #[error(
        "`{}`: expected the number {run} of the run that the leader has written there, found {found}: all masters of a run need the same `--output` folder, on storage that they share", path.display()
    )]
    OtherStorage {
        /// The file that the leader writes.
        path: PathBuf,
        /// The number of its run.
        run: String,
        /// What is there.
        found: String,
    },
    /// A thread could not be started.
    #[error("no thread could be started: {source}")]
    Thread {
        /// Why.
        source: std::io::Error,
    },
}
