//! The thread that computes, so that the network never waits for it, nor it for the network.

use std::any::Any;
use std::collections::VecDeque;
use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use crossbeam_channel::{Receiver, Sender};
use paceline_exchange::Bulk;
use paceline_exchange::rounds::{At, Course, Incarnation, Round, Schedule, Steps, WorkNumber};
use paceline_model::{Loss, Progress};
use paceline_train::{Contributed, Overhead, Parts, Replica, Sink, panic_message};

use super::chunks::{Chunk, Outgoing, Whole};
use super::copy::copy_of;
use super::stream::{StreamDone, StreamTask, carry_out_in_stream};
use super::timed::{Doing, Stopwatch};
use crate::ClusterError;

/// What it is asked to do, in order.
pub(super) enum Task {
    Compute {
        steps: Steps,
        next: Option<Steps>,
        course: Course,
        out: Arc<Outgoing>,
    },
    DropAhead,
    Commit {
        of: Incarnation,
        at: At,
        result: Arc<Whole>,
    },
    Adopt {
        of: Incarnation,
        state: Bulk,
    },
    /// The state after the last round that was committed.
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

impl Task {
    /// The incarnation that asks.
    fn of(&self) -> Incarnation {
        match self {
            Task::Compute { out, .. } => out.key.0,
            Task::Commit { of, .. } | Task::Adopt { of, .. } | Task::Snapshot { of, .. } | Task::Stream(of, _) => *of,
            Task::DropAhead | Task::Write(..) => 0,
        }
    }
}

/// Who wants a state.
pub(super) enum Whom {
    Peer(Incarnation),
    Master(Schedule),
}

/// What it has done.
pub(super) enum Done {
    /// A part of a contribution is final.
    Chunk((Incarnation, Round, WorkNumber), Chunk),
    Computed {
        of: Incarnation,
        work: WorkNumber,
        weight: f64,
        loss: f64,
    },
    Snapshot {
        of: Incarnation,
        whom: Whom,
        round: Round,
        state: Bulk,
    },
    Stream(Incarnation, StreamDone),
    Failed {
        of: Incarnation,
        error: String,
        is_invalid_score: bool,
    },
}

/// What a replica is given to do.
pub struct ReplicaTask(pub(super) Task);

impl ReplicaTask {
    /// The steps that it takes, if it takes some.
    pub fn steps(&self) -> Option<&Steps> {
        match &self.0 {
            Task::Compute { steps, .. } | Task::Stream(_, StreamTask::Step { steps, .. }) => Some(steps),
            _ => None,
        }
    }
}

/// What a replica has done.
pub struct ReplicaDone(pub(super) Done);

impl std::fmt::Debug for ReplicaDone {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match &self.0 {
            Done::Chunk(..) => "a part of a contribution",
            Done::Computed { .. } => "a contribution",
            Done::Snapshot { .. } => "a copy",
            Done::Stream(..) => "a step or a copy",
            Done::Failed { .. } => "a failure",
        })
    }
}

/// A replica, and what it is to do.
pub struct Desk {
    replica: Box<dyn Replica>,
    queue: VecDeque<Task>,
    /// Takes the contribution that is computed before the result of the round before is there.
    ahead: Option<Arc<Outgoing>>,
}

impl Desk {
    /// Nothing to do yet.
    pub fn new(replica: Box<dyn Replica>) -> Self {
        Self { replica, queue: VecDeque::new(), ahead: None }
    }

    /// More to do, after all else.
    pub fn push(&mut self, task: ReplicaTask) {
        self.queue.push_back(task.0);
    }

    /// The replica.
    pub fn replica(&self) -> &dyn Replica {
        &*self.replica
    }

    /// Whether there is something to do.
    pub fn is_busy(&self) -> bool {
        !self.queue.is_empty()
    }

    /// The place of what is done next. Messages of others go before steps that have not begun, which should know them; not before
    /// copies, which must have all that was asked for before them and nothing else.
    fn next(&self) -> usize {
        let is_step = |task: &Task| matches!(task, Task::Stream(_, StreamTask::Step { .. }));
        let steps = self.queue.iter().take_while(|task| is_step(task)).count();
        match self.queue.get(steps) {
            Some(Task::Stream(_, StreamTask::Apply(_))) => steps,
            _ => 0,
        }
    }

    /// What is done next, and how many steps that are.
    fn next_is(&self) -> (Doing, u64) {
        match self.queue.get(self.next()) {
            Some(Task::Compute { steps, .. } | Task::Stream(_, StreamTask::Step { steps, .. })) => {
                (Doing::Compute, steps.slice.iter().filter(|spans| !spans.is_empty()).count() as u64)
            }
            _ => (Doing::Apply, 0),
        }
    }

    /// The steps that are taken next; none if something else is done.
    pub fn next_steps(&self) -> Option<&Steps> {
        match self.queue.get(self.next())? {
            Task::Compute { steps, .. } | Task::Stream(_, StreamTask::Step { steps, .. }) => Some(steps),
            _ => None,
        }
    }

