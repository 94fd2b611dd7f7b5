//! One incarnation of a worker: the loop that carries out what the rules decide.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use crossbeam_channel::{Receiver, after, never, select};
use paceline_exchange::Frame;
use paceline_exchange::rounds::message::{ToMaster, ToMember, ToPeer};
use paceline_exchange::rounds::{Course, Incarnation, Member, MemberAction, MemberEvent, Now, Round, Term, WorkNumber};
use paceline_exchange::sharing::message::Order;
use paceline_exchange::{MemberRules, sharing};
use paceline_train::{Outlet, Sink, Stop};

use super::chunks::{Chunk, Head, Outgoing, RoundKey, Whole};
use super::compute::{Done, Task, Whom};
use super::links::Links;
use super::prepare::Prepared;
use super::rounds::Rounds;
use super::stream::{Former, Stream, StreamDone};
use super::{WorkerEvent, WorkerOptions};
use crate::ClusterError;
use crate::record::Record;
use crate::transport::{LinkId, TcpTransport, Transport, TransportEvent};
use crate::trust::{MemberIdentity, Proof, Trust};
use crate::wire::{JobText, Word};

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
    transport: &'a mut TcpTransport,
    inbox: &'a Receiver<TransportEvent>,
    pub(super) options: &'a WorkerOptions,
    address: &'a str,
    stop: &'a Stop,
    record: &'a mut Record,
    pub(super) master: LinkId,
    began: Instant,
    run: u64,
    term: Term,
    known_term: Term,
    sequence: u64,
    pub(super) member: Option<MemberRules>,
    pub(super) links: Links,
    /// The numbers of rounds under way, as soon as it is known how many there are.
    rounds: Option<Rounds>,
    pub(super) fetched_state: Option<(Round, Vec<u8>)>,
    pub(super) stream: Stream,
    /// What was last asked of the thread that computes.
    work: Option<Arc<Outgoing>>,
    /// The round whose parts go out as they become final.
    flow: Option<Flow>,
    timer: Option<Now>,
    preparing: Option<Receiver<Result<Prepared, ClusterError>>>,
    leaving: Option<Instant>,
    /// Whether members speak TLS.
    is_encrypted: bool,
    ended: Option<Ended>,
    pub(super) loss: f64,
    pub(super) weight: f64,
    bytes_sent: u64,
    reported: Instant,
    looked: Instant,
}

/// A round whose parts go out as they become final.
struct Flow {
    key: RoundKey,
    /// What computes it.
    work: WorkNumber,
    members: Vec<Incarnation>,
    /// The place of this one among them.
    place: usize,
    /// Those who were sent everything so far, on a link that stood all the time.
    reached: BTreeSet<Incarnation>,
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

