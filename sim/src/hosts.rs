//! Surroundings that do nothing by themselves: what a loop wants is kept in order, and the world carries it out.

use crossbeam_channel::{Receiver, Sender, unbounded};
use paceline_cluster::loops::{MasterHost, Operation, Record, ReplicaDone, ReplicaTask, WorkerHost};
use paceline_cluster::transport::{LinkId, SendError, Transport};
use paceline_cluster::trust::{Proof, Trust};
use paceline_cluster::wire::JobText;
use paceline_cluster::{ClusterError, WorkerEvent};
use paceline_exchange::Bulk;
use paceline_exchange::Frame;
use paceline_exchange::rounds::{Incarnation, Now, Round, Schedule, Term, Told};
use paceline_train::Event;

use crate::network::Pid;
use crate::numbers::State;
use crate::replica::write_state;

/// What a loop wants.
pub(crate) enum Effect {
    Connect(u64, String),
    Send(u64, Frame),
    /// Before all that waits.
    SendFirst(u64, Frame),
    Close(u64, String),
    Begin(Operation),
    Told(Told),
    Holds(Round, Schedule, Bulk),
    Event(Event),
    Find(Term),
    Prepare,
    Compute(ReplicaTask),
    WorkerTold(WorkerEvent),
}

/// The end of all links of a process.
pub(crate) struct Socket {
    address: String,
    next: u64,
    pub effects: Vec<Effect>,
}

impl Socket {
    pub(crate) fn new(pid: Pid) -> Self {
        Self { address: pid.to_string(), next: pid << 32, effects: Vec::new() }
    }
}

/// The number of a link.
pub(crate) fn number(link: LinkId) -> u64 {
    link.to_string().trim_start_matches("link ").parse().expect("a link is called by its number")
}

impl Transport for Socket {
    fn local_address(&self) -> &str {
        &self.address
    }

    fn connect(&mut self, to: &str) -> LinkId {
        self.next += 1;
        self.effects.push(Effect::Connect(self.next, to.to_owned()));
        LinkId::new(self.next)
    }

    fn send(&mut self, link: LinkId, frame: Frame) -> Result<(), SendError> {
        self.effects.push(Effect::Send(number(link), frame));
        Ok(())
    }

    fn send_first(&mut self, link: LinkId, frame: Frame) -> Result<(), SendError> {
        self.effects.push(Effect::SendFirst(number(link), frame));
        Ok(())
    }

    fn queued(&self, _: LinkId) -> usize {
        0
    }

    fn proof(&self, _: LinkId) -> Proof {
        Proof::None
    }

    fn binding(&self, _: LinkId) -> Vec<u8> {
        Vec::new()
    }

    fn admit(&mut self, _: LinkId) {}

    fn close(&mut self, link: LinkId, reason: &str) {
        self.effects.push(Effect::Close(number(link), reason.to_owned()));
    }

    fn set_trust(&mut self, _: Trust) {}
}

/// Around a master.
pub(crate) struct SimMaster {
    pub now: Now,
    pub socket: Socket,
    pub run: u64,
    pub record: Record,
}

impl MasterHost for SimMaster {
    fn now(&self) -> Now {
        self.now
    }

    fn links(&mut self) -> &mut dyn Transport {
        &mut self.socket
    }

    fn begin(&mut self, operation: Operation) {
        self.socket.effects.push(Effect::Begin(operation));
    }

    fn tell(&mut self, event: &Event) {
        self.socket.effects.push(Effect::Event(event.clone()));
    }

    fn hear(&mut self, told: &Told) {
        self.socket.effects.push(Effect::Told(told.clone()));
    }

    fn holds(&mut self, round: Round, rest: &Schedule, state: &Bulk) {
        self.socket.effects.push(Effect::Holds(round, rest.clone(), state.clone()));
    }

    fn record(&mut self) -> &mut Record {
        &mut self.record
    }

    fn nonce(&mut self) -> Result<String, ClusterError> {
        Ok(String::new())
    }

    fn run_number(&mut self) -> u64 {
        self.run
    }

    fn show(&mut self) -> Result<Option<String>, ClusterError> {
        Ok(None)
    }

    fn initial_state(&mut self) -> Result<Bulk, ClusterError> {
        Ok(write_state(&State::initial()).into())
    }

    fn certificate(&mut self, _: Incarnation) -> Result<Option<Vec<u8>>, ClusterError> {
        Ok(None)
    }
}

/// Around a worker.
pub(crate) struct SimWorker {
    pub now: Now,
    pub socket: Socket,
    pub outbox: Sender<ReplicaDone>,
    pub done: Receiver<ReplicaDone>,
    pub record: Record,
}

impl SimWorker {
    pub(crate) fn new(now: Now, pid: Pid) -> Self {
        let (outbox, done) = unbounded();
        Self { now, socket: Socket::new(pid), outbox, done, record: Record::default() }
    }
}

impl WorkerHost for SimWorker {
    fn now(&self) -> Now {
        self.now
    }

    fn links(&mut self) -> &mut dyn Transport {
        &mut self.socket
    }

    fn nonce(&mut self) -> Result<String, ClusterError> {
        Ok(String::new())
    }

    fn find(&mut self, known: Term) {
        self.socket.effects.push(Effect::Find(known));
    }

    fn prepare(&mut self, _: JobText) {
        self.socket.effects.push(Effect::Prepare);
    }

    fn compute(&mut self, task: ReplicaTask) {
        self.socket.effects.push(Effect::Compute(task));
    }

    fn outbox(&self) -> Sender<ReplicaDone> {
        self.outbox.clone()
    }

    fn tell(&mut self, event: &WorkerEvent) {
        self.socket.effects.push(Effect::WorkerTold(event.clone()));
    }

    fn record(&mut self) -> &mut Record {
        &mut self.record
    }
}
