use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// Why a coordinator could not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum CoordinationError {
    /// An address that cannot be understood. It is shown without user and password.
    #[error("`{address}` is no address of a ZooKeeper: expected {expected}, found {found}")]
    BadAddress {
        /// The address, without user and password.
        address: String,
        /// What it should have.
        expected: &'static str,
        /// What it has.
        found: String,
    },
    /// Nobody answers.
    #[error("no ZooKeeper answered within {:.1} s; tried {}", limit.as_secs_f64(), listed(tried))]
    Unreachable {
        /// Every address, with what was found there.
        tried: Vec<Tried>,
        /// How long was waited.
        limit: Duration,
    },
    /// ZooKeeper answers, but refuses.
    #[error("ZooKeeper refused to {action} `{node}`: {source}{}", advice(source))]
    Refused {
        /// What was asked.
        action: &'static str,
        /// Of which node.
        node: String,
        /// Why not.
        source: zookeeper_client::Error,
    },
    /// A node that holds something else than what this program writes.
    #[error("the node `{node}` is unreadable: expected {expected}, found {found}")]
    BadNode {
        /// The node.
        node: String,
        /// What it should hold.
        expected: &'static str,
        /// What it holds, or why it cannot be read.
        found: String,
    },
    /// A file that holds something else than what this program writes.
    #[error("the file `{}` is unreadable: expected {expected}, found {found}", path.display())]
    BadFile {
        /// The file.
        path: PathBuf,
        /// What it should hold.
        expected: &'static str,
        /// What it holds, or why it cannot be read.
        found: String,
    },
    /// A file or folder that cannot be used.
    #[error("cannot {action} `{}`: {source}", path.display())]
    File {
        /// What was tried.
        action: &'static str,
        /// With which file or folder.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// Another master runs in this output folder.
    #[error(
        "another master{} uses the folder `{}`: stop it, or choose another folder for this one",
        process.as_ref().map(|id| format!(" (process {id})")).unwrap_or_default(),
        folder.display()
    )]
    FolderInUse {
        /// The folder.
        folder: PathBuf,
        /// Its process, if it has said so.
        process: Option<String>,
    },
    /// A newer term was taken: somebody else leads.
    #[error("term {mine} is over: term {newest} was taken")]
    Fenced {
        /// The term that this candidate had.
        mine: u64,
        /// The newest term.
        newest: u64,
    },
    /// This candidate does not lead, or may no longer believe so.
    #[error("this master does not lead: {reason}")]
    Lost {
        /// Why not.
        reason: Loss,
    },
    /// A record of another term than the one that is led.
    #[error("the record is of term {found}, but this master leads term {mine}")]
    OtherTerm {
        /// The term that this candidate leads.
        mine: u64,
        /// The term of the record.
        found: u64,
    },
    /// A record that is too large.
    #[error("the record has {found} bytes, but may have {limit}: publish where large things lie, not what they are")]
    RecordTooLarge {
        /// Its bytes.
        found: usize,
        /// The most that it may have.
        limit: usize,
    },
    /// A name of a worker that cannot be used.
    #[error("`{name}` cannot be the name of a worker: expected {expected}")]
    BadName {
        /// The name.
        name: String,
        /// What it should be.
        expected: &'static str,
    },
    /// No thread for the work behind.
    #[error("cannot start the thread that speaks to ZooKeeper: {source}")]
    Thread {
        /// Why not.
        source: std::io::Error,
    },
}

/// Why a candidate does not lead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Loss {
    /// It never did.
    #[error("it has not taken a term")]
    NeverLed,
    /// It stepped down.
    #[error("it has stepped down from term {term}")]
    Resigned {
        /// The term that it had.
        term: u64,
    },
    /// A newer term was taken.
    #[error("term {newest} was taken after its term {mine}")]
    Fenced {
        /// The term that it had.
        mine: u64,
        /// The newest term.
        newest: u64,
    },
    /// Its session has ended, and with it what it held.
    #[error("its session with ZooKeeper has expired")]
    SessionExpired,
    /// Nobody has answered for so long that another one may lead soon.
    #[error("ZooKeeper has not answered for {:.1} s of a session of {:.1} s", silent.as_secs_f64(), session.as_secs_f64())]
    NoAnswer {
        /// How long.
        silent: Duration,
        /// How long a session lasts.
        session: Duration,
    },
}

/// An address, and what was found there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tried {
    /// Host and port.
    pub address: String,
    /// What happened there, in words.
    pub found: String,
}

impl fmt::Display for Tried {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` ({})", self.address, self.found)
    }
}

fn listed(tried: &[Tried]) -> String {
    tried.iter().map(Tried::to_string).collect::<Vec<_>>().join(", ")
}

fn advice(error: &zookeeper_client::Error) -> &'static str {
    match error {
        zookeeper_client::Error::NoAuth => {
            "; give the user and password that made it, as in `zk://user:password@host/path`"
        }
        _ => "",
    }
}

impl CoordinationError {
    pub(super) fn file(action: &'static str, path: &std::path::Path) -> impl FnOnce(std::io::Error) -> Self {
        move |source| Self::File { action, path: path.to_owned(), source }
    }
}
