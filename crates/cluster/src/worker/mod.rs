//! A worker: finds the master, lends its cores until the run ends, and comes back when the master does.
//!
//! # Layout
//!
//! - [`run_worker`]: from one joining to the next.
//! - `event_loop`: one incarnation, from joining to its end. `hearing`: what comes over links. `actions`: what the rules decide,
//!   carried out. `flow`: parts of a round on their way.
//! - `compute`: the thread with the replica. `rounds`: the numbers of rounds under way, in `chunks`.
//! - `sharing`, `stream`: what only `shared` needs: steps that make messages, and the messages that are kept.
//! - `prepare`: the job and the data, read beside the loop.

mod actions;
mod chunks;
mod compute;
mod event_loop;
mod flow;
mod hearing;
mod links;
mod prepare;
mod rounds;
mod sharing;
mod stream;

use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, bounded};
use paceline_data::OpenOptions;
use paceline_exchange::rounds::{Incarnation, MOST_SLOTS, Slots, Term};
use paceline_train::Stop;
use serde::Serialize;

use crate::coordination::{Coordination, ZooKeeper};
use crate::record::Record;
use crate::transport::{Limits, TcpOptions, TcpTransport, TransportEvent};
use crate::trust::{Fingerprint, JoinString, Token, Trust};
use crate::{ClusterError, EVENTS_WAITING};
use compute::Task;
use event_loop::{Ended, EventLoop};
use prepare::Prepared;

/// Where the master is.
#[derive(Clone, Debug)]
pub enum Target {
    /// At an address, without TLS.
    Address(String),
    /// As a join string says.
    Join(JoinString),
    /// Where a ZooKeeper says, as `zk://host:port/path`.
    Coordinator(String),
}

/// How a worker joins.
pub struct WorkerOptions {
    /// Where the master is.
    pub target: Target,
    /// Proves that it may join; that of a join string goes first.
    pub token: Option<Token>,
    /// Workers that it stands for: threads that share what it takes, which is so many times what one would.
    pub slots: Slots,
    /// Where it listens for its peers.
    pub listen: String,
    /// What peers connect to, if that is not where it listens.
    pub advertise: Option<String>,
    /// Whether links without TLS may leave the machine.
    pub plain_off_loopback: bool,
    /// How data is opened; relative paths start at its `root`, and nothing outside is read.
    pub open: OpenOptions,
    /// A file for what the rules were told and decided, to be replayed.
    pub record: Option<std::path::PathBuf>,
    /// A file for the state of the replica when the run has ended: parameters, running statistics and what the updater
    /// remembers, as little-endian `f32`.
    pub keep_state: Option<std::path::PathBuf>,
    /// How long it looks for a master that is gone.
    pub patience: Duration,
}

impl WorkerOptions {
    /// Its slots, of which there is one at least and no more than count.
    fn standing_for(&self) -> Slots {
        self.slots.clamp(1, MOST_SLOTS)
    }
}

/// What a worker tells.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum WorkerEvent {
    /// It is part of a run.
    Joined {
        /// The master's address.
        master: String,
        /// Who it is.
        worker: Incarnation,
        /// The job.
        job: String,
    },
    /// A view has begun.
    View {
        /// Its number.
        view: u64,
        /// Who is in it.
        members: Vec<Incarnation>,
        /// Its first round.
        round: u64,
    },
    /// It is part of the run no more, and tries to join again.
    Left {
        /// Why.
        reason: String,
    },
    /// The run is over, or it was asked to go.
    Finished {
        /// Why.
        reason: String,
    },
}

/// Between two tries to find a master.
const AGAIN_AFTER: Duration = Duration::from_millis(300);
/// How long a coordinator is asked at a time.
const ASKED_FOR: Duration = Duration::from_secs(2);

