//! The replica of a worker in `shared`: one queue of steps, messages and copies, as the thread that computes has it.

use std::collections::{BTreeMap, VecDeque};

use paceline_exchange::rounds::{Incarnation, Span};
use paceline_exchange::sharing::{Encodes, Sequence};

use crate::numbers::{State, WIDTH, worth};

/// What a message changes, and the examples that it is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Update {
    pub(crate) values: [i64; WIDTH],
    pub(crate) places: Vec<(u64, u64)>,
}

#[derive(Clone, Debug)]
pub(crate) enum Task {
    Step { epoch: u64, spans: Vec<Span>, encodes: Encodes },
    Apply(Incarnation, Sequence),
    Snapshot,
    Adopt { state: State, residual: [i64; WIDTH] },
}

/// What a task came to.
#[derive(Clone, Debug)]
pub(crate) enum Done {
    Stepped(Option<Update>),
    Copied,
}

/// The queue, the state, and what has not been sent.
#[derive(Clone, Debug)]
pub(crate) struct Stream {
    pub(crate) state: State,
    pub(crate) residual: [i64; WIDTH],
    /// Examples that no message is about.
    untold: Vec<(u64, u64)>,
    pub(crate) kept: BTreeMap<(Incarnation, Sequence), Update>,
    /// The message that has just come.
    pub(crate) arrived: Option<Update>,
    pub(crate) came: Option<State>,
    pub(crate) tasks: VecDeque<Task>,
    pub(crate) is_stepping: bool,
    pub(crate) copies: VecDeque<State>,
    me: Incarnation,
    own: Sequence,
    /// All updates, less all that was sent: what the residual must be.
    owed: [i64; WIDTH],
}

fn add(sum: &mut [i64; WIDTH], values: &[i64; WIDTH], sign: i64) {
    sum.iter_mut().zip(values).for_each(|(sum, value)| *sum += sign * value);
}

impl Stream {
    pub(crate) fn new(me: Incarnation) -> Self {
        Self {
            state: State::initial(),
            residual: [0; WIDTH],
            untold: Vec::new(),
            kept: BTreeMap::new(),
            arrived: None,
            came: None,
            tasks: VecDeque::new(),
            is_stepping: false,
            copies: VecDeque::new(),
            me,
            own: 0,
            owed: [0; WIDTH],
        }
    }

    /// What an earlier incarnation had not sent, and its messages behind this one.
    pub(crate) fn unsent_behind(&self, cut: Sequence) -> [i64; WIDTH] {
        let mut unsent = self.residual;
        for ((origin, sequence), update) in &self.kept {
            if *origin == self.me && *sequence > cut {
                add(&mut unsent, &update.values, 1);
            }
        }
        unsent
    }

    /// Takes the step that is first in the queue.
    pub(crate) fn step(&mut self) -> Option<Done> {
        self.is_stepping = false;
        let Some(Task::Step { epoch, spans, encodes }) = self.tasks.pop_front() else { return None };
        for place in spans.iter().flat_map(|span| span.start..span.end) {
            add(&mut self.residual, &worth(epoch, place), 1);
            add(&mut self.owed, &worth(epoch, place), 1);
            self.untold.push((epoch, place));
        }
        let values = match encodes {
            Encodes::Nothing => return Some(Done::Stepped(None)),
            // Some of it stays, as with a threshold.
            Encodes::Large => self.residual.map(|value| value - value % 1000),
            Encodes::Everything => self.residual,
        };
        add(&mut self.residual, &values, -1);
        add(&mut self.owed, &values, -1);
        add(&mut self.state.values, &values, 1);
        self.own += 1;
        self.state.applied.insert(self.me, self.own);
        let update = Update { values, places: std::mem::take(&mut self.untold) };
        self.kept.insert((self.me, self.own), update.clone());
        Some(Done::Stepped(Some(update)))
    }

    /// Does what takes no time and is first in the queue; none when nothing is left of that kind.
    pub(crate) fn next(&mut self) -> Result<Option<Option<Done>>, String> {
        if matches!(self.tasks.front(), None | Some(Task::Step { .. })) {
            return Ok(None);
        }
        let done = match self.tasks.pop_front().expect("looked at") {
            Task::Apply(origin, sequence) => {
                self.apply(origin, sequence)?;
                None
            }
            Task::Snapshot => {
                self.copies.push_back(self.state.clone());
                Some(Done::Copied)
            }
            Task::Adopt { state, residual } => {
                (self.state, self.residual, self.owed) = (state, residual, residual);
                self.untold.clear();
                None
            }
            Task::Step { .. } => unreachable!("looked at"),
        };
        Ok(Some(done))
    }

    fn apply(&mut self, origin: Incarnation, sequence: Sequence) -> Result<(), String> {
        let held = self.state.applied.get(&origin).copied().unwrap_or(0);
        if sequence != held + 1 {
            return Err(format!("message {sequence} of {origin} was applied after message {held}"));
        }
        let update = self.kept.get(&(origin, sequence));
        let update =
            update.ok_or_else(|| format!("message {sequence} of {origin} was to be applied, but is not kept"))?;
        add(&mut self.state.values, &update.values, 1);
        self.state.applied.insert(origin, sequence);
        Ok(())
    }

    /// Whether a message is kept, or in the state, or in one that waits to be taken over.
    pub(crate) fn holds(&self, origin: Incarnation, sequence: Sequence) -> bool {
        let is_in = |state: &State| state.applied.get(&origin) >= Some(&sequence);
        let is_coming = |task: &Task| matches!(task, Task::Adopt { state, .. } if is_in(state));
        self.kept.contains_key(&(origin, sequence)) || is_in(&self.state) || self.tasks.iter().any(is_coming)
    }

    /// Whether all that was put in was sent, or is left to be sent.
    pub(crate) fn conserves(&self) -> bool {
        self.owed == self.residual
    }
}