    /// Does what is next.
    pub fn work(&mut self) -> Option<ReplicaDone> {
        let task = self.queue.remove(self.next())?;
        // What is asked for already can be read while this is done.
        for task in std::iter::once(&task).chain(&self.queue) {
            if let Task::Stream(_, StreamTask::Step { steps, .. }) = task {
                self.replica.expect(steps);
            }
        }
        let of = task.of();
        let answer = catch_unwind(AssertUnwindSafe(|| carry_out(&mut *self.replica, task, &mut self.ahead)));
        answer.unwrap_or_else(|panic| Some(panicked(of, &*panic))).map(ReplicaDone)
    }
}

/// The thread that works at a desk; ends when nobody can ask it anything any more.
pub(super) fn start(
    replica: Box<dyn Replica>,
    tasks: Receiver<ReplicaTask>,
    outbox: Sender<ReplicaDone>,
    watch: Arc<Stopwatch>,
) -> Result<(), ClusterError> {
    let work = move || {
        let mut desk = Desk::new(replica);
        // Until the first step, others are waited for, who may come whenever they like.
        let mut has_begun = false;
        loop {
            if !desk.is_busy() {
                let idle_since = Instant::now();
                match tasks.recv() {
                    Ok(task) => {
                        if has_begun {
                            watch.idled(idle_since, matches!(task.0, Task::Commit { .. }));
                        }
                        desk.push(task);
                    }
                    Err(_) => return,
                }
            }
            tasks.try_iter().for_each(|task| desk.push(task));
            let (began, (what, steps)) = (Instant::now(), desk.next_is());
            has_begun |= steps > 0;
            let done = desk.work();
            let Overhead { reading, encoding } = desk.replica.overhead();
            watch.did(what, began.elapsed(), reading, encoding, steps);
            if let Some(done) = done
                && outbox.send(done).is_err()
            {
                return;
            }
        }
    };
    let thread = std::thread::Builder::new().name("paceline-replica".into()).spawn(work);
    thread.map(drop).map_err(|source| ClusterError::Thread { source })
}

/// Why a step could not be taken.
pub(super) fn failed(of: Incarnation, error: &paceline_train::Error) -> Done {
    let is_invalid_score = matches!(error, paceline_train::Error::NotFinite { .. });
    Done::Failed { of, error: error.to_string(), is_invalid_score }
}

/// A number is not finite, which is the run's matter.
pub(super) fn not_finite(of: Incarnation, what: &str) -> Done {
    let error = format!("{what} holds a number that is not finite: lower the learning rate, or look at the data");
    Done::Failed { of, error, is_invalid_score: true }
}

/// The replica has panicked, and is of no use any more.
fn panicked(of: Incarnation, panic: &(dyn Any + Send)) -> Done {
    let error = format!("the thread that computes panicked: {}", panic_message(panic));
    Done::Failed { of, error, is_invalid_score: false }
}

/// Does it; `ahead` is what takes the contribution that is computed before the result of the round before is there.
fn carry_out(replica: &mut dyn Replica, task: Task, ahead: &mut Option<Arc<Outgoing>>) -> Option<Done> {
    match task {
        Task::Compute { steps, next, course, out } => {
            replica.expect(&steps);
            next.iter().for_each(|next| replica.expect(next));
            let of = out.key.0;
            let computed = match course {
                Course::Contributed => replica.contribute(&steps, &(out.clone() as Arc<dyn Sink>)),
                Course::Alone => replica.step_alone(&steps).map(|loss| Some(of_steps(loss))),
                Course::Ahead => {
                    *ahead = Some(out.clone());
                    replica.go_ahead(&steps, &|| out.is_void()).map(|()| None)
                }
            };
            match computed {
                Ok(computed) => computed.map(|computed| done(&out, computed)),
                Err(error) => Some(failed(of, &error)),
            }
        }
        Task::DropAhead => {
            *ahead = None;
            replica.drop_ahead();
            None
        }
        Task::Commit { of, at, result } => {
            let at = Progress { iteration: at.iteration, epoch: at.epoch };
            let out = ahead.take();
            let sink = out.clone().map(|out| out as Arc<dyn Sink>);
            let weight = result.weight;
            match replica.commit(at, &(result as Arc<dyn Parts>), weight, sink.as_ref()) {
                Ok(computed) => computed.zip(out).map(|(computed, out)| done(&out, computed)),
                Err(error) => Some(failed(of, &error)),
            }
        }
        Task::Adopt { of, state } => {
            replica.adopt(&state, None).err().map(|error| Done::Failed { of, error, is_invalid_score: false })
        }
        Task::Snapshot { of, whom, round } => {
            // What is not finite is given to nobody: the last good state stays.
            Some(match copy_of(replica) {
                Ok(Some(state)) => Done::Snapshot { of, whom, round, state },
                Ok(None) => not_finite(of, &format!("the state of round {round}")),
                Err(error) => Done::Failed { of, error, is_invalid_score: false },
            })
        }
        Task::Stream(of, task) => carry_out_in_stream(replica, of, task),
        Task::Write(path, answer) => {
            // Whoever asked waits for it, or is gone.
            let _ = answer.send(File::create(path).and_then(|mut file| replica.snapshot(&mut file)));
            None
        }
    }
}

