//! A worker: finds the master, lends its cores until the run ends, and comes back when the master does.
//!
//! # Layout
//!
//! - [`run_worker`]: makes a loop and its surroundings, and drives it to its end.
//! - `worker_loop`: from one joining to the next. `membership`: one incarnation, from joining to its end. `hearing`: what comes
//!   over links. `actions`: what the rules decide, carried out. `flow`: parts of a round on their way.
//! - `compute`: the replica and what it is to do. `copy`: copies of what it is.
//! - `rounds`: the numbers of rounds under way, in `chunks`.
//! - `sharing`, `stream`: what only `shared` needs: steps that make messages, and the messages that are kept.
//! - `timed`: how the time of the thread that computes is spent.
//! - `host`: what the loop needs of the world around it. `surroundings`: the real one. `prepare`: the job and the data.

mod actions;
mod chunks;
pub(crate) mod compute;
mod copy;
mod flow;
mod hearing;
pub(crate) mod host;
mod links;
mod membership;
mod prepare;
mod rounds;
mod sharing;
mod stream;
mod surroundings;
mod timed;
pub(crate) mod worker_loop;

use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::time::Duration;

use crossbeam_channel::bounded;
use paceline_data::OpenOptions;
use paceline_exchange::rounds::{MOST_SLOTS, Slots};
use paceline_nn::Registry;
use paceline_train::Stop;
use serde::Serialize;

use crate::coordination::ZooKeeperAddress;
use crate::transport::{Limits, TcpOptions, TcpTransport};
use crate::trust::{JoinString, Token, Trust};
use crate::{ClusterError, EVENTS_WAITING, descriptors};
pub use prepare::read_job;
pub use surroundings::MakeReplica;
use surroundings::drive;
use worker_loop::WorkerSetup;

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

impl Target {
    /// Where a worker listens if it is not told: any port of the address that packets to the master leave from. Nothing is sent to
    /// find it.
    pub fn listens_by_default(&self) -> String {
        let loopback = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let address = match self {
            Target::Address(address) => Some(address.clone()),
            Target::Join(join) => Some(join.address.clone()),
            // Whoever is reached on the way to the coordinator is reached by the others who use it.
            Target::Coordinator(address) => {
                address.parse::<ZooKeeperAddress>().ok().map(|coordinator| coordinator.servers()[0].clone())
            }
        };
        let found = address.and_then(|address| {
            let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
            socket.connect(address).ok()?;
            socket.local_addr().ok()
        });
        SocketAddr::new(found.map_or(loopback, |local| local.ip()), 0).to_string()
    }
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
    /// Layers and losses of other crates that the job may name.
    pub registry: Registry,
}

impl WorkerOptions {
    /// One slot, for a run that is led there; it looks for a master that is gone for a minute.
    pub fn new(target: Target) -> Self {
        Self {
            listen: target.listens_by_default(),
            target,
            token: None,
            slots: 1,
            advertise: None,
            plain_off_loopback: false,
            open: OpenOptions::default(),
            record: None,
            keep_state: None,
            patience: Duration::from_secs(60),
            registry: Registry::default(),
        }
    }

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
        /// Who it is: its host and its number.
        worker: String,
        /// The job.
        job: String,
    },
    /// The master there leads another run than the one that it was a member of: it begins anew.
    OtherRun {
        /// The master's address.
        master: String,
    },
    /// A view has begun.
    View {
        /// Its number.
        view: u64,
        /// The numbers of those who are in it.
        members: Vec<String>,
        /// Its first round.
        round: u64,
    },
    /// There is no master yet.
    Waiting {
        /// Where it looks for one.
        place: String,
        /// What is found there.
        reason: String,
        /// How long it goes on looking.
        seconds_left: u64,
    },
    /// It stood still: it was stopped, got no processor, or its machine slept.
    StoodStill {
        /// For how long.
        seconds: f64,
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

/// Joins, works, and joins again until the run is over.
pub fn run_worker(
    options: &WorkerOptions,
    stop: &Stop,
    tell: &mut dyn FnMut(&WorkerEvent),
) -> Result<(), ClusterError> {
    run_worker_with(options, read_job, stop, tell)
}

/// As [`run_worker`], with another kind of replica than the cores of this machine.
pub fn run_worker_with(
    options: &WorkerOptions,
    make: MakeReplica,
    stop: &Stop,
    tell: &mut dyn FnMut(&WorkerEvent),
) -> Result<(), ClusterError> {
    descriptors::raise_limit();
    let (events, inbox) = bounded(EVENTS_WAITING);
    let tcp = TcpOptions {
        listen: options.listen.clone(),
        advertise: options.advertise.clone(),
        plain_off_loopback: options.plain_off_loopback,
        own_user_only: options.token.is_none(),
        // The rules bound what is under way: a contribution and a sum of a round or two, however large they are.
        limits: Limits { send_queue: 4 << 30, ..Limits::default() },
        ..TcpOptions::default()
    };
    let needs_key = matches!(options.target, Target::Coordinator(_))
        && !options.plain_off_loopback
        && !is_loopback(&options.listen);
    let (trust, token, place) = match &options.target {
        Target::Join(join) => (Trust::joining(join.key)?, Some(join.token.clone()), join.address.clone()),
        Target::Address(place) => (Trust::Plain, options.token.clone(), place.clone()),
        // Who listens to other machines speaks TLS, with a key that the coordinator tells.
        Target::Coordinator(place) => {
            let trust = if needs_key { Trust::nobody()? } else { Trust::Plain };
            (trust, options.token.clone(), place.clone())
        }
    };
    let transport = TcpTransport::new(tcp, trust, events)?;
    let setup = WorkerSetup {
        token,
        needs_key,
        slots: options.standing_for(),
        patience: options.patience.as_millis() as u64,
        place,
        planted: None,
    };
    drive(setup, options, make, transport, &inbox, stop, tell)
}

/// Whether only this machine reaches an address.
fn is_loopback(listen: &str) -> bool {
    use std::net::ToSocketAddrs;
    listen.to_socket_addrs().is_ok_and(|mut all| all.all(|address| address.ip().is_loopback()))
}