/// Joins, works, and joins again until the run is over.
pub fn run_worker(
    options: &WorkerOptions,
    stop: &Stop,
    tell: &mut dyn FnMut(&WorkerEvent),
) -> Result<(), ClusterError> {
    let (events, inbox) = bounded(EVENTS_WAITING);
    let tcp = TcpOptions {
        listen: options.listen.clone(),
        advertise: options.advertise.clone(),
        plain_off_loopback: options.plain_off_loopback,
        // The rules bound what is under way: a contribution and a sum of a round or two, however large they are.
        limits: Limits { send_queue: 4 << 30, ..Limits::default() },
        ..TcpOptions::default()
    };
    let trust = match &options.target {
        Target::Join(join) => Trust::joining(join.key)?,
        _ => Trust::Plain,
    };
    let mut transport = TcpTransport::new(tcp, trust, events)?;
    let mut finder = Finder::new(options)?;
    let mut record = Record::new(options.record.as_deref())?;
    let (mut prepared, mut known_term, mut was_member) = (None::<Prepared>, 0, false);
    let mut missing_since = Instant::now();
    loop {
        if stop.is_asked() {
            tell(&WorkerEvent::Finished { reason: "asked to go".into() });
            return Ok(());
        }
        let is_hopeless = !was_member || missing_since.elapsed() >= options.patience;
        let found = match finder.find(known_term) {
            Ok(Some(found)) => found,
            Ok(None) if is_hopeless && missing_since.elapsed() >= ASKED_FOR => {
                let reason = "no master has told that it leads a run".into();
                return Err(ClusterError::NoMaster { address: finder.name(), reason });
            }
            Ok(None) => continue,
            Err(error) if is_hopeless => return Err(error),
            Err(_) => {
                std::thread::sleep(AGAIN_AFTER);
                continue;
            }
        };
        if let Some(key) = found.key {
            crate::transport::Transport::set_trust(&mut transport, Trust::joining(key)?);
        }
        let mut event_loop =
            EventLoop::new(&mut transport, &inbox, options, &found.address, known_term, stop, &mut record);
        let ended = event_loop.run(&mut prepared, tell)?;
        known_term = known_term.max(event_loop.term());
        match ended {
            Ended::Finished(reason) => {
                keep_state(options, prepared.as_ref())?;
                tell(&WorkerEvent::Finished { reason });
                return Ok(());
            }
            Ended::Refused(reason) => return Err(ClusterError::Refused { address: found.address, reason }),
            Ended::Failed(reason) => return Err(ClusterError::RunFailed { reason }),
            Ended::Broken(reason) => return Err(ClusterError::WorkerBroken { reason }),
            Ended::NotFound(reason) => {
                if is_hopeless {
                    return Err(ClusterError::NoMaster { address: found.address, reason });
                }
                std::thread::sleep(AGAIN_AFTER);
            }
            Ended::Rejoin(reason) => {
                (was_member, missing_since) = (true, Instant::now());
                tell(&WorkerEvent::Left { reason });
            }
        }
        drain(&inbox);
    }
}

/// Writes down what the replica has become, if somebody wants to know.
fn keep_state(options: &WorkerOptions, prepared: Option<&Prepared>) -> Result<(), ClusterError> {
    let (Some(path), Some(prepared)) = (&options.keep_state, prepared) else { return Ok(()) };
    let (answer, written) = bounded(1);
    let asked = prepared.compute.tasks.send(Task::Write(path.clone(), answer));
    let written = match asked.is_ok() {
        true => written.recv().unwrap_or(Ok(())),
        false => Ok(()),
    };
    written.map_err(|source| paceline_train::Error::Output { path: path.clone(), source }.into())
}

/// What belongs to links of the last incarnation.
fn drain(inbox: &Receiver<TransportEvent>) {
    while inbox.try_recv().is_ok() {}
}

/// Where a master was found.
struct Found {
    address: String,
    key: Option<Fingerprint>,
}

/// Finds the master again and again.
enum Finder {
    Fixed(String, Option<Fingerprint>),
    ZooKeeper(String, Box<ZooKeeper>),
}

impl Finder {
    fn new(options: &WorkerOptions) -> Result<Self, ClusterError> {
        Ok(match &options.target {
            Target::Address(address) => Finder::Fixed(address.clone(), None),
            Target::Join(join) => Finder::Fixed(join.address.clone(), Some(join.key)),
            Target::Coordinator(address) => {
                let coordinator = ZooKeeper::connect(address, crate::coordination::CONNECT_LIMIT)?;
                Finder::ZooKeeper(address.clone(), Box::new(coordinator))
            }
        })
    }

    fn name(&self) -> String {
        match self {
            Finder::Fixed(address, _) | Finder::ZooKeeper(address, _) => address.clone(),
        }
    }

    /// A master of the newest term that is there, which may be one that is known.
    fn find(&mut self, known: Term) -> Result<Option<Found>, ClusterError> {
        match self {
            Finder::Fixed(address, key) => Ok(Some(Found { address: address.clone(), key: *key })),
            Finder::ZooKeeper(_, coordinator) => {
                let record = coordinator.find(known.saturating_sub(1), ASKED_FOR)?;
                let found = record.map(|record| {
                    let key = record.key.as_deref().map(Fingerprint::parse).transpose()?;
                    Ok::<_, ClusterError>(Found { address: record.address, key })
                });
                found.transpose()
            }
        }
    }
}
