//! A real worker's surroundings: its links, and threads that find a master, read the data and compute.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, after, bounded, select, unbounded};
use paceline_data::OpenOptions;
use paceline_exchange::rounds::{Now, Slots, Term};
use paceline_nn::Registry;
use paceline_train::{Replica, Spent, Stop};

use super::compute::{self, ReplicaDone, ReplicaTask, Task};
use super::host::{Found, Input, Ready, WorkerHost};
use super::timed::Stopwatch;
use super::worker_loop::{WorkerLoop, WorkerSetup};
use super::{Target, WorkerEvent, WorkerOptions};
use crate::coordination::{CONNECT_LIMIT, Coordination, ZooKeeper};
use crate::names::this_host;
use crate::record::Record;
use crate::transport::{TcpTransport, Transport, TransportEvent};
use crate::trust::{Fingerprint, Token};
use crate::wire::JobText;
use crate::{ClusterError, Whereabouts};

/// How often it looks whether it was asked to go.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// How long a coordinator is asked at a time.
const ASKED_FOR: Duration = Duration::from_secs(2);

type Prepared = Result<(Ready, Box<dyn Replica>), ClusterError>;

/// Reads a job, and makes what computes for it.
pub type MakeReplica = fn(JobText, Slots, &OpenOptions, &Registry) -> Result<(Ready, Box<dyn Replica>), ClusterError>;

struct Surroundings<'a> {
    began: Instant,
    /// When the input at hand came. A process that is stopped while it takes one in sees with the next how late it is.
    now: Now,
    options: &'a WorkerOptions,
    make: MakeReplica,
    transport: TcpTransport,
    /// Goes to the thread that asks a coordinator, if there is one.
    finder: Option<Sender<Term>>,
    found: Sender<Result<Option<Found>, ClusterError>>,
    prepared: Sender<Prepared>,
    /// Goes to the thread that computes, when there is one.
    tasks: Option<Sender<ReplicaTask>>,
    watch: Arc<Stopwatch>,
    outbox: Sender<ReplicaDone>,
    record: Record,
    tell: &'a mut dyn FnMut(&WorkerEvent),
}

/// Runs a worker to its end.
pub(super) fn drive(
    setup: WorkerSetup,
    options: &WorkerOptions,
    make: MakeReplica,
    transport: TcpTransport,
    inbox: &Receiver<TransportEvent>,
    stop: &Stop,
    tell: &mut dyn FnMut(&WorkerEvent),
) -> Result<(), ClusterError> {
    let (outbox, done) = unbounded();
    let (found, finds) = unbounded();
    let (prepared, prepares) = unbounded();
    let finder = match &options.target {
        Target::Coordinator(address) => Some(start_finder(address.clone(), found.clone())?),
        Target::Address(_) | Target::Join(_) => None,
    };
    let record = Record::new(options.record.as_deref())?;
    let began = Instant::now();
    let mut host = Surroundings {
        began,
        now: 0,
        options,
        make,
        transport,
        finder,
        found,
        prepared,
        tasks: None,
        watch: Arc::new(Stopwatch::new()),
        outbox,
        record,
        tell,
    };
    let mut worker = WorkerLoop::new(setup, &mut host);
    let mut is_going = false;
    loop {
        if let Some(outcome) = worker.take_outcome() {
            return outcome.and_then(|()| host.keep_state());
        }
        let wait = worker.wakes_at().map(|at| Duration::from_millis(at.saturating_sub(host.clock())));
        let wait = after(wait.unwrap_or(LOOK_EVERY).min(LOOK_EVERY));
        let input = select! {
            recv(inbox) -> event => event.map(Input::Link).ok(),
            recv(done) -> done => done.map(Input::Done).ok(),
            recv(finds) -> found => found.map(Input::Found).ok(),
            recv(prepares) -> prepared => prepared.ok().map(|prepared| host.take_prepared(prepared)),
            recv(wait) -> _ => None,
        };
        host.now = host.clock();
        worker.handle(input.unwrap_or(Input::Wake), &mut host);
        if stop.is_asked() && !is_going {
            is_going = true;
            worker.handle(Input::AskedToGo, &mut host);
        }
    }
}

