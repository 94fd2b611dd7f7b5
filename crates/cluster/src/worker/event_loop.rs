//! One incarnation of a worker: the loop that carries out what the rules decide.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use crossbeam_channel::{Receiver, after, never, select};
use paceline_exchange::MemberRules;
use paceline_exchange::rounds::message::{ToMaster, ToPeer};
use paceline_exchange::rounds::{Incarnation, MemberEvent, Now, Round, Term};
use paceline_train::Stop;

use super::chunks::Outgoing;
use super::compute::{Done, Whom};
use super::flow::Flow;
use super::links::Links;
use super::prepare::Prepared;
use super::rounds::Rounds;
use super::stream::{Former, Stream, StreamDone};
use super::{WorkerEvent, WorkerOptions};
use crate::ClusterError;
use crate::record::Record;
use crate::transport::{LinkId, TcpTransport, Transport, TransportEvent};
use crate::wire::Word;

/// How an incarnation ended.
pub(super) enum Ended {
    /// The run is over, or this process was asked to go.
    Finished(String),
    /// The master does not want this worker.
    Refused(String),
    /// A loss is no number, which is the run's matter.
    Failed(String),
    /// Something is wrong on this machine; the run goes on without it.
    Broken(String),
    /// Nobody answered as a master does.
    NotFound(String),
    /// It was a member and may become one again.
    Rejoin(String),
}

/// How long a master may take to answer a hello.
const HELLO_LIMIT: Duration = Duration::from_secs(4);
/// How long a worker that was asked to go waits for the master to let it.
const LEAVE_LIMIT: Duration = Duration::from_secs(2);
/// How often it looks whether it was asked to go.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// How often the master is told how training goes.
const REPORT_EVERY: Duration = Duration::from_millis(100);

pub(super) struct EventLoop<'a> {
    pub(super) transport: &'a mut TcpTransport,
    pub(super) inbox: &'a Receiver<TransportEvent>,
    pub(super) options: &'a WorkerOptions,
    pub(super) address: &'a str,
    pub(super) stop: &'a Stop,
    pub(super) record: &'a mut Record,
    pub(super) master: LinkId,
    pub(super) began: Instant,
    pub(super) run: u64,
    pub(super) term: Term,
    pub(super) known_term: Term,
    pub(super) sequence: u64,
    pub(super) member: Option<MemberRules>,
    pub(super) links: Links,
    /// The numbers of rounds under way, as soon as it is known how many there are.
    pub(super) rounds: Option<Rounds>,
    pub(super) fetched_state: Option<(Round, Vec<u8>)>,
    pub(super) stream: Stream,
    /// What was last asked of the thread that computes.
    pub(super) work: Option<Arc<Outgoing>>,
    /// The round whose parts go out as they become final.
    pub(super) flow: Option<Flow>,
    pub(super) timer: Option<Now>,
    pub(super) preparing: Option<Receiver<Result<Prepared, ClusterError>>>,
    pub(super) leaving: Option<Instant>,
    /// Whether members speak TLS.
    pub(super) is_encrypted: bool,
    pub(super) ended: Option<Ended>,
    pub(super) loss: f64,
    pub(super) weight: f64,
    pub(super) bytes_sent: u64,
    pub(super) reported: Instant,
    pub(super) looked: Instant,
}

impl<'a> EventLoop<'a> {
    pub(super) fn new(
        transport: &'a mut TcpTransport,
        inbox: &'a Receiver<TransportEvent>,
        options: &'a WorkerOptions,
        address: &'a str,
        known_term: Term,
        stop: &'a Stop,
        record: &'a mut Record,
    ) -> Self {
        let master = transport.connect(address);
        let now = Instant::now();
        Self {
            transport,
            inbox,
            options,
            address,
            stop,
            record,
            master,
            began: now,
            run: 0,
            term: 0,
            known_term,
            sequence: 0,
            member: None,
            links: Links::new(0),
            rounds: None,
            fetched_state: None,
            stream: Stream::new(),
            work: None,
            flow: None,
            timer: None,
            preparing: None,
            leaving: None,
            is_encrypted: false,
            ended: None,
            loss: 0.0,
            weight: 0.0,
            bytes_sent: 0,
            reported: now,
            looked: now,
        }
    }

