//! Links over TCP, plain or with TLS.
//!
//! A small runtime of its own carries all links; the owner's thread only puts frames into queues and takes events out of
//! a channel. A link is one task (`link.rs`) that reads (`read.rs`) and writes (`write.rs`) at the same time.

mod accept;
mod address;
mod dial;
mod error;
mod events;
mod link;
mod places;
mod read;
mod socket;
mod stream;
mod write;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant};

use crossbeam_channel::{Sender, bounded};
use paceline_exchange::Frame;
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

pub use error::TransportError;

use super::{Limits, LinkId, SendError, Transport, TransportEvent};
use crate::trust::{Proof, Trust};
use events::Events;
use link::Link;

/// How a [`TcpTransport`] is set up.
#[derive(Clone, Debug)]
pub struct TcpOptions {
    /// Where it listens: `HOST:PORT` or `HOST:FROM-TO`, of which the first free port is taken; port 0 is any.
    pub listen: String,
    /// What others connect to if it is not where it listens: `HOST`, with the port of `listen`, or `HOST:PORT`.
    pub advertise: Option<String>,
    /// Whether links without TLS may leave the machine. Then anybody on the way can read and change what they carry.
    pub plain_off_loopback: bool,
    /// Whether links without TLS are for processes of the same user only.
    pub own_user_only: bool,
    /// Threads that carry the links.
    pub threads: usize,
    /// What peers may cost.
    pub limits: Limits,
}

impl Default for TcpOptions {
    fn default() -> Self {
        Self {
            listen: "127.0.0.1:0".to_owned(),
            advertise: None,
            plain_off_loopback: false,
            own_user_only: false,
            threads: 2,
            limits: Limits::default(),
        }
    }
}

/// A [`Transport`] over TCP.
///
/// When it is dropped, all links are closed, and for at most [`Limits::linger`] what is queued still goes out.
pub struct TcpTransport {
    address: String,
    shared: Arc<Shared>,
    /// There until the transport is dropped.
    runtime: Option<Runtime>,
    listening: JoinHandle<()>,
    /// Frees whoever waits for room in the channel of events, as soon as it is dropped.
    stop: Option<Sender<()>>,
}

/// What the owner's thread and the tasks have in common.
struct Shared {
    limits: Limits,
    plain_off_loopback: bool,
    own_user_only: bool,
    trust: RwLock<Trust>,
    last_link: AtomicU64,
    links: Mutex<HashMap<LinkId, Arc<Link>>>,
    /// See [`Limits::silence`], in milliseconds.
    silence: AtomicU64,
    /// Rung when a link has gone.
    gone: Condvar,
    events: Events,
}

impl TcpTransport {
    /// Listens. When `events` is full, links are read no further until there is room, so that TCP slows peers down.
    ///
    /// # Errors
    ///
    /// If the address is none, no port of it is free, or bytes would leave the machine without TLS.
    pub fn new(options: TcpOptions, trust: Trust, events: Sender<TransportEvent>) -> Result<Self, TransportError> {
        let TcpOptions { listen, advertise, plain_off_loopback, own_user_only, threads, limits } = options;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(threads.max(1))
            .thread_name("paceline-links")
            .enable_all()
            .build()
            .map_err(|source| TransportError::NoRuntime { source })?;
        let in_runtime = runtime.enter();
        let (listener, bound) = address::bind(&listen)?;
        if matches!(trust, Trust::Plain) && !bound.ip().is_loopback() && !plain_off_loopback {
            return Err(TransportError::PlainOffLoopback { found: listen });
        }
        let address = address::advertised(&listen, bound, advertise.as_deref())?;
        let (stop, stopped) = bounded(0);
        let shared = Arc::new(Shared {
            silence: AtomicU64::new(millis(limits.silence)),
            limits,
            plain_off_loopback,
            own_user_only,
            trust: RwLock::new(trust),
            last_link: AtomicU64::new(0),
            links: Mutex::default(),
            gone: Condvar::new(),
            events: Events::new(events, stopped),
        });
        let listening = runtime.spawn(accept::strangers(shared.clone(), listener));
        drop(in_runtime);
        Ok(Self { address, shared, runtime: Some(runtime), listening, stop: Some(stop) })
    }
}