/// The thread that asks a ZooKeeper where the master is; it connects when it is first asked.
fn start_finder(
    address: String,
    found: Sender<Result<Option<Found>, ClusterError>>,
) -> Result<Sender<Term>, ClusterError> {
    let (asks, asked) = unbounded::<Term>();
    let mut coordinator = None;
    let mut find = move |known: Term| {
        let coordinator = match &mut coordinator {
            Some(coordinator) => coordinator,
            none => none.insert(ZooKeeper::connect(&address, CONNECT_LIMIT)?),
        };
        let record = coordinator.find(known.saturating_sub(1), ASKED_FOR)?;
        let found = record.map(|record| {
            let key = record.key.as_deref().map(Fingerprint::parse).transpose()?;
            Ok::<_, ClusterError>(Found { address: record.address, key, term: Some(record.term) })
        });
        found.transpose()
    };
    let work = move || {
        for known in asked {
            if found.send(find(known)).is_err() {
                return;
            }
        }
    };
    let thread = std::thread::Builder::new().name("paceline-finds".into()).spawn(work);
    thread.map(|_| asks).map_err(|source| ClusterError::Thread { source })
}

impl Surroundings<'_> {
    /// Milliseconds since it began.
    fn clock(&self) -> Now {
        self.began.elapsed().as_millis() as Now
    }

    /// The job is read: from now on its replica computes.
    fn take_prepared(&mut self, prepared: Prepared) -> Input {
        let started = prepared.and_then(|(ready, replica)| {
            let (tasks, asked) = unbounded();
            compute::start(replica, asked, self.outbox.clone(), self.watch.clone())?;
            self.tasks = Some(tasks);
            Ok(ready)
        });
        Input::Ready(started)
    }

    /// Writes down what the replica has become, if somebody wants to know.
    fn keep_state(&self) -> Result<(), ClusterError> {
        let (Some(path), Some(tasks)) = (&self.options.keep_state, &self.tasks) else { return Ok(()) };
        let (answer, written) = bounded(1);
        let written = match tasks.send(ReplicaTask(Task::Write(path.clone(), answer))) {
            Ok(()) => written.recv().unwrap_or(Ok(())),
            Err(_) => Ok(()),
        };
        written.map_err(|source| ClusterError::Unwritable {
            what: "the state of `--keep-state`",
            path: path.clone(),
            source,
        })
    }
}

impl WorkerHost for Surroundings<'_> {
    fn now(&self) -> Now {
        self.now
    }

    fn links(&mut self) -> &mut dyn Transport {
        &mut self.transport
    }

    fn nonce(&mut self) -> Result<String, ClusterError> {
        Ok(Token::random()?.reveal())
    }

    fn all_in(&mut self) {
        self.watch.all_in();
    }

    fn spent(&mut self) -> Option<Spent> {
        Some(self.watch.take())
    }

    fn find(&mut self, known: Term) {
        if let Some(finder) = &self.finder {
            // The thread ends only when this end is dropped.
            let _ = finder.send(known);
            return;
        }
        let found = match &self.options.target {
            Target::Join(join) => Found { address: join.address.clone(), key: Some(join.key), term: None },
            Target::Address(address) | Target::Coordinator(address) => {
                Found { address: address.clone(), key: None, term: None }
            }
        };
        // The other end is in the loop that this is called from.
        let _ = self.found.send(Ok(Some(found)));
    }

    fn prepare(&mut self, job: JobText) {
        // A replica of another job is of no use any more.
        self.tasks = None;
        let (prepared, make, slots) = (self.prepared.clone(), self.make, self.options.standing_for());
        let (open, registry) = (self.options.open.clone(), self.options.registry.clone());
        let work = move || drop(prepared.send(make(job, slots, &open, &registry)));
        if let Err(source) = std::thread::Builder::new().name("paceline-prepare".into()).spawn(work) {
            let _ = self.prepared.send(Err(ClusterError::Thread { source }));
        }
    }

    fn compute(&mut self, task: ReplicaTask) {
        if let Some(tasks) = &self.tasks {
            // The thread ends only when this end is dropped.
            let _ = tasks.send(task);
        }
    }

    fn outbox(&self) -> Sender<ReplicaDone> {
        self.outbox.clone()
    }

    fn machine(&self) -> String {
        this_host()
    }

    fn whereabouts(&self) -> Option<Whereabouts> {
        Whereabouts::here()
    }

    fn tell(&mut self, event: &WorkerEvent) {
        (self.tell)(event);
    }

    fn record(&mut self) -> &mut Record {
        &mut self.record
    }
}
