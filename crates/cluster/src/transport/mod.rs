//! Links between processes that carry [`Frame`]s in order, for one thread that must never block.
//!
//! A [`Transport`] belongs to the event loop of a master or a worker. Its methods return at once; what happens is told
//! as [`TransportEvent`]s through the bounded channel that the transport is made with. **When that channel is full**,
//! the readers of the links wait, so that nothing more is read from their sockets and TCP slows their peers down:
//! nothing is dropped, and memory stays bounded by the channel's length times the frames that are allowed.
//!
//! A peer is a stranger until [`Transport::admit`] says otherwise: until then [`Limits`] are tight.
//!
//! # Layout
//!
//! - [`TcpTransport`]: links over TCP, plain on one machine or with TLS (see [`crate::trust`]).

mod limits;
mod send_queue;
mod tcp;

pub use limits::Limits;
pub use tcp::{TcpOptions, TcpTransport, TransportError};

use paceline_exchange::Frame;
use std::time::Duration;

use crate::trust::{Proof, Trust};

/// One end of a link, for as long as the transport lives: ids are never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkId(u64);

impl LinkId {
    /// The link with this number, for transports and tests that count on their own.
    pub const fn new(number: u64) -> Self {
        Self(number)
    }
}

impl std::fmt::Display for LinkId {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "link {}", self.0)
    }
}

/// What a transport tells its owner. Events of one link come in order, and [`TransportEvent::Closed`] is its last.
#[derive(Debug, PartialEq, Eq)]
pub enum TransportEvent {
    /// A peer has connected; with TLS, it has shown whatever certificate it has.
    Accepted {
        /// The new link.
        link: LinkId,
        /// The address that it comes from.
        peer: String,
    },
    /// A link asked for with [`Transport::connect`] stands; with TLS, the peer has proved to belong to the run. What
    /// the peer thinks of us comes later: it may still close.
    Opened {
        /// The link.
        link: LinkId,
    },
    /// A frame has arrived, whole and with the right checksum.
    Frame {
        /// The link that it came through.
        link: LinkId,
        /// The frame.
        frame: Frame,
    },
    /// More of a frame has arrived that is too long to come in one go; told now and then, so that nobody is given up who is
    /// only slow. Whatever carries frames in one go never tells it.
    Arriving {
        /// The link that it comes through.
        link: LinkId,
    },
    /// The send queue that was full has room again: at least half of it is free, or it is empty.
    Writable {
        /// The link.
        link: LinkId,
    },
    /// The link has ended, from whichever side, and no other event of it follows. Comes exactly once for every link
    /// that was opened, accepted or asked for. A stranger that never got as far as being accepted is reported by
    /// this alone, under an id of its own.
    Closed {
        /// The link.
        link: LinkId,
        /// Why, with the peer's address and, if it said so, its reason.
        reason: String,
    },
}

/// Why a frame was not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// The peer takes less than it is sent. [`TransportEvent::Writable`] follows when there is room.
    #[error("the send queue is full: {queued} bytes wait, of {limit}")]
    Full {
        /// Bytes that wait.
        queued: usize,
        /// Bytes that may wait.
        limit: usize,
    },
    /// The link has ended or is about to.
    #[error("{link} is closed")]
    Closed {
        /// The link.
        link: LinkId,
    },
    /// A frame that no peer would take.
    #[error("the frame has a body of {found} bytes, but at most {limit} are allowed")]
    TooLarge {
        /// Bytes of the body.
        found: usize,
        /// The largest body that is allowed.
        limit: usize,
    },
    /// The kind that transports use among themselves.
    #[error("frames of kind {} and above belong to the transport: use another kind", Frame::PIECE)]
    ReservedKind,
}

/// Carries frames to other processes and back, and never blocks.
pub trait Transport: Send {
    /// What others connect to.
    fn local_address(&self) -> &str;

    /// Begins to connect and returns at once. [`TransportEvent::Opened`] or [`TransportEvent::Closed`] follows within
    /// [`Limits::connect`]; the reason of the latter names the address. Frames may be sent before: they wait.
    fn connect(&mut self, to: &str) -> LinkId;

    /// Puts a frame into the send queue of the link.
    ///
    /// # Errors
    ///
    /// If the queue is full or the link has ended; then the frame is lost, so whoever needs it again keeps it.
    fn send(&mut self, link: LinkId, frame: Frame) -> Result<(), SendError>;

    /// As [`send`](Self::send), but before all that waits and was not sent so: for what is of use only if it comes soon, and may
    /// overtake.
    ///
    /// # Errors
    ///
    /// As those of `send`.
    fn send_first(&mut self, link: LinkId, frame: Frame) -> Result<(), SendError>;

    /// Bytes that wait to be sent: of a link that has ended, none.
    fn queued(&self, link: LinkId) -> usize;

    /// What the peer's certificate says of it. Without TLS, nothing.
    fn proof(&self, link: LinkId) -> Proof;

    /// What only the two ends of a link with TLS know; empty without TLS.
    fn binding(&self, link: LinkId) -> Vec<u8>;

    /// Says that the peer has proved who it is: large frames are allowed from now on, and no time limit holds.
    fn admit(&mut self, link: LinkId);

    /// Ends a link. What is queued still goes out for at most [`Limits::linger`], and the peer is told the reason.
    fn close(&mut self, link: LinkId, reason: &str);

    /// Changes whom new links trust and what they show: a worker does so when it has become a member, and when its
    /// certificate was renewed. Links that stand stay as they are.
    fn set_trust(&mut self, trust: Trust);

    /// Changes how long the other ends of new links may acknowledge nothing: see [`Limits::silence`].
    fn set_silence(&mut self, silence: Duration) {
        let _ = silence;
    }
}
