//! A real master's surroundings: its threads for the disk, the coordinator and judging, and its links.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, after, never, select, unbounded};
use paceline_exchange::Bulk;
use paceline_exchange::rounds::{Incarnation, Now, Operator};
use paceline_train::{Event, Stop, panic_message};

use super::Outcome;
use super::disk::Disk;
use super::host::{Answer, Input, MasterHost, Operation};
use super::leading::{Asked, Leading};
use super::master_loop::MasterLoop;
use super::storage::Storage;
use crate::coordination::Coordination;
use crate::record::Record;
use crate::tracker::{Board, Tracker, TrackerOptions};
use crate::transport::{TcpTransport, Transport, TransportEvent};
use crate::trust::{MasterIdentity, Token};
use crate::{ClusterError, Whereabouts};

/// How often it looks whether it was asked to stop.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// How long members have to hear that the run is over.
const GOODBYE: Duration = Duration::from_millis(300);

/// Where its state is shown, and to whom orders go.
pub(super) struct Showing {
    pub tracker: Option<TrackerOptions>,
    pub board: Board,
    pub orders: Sender<Operator>,
}

/// How members get their certificates.
pub(super) struct Issuing<'a> {
    pub authority: &'a MasterIdentity,
    /// How long one holds.
    pub lifetime: Duration,
}

pub(super) struct Surroundings<'a> {
    began: Instant,
    /// When the input at hand came. A process that is stopped while it takes one in sees with the next how late it is.
    now: Now,
    transport: TcpTransport,
    identity: Option<Issuing<'a>>,
    disk: Disk,
    /// Goes to the thread that writes.
    writes: Sender<Operation>,
    /// Goes to the thread that coordinates.
    coordinates: Sender<Asked>,
    answers: Sender<Answer>,
    record: Record,
    showing: Showing,
    tracker: Option<Tracker>,
    tell: &'a mut dyn FnMut(&Event),
}

/// Runs a master to its end.
#[expect(clippy::too_many_arguments, reason = "all that surrounds a master")]
pub(super) fn drive(
    make: impl FnOnce(&mut dyn MasterHost) -> MasterLoop,
    transport: TcpTransport,
    inbox: &Receiver<TransportEvent>,
    coordination: Box<dyn Coordination>,
    identity: Option<Issuing<'_>>,
    disk: Disk,
    record: Record,
    showing: Showing,
    operators: &Receiver<Operator>,
    stop: &Stop,
    tell: &mut dyn FnMut(&Event),
) -> Result<Outcome, ClusterError> {
    let (answers, answered) = unbounded();
    let (writes, to_write) = unbounded();
    let (coordinates, to_coordinate) = unbounded();
    let threads = [
        start("paceline-disk", {
            let (disk, answers) = (disk.clone(), answers.clone());
            move || write(&disk, &to_write, &answers)
        })?,
        start("paceline-leads", {
            let (storage, answers) = (Storage::new(disk.folder.clone()), answers.clone());
            move || Leading::new(coordination, storage, answers).serve(&to_coordinate)
        })?,
    ];
    let began = Instant::now();
    let mut host = Surroundings {
        began,
        now: 0,
        transport,
        identity,
        disk,
        writes,
        coordinates,
        answers,
        record,
        showing,
        tracker: None,
        tell,
    };
    let mut master = make(&mut host);
    let mut is_stopping = false;
    let outcome = loop {
        if let Some(outcome) = master.take_outcome() {
            break outcome;
        }
        if threads.iter().any(JoinHandle::is_finished) {
            // What it was asked for is never answered.
            break Err(ClusterError::RunFailed { reason: "a thread of the master has panicked".into() });
        }
        let wait = master.wakes_at().map(|at| Duration::from_millis(at.saturating_sub(host.clock())));
        let wait = after(wait.unwrap_or(LOOK_EVERY).min(LOOK_EVERY));
        let orders = if host.tracker.is_some() { operators.clone() } else { never() };
        let input = select! {
            recv(inbox) -> event => event.map(Input::Link).ok(),
            recv(orders) -> asked => asked.map(Input::Asked).ok(),
            recv(answered) -> answer => answer.map(Input::Done).ok(),
            recv(wait) -> _ => None,
        };
        host.now = host.clock();
        master.handle(input.unwrap_or(Input::Wake), &mut host);
        if stop.is_asked() && !is_stopping {
            is_stopping = true;
            master.handle(Input::Asked(Operator::Stop), &mut host);
        }
    };
    let over = Instant::now();
    while over.elapsed() < GOODBYE && master.last_links().iter().any(|link| host.transport.queued(*link) > 0) {
        std::thread::sleep(Duration::from_millis(5));
    }
    // The threads end when nobody can ask them anything any more.
    drop(host);
    for thread in threads {
        // A thread that panicked has said so, and there is nothing more to wait for.
        let _ = thread.join();
    }
    outcome
}

