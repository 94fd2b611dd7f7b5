//! The thread that computes, so that the network never waits for it, nor it for the network.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread::JoinHandle;

use crossbeam_channel::{Receiver, Sender, unbounded};
use paceline_exchange::rounds::{Incarnation, Round, Schedule, Span, WorkNumber};
use paceline_train::{Contribution, RoundReplica, SharedReplica};

use super::buffers::Weighted;
use super::stream::{StreamDone, StreamTask, carry_out_in_stream};
use crate::ClusterError;

/// What it is asked to do, in order.
pub(super) enum Task {
    Compute {
        of: Incarnation,
        work: WorkNumber,
        round: Round,
        epoch: u64,
        spans: Vec<Span>,
        ahead: bool,
        /// Set when it is not wanted any more.
        is_void: Arc<AtomicBool>,
    },
    DropAhead,
    Apply {
        of: Incarnation,
        round: Round,
        result: Weighted,
    },
    Adopt {
        of: Incarnation,
        state: Vec<u8>,
    },
    /// The state after the last round that was applied.
    Snapshot {
        of: Incarnation,
        whom: Whom,
        round: Round,
    },
    /// In `shared`.
    Stream(Incarnation, StreamTask),
    /// Writes what the replica is to a file.
    Write(PathBuf, Sender<std::io::Result<()>>),
}

/// Who wants a state.
pub(super) enum Whom {
    Peer(Incarnation),
    Master(Schedule),
}

/// What it has done.
pub(super) enum Done {
    Computed { of: Incarnation, work: WorkNumber, round: Round, contribution: Weighted, loss: f64 },
    Snapshot { of: Incarnation, whom: Whom, round: Round, state: Vec<u8> },
    Stream(Incarnation, StreamDone),
    Failed { of: Incarnation, error: String, is_invalid_score: bool },
}

/// The replica of whatever mode the run has.
pub(super) enum Replica {
    Rounds(Box<RoundReplica>),
    Shared(Box<SharedReplica>),
}

/// The thread, and the way to it. Both channels hold no more than the rules let be under way.
pub(super) struct Compute {
    pub tasks: Sender<Task>,
    pub done: Receiver<Done>,
    _thread: JoinHandle<()>,
}

impl Compute {
    pub(super) fn start(mut replica: Replica) -> Result<Self, ClusterError> {
        let (tasks, inbox) = unbounded();
        let (outbox, done) = unbounded();
        let work = move || {
            let (mut queue, mut ahead) = (VecDeque::new(), None);
            while let Some(task) = next(&inbox, &mut queue) {
                let answer = match (&mut replica, task) {
                    (replica, Task::Write(path, answer)) => {
                        let state = match replica {
                            Replica::Rounds(replica) => replica.snapshot(),
                            Replica::Shared(replica) => replica.snapshot(),
                        };
                        // Who asked waits for it, or is gone.
                        let _ = answer.send(std::fs::write(path, state));
                        None
                    }
                    (Replica::Rounds(replica), task) => carry_out(replica, task, &mut ahead),
                    (Replica::Shared(replica), Task::Stream(of, task)) => carry_out_in_stream(replica, of, task),
                    (Replica::Shared(_), _) => None,
                };
                if let Some(answer) = answer
                    && outbox.send(answer).is_err()
                {
                    return;
                }
            }
        };
        let thread = std::thread::Builder::new().name("paceline-replica".into()).spawn(work);
        let thread = thread.map_err(|source| ClusterError::Thread { source })?;
        Ok(Self { tasks, done, _thread: thread })
    }
}

/// The next thing to do. Messages of others go before steps that have not begun, which should know them; not before
/// copies, which must have all that was asked for before them and nothing else.
fn next(inbox: &Receiver<Task>, queue: &mut VecDeque<Task>) -> Option<Task> {
    if queue.is_empty() {
        queue.push_back(inbox.recv().ok()?);
    }
    queue.extend(inbox.try_iter());
    let is_step = |task: &Task| matches!(task, Task::Stream(_, StreamTask::Step { .. }));
    let steps = queue.iter().take_while(|task| is_step(task)).count();
    match queue.get(steps) {
        Some(Task::Stream(_, StreamTask::Apply(_))) => queue.remove(steps),
        _ => queue.pop_front(),
    }
}

/// Why a step could not be taken.
pub(super) fn failed(of: Incarnation, error: &paceline_train::Error) -> Done {
    let is_invalid_score = matches!(error, paceline_train::Error::NotFinite { .. });
    Done::Failed { of, error: error.to_string(), is_invalid_score }
}

/// Does it; `ahead` is the number of the work that is done before the result of the round before is there.
fn carry_out(replica: &mut RoundReplica, task: Task, ahead: &mut Option<WorkNumber>) -> Option<Done> {
    let computed = |of, work, round, contribution: Contribution| Done::Computed {
        of,
        work,
        round,
        loss: contribution.loss.sum,
        contribution: Weighted { weight: contribution.weight, values: contribution.values },
    };
    match task {
        Task::Compute { of, work, round, epoch, spans, ahead: is_ahead, is_void } => {
            let positions: Vec<u64> = spans.iter().flat_map(|span| span.start..span.end).collect();
            let contribution = match is_ahead {
                false => replica.compute(round, epoch, &positions, &is_void),
                true => {
                    *ahead = Some(work);
                    replica.compute_ahead(round, epoch, &positions, &is_void).map(|()| None)
                }
            };
            match contribution {
                Ok(contribution) => contribution.map(|contribution| computed(of, work, round, contribution)),
                Err(error) => Some(failed(of, &error)),
            }
        }
        Task::DropAhead => {
            replica.drop_ahead();
            None
        }
        Task::Apply { of, round, result } => {
            let contribution = replica.apply(round, &result.values, result.weight)?;
            ahead.take().map(|work| computed(of, work, round + 1, contribution))
        }
        Task::Adopt { of, state } => {
            replica.adopt(&state).err().map(|error| Done::Failed { of, error, is_invalid_score: false })
        }
        Task::Snapshot { of, whom, round } => Some(Done::Snapshot { of, whom, round, state: replica.snapshot() }),
        Task::Stream(..) | Task::Write(..) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_go_before_steps_but_not_before_copies() {
        use paceline_exchange::sharing::Encodes;
        let (tasks, inbox) = unbounded();
        let step =
            || StreamTask::Step { epoch: 0, iteration: 0, spans: Vec::new(), encodes: Encodes::Large, tells: false };
        let message = |n: u8| StreamTask::Apply(vec![n].into());
        for task in [step(), step(), message(1), message(2), StreamTask::Snapshot, step(), message(3)] {
            tasks.send(Task::Stream(7, task)).expect("the inbox is there");
        }
        let mut queue = VecDeque::new();
        let mut order = || match next(&inbox, &mut queue) {
            Some(Task::Stream(_, StreamTask::Apply(message))) => message[0].to_string(),
            Some(Task::Stream(_, StreamTask::Snapshot)) => "copy".into(),
            Some(_) => "step".into(),
            None => "end".into(),
        };
        let order: Vec<String> = (0..7).map(|_| order()).collect();
        assert_eq!(order, ["1", "2", "step", "step", "copy", "3", "step"]);
    }
}