    /// The term that it was in.
    pub(super) fn term(&self) -> Term {
        self.term
    }

    pub(super) fn now(&self) -> Now {
        self.began.elapsed().as_millis() as Now
    }

    pub(super) fn me(&self) -> Incarnation {
        self.member.as_ref().map_or(0, MemberRules::incarnation)
    }

    pub(super) fn run(
        &mut self,
        prepared: &mut Option<Prepared>,
        tell: &mut dyn FnMut(&WorkerEvent),
    ) -> Result<Ended, ClusterError> {
        loop {
            if let Some(ended) = self.ended.take() {
                self.hang_up();
                self.leave_behind(prepared);
                return Ok(ended);
            }
            let wait = after(self.wait());
            let done = prepared.as_ref().map_or_else(never, |prepared| prepared.compute.done.clone());
            let ready = self.preparing.clone().unwrap_or_else(never);
            select! {
                recv(self.inbox) -> event => if let Ok(event) = event { self.happen(event, prepared, tell)? },
                recv(done) -> done => if let Ok(done) = done { self.take_done(done, prepared) },
                recv(ready) -> ready => {
                    self.preparing = None;
                    match ready {
                        Ok(Ok(ready)) => self.take_prepared(ready, prepared),
                        Ok(Err(error)) => self.break_down(error.to_string()),
                        Err(_) => {}
                    }
                }
                recv(wait) -> _ => {}
            }
            // By the clock, however much is said meanwhile.
            if self.looked.elapsed() >= LOOK_EVERY || self.timer.is_some_and(|at| self.now() >= at) {
                self.looked = Instant::now();
                self.tick(prepared);
            }
        }
    }

    /// What did not get to all others may go into the next incarnation.
    fn leave_behind(&mut self, prepared: &mut Option<Prepared>) {
        self.work.iter().for_each(|work| work.set_void());
        let me = self.me();
        if let Some(ready) = prepared.as_mut().filter(|_| me > 0) {
            ready.former = Some(Former { incarnation: me, messages: self.stream.of(me) });
        }
    }

    /// Until the next thing that happens by itself.
    fn wait(&self) -> Duration {
        let timer = self.timer.map(|at| Duration::from_millis(at.saturating_sub(self.now())));
        let dial = self.links.next_dial().map(|at| at.saturating_duration_since(Instant::now()));
        timer.into_iter().chain(dial).min().unwrap_or(LOOK_EVERY).min(LOOK_EVERY)
    }

    fn tick(&mut self, prepared: &mut Option<Prepared>) {
        self.links.dial(self.transport);
        if self.member.is_none() && self.began.elapsed() >= HELLO_LIMIT {
            self.ended = Some(Ended::NotFound("it did not answer as a master does".into()));
        }
        if self.stop.is_asked() && self.leaving.is_none() {
            self.leaving = Some(Instant::now());
            self.feed(MemberEvent::AskedToLeave, prepared);
        }
        if self.leaving.is_some_and(|since| since.elapsed() >= LEAVE_LIMIT || self.member.is_none()) {
            self.ended = Some(Ended::Finished("asked to go".into()));
        }
        if self.timer.is_some_and(|at| self.now() >= at) {
            self.timer = None;
            self.feed(MemberEvent::Tick, prepared);
        }
    }