fn done(out: &Outgoing, Contributed { weight, loss }: Contributed) -> Done {
    let (of, round, work) = out.key;
    if out.is_invalid() {
        return not_finite(of, &format!("what was computed for round {round}"));
    }
    Done::Computed { of, work, weight, loss: loss.sum }
}

fn of_steps(loss: Loss) -> Contributed {
    Contributed { weight: loss.weight, loss }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Panics at whatever it is asked to do.
    struct Panicking;

    impl Replica for Panicking {
        fn layout(&self) -> paceline_train::Layout {
            panic!("asked for its layout")
        }

        fn expect(&mut self, _: &Steps) {
            panic!("asked to read")
        }

        fn step_alone(&mut self, _: &Steps) -> Result<Loss, paceline_train::Error> {
            panic!("asked for a step")
        }

        fn contribute(&mut self, _: &Steps, _: &Arc<dyn Sink>) -> Result<Option<Contributed>, paceline_train::Error> {
            panic!("asked to contribute")
        }

        fn go_ahead(&mut self, _: &Steps, _: &dyn Fn() -> bool) -> Result<(), paceline_train::Error> {
            panic!("asked to go ahead")
        }

        fn drop_ahead(&mut self) {
            panic!("asked to go back")
        }

        fn commit(
            &mut self,
            _: Progress,
            _: &Arc<dyn Parts>,
            _: f64,
            _: Option<&Arc<dyn Sink>>,
        ) -> Result<Option<Contributed>, paceline_train::Error> {
            panic!("asked to commit")
        }

        fn share(
            &mut self,
            _: &Steps,
            _: paceline_train::SlotShare,
            _: paceline_exchange::sharing::Encodes,
        ) -> Result<paceline_train::SharedStep, paceline_train::Error> {
            panic!("asked to share")
        }

        fn take(&mut self, _: &[u8]) -> Result<(), paceline_train::Error> {
            panic!("asked to take")
        }

        fn running(&self) -> &[f32] {
            panic!("asked for statistics")
        }

        fn meet_running(&mut self, _: &[f32], _: paceline_train::SlotShare) {
            panic!("asked to meet statistics")
        }

        fn traffic(&mut self) -> Option<paceline_train::Traffic> {
            panic!("asked for traffic")
        }

        fn snapshot(&self, _: &mut dyn std::io::Write) -> std::io::Result<()> {
            panic!("asked for its state")
        }

        fn adopt(&mut self, _: &Bulk, _: Option<&[&[u8]]>) -> Result<(), String> {
            panic!("asked to adopt")
        }
    }

    #[test]
    fn a_panic_of_the_replica_is_told_and_the_desk_works_on() {
        let mut desk = Desk::new(Box::new(Panicking));
        let adopt = Task::Adopt { of: 7, state: Bulk::default() };
        for task in [adopt, Task::Snapshot { of: 7, whom: Whom::Peer(8), round: 3 }] {
            desk.push(ReplicaTask(task));
            let Some(ReplicaDone(Done::Failed { of: 7, error, is_invalid_score: false })) = desk.work() else {
                panic!("expected to be told of a panic")
            };
            assert!(error.starts_with("the thread that computes panicked: asked "), "{error}");
        }
    }

    #[test]
    fn messages_go_before_steps_but_not_before_copies() {
        use paceline_exchange::sharing::Encodes;
        let mut desk = Desk::new(Box::new(Panicking));
        let steps = || Steps { epoch: 0, iteration: 0, slice: Vec::new() };
        let part = paceline_exchange::rounds::Part { own: 1, all: 1 };
        let step = || StreamTask::Step { steps: steps(), part, encodes: Encodes::Large, tells: false };
        let message = |n: u8| StreamTask::Apply(vec![n].into());
        for task in [step(), step(), message(1), message(2), StreamTask::Snapshot, step(), message(3)] {
            desk.push(ReplicaTask(Task::Stream(7, task)));
        }
        let mut order = || match desk.queue.remove(desk.next()) {
            Some(Task::Stream(_, StreamTask::Apply(message))) => message[0].to_string(),
            Some(Task::Stream(_, StreamTask::Snapshot)) => "copy".into(),
            Some(_) => "step".into(),
            None => "end".into(),
        };
        let order: Vec<String> = (0..7).map(|_| order()).collect();
        assert_eq!(order, ["1", "2", "step", "step", "copy", "3", "step"]);
    }
}
