//! What only `shared` needs of a worker: steps that make messages, and the messages that are kept.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use paceline_exchange::Bulk;
use paceline_exchange::rounds::{Incarnation, Now, Part, Slots, Steps};
use paceline_exchange::sharing::{Encodes, Sequence};
use paceline_model::Loss;
use paceline_train::{Replica, SlotShare, Traffic};

use super::compute::{Done, ReplicaDone, failed, not_finite};
use super::copy::copy_of;

/// What the thread that computes is asked to do.
pub(super) enum StreamTask {
    /// Counting for a part of all slots.
    Step {
        steps: Steps,
        part: Part,
        encodes: Encodes,
        tells: bool,
    },
    Apply(Bytes),
    Snapshot,
    /// Takes over a state; with a list, the residual stays and these messages go back into it.
    Adopt {
        state: Bulk,
        void: Option<Vec<Bytes>>,
    },
    MeetRunning(Vec<f32>, Slots, Part),
}

/// What it has done.
pub(super) enum StreamDone {
    Stepped { message: Option<Bytes>, loss: Loss, traffic: Option<Traffic>, running: Vec<f32> },
    Copied(Bulk),
}

pub(super) fn carry_out_in_stream(replica: &mut dyn Replica, of: Incarnation, task: StreamTask) -> Option<Done> {
    let refused = |error: String| Some(Done::Failed { of, error, is_invalid_score: false });
    match task {
        StreamTask::Step { steps, part, encodes, tells } => match replica.share(&steps, share_of(part), encodes) {
            Ok(step) => {
                let message = step.message.map(Bytes::from);
                let traffic = if tells { replica.traffic() } else { None };
                let running = if tells { replica.running().to_vec() } else { Vec::new() };
                Some(Done::Stream(of, StreamDone::Stepped { message, loss: step.loss, traffic, running }))
            }
            Err(error) => Some(failed(of, &error)),
        },
        StreamTask::Apply(message) => replica.take(&message).err().and_then(|error| refused(error.to_string())),
        StreamTask::Snapshot => Some(match copy_of(replica) {
            Ok(Some(state)) => Done::Stream(of, StreamDone::Copied(state)),
            Ok(None) => not_finite(of, "the state"),
            Err(error) => Done::Failed { of, error, is_invalid_score: false },
        }),
        StreamTask::Adopt { state, void } => {
            let void: Option<Vec<&[u8]>> = void.as_ref().map(|void| void.iter().map(|message| &message[..]).collect());
            replica.adopt(&state, void.as_deref()).err().and_then(refused)
        }
        StreamTask::MeetRunning(running, slots, part) => {
            replica.meet_running(&running, SlotShare { own: slots, ..share_of(part) });
            None
        }
    }
}

fn share_of(Part { own, all }: Part) -> SlotShare {
    let slots = |all: u64| u32::try_from(all).unwrap_or(u32::MAX);
    SlotShare { own: slots(own), all: slots(all) }
}

/// How often running statistics and what is told of messages are asked for, in milliseconds.
const TOLD_EVERY: Now = 100;

/// The messages and copies of one incarnation. The rules say how long each is kept.
pub(super) struct Stream {
    kept: BTreeMap<(Incarnation, Sequence), Bytes>,
    /// What has just come with a word.
    pub arrived: Option<Bytes>,
    pub copies: VecDeque<Bulk>,
    told: Now,
    pub traffic: Option<Traffic>,
    /// What this replica counts for.
    pub part: Part,
}

impl Stream {
    pub(super) fn new() -> Self {
        let (kept, copies) = (BTreeMap::new(), VecDeque::new());
        Self { kept, arrived: None, copies, told: 0, traffic: None, part: Part { own: 1, all: 1 } }
    }

    pub(super) fn keep(&mut self, origin: Incarnation, sequence: Sequence, message: Bytes) {
        self.kept.insert((origin, sequence), message);
    }

    pub(super) fn get(&self, origin: Incarnation, sequence: Sequence) -> Option<Bytes> {
        self.kept.get(&(origin, sequence)).cloned()
    }

    pub(super) fn forget(&mut self, origin: Incarnation, up_to: Sequence) {
        self.kept.retain(|(of, sequence), _| *of != origin || *sequence > up_to);
    }

    /// The messages of one that not everybody has.
    pub(super) fn of(&self, origin: Incarnation) -> BTreeMap<Sequence, Bytes> {
        let own = self.kept.range((origin, 0)..=(origin, Sequence::MAX));
        own.map(|((_, sequence), message)| (*sequence, message.clone())).collect()
    }

    /// Whether the next step should also tell how it goes.
    pub(super) fn tells(&mut self, now: Now) -> bool {
        let is_due = now >= self.told + TOLD_EVERY;
        if is_due {
            self.told = now;
        }
        is_due
    }
}

/// What an incarnation that is over had not brought to all others.
pub(super) struct Former {
    pub incarnation: Incarnation,
    pub messages: BTreeMap<Sequence, Bytes>,
}

impl Former {
    /// What the replica has done since it ended.
    pub(super) fn take(&mut self, done: &ReplicaDone) {
        if let Done::Stream(of, StreamDone::Stepped { message: Some(message), .. }) = &done.0
            && *of == self.incarnation
        {
            self.add(message.clone());
        }
    }

    /// A step that was under way when it ended has made one more.
    pub(super) fn add(&mut self, message: Bytes) {
        let next = self.messages.last_key_value().map_or(Sequence::MAX / 2, |(last, _)| last + 1);
        self.messages.insert(next, message);
    }

    /// What does not count any more: all that came behind the cut.
    pub(super) fn behind(&self, cut: Sequence) -> Vec<Bytes> {
        self.messages.range(cut + 1..).map(|(_, message)| message.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_behind_the_cut_comes_back_and_nothing_else() {
        let message = |n: u8| Bytes::from(vec![n]);
        let mut stream = Stream::new();
        for (origin, sequence, n) in [(1, 4, 4), (1, 5, 5), (2, 4, 9)] {
            stream.keep(origin, sequence, message(n));
        }
        stream.forget(1, 3);
        let mut former = Former { incarnation: 1, messages: stream.of(1) };
        former.add(message(6));
        assert_eq!(former.behind(4), [message(5), message(6)]);
        stream.forget(1, 4);
        assert_eq!((stream.get(1, 4), stream.get(2, 4)), (None, Some(message(9))));
        let mut former = Former { incarnation: 1, messages: BTreeMap::new() };
        former.add(message(7));
        assert_eq!(former.behind(1000), [message(7)], "its number is not known, but it was the last");
    }
}