    fn now(&self) -> Now {
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

    fn happen(
        &mut self,
        event: TransportEvent,
        prepared: &mut Option<Prepared>,
        tell: &mut dyn FnMut(&WorkerEvent),
    ) -> Result<(), ClusterError> {
        match event {
            TransportEvent::Opened { link } if link == self.master => {
                self.transport.admit(link);
                // Members have certificates of the same authority; only the master may see the token.
                if matches!(self.options.target, super::Target::Join(_)) && self.transport.proof(link) != Proof::Master
                {
                    self.ended = Some(Ended::NotFound("it is a member of the run and not its master".into()));
                    return Ok(());
                }
                let token = match &self.options.target {
                    super::Target::Join(join) => Some(join.token.reveal()),
                    _ => self.options.token.as_ref().map(|token| token.reveal()),
                };
                let version = env!("CARGO_PKG_VERSION").to_owned();
                let hello = Word::Hello { token, known_term: self.known_term, version };
                self.send(self.master, &hello, &[]);
            }
            TransportEvent::Opened { link } => {
                if let Some(peer) = self.links.opened(link) {
                    self.transport.admit(link);
                    let from = self.me();
                    self.send(link, &Word::PeerHello { from, to: peer }, &[]);
                    self.feed(MemberEvent::PeerUp(peer), prepared);
                }
            }
            TransportEvent::Frame { link, frame } => self.hear(link, &frame, prepared, tell)?,
            TransportEvent::Closed { link, reason } if link == self.master => {
                if self.member.is_some() {
                    self.feed(MemberEvent::MasterLost(reason), prepared);
                } else {
                    self.ended = Some(Ended::NotFound(reason));
                }
            }
            TransportEvent::Closed { link, .. } => {
                if let Some(peer) = self.links.closed(link) {
                    self.feed(MemberEvent::PeerDown(peer), prepared);
                }
            }
            TransportEvent::Arriving { link } => {
                let from = if link == self.master { Some(None) } else { self.links.heard(link).map(Some) };
                if let Some(from) = from {
                    self.feed(MemberEvent::Arriving(from), prepared);
                }
            }
            // A full queue: a round has at most a few frames under way, so the link is as good as down.
            TransportEvent::Accepted { .. } | TransportEvent::Writable { .. } => {}
        }
        Ok(())
    }

    fn hear(
        &mut self,
        link: LinkId,
        frame: &Frame,
        prepared: &mut Option<Prepared>,
        tell: &mut dyn FnMut(&WorkerEvent),
    ) -> Result<(), ClusterError> {
        let (word, numbers) = match Word::read(frame) {
            Ok(read) => read,
            Err(error) => {
                self.transport.close(link, &error.to_string());
                return Ok(());
            }
        };
        if link == self.master {
            return self.hear_master(frame, word, &numbers, prepared, tell);
        }
        if frame.run != self.run {
            self.transport.close(link, "it belongs to another run");
            return Ok(());
        }
        match word {
            Word::PeerHello { from, to } => {
                // With TLS, the certificate says who it is.
                let is_itself = match self.transport.proof(link) {
                    Proof::Member { incarnation } => incarnation == from,
                    _ => !self.is_encrypted,
                };
                if self.member.is_some() && to == self.me() && is_itself {
                    self.transport.admit(link);
                    self.links.identify(link, from);
                    self.feed(MemberEvent::PeerUp(from), prepared);
                } else {
                    self.transport.close(link, "no such member here");
                }
            }
            Word::ToPeer(said) => {
                if let Some(peer) = self.links.heard(link) {
                    match self.take_numbers(peer, &said, &numbers, prepared) {
                        Ok(true) => self.feed(MemberEvent::PeerSaid(peer, said), prepared),
                        Ok(false) => {}
                        Err(reason) => self.transport.close(link, &reason),
                    }
                }
            }
            _ => self.transport.close(link, "expected a word between members"),
        }
        Ok(())
    }

    fn hear_master(
        &mut self,
        frame: &Frame,
        word: Word,
        numbers: &Bytes,
        prepared: &mut Option<Prepared>,
        tell: &mut dyn FnMut(&WorkerEvent),
    ) -> Result<(), ClusterError> {
        match word {
            Word::Welcome { incarnation, job, options, is_shared, identity } if self.member.is_none() => {
                if frame.term < self.known_term {
                    self.ended = Some(Ended::NotFound(format!(
                        "it rules term {}, but a newer master of term {} was seen",
                        frame.term, self.known_term
                    )));
                    return Ok(());
                }
                (self.run, self.term) = (frame.run, frame.term);
                self.is_encrypted = identity.is_some();
                if let Some(identity) = identity {
                    let identity = MemberIdentity::from_bytes(&identity)?;
                    self.transport.set_trust(Trust::member(&identity)?);
                }
                self.links = Links::new(incarnation);
                let (term, now) = (frame.term, self.now());
                let member = match is_shared {
                    true => MemberRules::Sharing(sharing::Member::new(options, incarnation, term, now)),
                    false => MemberRules::Rounds(Member::new(options, incarnation, term, now)),
                };
                self.record.member(&member);
                self.member = Some(member);
                tell(&WorkerEvent::Joined { master: self.address.into(), worker: incarnation, job: job.name.clone() });
                self.begin_to_prepare(job, prepared)?;
            }
            Word::Refused { reason } => self.ended = Some(Ended::Refused(reason)),
            Word::ToMember(said) => {
                if let ToMember::View { plan, .. } = &said {
                    tell(&WorkerEvent::View { view: plan.view, members: plan.members.clone(), round: plan.first });
                }
                if let ToMember::Sharing(Order::View(view)) = &said {
                    let (members, round) = (view.members.clone(), view.round);
                    tell(&WorkerEvent::View { view: view.view, members, round });
                }
                self.feed(MemberEvent::MasterSaid(frame.term, said), prepared);
            }
            Word::Relayed { from, said } => match self.take_numbers(from, &said, numbers, prepared) {
                Ok(true) => self.feed(MemberEvent::PeerSaid(from, said), prepared),
                Ok(false) => {}
                Err(reason) => self.transport.close(self.master, &reason),
            },
            Word::State { round } => {
                self.fetched_state = Some((round, numbers.to_vec()));
                self.feed(MemberEvent::StateFromMaster(round), prepared);
            }
            _ => {}
        }
        Ok(())
    }

    /// Data that was read for the last incarnation is good for this one if the job is the same.
    fn begin_to_prepare(&mut self, job: JobText, prepared: &mut Option<Prepared>) -> Result<(), ClusterError> {
        match prepared.take().filter(|prepared| prepared.job == job) {
            Some(ready) => self.take_prepared(ready, prepared),
            None => {
                self.preparing = Some(Prepared::begin(job, self.options.standing_for(), self.options.open.clone())?)
            }
        }
        Ok(())
    }

    fn take_prepared(&mut self, ready: Prepared, prepared: &mut Option<Prepared>) {
        let (data, was) = (ready.proof.clone(), ready.former.as_ref().map(|former| former.incarnation));
        self.rounds = Some(Rounds::new(ready.layout));
        *prepared = Some(ready);
        let address = self.transport.local_address().to_owned();
        let slots = self.options.standing_for();
        self.feed(MemberEvent::DataRead { data, address, was, slots }, prepared);
    }

    /// Takes what came beside a word of a peer. Says whether the rules hear of it: not before all parts of it are here.
    fn take_numbers(
        &mut self,
        peer: Incarnation,
        said: &ToPeer,
        numbers: &Bytes,
        prepared: &Option<Prepared>,
    ) -> Result<bool, String> {
        if let ToPeer::Sharing(word) = said {
            return self.take_beside(word, numbers, prepared).map(|()| true);
        }
        let rounds = self.rounds.as_mut().ok_or("no data is read here yet")?;
        match said {
            ToPeer::Contribution { view, round } => {
                let (chunk, of) = Chunk::read(numbers, rounds.cut)?;
                let index = chunk.as_ref().map(|chunk| chunk.index);
                let is_whole = rounds.take((*view, *round), peer, chunk, of);
                index.into_iter().for_each(|index| self.sum_chunk((*view, *round), index));
                return Ok(is_whole);
            }
            ToPeer::Reduced { view, round } => {
                let (chunk, of) = Chunk::read(numbers, rounds.cut)?;
                return Ok(rounds.take_sum((*view, *round), peer, chunk, of));
            }
            ToPeer::Result { round } => rounds.fetched_result = Some((*round, Whole::read(rounds.cut, numbers)?)),
            ToPeer::State { round } => self.fetched_state = Some((*round, numbers.to_vec())),
            ToPeer::WantResult { .. } | ToPeer::WantState { .. } | ToPeer::Sharing(_) => {}
        }
        Ok(true)
    }

    /// A chunk of the own contribution is final: it goes to the member that sums it.
    fn take_chunk(&mut self, round: Round, work: WorkNumber, chunk: Chunk) {
        let Some(rounds) = &mut self.rounds else { return };
        rounds.take_own(round, work, chunk.clone());
        let Some(flow) = self.flow.as_ref().filter(|flow| flow.work == work) else { return };
        let Flow { key, members, place, reached, .. } = flow;
        let (key, count) = (*key, members.len());
        let to = rounds.cut.place(chunk.index, count);
        let of = rounds.cut.of_member(to, count).len();
        if to == *place {
            let (index, me) = (chunk.index, members[to]);
            rounds.take(key, me, Some(chunk), of);
            self.sum_chunk(key, index);
        } else if reached.contains(&members[to]) {
            let (to, word) = (members[to], ToPeer::Contribution { view: key.0, round: key.1 });
            self.send_chunks(to, &word, &[chunk], of);
        }
    }

    /// Sums a chunk if all members' are here, and sends the sum to those who are reached.
    fn sum_chunk(&mut self, key: RoundKey, index: usize) {
        let Some((rounds, flow)) = self.rounds.as_mut().zip(self.flow.as_ref().filter(|flow| flow.key == key)) else {
            return;
        };
        let Some(sum) = rounds.sum(key, &flow.members, index) else { return };
        let of = rounds.cut.of_member(flow.place, flow.members.len()).len();
        let word = ToPeer::Reduced { view: key.0, round: key.1 };
        for to in flow.reached.clone() {
            self.send_chunks(to, &word, std::slice::from_ref(&sum), of);
        }
    }

    /// Sends chunks beside a word, each in a frame of its own; one that says so if there are none.
    fn send_chunks(&mut self, to: Incarnation, word: &ToPeer, chunks: &[Chunk], of: usize) {
        let head = Head { word: word.clone(), of };
        if of == 0 {
            self.send_to_peer(to, word.clone(), &Chunk::NONE);
        }
        for chunk in chunks {
            if self.links.relayed().contains(&to) {
                self.send_to_peer(to, word.clone(), &chunk.numbers(&head));
            } else if let Some(link) = self.links.to(to) {
                let body = chunk.body(&head);
                self.bytes_sent += body.len() as u64;
                self.send_body(link, &Word::ToPeer(word.clone()), body);
            }
        }
    }

    /// A round begins whose parts may go out as they become final.
    fn begin_flow(&mut self, key: RoundKey, work: WorkNumber, members: Vec<Incarnation>) {
        let me = self.me();
        let Some(place) = members.iter().position(|member| *member == me) else { return };
        let is_reached =
            |peer: &Incarnation| *peer != me && (self.links.to(*peer).is_some() || self.links.relayed().contains(peer));
        let reached = members.iter().copied().filter(is_reached).collect();
        self.flow = Some(Flow { key, work, members, place, reached });
    }

    /// Whether a member was sent everything of a round as it became final.
    fn has_reached(&self, key: RoundKey, peer: Incarnation) -> bool {
        self.flow.as_ref().is_some_and(|flow| flow.key == key && flow.reached.contains(&peer))
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
    fn is_at(&self, work: u64) -> bool {
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

    /// Tells the rules what happened, and does what they say.
    pub(super) fn feed(&mut self, event: MemberEvent, prepared: &mut Option<Prepared>) {
        let now = self.now();
        // Whatever was sent to it before may not have arrived: it is sent again when the rules say so.
        if let (MemberEvent::PeerUp(peer) | MemberEvent::PeerDown(peer), Some(flow)) = (&event, &mut self.flow) {
            flow.reached.remove(peer);
        }
        let Some(member) = &mut self.member else { return };
        let mut follows = Vec::new();
        let noted = self.record.is_on().then(|| event.clone());
        let actions = member.handle(event, now);
        if let Some(event) = noted {
            self.record.note(now, &event, &actions);
        }
        for action in actions {
            match self.carry_out(action, prepared) {
                Ok(events) => follows.extend(events),
                Err(reason) => {
                    self.ended = Some(Ended::Rejoin(reason));
                    return;
                }
            }
        }
        for event in follows {
            self.feed(event, prepared);
        }
    }

    /// Says what follows at once.
    fn carry_out(&mut self, action: MemberAction, prepared: &mut Option<Prepared>) -> Result<Vec<MemberEvent>, String> {
        let me = self.me();
        let task = |task: Task| -> Result<(), String> {
            let compute = prepared.as_ref().map(|prepared| &prepared.compute).ok_or("the data is not read yet")?;
            compute.tasks.send(task).map_err(|_| "the thread that computes is gone".to_owned())
        };
        match action {
            MemberAction::Tell(message) => self.send(self.master, &Word::ToMaster(message), &[]),
            MemberAction::Ask(peer, message) => self.send_to_peer(peer, message, &[]),
            MemberAction::AskMasterForState(round) => self.send(self.master, &Word::WantState { round }, &[]),
            MemberAction::Connect(peers) => {
                let without_link = self.links.want(peers, self.transport);
                let relayed = self.links.relayed().iter().copied().map(MemberEvent::PeerUp);
                return Ok(without_link.into_iter().map(MemberEvent::PeerDown).chain(relayed).collect());
            }
            MemberAction::Compute { work, round, steps, next, course, gives } => {
                let ready = prepared.as_ref().ok_or("the data is not read yet")?;
                let rounds = self.rounds.as_mut().ok_or("the data is not read yet")?;
                self.work.iter().for_each(|work| work.set_void());
                let cut = rounds.cut;
                let spare = std::mem::take(&mut rounds.spare);
                let to = gives.as_ref().map(|(view, members)| (*view, members.len()));
                let out = Outgoing::new((me, round, work), cut, to, spare, ready.compute.outbox.clone());
                self.work = Some(out.clone());
                if let Some((view, members)) = gives {
                    self.begin_flow((view, round), work, members);
                }
                // Nobody waits for a thread that is still at what is not wanted any more.
                if course == Course::Contributed && ready.gives_nothing && steps.is_empty() {
                    out.begin(0.0);
                    out.put(0..ready.layout.width(), &vec![0.0; ready.layout.width()]);
                    let outbox = &ready.compute.outbox;
                    let _ = outbox.send(Done::Computed { of: me, work, weight: 0.0, loss: 0.0 });
                    return Ok(Vec::new());
                }
                task(Task::Compute { steps, next, course, out })?;
            }
            MemberAction::DropAhead => {
                self.work.iter().for_each(|work| work.set_void());
                task(Task::DropAhead)?;
            }
            MemberAction::Contribute { to, view, round, part, parts } => {
                let flows = self.flow.as_ref().is_some_and(|flow| flow.key == (view, round) && flow.work > 0);
                let rounds = self.rounds.as_mut().ok_or("the data is not read yet")?;
                let of = rounds.cut.of_member(part, parts).len();
                if of > 0 && (self.has_reached((view, round), to) || (to == me && flows)) {
                    return Ok(Vec::new());
                }
                let rounds = self.rounds.as_mut().ok_or("the data is not read yet")?;
                let chunks = rounds.own_for(round, part, parts)?;
                if to == me {
                    for chunk in chunks {
                        rounds.take((view, round), me, Some(chunk), of);
                    }
                } else {
                    self.send_chunks(to, &ToPeer::Contribution { view, round }, &chunks, of);
                }
            }
            MemberAction::Sum { view, round, members } => {
                let rounds = self.rounds.as_ref().ok_or("the data is not read yet")?;
                let place = members.iter().position(|member| *member == me).ok_or("not a member of its own view")?;
                let own = rounds.cut.of_member(place, members.len());
                if !self.is_flowing((view, round)) {
                    self.begin_flow((view, round), 0, members);
                    // What is summed now is sent by the actions that follow.
                    self.flow.iter_mut().for_each(|flow| flow.reached.clear());
                }
                own.for_each(|index| self.sum_chunk((view, round), index));
            }
            MemberAction::Distribute { to, view, round } => {
                let rounds = self.rounds.as_ref().ok_or("the data is not read yet")?;
                let (place, members) = self.place_in_view();
                let of = rounds.cut.of_member(place, members).len();
                if of > 0 && self.has_reached((view, round), to) {
                    return Ok(Vec::new());
                }
                let chunks = rounds.sums_of((view, round), place, members);
                self.send_chunks(to, &ToPeer::Reduced { view, round }, &chunks, of);
            }
            MemberAction::Apply { view, round, at, .. } => {
                let rounds = self.rounds.as_mut().ok_or("the data is not read yet")?;
                let result = rounds.assemble((view, round))?;
                task(Task::Commit { of: me, at, result })?;
            }
            MemberAction::ApplyFetched(round, at) => {
                let rounds = self.rounds.as_mut().ok_or("the data is not read yet")?;
                let (_, result) = rounds.fetched_result.take().ok_or("the result that was fetched is missing")?;
                let result = rounds.keep(round, result);
                task(Task::Commit { of: me, at, result })?;
            }
            MemberAction::Adopt(_) => {
                let (_, state) = self.fetched_state.take().ok_or("the state that was fetched is missing")?;
                task(Task::Adopt { of: me, state })?;
            }
            MemberAction::ServeResult(peer, round) => {
                let result = self.rounds.as_ref().and_then(|rounds| rounds.result(round)).map(Whole::write);
                if let Some(numbers) = result {
                    self.send_to_peer(peer, ToPeer::Result { round }, &numbers);
                }
            }
            MemberAction::ServeState(peer, round) => task(Task::Snapshot { of: me, whom: Whom::Peer(peer), round })?,
            MemberAction::SaveState(round, rest) => task(Task::Snapshot { of: me, whom: Whom::Master(rest), round })?,
            MemberAction::Forget(view, round) => {
                self.rounds.iter_mut().for_each(|rounds| rounds.forget(view, round));
            }
            MemberAction::Sharing(act) => self.act(act, prepared)?,
            MemberAction::SetTimer(at) => self.timer = Some(self.timer.map_or(at, |timer| timer.min(at))),
            MemberAction::End { reason, rejoin } => {
                let is_rejoining = rejoin && self.leaving.is_none();
                self.ended = Some(if is_rejoining { Ended::Rejoin(reason) } else { Ended::Finished(reason) });
            }
        }
        Ok(Vec::new())
    }

    /// Whether parts of this round go out as they become final.
    fn is_flowing(&self, key: RoundKey) -> bool {
        self.flow.as_ref().is_some_and(|flow| flow.key == key)
    }

    /// The place of this one in its view, and how many there are.
    fn place_in_view(&self) -> (usize, usize) {
        let rules = self.member.as_ref().and_then(MemberRules::rounds);
        rules.and_then(Member::place).unwrap_or((0, 1))
    }

    pub(super) fn send(&mut self, link: LinkId, word: &Word, numbers: &[u8]) {
        let mut body = Vec::with_capacity(256 + numbers.len());
        word.begin_body(&mut body);
        body.extend_from_slice(numbers);
        self.send_body(link, word, body.into());
    }

    fn send_body(&mut self, link: LinkId, word: &Word, body: Bytes) {
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
    fn break_down(&mut self, reason: String) {
        self.transport.close(self.master, &reason);
        self.ended = Some(Ended::Broken(reason));
    }

    fn hang_up(&mut self) {
        for link in self.links.all().into_iter().chain([self.master]) {
            self.transport.close(link, "this worker leaves");
        }
    }
}
