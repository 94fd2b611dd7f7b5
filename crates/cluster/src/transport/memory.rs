//! Links within one process, which tests can cut and stall.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use crossbeam_channel::{Receiver, Sender, bounded, select};
use paceline_exchange::Frame;

use super::send_queue::SendQueue;
use super::{Limits, LinkId, SendError, Transport, TransportEvent};
use crate::trust::{Proof, Trust};

/// Where the transports of one process meet. Clones are the same hub.
#[derive(Clone, Default)]
pub struct MemoryHub(Arc<Shared>);

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    /// Rung whenever a courier may have something to deliver, or to stop.
    changed: Condvar,
}

#[derive(Default)]
struct State {
    last_number: u64,
    endpoints: BTreeMap<EndpointId, Endpoint>,
    ends: BTreeMap<LinkId, End>,
}

/// A transport for as long as it lives: another one may have its address later.
type EndpointId = u64;

struct Endpoint {
    address: String,
    limits: Limits,
    /// Events that come before the frames that wait.
    first: VecDeque<TransportEvent>,
    /// The link that was served last: the next one comes first now.
    served: LinkId,
}

/// One end of a link. What was sent waits here until the courier of the other end takes it.
struct End {
    owner: EndpointId,
    other: LinkId,
    queue: SendQueue,
    limits: Limits,
    admitted: bool,
    /// Whether a frame has arrived here.
    reached: bool,
    stalled: bool,
    /// Whether the owner is done with it: its queue is still delivered.
    left: bool,
    /// What the owner is told as soon as everything that was sent to it has arrived.
    ending: Option<String>,
}

/// A [`Transport`] between the threads of one process, as a [`MemoryHub`] connects them.
///
/// Events are delivered by a thread of its own. It keeps the limits on frames and queues; there are no strangers in one
/// process, so those on time and numbers do not hold.
pub struct MemoryTransport {
    hub: MemoryHub,
    address: String,
    id: EndpointId,
    /// Ends the courier when it is dropped, even if nobody takes its events.
    _stop: Sender<()>,
}

impl MemoryHub {
    /// A hub that nobody is connected to yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Ends a link as if its cable was cut: what is on the way is lost, both ends are told. Either end names the link.
    pub fn cut(&self, link: LinkId) {
        let mut state = self.lock();
        let Some(end) = state.ends.get(&link) else { return };
        for link in [link, end.other] {
            state.end_now(link, "the link was cut".to_owned());
        }
        self.0.changed.notify_all();
    }

    /// Lets nothing more arrive at this end of a link, as if packets were lost, until [`resume`](Self::resume).
    pub fn stall(&self, link: LinkId) {
        self.set_stalled(link, true);
    }

    /// Lets arrive at this end of a link what was held back, and what comes after it.
    pub fn resume(&self, link: LinkId) {
        self.set_stalled(link, false);
    }

