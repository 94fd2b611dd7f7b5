//! One link: its state, and the task that carries it from its first byte to its end.

use std::pin::pin;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use paceline_exchange::Frame;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::places::Place;
use super::stream::Stream;
use super::{Shared, read, write};
use crate::transport::send_queue::SendQueue;
use crate::transport::{Limits, LinkId, SendError};
use crate::trust::{Proof, explain};

/// What the owner's thread and the link's task have in common.
pub(super) struct Link {
    pub(super) id: LinkId,
    queue: Mutex<SendQueue>,
    /// Rung when there is something to write.
    pub(super) work: Notify,
    /// Why the link is to end after what is queued, as soon as somebody on this side wants that.
    ending: watch::Sender<Option<Ending>>,
    admitted: watch::Sender<bool>,
    proof: OnceLock<(Proof, Vec<u8>)>,
    /// Whether the owner was told that the link has ended.
    pub(super) told: AtomicBool,
}

/// Why this side ends a link.
#[derive(Clone)]
struct Ending {
    /// In the words for the peer.
    told: String,
    /// In the words for the owner.
    reason: String,
    /// Whether the owner does not know it yet.
    refused: bool,
}

/// What is to be written next.
pub(super) enum Work {
    Frame(Frame),
    /// The last words to the peer.
    Goodbye(String),
    None,
}

impl Link {
    pub(super) fn new(id: LinkId, limits: &Limits) -> Self {
        Self {
            id,
            queue: Mutex::new(SendQueue::new(limits)),
            work: Notify::new(),
            ending: watch::Sender::new(None),
            admitted: watch::Sender::new(false),
            proof: OnceLock::new(),
            told: AtomicBool::new(false),
        }
    }

    pub(super) fn send(&self, frame: Frame, goes_first: bool) -> Result<(), SendError> {
        if self.is_ending() {
            return Err(SendError::Closed { link: self.id });
        }
        match goes_first {
            true => self.queue().push_first(frame)?,
            false => self.queue().push(frame)?,
        }
        self.work.notify_one();
        Ok(())
    }

    /// Ends the link because its owner wants that.
    pub(super) fn close(&self, reason: &str) {
        self.end(Ending { told: reason.to_owned(), reason: format!("closed here: {reason}"), refused: false });
    }

    /// Ends the link because of what the peer did or did not do.
    pub(super) fn refuse(&self, told: String, reason: String) {
        self.end(Ending { told, reason, refused: true });
    }

    fn end(&self, why: Ending) {
        self.ending.send_if_modified(|ending| {
            let first = ending.is_none();
            ending.get_or_insert(why);
            first
        });
        self.work.notify_one();
    }

    pub(super) fn is_ending(&self) -> bool {
        self.ending.borrow().is_some()
    }

    fn is_refused(&self) -> bool {
        self.ending.borrow().as_ref().is_some_and(|ending| ending.refused)
    }

    /// Waits until this side ends the link; gives the reason in the words for the owner.
    pub(super) async fn ended_here(&self) -> String {
        let mut ending = self.ending.subscribe();
        match ending.wait_for(Option::is_some).await.as_deref() {
            Ok(Some(ending)) => ending.reason.clone(),
            // The sender lives in `self`, and the condition says that there is one.
            _ => String::new(),
        }
    }

    pub(super) fn queued(&self) -> usize {
        self.queue().bytes()
    }

    pub(super) fn next_work(&self) -> Work {
        if let Some(frame) = self.queue().pop() {
            return Work::Frame(frame);
        }
        self.ending.borrow().as_ref().map_or(Work::None, |ending| Work::Goodbye(ending.told.clone()))
    }

    /// What goes before all else, even between the pieces of a frame.
    pub(super) fn next_urgent(&self) -> Option<Frame> {
        self.queue().pop_first()
    }

    /// Says whether the owner must be told that there is room.
    pub(super) fn sent(&self, bytes: usize) -> bool {
        self.queue().sent(bytes)
    }

