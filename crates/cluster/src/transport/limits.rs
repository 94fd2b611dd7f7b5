use std::time::Duration;

/// What peers may cost. Whatever exceeds a limit ends its link with a reason, and no other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The largest body of a frame of a peer that was not admitted yet. If it has sent a smaller frame before, a larger
    /// one is left in the socket until it is admitted or its time is over: the answer that admits it may be on its way.
    pub stranger_frame: usize,
    /// How long a peer may take to be admitted, from the moment that the connection stands.
    pub handshake: Duration,
    /// How many connections may wait to be admitted. When more come, those go that have waited longest.
    pub strangers: usize,
    /// The largest body of a frame, however many pieces it comes in; memory grows only with what has arrived of it, and what
    /// is too long for memory is written to a temporary file.
    pub largest_frame: usize,
    /// Bytes that may wait in the send queue of one link. A frame always fits when nothing waits.
    pub send_queue: usize,
    /// How long it may take to connect.
    pub connect: Duration,
    /// How long the other end may acknowledge nothing before the link is gone: a cable that was pulled says nothing.
    pub silence: Duration,
    /// How long a link that is closed goes on sending what is queued.
    pub linger: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            stranger_frame: 64 << 10,
            handshake: Duration::from_secs(5),
            strangers: 64,
            largest_frame: 1 << 40,
            send_queue: 64 << 20,
            connect: Duration::from_secs(5),
            silence: Duration::from_secs(4),
            linger: Duration::from_secs(1),
        }
    }
}
