//! A transport and its events, and what tests do with them.

use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, bounded};
use paceline_cluster::transport::{Limits, LinkId, Transport, TransportEvent};
use paceline_exchange::Frame;

/// A test that waits this long waits for ever.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Side {
    pub(crate) transport: Box<dyn Transport>,
    pub(crate) events: Receiver<TransportEvent>,
}

/// What a maker of two transports is asked for.
#[derive(Clone)]
pub(crate) struct Wanted {
    pub(crate) limits: Limits,
    /// Events that wait at most.
    pub(crate) events: usize,
}

impl Default for Wanted {
    fn default() -> Self {
        Self { limits: Limits::default(), events: 100 }
    }
}

/// Two transports that can reach each other, and an address where nobody listens.
pub(crate) struct Pair {
    pub(crate) a: Side,
    pub(crate) b: Side,
    pub(crate) nobody: String,
}

impl Side {
    pub(crate) fn new<T: Transport + 'static>(events: usize, make: impl FnOnce(Sender<TransportEvent>) -> T) -> Self {
        let (sender, events) = bounded(events);
        Self { transport: Box::new(make(sender)), events }
    }

    /// The next event but those that tell of a long frame on its way.
    pub(crate) fn next(&self) -> TransportEvent {
        loop {
            let event = self.events.recv_timeout(PATIENCE).expect("an event comes in time");
            if !matches!(event, TransportEvent::Arriving { .. }) {
                return event;
            }
        }
    }

    pub(crate) fn connect(&mut self, to: &str) -> LinkId {
        self.transport.connect(to)
    }

    pub(crate) fn opened(&self) -> LinkId {
        match self.next() {
            TransportEvent::Opened { link } => link,
            other => panic!("expected that a link is opened, found {other:?}"),
        }
    }

    pub(crate) fn accepted(&self) -> LinkId {
        match self.next() {
            TransportEvent::Accepted { link, .. } => link,
            other => panic!("expected that a link is accepted, found {other:?}"),
        }
    }

    pub(crate) fn frame(&self) -> Frame {
        match self.next() {
            TransportEvent::Frame { frame, .. } => frame,
            other => panic!("expected a frame, found {other:?}"),
        }
    }

    /// The reason with which a link ends, whatever comes before.
    pub(crate) fn closed(&self, expected: LinkId) -> String {
        loop {
            if let TransportEvent::Closed { link, reason } = self.next()
                && link == expected
            {
                return reason;
            }
        }
    }

    /// The reason with which any link ends, if that is the next event.
    pub(crate) fn next_closed(&self) -> String {
        match self.next() {
            TransportEvent::Closed { reason, .. } => reason,
            other => panic!("expected that a link ends, found {other:?}"),
        }
    }

    pub(crate) fn send(&mut self, link: LinkId, frame: Frame) {
        self.transport.send(link, frame).expect("there is room");
    }
}

impl Pair {
    /// A link from `a` to `b` that both have admitted: its two ends.
    pub(crate) fn link(&mut self) -> (LinkId, LinkId) {
        let (from, to) = self.stranger_link();
        self.a.transport.admit(from);
        self.b.transport.admit(to);
        (from, to)
    }

    /// A link from `a` to `b` that nobody has admitted.
    pub(crate) fn stranger_link(&mut self) -> (LinkId, LinkId) {
        let asked = self.a.connect(self.b.transport.local_address());
        let (opened, accepted) = (self.a.opened(), self.b.accepted());
        assert_eq!(asked, opened);
        (opened, accepted)
    }
}

pub(crate) fn frame(sequence: u64, body: Vec<u8>) -> Frame {
    Frame { kind: 7, run: 1, term: 2, origin: 3, sequence, body: body.into() }
}

/// Bytes that do not repeat themselves soon.
pub(crate) fn bytes(count: usize) -> Vec<u8> {
    (0..count as u64).map(|index| (index.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect()
}
