//! The bounded queue of frames that wait to be sent.

use std::collections::VecDeque;

use paceline_exchange::Frame;

use super::{Limits, SendError};

/// Frames that wait for one link, bounded by their bytes.
#[derive(Debug)]
pub(super) struct SendQueue {
    frames: VecDeque<Frame>,
    /// Those that go before all others.
    first: VecDeque<Frame>,
    /// Bytes of the frames that wait, and of those that were taken out and are not sent yet.
    bytes: usize,
    limit: usize,
    largest_frame: usize,
    /// Whether somebody was told that it is full and not yet that it has room again.
    refused: bool,
}

impl SendQueue {
    pub(super) fn new(limits: &Limits) -> Self {
        // The length of a body travels as a `u32`.
        let largest_frame = limits.largest_frame.min(u32::MAX as usize);
        Self {
            frames: VecDeque::new(),
            first: VecDeque::new(),
            bytes: 0,
            limit: limits.send_queue,
            largest_frame,
            refused: false,
        }
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn push(&mut self, frame: Frame) -> Result<(), SendError> {
        self.check(&frame)?;
        self.bytes += frame.size();
        self.frames.push_back(frame);
        Ok(())
    }

    /// Puts a frame before all that were not put so.
    pub(super) fn push_first(&mut self, frame: Frame) -> Result<(), SendError> {
        self.check(&frame)?;
        self.bytes += frame.size();
        self.first.push_back(frame);
        Ok(())
    }

    fn check(&mut self, frame: &Frame) -> Result<(), SendError> {
        if frame.kind >= Frame::PIECE {
            return Err(SendError::ReservedKind);
        }
        if frame.body.len() > self.largest_frame {
            return Err(SendError::TooLarge { found: frame.body.len(), limit: self.largest_frame });
        }
        if self.bytes > 0 && self.bytes + frame.size() > self.limit {
            self.refused = true;
            return Err(SendError::Full { queued: self.bytes, limit: self.limit });
        }
        Ok(())
    }

    /// The next frame. Its bytes count until they are [`sent`](Self::sent).
    pub(super) fn pop(&mut self) -> Option<Frame> {
        self.pop_first().or_else(|| self.frames.pop_front())
    }

    /// The next frame of those that go before all others.
    pub(super) fn pop_first(&mut self) -> Option<Frame> {
        self.first.pop_front()
    }

    /// The next frame, left where it is.
    pub(super) fn front(&self) -> Option<&Frame> {
        self.first.front().or_else(|| self.frames.front())
    }

    /// Makes room for frames that have gone out; says whether it is time to tell that there is room.
    pub(super) fn sent(&mut self, bytes: usize) -> bool {
        self.bytes -= bytes;
        self.bytes <= self.limit / 2 && std::mem::take(&mut self.refused)
    }
}

#[cfg(test)]
mod tests {
    use super::SendQueue;
    use crate::transport::{Limits, SendError};
    use paceline_exchange::Frame;

    fn frame(body: usize) -> Frame {
        Frame { kind: 1, run: 0, term: 0, origin: 0, sequence: 0, body: vec![0; body] }
    }

    fn queue() -> SendQueue {
        SendQueue::new(&Limits { send_queue: 1000, largest_frame: 5000, ..Limits::default() })
    }

    #[test]
    fn room_is_told_once_and_only_to_who_was_refused() {
        let mut queue = queue();
        for _ in 0..4 {
            queue.push(frame(200)).expect("there is room");
        }
        assert!(!queue.sent(248), "nobody was refused");
        queue.push(frame(200)).expect("there is room");
        assert_eq!(queue.push(frame(0)), Err(SendError::Full { queued: 992, limit: 1000 }));
        assert!(!queue.sent(248), "more than half waits");
        assert!(queue.sent(248));
        assert!(!queue.sent(248), "it was told");
        assert_eq!(queue.bytes(), 248);
    }

    #[test]
    fn one_frame_always_fits_an_empty_queue() {
        let mut queue = queue();
        queue.push(frame(3000)).expect("nothing waits");
        assert_eq!(queue.push(frame(0)), Err(SendError::Full { queued: 3048, limit: 1000 }));
        queue.pop().expect("the large one");
        assert_eq!(queue.push(frame(0)), Err(SendError::Full { queued: 3048, limit: 1000 }), "it is not sent yet");
        assert!(queue.sent(3048));
        queue.push(frame(0)).expect("nothing waits");
    }

    #[test]
    fn what_nobody_would_take_is_refused() {
        assert_eq!(queue().push(frame(5001)), Err(SendError::TooLarge { found: 5001, limit: 5000 }));
        assert_eq!(queue().push(Frame { kind: Frame::GOODBYE, ..frame(0) }), Err(SendError::ReservedKind));
    }
}
