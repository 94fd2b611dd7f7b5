//! The state of a run over HTTP, on its master: for people (`paceline status`), for Prometheus, and for whoever wants to
//! pause, resume, save or stop it.
//!
//! The master writes what it knows on a [`Board`]; a [`Tracker`] shows it to whoever asks. It has a thread of its own and
//! asks the master for nothing, so nobody who reads the state, and nobody who misbehaves, holds up a run.
//!
//! It speaks plain HTTP: off loopback the token and the state can be read on the way. Its token should therefore be one
//! of its own and not that of the join string.
//!
//! # Layout
//!
//! - [`RunStatus`] and its parts: what there is to know. [`Decisions`]: what was decided lately.
//! - [`Board`]: where the master writes it.
//! - [`Tracker`]: shows it. `serve` takes connections and limits them, `access` says who may do what, `answer` has the
//!   routes, `metrics` and `exposition` write the state for Prometheus.

mod access;
mod answer;
mod board;
mod decisions;
mod error;
mod exposition;
mod metrics;
mod serve;
mod status;

use std::net::{SocketAddr, TcpListener};
use std::thread::JoinHandle;
use std::time::Duration;

use crossbeam_channel::Sender;
use paceline_exchange::rounds::Operator;
use tokio::sync::oneshot;

pub use board::Board;
pub use decisions::{Decision, Decisions};
pub use error::TrackerError;
pub use status::{CheckpointStatus, EvaluationStatus, MemberStatus, PHASES, RunStatus, ThresholdStatus};

use crate::trust::Token;
use access::Access;
use answer::Answers;

/// How a [`Tracker`] is set up.
#[derive(Clone, Debug)]
pub struct TrackerOptions {
    /// Where it listens: `HOST:PORT`; port 0 is any.
    pub listen: String,
    /// What others connect to if it is not where it listens: `HOST`, with the port of `listen`, or `HOST:PORT`.
    pub advertise: Option<String>,
    /// What must be known to give orders, and off loopback to read.
    pub token: Option<Token>,
    /// Whether everybody who can connect may read; if it is not said, that holds on loopback and nowhere else.
    pub trusted_network: Option<bool>,
    /// What those who connect may cost.
    pub limits: TrackerLimits,
}

impl Default for TrackerOptions {
    fn default() -> Self {
        Self {
            listen: "127.0.0.1:0".to_owned(),
            advertise: None,
            token: None,
            trusted_network: None,
            limits: TrackerLimits::default(),
        }
    }
}

/// What those who connect to a [`Tracker`] may cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrackerLimits {
    /// Connections at a time. One more, and the oldest is closed: those who wait without asking make room for those who ask.
    pub connections: usize,
    /// How long a connection lasts, from the first byte of the request to the last of the answer.
    pub request: Duration,
    /// Bytes of the head of a request; at least 8 KiB are allowed.
    pub head: usize,
    /// Bytes of the body of a request.
    pub body: usize,
}

impl Default for TrackerLimits {
    fn default() -> Self {
        Self { connections: 64, request: Duration::from_secs(5), head: 16 << 10, body: 4 << 10 }
    }
}

/// Shows the state of a run over HTTP until it is dropped.
pub struct Tracker {
    address: String,
    /// Rung by being dropped.
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Tracker {
    /// Listens. Orders go into `commands`; when it is full they are refused, and whoever gave them is told to try again.
    ///
    /// # Errors
    ///
    /// If the address is none or not free, if strangers could read the state without a token, or if the system gives no
    /// thread.
    pub fn start(options: TrackerOptions, board: Board, commands: Sender<Operator>) -> Result<Self, TrackerError> {
        let TrackerOptions { listen, advertise, token, trusted_network, limits } = options;
        let host = access::host_and_port(&listen)
            .filter(|(_, port)| port.is_some())
            .map(|(host, _)| host)
            .ok_or_else(|| TrackerError::BadListenAddress { found: listen.clone() })?;
        let advertised = match &advertise {
            Some(address) => Some(
                access::host_and_port(address)
                    .ok_or_else(|| TrackerError::BadAdvertisedAddress { found: address.clone() })?,
            ),
            None => None,
        };
        let (listener, bound) =
            bind(&listen).map_err(|source| TrackerError::NoPort { listen: listen.clone(), source })?;
        let trusted = trusted_network.unwrap_or(bound.ip().to_canonical().is_loopback());
        if !trusted && token.is_none() {
            return Err(TrackerError::NoToken { found: listen });
        }
        let address = match &advertised {
            Some((host, port)) => format!("{host}:{}", port.unwrap_or(bound.port())),
            None => format!("{host}:{}", bound.port()),
        };
        let names = [Some(host), advertised.map(|(host, _)| host)].into_iter().flatten().collect();
        let answers = Answers { access: Access { token, trusted, names }, board, commands, body_limit: limits.body };

        let no_thread = |source| TrackerError::NoThread { source };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(no_thread)?;
        let in_runtime = runtime.enter();
        let listener = tokio::net::TcpListener::from_std(listener).map_err(no_thread)?;
        drop(in_runtime);
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::Builder::new()
            .name("paceline-tracker".to_owned())
            .spawn(move || {
                runtime.block_on(async {
                    tokio::select! {
                        _ = stopped => {}
                        () = serve::connections(listener, answers, limits) => {}
                    }
                });
            })
            .map_err(no_thread)?;
        Ok(Self { address, stop: Some(stop), thread: Some(thread) })
    }

    /// What others connect to: `HOST:PORT`, with the real port.
    pub fn address(&self) -> &str {
        &self.address
    }
}

fn bind(listen: &str) -> std::io::Result<(TcpListener, SocketAddr)> {
    let listener = TcpListener::bind(listen)?;
    listener.set_nonblocking(true)?;
    let bound = listener.local_addr()?;
    Ok((listener, bound))
}

impl Drop for Tracker {
    fn drop(&mut self) {
        self.stop = None;
        // The thread never waits for anything but the network, so this takes no time.
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
