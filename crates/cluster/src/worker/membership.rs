//! One incarnation of a worker, from joining to its end.

use std::sync::Arc;
use std::time::Duration;

use paceline_exchange::rounds::message::{ToMaster, ToPeer};
use paceline_exchange::rounds::{Incarnation, MemberEvent, Now, Round, Term};
use paceline_exchange::{Bulk, MemberRules, Planted};

use super::chunks::Outgoing;
use super::compute::{Done, ReplicaDone, ReplicaTask, Task, Whom};
use super::flow::Flow;
use super::host::{Found, Input, Ready, WorkerHost};
use super::links::Links;
use super::rounds::Rounds;
use super::stream::{Former, Stream, StreamDone};
use super::worker_loop::WorkerSetup;
use crate::ClusterError;
use crate::transport::LinkId;
use crate::wire::JobText;
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

/// A job that is read, or being read. It outlasts incarnations.
#[derive(Default)]
pub(super) struct Prepared {
    pub(super) ready: Option<Ready>,
    /// The job that is being read.
    reading: Option<JobText>,
}

impl Prepared {
    /// Whether a job is ready; if not, it is read.
    pub(super) fn want(&mut self, job: JobText, host: &mut dyn WorkerHost) -> bool {
        if self.ready.as_ref().is_some_and(|ready| ready.job == job) {
            return true;
        }
        self.ready = None;
        if self.reading.as_ref() != Some(&job) {
            self.reading = Some(job.clone());
            host.prepare(job);
        }
        false
    }

    /// A job is read, or cannot be. Says whether it is the one that was wanted last.
    pub(super) fn take(&mut self, ready: Result<Ready, ClusterError>) -> Result<bool, ClusterError> {
        let ready = match ready {
            Ok(ready) => ready,
            Err(error) => {
                self.reading = None;
                return Err(error);
            }
        };
        let is_wanted = self.reading.take_if(|job| *job == ready.job).is_some();
        if is_wanted {
            self.ready = Some(ready);
        }
        Ok(is_wanted)
    }
}

/// How long a master may take to answer a hello, in milliseconds.
const HELLO_LIMIT: Now = 4000;
/// How long a worker that was asked to go waits for the master to let it, in milliseconds.
const LEAVE_LIMIT: Now = 2000;
/// How often a member without a lease looks whether another master leads, in milliseconds.
const LOOKS_AROUND_EVERY: Now = 1000;
/// How often the master is told how training goes, in milliseconds.
const REPORT_EVERY: Now = 100;

/// The run that a worker was a member of last, and the newest term that it has seen of it; 0 for none.
#[derive(Clone, Copy, Default)]
pub(super) struct LastRun {
    pub(super) run: u64,
    pub(super) term: Term,
}

/// What lasts from a connection to a master to the end of the incarnation that it brought.
pub(super) struct Membership {
    pub(super) setup: Arc<WorkerSetup>,
    pub(super) address: String,
    pub(super) master: LinkId,
    pub(super) began: Now,
    pub(super) run: u64,
    pub(super) term: Term,
    pub(super) last_run: LastRun,
    pub(super) sequence: u64,
    pub(super) member: Option<MemberRules>,
    pub(super) links: Links,
    /// What is ready to be worked on.
    pub(super) job: Prepared,
    /// What the last incarnation had not brought to all others.
    pub(super) former: Option<Former>,
    /// The numbers of rounds under way, as soon as it is known how many there are.
    pub(super) rounds: Option<Rounds>,
    pub(super) fetched_state: Option<(Round, Bulk)>,
    pub(super) stream: Stream,
    /// What was last asked of the replica.
    pub(super) work: Option<Arc<Outgoing>>,
    /// The round whose parts go out as they become final.
    pub(super) flow: Option<Flow>,
    pub(super) timer: Option<Now>,
    pub(super) leaving: Option<Now>,
    /// When it looks whether another one leads, should this master be silent; none while it does.
    looks_around: Option<Now>,
    /// Whether it joins only one whose certificate says that it is the master.
    pub(super) expects_master: bool,
    /// What it has made up for the master to prove that it knows the token.
    pub(super) nonce: String,
    /// Whether the master has.
    pub(super) is_master_proved: bool,
    /// How long it stood still before; told when it is welcome.
    pub(super) stood_still: Option<Now>,
    /// Whether members speak TLS.
    pub(super) is_encrypted: bool,
    pub(super) ended: Option<Ended>,
    pub(super) loss: f64,
    pub(super) weight: f64,
    pub(super) bytes_sent: u64,
    pub(super) reported: Now,
}