    fn take_done(&mut self, done: Done, prepared: &mut Option<Prepared>) {
        let me = self.me();
        match done {
            // What is not wanted any more must not take the place of what is.
            Done::Chunk((of, round, work), chunk) if of == me && self.is_at(work) => {
                self.take_chunk(round, work, chunk);
            }
            Done::Computed { of, work, weight, loss } if of == me && self.is_at(work) => {
                (self.loss, self.weight) = (self.loss + loss, self.weight + weight);
                self.feed(MemberEvent::Computed(work), prepared);
                self.report();
            }
            Done::Stream(of, done) if of == me => self.take_stream_done(done, prepared),
            // A step that was under way when the last incarnation ended.
            Done::Stream(of, StreamDone::Stepped { message: Some(message), .. }) => {
                let former = prepared.as_mut().and_then(|ready| ready.former.as_mut());
                if let Some(former) = former.filter(|former| former.incarnation == of) {
                    former.add(message);
                }
            }
            Done::Snapshot { of, whom, round, state } if of == me => match whom {
                Whom::Peer(peer) => self.send_to_peer(peer, ToPeer::State { round }, &state),
                Whom::Master(rest) => self.send(self.master, &Word::SaveState { round, rest }, &state),
            },
            Done::Failed { of, error, is_invalid_score: true } if of == me => {
                self.send(self.master, &Word::Failed { error: error.clone() }, &[]);
                self.ended = Some(Ended::Failed(error));
            }
            Done::Failed { of, error, .. } if of == me => self.break_down(error),
            // Of an incarnation that is over.
            Done::Chunk(..)
            | Done::Computed { .. }
            | Done::Snapshot { .. }
            | Done::Stream(..)
            | Done::Failed { .. } => {}
        }
    }

    /// Whether this is what was last asked for.
    pub(super) fn is_at(&self, work: u64) -> bool {
        self.work.as_ref().is_some_and(|out| out.key.2 == work)
    }

    pub(super) fn report(&mut self) {
        if self.reported.elapsed() >= REPORT_EVERY {
            let (loss, weight, bytes_sent) = (self.loss, self.weight, self.bytes_sent);
            let traffic = self.stream.traffic.take();
            self.send(self.master, &Word::Report { loss, weight, bytes_sent, traffic }, &[]);
            (self.loss, self.weight, self.bytes_sent, self.reported) = (0.0, 0.0, 0, Instant::now());
        }
    }

    pub(super) fn send(&mut self, link: LinkId, word: &Word, numbers: &[u8]) {
        let mut body = Vec::with_capacity(256 + numbers.len());
        word.begin_body(&mut body);
        body.extend_from_slice(numbers);
        self.send_body(link, word, body.into());
    }

    pub(super) fn send_body(&mut self, link: LinkId, word: &Word, body: Bytes) {
        self.sequence += 1;
        let frame = Word::framed(self.run, self.term, self.me(), self.sequence, body);
        let sent = match word {
            Word::ToMaster(ToMaster::Beat { .. }) => self.transport.send_first(link, frame),
            _ => self.transport.send(link, frame),
        };
        // A link that takes nothing more is as good as down; what was said is said again when there is a new one.
        if sent.is_err() {
            self.transport.close(link, "its queue is full");
        }
    }

    pub(super) fn send_to_peer(&mut self, peer: Incarnation, message: ToPeer, numbers: &[u8]) {
        if self.links.relayed().contains(&peer) {
            self.bytes_sent += numbers.len() as u64;
            self.send(self.master, &Word::Relay { to: peer, said: message }, numbers);
        } else if let Some(link) = self.links.to(peer) {
            self.bytes_sent += numbers.len() as u64;
            self.send(link, &Word::ToPeer(message), numbers);
        }
    }

    /// Leaves for good: what is wrong here need not be wrong elsewhere. Examples that do this to two workers are the rules' matter.
    pub(super) fn break_down(&mut self, reason: String) {
        self.transport.close(self.master, &reason);
        self.ended = Some(Ended::Broken(reason));
    }

    fn hang_up(&mut self) {
        for link in self.links.all().into_iter().chain([self.master]) {
            self.transport.close(link, "this worker leaves");
        }
    }
}