    fn set_stalled(&self, link: LinkId, stalled: bool) {
        if let Some(end) = self.lock().ends.get_mut(&link) {
            end.stalled = stalled;
        }
        self.0.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic elsewhere leaves no half-made state: every change is made under one lock, at its end.
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn next_number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    fn find(&self, address: &str) -> Option<EndpointId> {
        self.endpoints.iter().find(|(_, endpoint)| endpoint.address == address).map(|(id, _)| *id)
    }

    fn begin(&mut self, link: LinkId, owner: EndpointId, other: LinkId) {
        let Some(limits) = self.endpoints.get(&owner).map(|endpoint| endpoint.limits.clone()) else { return };
        let queue = SendQueue::new(&limits);
        let (admitted, reached, stalled, left, ending) = (false, false, false, false, None);
        self.ends.insert(link, End { owner, other, queue, limits, admitted, reached, stalled, left, ending });
    }

    fn tell(&mut self, owner: EndpointId, event: TransportEvent) {
        if let Some(endpoint) = self.endpoints.get_mut(&owner) {
            endpoint.first.push_back(event);
        }
    }

    /// Ends one end of a link without waiting for what is on the way to it.
    fn end_now(&mut self, link: LinkId, reason: String) {
        if let Some(end) = self.ends.remove(&link)
            && !end.left
        {
            self.tell(end.owner, TransportEvent::Closed { link, reason });
        }
    }

    /// Refuses a frame that is too large for a stranger, at both ends.
    fn refuse(&mut self, link: LinkId, other: LinkId, reason: &str) {
        self.end_now(link, format!("refused what came: {reason}"));
        self.end_now(other, format!("the peer closed: {reason}"));
    }

    /// What the courier of `owner` delivers next, and the end of the link whose queue it was in, if it is a frame.
    fn next_event(&mut self, owner: EndpointId) -> Option<(TransportEvent, Option<LinkId>)> {
        loop {
            let endpoint = self.endpoints.get_mut(&owner)?;
            if let Some(event) = endpoint.first.pop_front() {
                return Some((event, None));
            }
            let served = endpoint.served;
            let mut links: Vec<LinkId> =
                self.ends.iter().filter(|(_, end)| end.owner == owner && !end.stalled).map(|(link, _)| *link).collect();
            let next = links.partition_point(|link| *link <= served);
            links.rotate_left(next);
            let found = links.into_iter().find_map(|link| self.next_event_of(link).map(|event| (link, event)));
            let endpoint = self.endpoints.get_mut(&owner)?;
            if let Some((link, event)) = found {
                endpoint.served = link;
                return Some(event);
            }
            // To look may have ended a link, of which this owner must hear.
            if endpoint.first.is_empty() {
                return None;
            }
        }
    }

    fn next_event_of(&mut self, link: LinkId) -> Option<(TransportEvent, Option<LinkId>)> {
        let end = self.ends.get(&link)?;
        let (other, left) = (end.other, end.left);
        let waiting = self.ends.get(&other).and_then(|other| other.queue.front()).map(|frame| frame.body.len());
        let Some(size) = waiting else {
            let reason = end.ending.clone()?;
            self.ends.remove(&link);
            self.ends.remove(&other);
            return (!left).then_some((TransportEvent::Closed { link, reason }, None));
        };
        let limit = if end.admitted { end.limits.largest_frame } else { end.limits.stranger_frame };
        if size > limit && !left {
            if end.reached && size <= end.limits.largest_frame {
                return None; // It waits to be admitted.
            }
            let reason = format!("the frame has a body of {size} bytes, but at most {limit} are allowed here");
            self.refuse(link, other, &reason);
            return None;
        }
        let frame = self.ends.get_mut(&other)?.queue.pop()?;
        self.ends.get_mut(&link)?.reached = true;
        if left {
            self.delivered(other, frame.size());
            return None;
        }
        Some((TransportEvent::Frame { link, frame }, Some(other)))
    }

    /// Makes room in the queue of the end that sent.
    fn delivered(&mut self, link: LinkId, bytes: usize) {
        let Some(end) = self.ends.get_mut(&link) else { return };
        if end.queue.sent(bytes) && !end.left {
            let owner = end.owner;
            self.tell(owner, TransportEvent::Writable { link });
        }
    }
}

impl MemoryTransport {
    /// A transport that others reach under the name `address`. When `events` is full, what is sent to this transport
    /// waits in the queues of those who sent it.
    ///
    /// # Panics
    ///
    /// If the name is taken, or no thread can be started.
    pub fn new(hub: &MemoryHub, address: &str, limits: Limits, events: Sender<TransportEvent>) -> Self {
        let mut state = hub.lock();
        assert!(state.find(address).is_none(), "two transports of one hub have the address `{address}`");
        let id = state.next_number();
        let endpoint = Endpoint { address: address.to_owned(), limits, first: VecDeque::new(), served: LinkId(0) };
        state.endpoints.insert(id, endpoint);
        drop(state);
        let (stop, stopped) = bounded(0);
        let courier = Courier { hub: hub.clone(), owner: id, events, stopped };
        thread::Builder::new()
            .name(format!("courier of {address}"))
            .spawn(move || courier.run())
            .expect("the system starts a thread");
        Self { hub: hub.clone(), address: address.to_owned(), id, _stop: stop }
    }
}

/// Delivers what was sent to one transport.
struct Courier {
    hub: MemoryHub,
    owner: EndpointId,
    events: Sender<TransportEvent>,
    stopped: Receiver<()>,
}

impl Courier {
    fn run(self) {
        while let Some((event, sent_by)) = self.wait() {
            let bytes = match &event {
                TransportEvent::Frame { frame, .. } => frame.size(),
                _ => 0,
            };
            select! {
                send(self.events, event) -> sent => if sent.is_err() { return },
                recv(self.stopped) -> _ => return,
            }
            if let Some(link) = sent_by {
                self.hub.lock().delivered(link, bytes);
                self.hub.0.changed.notify_all();
            }
        }
    }