impl Membership {
    /// Connects to a master.
    pub(super) fn new(
        setup: Arc<WorkerSetup>,
        address: String,
        last_run: LastRun,
        job: Prepared,
        former: Option<Former>,
        host: &mut dyn WorkerHost,
    ) -> Self {
        // A master that cannot be heard is waited for as long as patience lasts; the silence of peers is the run's limit.
        host.links().set_silence(Duration::from_millis(setup.patience));
        let master = host.links().connect(&address);
        let now = host.now();
        Self {
            setup,
            address,
            master,
            began: now,
            run: 0,
            term: 0,
            last_run,
            sequence: 0,
            member: None,
            links: Links::new(0),
            job,
            former,
            rounds: None,
            fetched_state: None,
            stream: Stream::new(),
            work: None,
            flow: None,
            timer: None,
            leaving: None,
            looks_around: Some(now),
            expects_master: false,
            nonce: String::new(),
            is_master_proved: false,
            stood_still: None,
            is_encrypted: false,
            ended: None,
            loss: 0.0,
            weight: 0.0,
            bytes_sent: 0,
            reported: now,
        }
    }

    pub(super) fn me(&self) -> Incarnation {
        self.member.as_ref().map_or(0, MemberRules::incarnation)
    }

    /// When it must be woken at the latest.
    pub(super) fn wakes_at(&self) -> Option<Now> {
        let hello = self.member.is_none().then_some(self.began + HELLO_LIMIT);
        let leave = self.leaving.map(|since| since + LEAVE_LIMIT);
        [self.timer, self.links.next_dial(), hello, leave, self.next_look_around()].into_iter().flatten().min()
    }

    /// Takes an input, and does all that follows from it. Says how the incarnation ended, when it has.
    pub(super) fn handle(&mut self, input: Input, host: &mut dyn WorkerHost) -> Result<Option<Ended>, ClusterError> {
        match input {
            Input::Link(event) => self.happen(event, host)?,
            Input::Done(ReplicaDone(done)) => self.take_done(done, host),
            Input::Ready(ready) => match self.job.take(ready) {
                Ok(true) if self.member.is_some() => self.begin_to_work(host),
                Ok(_) => {}
                Err(error) => self.break_down(error.to_string(), host),
            },
            Input::AskedToGo => {
                if self.leaving.is_none() {
                    self.leaving = Some(host.now());
                    self.feed(MemberEvent::AskedToLeave, host);
                }
            }
            Input::Found(found) => self.take_found(found.ok().flatten(), host),
            Input::Wake => {}
        }
        // By the clock, however much is said meanwhile.
        if self.wakes_at().is_some_and(|at| host.now() >= at) {
            self.look(host);
        }
        let ended = self.ended.take();
        if ended.is_some() {
            self.hang_up(host);
            self.leave_behind();
        }
        Ok(ended)
    }

    /// What did not get to all others may go into the next incarnation.
    fn leave_behind(&mut self) {
        self.work.iter().for_each(|work| work.set_void());
        let me = self.me();
        if me > 0 {
            self.former = Some(Former { incarnation: me, messages: self.stream.of(me) });
        }
    }

    /// Looks at the clock.
    fn look(&mut self, host: &mut dyn WorkerHost) {
        let now = host.now();
        self.links.dial(host.links(), now);
        if self.member.is_none() && now >= self.began + HELLO_LIMIT {
            self.ended = Some(Ended::NotFound("it did not answer as a master does".into()));
        }
        if self.leaving.is_some_and(|since| now >= since + LEAVE_LIMIT || self.member.is_none()) {
            self.ended = Some(Ended::Finished("asked to go".into()));
        }
        if self.next_look_around().is_some_and(|at| now >= at) {
            self.looks_around = None;
            host.find(self.term + 1);
        }
        if self.timer.is_some_and(|at| now >= at) {
            self.timer = None;
            self.feed(MemberEvent::Tick, host);
        }
    }

    /// A member whose lease ran out keeps what it has for as long as its patience lasts, but looks whether another master leads.
    fn next_look_around(&self) -> Option<Now> {
        let lease_until = self.member.as_ref()?.lease_until();
        self.looks_around.map(|at| at.max(lease_until))
    }

    fn take_found(&mut self, found: Option<Found>, host: &mut dyn WorkerHost) {
        self.looks_around = Some(host.now() + LOOKS_AROUND_EVERY);
        if let Some(term) = found.and_then(|found| found.term).filter(|term| *term > self.term && self.member.is_some())
        {
            self.ended = Some(Ended::Rejoin(format!("a newer master leads term {term}")));
        }
    }

    pub(super) fn compute(&mut self, task: Task, host: &mut dyn WorkerHost) {
        host.compute(ReplicaTask(task));
    }

