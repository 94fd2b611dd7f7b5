//! The bounded queue of frames that wait to be sent.

use std::collections::VecDeque;

use paceline_exchange::Frame;

use super::{Limits, SendError};

/// Frames of so many bytes are small.
const SMALL: usize = 4 << 10;
/// So many of them may wait.
const SMALL_FRAMES: usize = 16 << 10;
/// So many frames of one size may wait, however large they are.
const FRAMES_OF_ANY_SIZE: usize = 4;

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
        Self {
            frames: VecDeque::new(),
            first: VecDeque::new(),
            bytes: 0,
            limit: limits.send_queue,
            largest_frame: limits.largest_frame,
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
        let found = frame.size() - Frame::HEADER;
        if found > self.largest_frame {
            return Err(SendError::TooLarge { found, limit: self.largest_frame });
        }
        // What is small always fits, or beats would wait behind a state; and a few frames of any size do.
        let is_small = frame.size() <= SMALL && self.frames.len() + self.first.len() < SMALL_FRAMES;
        let room = self.limit.max(FRAMES_OF_ANY_SIZE * frame.size());
        if self.bytes > 0 && !is_small && self.bytes + frame.size() > room {
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
        Frame { kind: 1, run: 0, term: 0, origin: 0, sequence: 0, body: vec![0; body].into() }
    }

    fn queue() -> SendQueue {
        SendQueue::new(&Limits { send_queue: 100_000, largest_frame: 500_000, ..Limits::default() })
    }

    #[test]
    fn room_is_told_once_and_only_to_who_was_refused() {
        let mut queue = queue();
        for _ in 0..4 {
            queue.push(frame(19_952)).expect("there is room");
        }
        assert!(!queue.sent(20_000), "nobody was refused");
        queue.push(frame(19_952)).expect("there is room");
        assert_eq!(queue.push(frame(21_000)), Err(SendError::Full { queued: 80_000, limit: 100_000 }));
        assert!(!queue.sent(20_000), "more than half waits");
        assert!(queue.sent(20_000));
        assert!(!queue.sent(20_000), "it was told");
        assert_eq!(queue.bytes(), 20_000);
    }

    #[test]
    fn a_few_frames_of_any_size_fit_and_what_is_small_always_does() {
        let mut queue = queue();
        for _ in 0..4 {
            queue.push(frame(300_000)).expect("one of four");
        }
        let queued = 4 * 300_048;
        assert_eq!(queue.push(frame(300_000)), Err(SendError::Full { queued, limit: 100_000 }));
        queue.push(frame(100)).expect("a word");
        queue.push_first(frame(100)).expect("a beat");
        assert_eq!(queue.pop().map(|frame| frame.body.len()), Some(100), "the beat goes first");
    }

    #[test]
    fn what_nobody_would_take_is_refused() {
        let too_large = Err(SendError::TooLarge { found: 500_001, limit: 500_000 });
        assert_eq!(queue().push(frame(500_001)), too_large);
        assert_eq!(queue().push(Frame { kind: Frame::GOODBYE, ..frame(0) }), Err(SendError::ReservedKind));
        assert_eq!(queue().push(Frame { kind: Frame::PIECE, ..frame(0) }), Err(SendError::ReservedKind));
    }
}