    /// The next event, or nothing once the transport has gone.
    fn wait(&self) -> Option<(TransportEvent, Option<LinkId>)> {
        let mut state = self.hub.lock();
        while state.endpoints.contains_key(&self.owner) {
            if let Some(event) = state.next_event(self.owner) {
                // Other couriers may have been given something by it.
                self.hub.0.changed.notify_all();
                return Some(event);
            }
            state = self.hub.0.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        None
    }
}

impl Transport for MemoryTransport {
    fn local_address(&self) -> &str {
        &self.address
    }

    fn connect(&mut self, to: &str) -> LinkId {
        let mut state = self.hub.lock();
        let (link, other) = (LinkId(state.next_number()), LinkId(state.next_number()));
        if let Some(peer) = state.find(to) {
            state.begin(link, self.id, other);
            state.begin(other, peer, link);
            state.tell(peer, TransportEvent::Accepted { link: other, peer: self.address.clone() });
            state.tell(self.id, TransportEvent::Opened { link });
        } else {
            let reason = format!("cannot connect to `{to}`: nobody listens there");
            state.tell(self.id, TransportEvent::Closed { link, reason });
        }
        self.hub.0.changed.notify_all();
        link
    }

    fn send(&mut self, link: LinkId, frame: Frame) -> Result<(), SendError> {
        let mut state = self.hub.lock();
        let end = state.ends.get_mut(&link).filter(|end| !end.left).ok_or(SendError::Closed { link })?;
        end.queue.push(frame)?;
        self.hub.0.changed.notify_all();
        Ok(())
    }

    fn send_first(&mut self, link: LinkId, frame: Frame) -> Result<(), SendError> {
        let mut state = self.hub.lock();
        let end = state.ends.get_mut(&link).filter(|end| !end.left).ok_or(SendError::Closed { link })?;
        end.queue.push_first(frame)?;
        self.hub.0.changed.notify_all();
        Ok(())
    }

    fn queued(&self, link: LinkId) -> usize {
        self.hub.lock().ends.get(&link).map_or(0, |end| end.queue.bytes())
    }

    fn proof(&self, _link: LinkId) -> Proof {
        Proof::None
    }

    fn admit(&mut self, link: LinkId) {
        if let Some(end) = self.hub.lock().ends.get_mut(&link) {
            end.admitted = true;
        }
        self.hub.0.changed.notify_all();
    }

    fn close(&mut self, link: LinkId, reason: &str) {
        let mut state = self.hub.lock();
        let Some(end) = state.ends.get_mut(&link).filter(|end| !end.left) else { return };
        end.left = true;
        let other = end.other;
        if let Some(other) = state.ends.get_mut(&other) {
            other.ending = Some(format!("`{}` closed: {reason}", self.address));
        }
        state.tell(self.id, TransportEvent::Closed { link, reason: format!("closed here: {reason}") });
        self.hub.0.changed.notify_all();
    }

    fn set_trust(&mut self, _trust: Trust) {}
}

impl Drop for MemoryTransport {
    fn drop(&mut self) {
        let mut state = self.hub.lock();
        let links: Vec<LinkId> =
            state.ends.iter().filter(|(_, end)| end.owner == self.id).map(|(link, _)| *link).collect();
        for link in links {
            let Some(end) = state.ends.get_mut(&link) else { continue };
            let (other, closed_before) = (end.other, std::mem::replace(&mut end.left, true));
            if let Some(other) = state.ends.get_mut(&other)
                && !closed_before
            {
                other.ending = Some(format!("`{}` ended the connection without a reason", self.address));
            }
        }
        state.endpoints.remove(&self.id);
        self.hub.0.changed.notify_all();
    }
}