    fn take_done(&mut self, done: Done, host: &mut dyn WorkerHost) {
        let me = self.me();
        let is_mine = |of| of == me || Planted::TakesWorkOfAnotherIncarnation.is(self.setup.planted);
        match done {
            // What is not wanted any more must not take the place of what is.
            Done::Chunk((of, round, work), chunk) if is_mine(of) && self.is_at(work) => {
                self.take_chunk(round, work, chunk, host);
            }
            Done::Computed { of, work, weight, loss } if is_mine(of) && self.is_at(work) => {
                (self.loss, self.weight) = (self.loss + loss, self.weight + weight);
                self.feed(MemberEvent::Computed(work), host);
                self.report(host);
            }
            Done::Stream(of, done) if of == me => self.take_stream_done(done, host),
            // A step that was under way when the last incarnation ended.
            Done::Stream(of, StreamDone::Stepped { message: Some(message), .. }) => {
                if let Some(former) = self.former.as_mut().filter(|former| former.incarnation == of) {
                    former.add(message);
                }
            }
            Done::Snapshot { of, whom, round, state } if is_mine(of) => match whom {
                Whom::Peer(peer) => self.send_to_peer(peer, ToPeer::State { round }, state, host),
                Whom::Master(rest) => self.send_beside(self.master, &Word::SaveState { round, rest }, &state, host),
            },
            Done::Failed { of, error, is_invalid_score }
                if of == me && (is_invalid_score || Planted::EndsTheRunForALocalError.is(self.setup.planted)) =>
            {
                self.send(self.master, &Word::Failed { error: error.clone() }, host);
                self.ended = Some(Ended::Failed(error));
            }
            Done::Failed { of, error, .. } if of == me => self.break_down(error, host),
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

    pub(super) fn report(&mut self, host: &mut dyn WorkerHost) {
        if host.now() >= self.reported + REPORT_EVERY {
            self.report_now(host);
        }
    }

    /// Tells the master how training went since it was last told.
    pub(super) fn report_now(&mut self, host: &mut dyn WorkerHost) {
        let (loss, weight, bytes_sent) = (self.loss, self.weight, self.bytes_sent);
        let traffic = self.stream.traffic.take();
        let spent = host.spent();
        self.send(self.master, &Word::Report { loss, weight, bytes_sent, traffic, spent }, host);
        (self.loss, self.weight, self.bytes_sent, self.reported) = (0.0, 0.0, 0, host.now());
    }

    pub(super) fn send(&mut self, link: LinkId, word: &Word, host: &mut dyn WorkerHost) {
        self.send_beside(link, word, &Bulk::default(), host);
    }

    /// Sends a word with numbers beside it.
    pub(super) fn send_beside(&mut self, link: LinkId, word: &Word, numbers: &Bulk, host: &mut dyn WorkerHost) {
        self.send_body(link, word, word.body(numbers), host);
    }

    pub(super) fn send_body(&mut self, link: LinkId, word: &Word, body: Bulk, host: &mut dyn WorkerHost) {
        self.sequence += 1;
        let frame = Word::framed(self.run, self.term, self.me(), self.sequence, body);
        let sent = match word {
            Word::ToMaster(ToMaster::Beat { .. }) => host.links().send_first(link, frame),
            _ => host.links().send(link, frame),
        };
        // A link that takes nothing more is as good as down; what was said is said again when there is a new one.
        if sent.is_err() {
            host.links().close(link, "its queue is full");
        }
    }

    pub(super) fn send_to_peer(
        &mut self,
        peer: Incarnation,
        message: ToPeer,
        numbers: impl Into<Bulk>,
        host: &mut dyn WorkerHost,
    ) {
        let numbers = numbers.into();
        if self.links.relayed().contains(&peer) || !self.links.is_wanted(peer) {
            self.bytes_sent += numbers.len();
            self.send_beside(self.master, &Word::Relay { to: peer, said: message }, &numbers, host);
        } else if let Some(link) = self.links.to(peer) {
            self.bytes_sent += numbers.len();
            self.send_beside(link, &Word::ToPeer(message), &numbers, host);
        }
    }

    /// Leaves for good: what is wrong here need not be wrong elsewhere. Examples that do this to two workers are the rules' matter.
    pub(super) fn break_down(&mut self, reason: String, host: &mut dyn WorkerHost) {
        host.links().close(self.master, &reason);
        self.ended = Some(Ended::Broken(reason));
    }

    fn hang_up(&mut self, host: &mut dyn WorkerHost) {
        for link in self.links.all().into_iter().chain([self.master]) {
            host.links().close(link, "this worker leaves");
        }
    }
}