fn start(name: &str, work: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, ClusterError> {
    std::thread::Builder::new().name(name.into()).spawn(work).map_err(|source| ClusterError::Thread { source })
}

/// The thread that reads and writes, one thing after the other.
fn write(disk: &Disk, operations: &Receiver<Operation>, answers: &Sender<Answer>) {
    for operation in operations {
        let answer = match operation {
            Operation::Load(record) => Answer::Loaded(disk.load(&record).map(Box::new)),
            Operation::Save(checkpoint) => Answer::Saved(checkpoint.round, disk.save(checkpoint)),
            Operation::KeepBest { state, progress } => Answer::BestKept(disk.keep_best(&state, progress)),
            Operation::Export { state, progress, prefers_best, keeps_best, kept } => {
                Answer::Exported(disk.export(&state, progress, prefers_best, keeps_best, kept).map(Box::new))
            }
            Operation::Tidy(newest) => {
                disk.tidy(&newest);
                continue;
            }
            Operation::Lead | Operation::Publish(_) | Operation::Judge { .. } | Operation::Resign => continue,
        };
        if answers.send(answer).is_err() {
            return;
        }
    }
}

impl Surroundings<'_> {
    /// Milliseconds since it began.
    fn clock(&self) -> Now {
        self.began.elapsed().as_millis() as Now
    }
}

impl MasterHost for Surroundings<'_> {
    fn now(&self) -> Now {
        self.now
    }

    fn links(&mut self) -> &mut dyn Transport {
        &mut self.transport
    }

    fn begin(&mut self, operation: Operation) {
        // A thread that is gone takes nothing; the driver notices that.
        match operation {
            Operation::Lead => drop(self.coordinates.send(Asked::Lead)),
            Operation::Publish(record) => drop(self.coordinates.send(Asked::Publish(record))),
            Operation::Resign => drop(self.coordinates.send(Asked::Resign)),
            Operation::Judge { epoch, state, progress } => {
                let (disk, answers) = (self.disk.clone(), self.answers.clone());
                let judge = move || {
                    let judged = catch_unwind(AssertUnwindSafe(|| disk.judge(&state, progress)));
                    let panicked = |panic: Box<dyn Any + Send>| {
                        let reason = format!("the model could not be judged: {}", panic_message(&*panic));
                        Err(ClusterError::RunFailed { reason })
                    };
                    let scores = judged.unwrap_or_else(panicked).map(|scores| scores.map(Box::new));
                    drop(answers.send(Answer::Judged { epoch, state, scores }));
                };
                if let Err(error) = start("paceline-judge", judge) {
                    let answer = Answer::Judged { epoch, state: Bulk::default(), scores: Err(error) };
                    drop(self.answers.send(answer));
                }
            }
            write => drop(self.writes.send(write)),
        }
    }

    fn tell(&mut self, event: &Event) {
        // The folder may have been moved since that was written.
        if let Event::AlreadyEnded { model } = event
            && let Some(here) = Path::new(model).file_name().map(|name| self.disk.folder.join(name))
        {
            return (self.tell)(&Event::AlreadyEnded { model: here.display().to_string() });
        }
        (self.tell)(event);
    }

    fn record(&mut self) -> &mut Record {
        &mut self.record
    }

    fn nonce(&mut self) -> Result<String, ClusterError> {
        Ok(Token::random()?.reveal())
    }

    fn run_number(&mut self) -> u64 {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        (now.as_nanos() as u64) ^ (u64::from(std::process::id()) << 40)
    }

    fn show(&mut self) -> Result<Option<String>, ClusterError> {
        if let (Some(options), None) = (self.showing.tracker.take(), &self.tracker) {
            let (board, orders) = (self.showing.board.clone(), self.showing.orders.clone());
            self.tracker = Some(Tracker::start(options, board, orders)?);
        }
        Ok(self.tracker.as_ref().map(|tracker| tracker.address().to_owned()))
    }

    fn of_another_run(&mut self) -> Option<PathBuf> {
        self.disk.of_another_run()
    }

    fn initial_state(&mut self) -> Result<Bulk, ClusterError> {
        self.disk.initial_state()
    }

    fn was_killed(&mut self, whereabouts: &mut Whereabouts) -> bool {
        whereabouts.was_killed()
    }

    fn certificate(&mut self, member: Incarnation) -> Result<Option<Vec<u8>>, ClusterError> {
        let issue = |issuing: &Issuing<'_>| issuing.authority.issue(member, issuing.lifetime);
        let issued = self.identity.as_ref().map(issue).transpose()?;
        Ok(issued.map(|identity| identity.reveal_bytes()))
    }
}