/// A time from now; one that is too far away to be written down comes in thirty years.
fn after(duration: Duration) -> Instant {
    const FAR: Duration = Duration::from_secs(30 * 365 * 86_400);
    Instant::now() + duration.min(FAR)
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

impl Shared {
    fn silence(&self) -> Duration {
        // Less than a second says more of the network than of a peer; more than an hour is beyond what sockets take.
        Duration::from_millis(self.silence.load(Ordering::Relaxed).clamp(1000, 3_600_000))
    }

    fn new_link(&self) -> Arc<Link> {
        let id = LinkId(self.last_link.fetch_add(1, Ordering::Relaxed) + 1);
        let link = Arc::new(Link::new(id, &self.limits));
        self.links().insert(id, link.clone());
        link
    }

    /// Forgets a link and tells why it ended, unless that was told before.
    async fn end_link(&self, link: &Link, reason: String) {
        if link.told.swap(true, Ordering::Relaxed) {
            return;
        }
        self.links().remove(&link.id);
        self.gone.notify_all();
        self.events.emit(TransportEvent::Closed { link: link.id, reason }).await;
    }

    fn links(&self) -> MutexGuard<'_, HashMap<LinkId, Arc<Link>>> {
        // Nothing panics while it is held: there is no half-made state.
        self.links.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn link(&self, link: LinkId) -> Option<Arc<Link>> {
        self.links().get(&link).cloned()
    }

    fn trust(&self) -> Trust {
        self.trust.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Transport for TcpTransport {
    fn local_address(&self) -> &str {
        &self.address
    }

    fn connect(&mut self, to: &str) -> LinkId {
        let link = self.shared.new_link();
        let id = link.id;
        if let Some(runtime) = &self.runtime {
            runtime.spawn(dial::peer(self.shared.clone(), link, to.to_owned()));
        }
        id
    }

    fn send(&mut self, link: LinkId, frame: Frame) -> Result<(), SendError> {
        self.shared.link(link).ok_or(SendError::Closed { link })?.send(frame, false)
    }

    fn send_first(&mut self, link: LinkId, frame: Frame) -> Result<(), SendError> {
        self.shared.link(link).ok_or(SendError::Closed { link })?.send(frame, true)
    }

    fn queued(&self, link: LinkId) -> usize {
        self.shared.link(link).map_or(0, |link| link.queued())
    }

    fn proof(&self, link: LinkId) -> Proof {
        self.shared.link(link).map_or(Proof::None, |link| link.proof())
    }

    fn binding(&self, link: LinkId) -> Vec<u8> {
        self.shared.link(link).map_or_else(Vec::new, |link| link.binding())
    }

    fn admit(&mut self, link: LinkId) {
        if let Some(link) = self.shared.link(link) {
            link.admit();
        }
    }

    fn close(&mut self, link: LinkId, reason: &str) {
        if let Some(link) = self.shared.link(link) {
            link.close(reason);
        }
    }

    fn set_trust(&mut self, trust: Trust) {
        *self.shared.trust.write().unwrap_or_else(PoisonError::into_inner) = trust;
    }

    fn set_silence(&mut self, silence: Duration) {
        self.shared.silence.store(millis(silence), Ordering::Relaxed);
    }
}

impl Drop for TcpTransport {
    fn drop(&mut self) {
        // Nobody takes events any more: from now on they are dropped, and nobody waits for room.
        self.stop = None;
        self.listening.abort();
        let deadline = after(self.shared.limits.linger);
        let mut links = self.shared.links();
        for link in links.values() {
            link.close("the other side has ended");
        }
        while !links.is_empty()
            && let Some(left) = deadline.checked_duration_since(Instant::now())
        {
            (links, _) = self.shared.gone.wait_timeout(links, left).unwrap_or_else(PoisonError::into_inner);
        }
        drop(links);
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