    pub(super) fn admit(&self) {
        self.admitted.send_replace(true);
    }

    pub(super) fn is_admitted(&self) -> bool {
        *self.admitted.borrow()
    }

    pub(super) async fn admitted(&self) {
        // It fails only if the sender has gone, which lives in `self`.
        let _ = self.admitted.subscribe().wait_for(|admitted| *admitted).await;
    }

    pub(super) fn prove(&self, stream: &Stream) {
        let _ = self.proof.set((stream.proof(), stream.binding()));
    }

    pub(super) fn proof(&self) -> Proof {
        self.proof.get().map(|(proof, _)| *proof).unwrap_or_default()
    }

    pub(super) fn binding(&self) -> Vec<u8> {
        self.proof.get().map(|(_, binding)| binding.clone()).unwrap_or_default()
    }

    fn queue(&self) -> MutexGuard<'_, SendQueue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Carries frames both ways until the link ends; gives the reason.
///
/// `place` is what the peer takes up among the strangers until it is admitted.
pub(super) async fn carry(
    shared: &Arc<Shared>,
    link: &Arc<Link>,
    peer: &str,
    stream: Stream,
    place: Option<Place>,
    handshake_ends: Instant,
) -> String {
    let reason = tokio::select! {
        reason = exchange(shared, link, peer, stream) => reason,
        reason = run_out(shared, link, peer, place, handshake_ends) => return reason,
    };
    // Whoever ended the link here knows better why than what came of it.
    if link.is_ending() { link.ended_here().await } else { reason }
}

/// Reads and writes until the peer has gone.
async fn exchange(shared: &Shared, link: &Link, peer: &str, stream: Stream) -> String {
    let (input, output) = stream.split();
    let mut reading = pin!(read::frames(shared, link, peer, input));
    let mut writing = pin!(write::frames(shared, link, output));
    tokio::select! {
        reason = &mut reading => reason,
        written = &mut writing => match written {
            // What the peer still sends is read and dropped: to leave it would reset the connection, and with it what
            // is on its way to the peer.
            Ok(()) => reading.await,
            // The peer may have said why before it went.
            Err(error) => timeout(shared.limits.linger, reading)
                .await
                .unwrap_or_else(|_| format!("cannot send to `{peer}`: {}", explain(&error))),
        },
    }
}

/// Waits until somebody else has the place of a stranger; says why.
async fn taken_away(place: &mut Option<Place>) -> String {
    match place {
        Some(place) => {
            place.is_taken_away().await;
            place.reason()
        }
        None => std::future::pending().await,
    }
}

/// Waits until the time of a link is over: of a stranger that is not admitted, and of what is left when it ends here.
async fn run_out(
    shared: &Arc<Shared>,
    link: &Arc<Link>,
    peer: &str,
    mut place: Option<Place>,
    handshake_ends: Instant,
) -> String {
    let Limits { handshake, linger, .. } = shared.limits;
    tokio::select! {
        // Who is admitted and loses the place at the same moment stays.
        biased;
        () = link.admitted() => {}
        reason = taken_away(&mut place) => link.refuse(reason.clone(), format!("`{peer}` had to go: {reason}")),
        _ = link.ended_here() => {}
        () = sleep_until(handshake_ends) => {
            let told = format!("no proof of who you are within {handshake:?}");
            link.refuse(told, format!("`{peer}` gave no proof of who it is within {handshake:?}"));
        }
    }
    drop(place);
    let reason = link.ended_here().await;
    if link.is_refused() {
        // The owner hears of it at once, not when the peer has heard of it. A task of its own tells it: this one ends
        // whenever the peer goes.
        let (shared, link, reason) = (shared.clone(), link.clone(), reason.clone());
        tokio::spawn(async move { shared.end_link(&link, reason).await });
    }
    sleep(linger).await;
    reason
}
