//! The driver of a worker in the simulator.

use std::collections::{BTreeMap, BTreeSet};

use paceline_exchange::rounds::message::ToPeer;
use paceline_exchange::rounds::{
    Course, Incarnation, Member, MemberAction, MemberEvent, MemberOptions, Now, Round, Term,
};
use paceline_exchange::sharing::Act;
use paceline_exchange::sharing::message::PeerWord;
use paceline_exchange::{MemberRules, THROUGH_THE_MASTER, sharing};

use crate::master::{DATA, SHARE, SILENCE_LIMIT};
use crate::network::{ConnectionId, Message, Numbers as Carried, Pid};
use crate::numbers::{Numbers, State};
use crate::stream::Stream;
use crate::world::{Happening, Rules, World};

#[derive(Clone, Debug)]
pub(crate) struct WorkerProcess {
    /// The newest term that this process has seen; it never goes back.
    pub(crate) term: Term,
    master: Option<ConnectionId>,
    pub(crate) member: Option<MemberRules>,
    numbers: Numbers,
    pub(crate) stream: Stream,
    /// What the last incarnation had not sent.
    pub(crate) former: Option<(Incarnation, Stream)>,
    /// Peers that are wanted, and where they are.
    wanted: BTreeMap<Incarnation, Pid>,
    links: BTreeMap<Incarnation, ConnectionId>,
    /// Who is at the other end, of older connections too: what arrives there is as good.
    known: BTreeMap<ConnectionId, Incarnation>,
    dialling: BTreeMap<ConnectionId, Incarnation>,
    /// The connection to a master that is not up yet.
    joins: Option<ConnectionId>,
    /// Peers that are reached through the master.
    relayed: BTreeSet<Incarnation>,
    /// When each peer may be dialled again.
    dials_again: BTreeMap<Incarnation, Now>,
    timer: Now,
    is_leaving: bool,
}

impl WorkerProcess {
    /// The way of a round, if this is one of the members and still knows it.
    pub(crate) fn way_of(&self, members: &[Incarnation], round: Round) -> Option<u64> {
        self.member.as_ref().filter(|member| members.contains(&member.incarnation()))?;
        self.numbers.ways.get(&round).copied()
    }
}

impl WorkerProcess {
    /// Whether this process, or what it was before, holds a message of somebody else.
    pub(crate) fn holds(&self, origin: Incarnation, sequence: u64) -> bool {
        let streams = [Some((self.member.as_ref().map_or(0, MemberRules::incarnation), &self.stream))].into_iter();
        let streams = streams.chain([self.former.as_ref().map(|(was, stream)| (*was, stream))]).flatten();
        streams.filter(|(of, _)| *of != origin).any(|(_, stream)| stream.holds(origin, sequence))
    }

    /// The state, if this is one of the members and has one.
    pub(crate) fn state_of(&self, members: &[Incarnation]) -> Option<&State> {
        let member = self.member.as_ref().and_then(MemberRules::sharing)?;
        let is_in = members.contains(&member.incarnation()) && member.vector().is_some();
        // What waits in the queue is as good as applied, but cannot be compared.
        (is_in && self.stream.tasks.is_empty()).then_some(&self.stream.state)
    }
}

impl World {
    pub(crate) fn start_worker(&mut self) {
        let pid = self.new_pid();
        let process = WorkerProcess {
            term: 0,
            master: None,
            member: None,
            numbers: Numbers::new(),
            stream: Stream::new(0),
            former: None,
            wanted: BTreeMap::new(),
            links: BTreeMap::new(),
            known: BTreeMap::new(),
            dialling: BTreeMap::new(),
            joins: None,
            relayed: BTreeSet::new(),
            dials_again: BTreeMap::new(),
            timer: Now::MAX,
            is_leaving: false,
        };
        self.workers.insert(pid, process);
        self.after(0, pid, Happening::TriesToJoin);
    }

    fn worker(&mut self, pid: Pid) -> &mut WorkerProcess {
        self.workers.get_mut(&pid).expect("only live workers are driven")
    }

    pub(crate) fn happen_to_worker(&mut self, pid: Pid, happening: Happening) {
        match happening {
            Happening::TriesToJoin => match (self.master_address, self.worker(pid).master) {
                (Some(master), None) => self.worker(pid).joins = self.dial(pid, master, None),
                (Some(_), Some(_)) => {}
                (None, _) => self.after(500, pid, Happening::TriesToJoin),
            },
            Happening::NotDialled(None) => self.after(500, pid, Happening::TriesToJoin),
            Happening::NotDialled(Some(peer)) => {
                self.tell_worker(pid, MemberEvent::PeerDown(peer));
                self.after(310, pid, Happening::DialsAgain);
            }
            Happening::DialsAgain => self.dial_peers(pid),
            Happening::Dialled(connection) => self.worker_dialled(pid, connection),
            Happening::Arrives(connection, message) => self.worker_hears(pid, connection, message),
            Happening::ConnectionDown(connection, why) => self.worker_loses(pid, connection, why),
            Happening::Timer(at) if self.worker(pid).timer == at => {
                self.worker(pid).timer = Now::MAX;
                self.dial_peers(pid);
                self.tell_worker(pid, MemberEvent::Tick);
            }
            Happening::Stepped(incarnation) => self.step_is_taken(pid, incarnation),
            Happening::Queued => self.work_on(pid),
            Happening::Relayed(incarnation, peer)
                if self.worker(pid).member.as_ref().is_some_and(|m| m.incarnation() == incarnation) =>
            {
                self.tell_worker(pid, MemberEvent::PeerUp(peer));
            }
            Happening::Computed(incarnation, work)
                if self.worker(pid).member.as_ref().is_some_and(|m| m.incarnation() == incarnation)
                    && self.worker(pid).numbers.is_done(work) =>
            {
                if self.worker(pid).member.as_ref().and_then(MemberRules::rounds).is_some_and(Member::is_waited_for) {
                    self.watch.count("a view waited for steps that were taken alone");
                }
                self.tell_worker(pid, MemberEvent::Computed(work));
            }
            _ => {}
        }
    }

    fn worker_dialled(&mut self, pid: Pid, connection: ConnectionId) {
        // It may have been reset before it was of use.
        let peer = self.worker(pid).dialling.remove(&connection);
        let joins = self.worker(pid).joins.take_if(|joins| *joins == connection).is_some();
        if !self.network.connections.get(&connection).is_some_and(|c| c.is_up) {
            if peer.is_some() || joins {
                self.after(0, pid, Happening::NotDialled(peer));
            }
            return;
        }
        if let Some(peer) = peer {
            let me = self.worker(pid).member.as_ref().map(MemberRules::incarnation);
            if let Some(me) = me.filter(|_| self.worker(pid).wanted.contains_key(&peer)) {
                self.worker(pid).links.insert(peer, connection);
                self.worker(pid).known.insert(connection, peer);
                self.send(connection, pid, Message::PeerHello(me, peer));
                self.tell_worker(pid, MemberEvent::PeerUp(peer));
            }
        } else if !joins {
            // An earlier incarnation wanted it.
            self.reset(connection, "nobody wants it");
        } else if self.worker(pid).master.is_none() && self.worker(pid).member.is_none() {
            let term = self.worker(pid).term;
            self.worker(pid).master = Some(connection);
            self.send(connection, pid, Message::Hello(term));
        }
    }

    fn worker_hears(&mut self, pid: Pid, connection: ConnectionId, message: Message) {
        let from_master = self.worker(pid).master == Some(connection);
        match message {
            Message::Welcome(term, incarnation) if from_master => {
                self.watch.term_seen(self.now, pid, self.workers[&pid].term, term);
                if term < self.worker(pid).term {
                    return self.reset(connection, "an old master");
                }
                let options = MemberOptions {
                    edge_limit: 1500,
                    save_every: self.faults.save_every,
                    overlap: self.faults.overlap,
                    straggler_limit: self.faults.straggler_limit,
                    share: SHARE,
                    max_ahead: self.faults.max_ahead,
                    window_messages: 6,
                    ..MemberOptions::within(SILENCE_LIMIT, 5)
                };
                let mut member = match self.rules {
                    Rules::Rounds => MemberRules::Rounds(Member::new(options, incarnation, term, self.now)),
                    Rules::Sharing => MemberRules::Sharing(sharing::Member::new(options, incarnation, term, self.now)),
                };
                member.plant(self.planted);
                let worker = self.worker(pid);
                worker.term = term;
                worker.member = Some(member);
                worker.numbers = Numbers::new();
                worker.stream = Stream::new(incarnation);
                let was = worker.former.as_ref().map(|(was, _)| *was);
                worker.timer = Now::MAX;
                worker.wanted.clear();
                worker.links.clear();
                worker.known.clear();
                worker.dialling.clear();
                worker.dials_again.clear();
                worker.relayed.clear();
                let slots = self.faults.slots(pid);
                self.tell_worker(pid, MemberEvent::DataRead { data: DATA, address: pid.to_string(), was, slots });
            }
            Message::ToMember(term, said) if from_master => self.tell_worker(pid, MemberEvent::MasterSaid(term, said)),
            Message::StateFromMaster(round, state) if from_master => {
                self.worker(pid).stream.came = Some(state.clone());
                self.worker(pid).numbers.fetch_state(round, state);
                self.tell_worker(pid, MemberEvent::StateFromMaster(round));
            }
            Message::Relayed(peer, said, carried) if from_master => {
                self.take_carried(pid, peer, &said, carried);
                self.tell_worker(pid, MemberEvent::PeerSaid(peer, said));
            }
            Message::PeerHello(peer, to) => {
                if self.worker(pid).member.as_ref().is_some_and(|m| m.incarnation() == to) {
                    self.worker(pid).links.insert(peer, connection);
                    self.worker(pid).known.insert(connection, peer);
                    self.tell_worker(pid, MemberEvent::PeerUp(peer));
                } else {
                    self.reset(connection, "no such member here");
                }
            }
            Message::Peer(said, carried) => {
                let peer = self.worker(pid).known.get(&connection).copied();
                if let Some(peer) = peer {
                    // The connection that something arrives on stands; another one may be half open.
                    self.worker(pid).links.insert(peer, connection);
                    self.take_carried(pid, peer, &said, carried);
                    self.tell_worker(pid, MemberEvent::PeerSaid(peer, said));
                }
            }
            _ => {}
        }
    }

    fn take_carried(&mut self, pid: Pid, peer: Incarnation, said: &ToPeer, carried: Carried) {
        let WorkerProcess { numbers, stream, .. } = self.worker(pid);
        match (said, carried) {
            (ToPeer::Sharing(PeerWord::Snapshot { .. }), Carried::State(state)) => stream.came = Some(state),
            (ToPeer::Sharing(_), Carried::Update(update)) => stream.arrived = Some(update),
            (ToPeer::Contribution { view, round }, Carried::Contribution(part)) => {
                numbers.take((*view, *round, peer), part)
            }
            (ToPeer::Reduced { view, round }, Carried::Values(sum)) => numbers.take_sum((*view, *round, peer), sum),
            (ToPeer::Result { round }, Carried::Values(result)) => numbers.fetch_result(*round, result),
            (ToPeer::State { round }, Carried::State(state)) => numbers.fetch_state(*round, state),
            _ => {}
        }
    }

    fn worker_loses(&mut self, pid: Pid, connection: ConnectionId, why: &'static str) {
        if self.worker(pid).master == Some(connection) {
            self.worker(pid).master = None;
            if self.worker(pid).member.is_some() {
                self.tell_worker(pid, MemberEvent::MasterLost(why.into()));
            } else {
                self.after(300, pid, Happening::TriesToJoin);
            }
            return;
        }
        let peer = self.worker(pid).links.iter().find(|(_, id)| **id == connection).map(|(peer, _)| *peer);
        if let Some(peer) = peer {
            self.worker(pid).links.remove(&peer);
            self.tell_worker(pid, MemberEvent::PeerDown(peer));
            self.dial_peers(pid);
        }
    }

    /// Of two members the later one dials.
    fn dial_peers(&mut self, pid: Pid) {
        let now = self.now;
        let worker = self.worker(pid);
        let Some(me) = worker.member.as_ref().map(MemberRules::incarnation) else { return };
        let missing: Vec<(Incarnation, Pid)> = worker
            .wanted
            .iter()
            .filter(|(peer, _)| **peer < me && !worker.links.contains_key(peer))
            .filter(|(peer, _)| worker.dials_again.get(peer).is_none_or(|at| now >= *at))
            .map(|(peer, at)| (*peer, *at))
            .collect();
        for (peer, at) in missing {
            self.worker(pid).dials_again.insert(peer, now + 300);
            if let Some(id) = self.dial(pid, at, Some(peer)) {
                self.worker(pid).dialling.insert(id, peer);
            }
        }
    }

    pub(crate) fn tell_worker(&mut self, pid: Pid, event: MemberEvent) {
        let now = self.now;
        let Some(member) = &mut self.worker(pid).member else { return };
        let actions = member.handle(event, now);
        let (kept, lease) = (member.history_kept(), member.lease_until());
        // Messages are kept of every origin, and of a few that are lost.
        let origins = if self.rules == Rules::Sharing { self.worker(pid).wanted.len() + 5 } else { 1 };
        let held = self.worker(pid).numbers.held();
        self.watch.queues(now, "rounds or messages of an origin", kept / origins);
        self.watch.queues(now, "buffers", held / self.faults.workers.max(1) as usize / 4);
        for action in actions {
            if self.dead.contains(&pid) || self.watch.violation.is_some() {
                return;
            }
            self.say(|| format!("  worker {pid}: {action:?}"));
            let works = |act: &Act| matches!(act, Act::Step { spans, .. } if !spans.is_empty());
            let is_work = matches!(action, MemberAction::Compute { .. })
                || matches!(&action, MemberAction::Sharing(act) if works(act));
            if is_work {
                self.watch.may_work(now, pid, lease);
            }
            if let Err(violation) = self.carry_out_for_worker(pid, action) {
                self.watch.fail(now, format!("worker {pid}: {violation}"));
            }
        }
    }

    fn carry_out_for_worker(&mut self, pid: Pid, action: MemberAction) -> Result<(), String> {
        let me = self.worker(pid).member.as_ref().map_or(0, MemberRules::incarnation);
        match action {
            MemberAction::Sharing(act) => self.act_for_worker(pid, me, act)?,
            MemberAction::Tell(message) => self.say_to_master(pid, Message::ToMaster(message)),
            MemberAction::AskMasterForState(round) => self.say_to_master(pid, Message::WantState(round)),
            MemberAction::Ask(peer, message) => self.say_to_peer(pid, peer, message, Carried::None),
            MemberAction::Connect(peers) => {
                let (relayed, peers): (Vec<_>, Vec<_>) =
                    peers.into_iter().partition(|(_, at)| at == THROUGH_THE_MASTER);
                self.worker(pid).wanted = peers.iter().map(|(peer, at)| (*peer, at.parse().unwrap_or(0))).collect();
                self.worker(pid).relayed = relayed.iter().map(|(peer, _)| *peer).collect();
                for (peer, _) in &peers {
                    if !self.worker(pid).links.contains_key(peer) {
                        self.tell_later(pid, *peer);
                    }
                }
                self.dial_peers(pid);
                relayed.into_iter().for_each(|(peer, _)| self.after(0, pid, Happening::Relayed(me, peer)));
            }
            MemberAction::Compute { work, round, steps, course, .. } => {
                if self.faults.kills(steps.epoch, &steps.slice.concat()) {
                    self.watch.count("an example killed its worker");
                    self.lose_worker(pid);
                    return Ok(());
                }
                let numbers = &mut self.worker(pid).numbers;
                match course {
                    Course::Contributed => numbers.compute(round, &steps),
                    Course::Ahead => numbers.compute_ahead(work, round, &steps),
                    Course::Alone => numbers.compute_alone(work, round, &steps),
                }
                // Whoever has nothing to compute is not slow.
                let delay = if steps.is_empty() { 1 } else { self.faults.computes_for(&mut self.random, self.now) };
                self.after(delay, pid, Happening::Computed(me, work));
            }
            MemberAction::Contribute { to, view, round, part, parts } => {
                let contribution = self.worker(pid).numbers.part(round, part, parts)?;
                if to == me {
                    self.worker(pid).numbers.take((view, round, me), contribution);
                } else {
                    self.say_to_peer(
                        pid,
                        to,
                        ToPeer::Contribution { view, round },
                        Carried::Contribution(contribution),
                    );
                }
            }
            MemberAction::Sum { view, round, members } => self.worker(pid).numbers.sum(me, view, round, &members)?,
            MemberAction::Distribute { to, view, round } => {
                if let Some(sum) = self.worker(pid).numbers.own_sum(me, view, round) {
                    self.say_to_peer(pid, to, ToPeer::Reduced { view, round }, Carried::Values(sum));
                }
            }
            MemberAction::DropAhead => {
                self.watch.count("what was computed ahead was dropped");
                self.worker(pid).numbers.drop_ahead();
            }
            MemberAction::Apply { view, round, members, .. } => {
                self.worker(pid).numbers.apply(view, round, &members)?;
                if let Some(work) = self.worker(pid).numbers.caught_up(round) {
                    self.watch.count("a round was computed before the one before was summed");
                    self.after(0, pid, Happening::Computed(me, work));
                }
            }
            MemberAction::ApplyFetched(round, _) => {
                self.watch.count("a result was fetched from a survivor");
                self.worker(pid).numbers.apply_fetched(round)?;
            }
            MemberAction::Adopt(round) => self.worker(pid).numbers.adopt(round)?,
            MemberAction::ServeResult(peer, round) => {
                let result = self.worker(pid).numbers.result(round);
                let result =
                    result.ok_or_else(|| format!("the result of round {round} was asked for and is not kept"))?;
                self.say_to_peer(pid, peer, ToPeer::Result { round }, Carried::Values(result));
            }
            MemberAction::ServeState(peer, round) => {
                let state = self.worker(pid).numbers.state.clone();
                self.say_to_peer(pid, peer, ToPeer::State { round }, Carried::State(state));
                if self.faults.donor_dies(&mut self.random, self.now) {
                    self.watch.count("a donor died");
                    self.lose_worker(pid);
                }
            }
            MemberAction::SaveState(round, rest) => {
                let state = self.worker(pid).numbers.state.clone();
                self.say_to_master(pid, Message::SaveState(round, rest, state));
                if self.faults.saver_dies(&mut self.random, self.now) {
                    self.watch.count("a worker died when it had sent its state to the master");
                    self.lose_worker(pid);
                }
            }
            MemberAction::Forget(view, round) => self.worker(pid).numbers.forget(view, round),
            MemberAction::SetTimer(at) => {
                if at < self.worker(pid).timer {
                    self.worker(pid).timer = at;
                    let late = if self.random.one_in(10) { self.random.within(0, 200) } else { 0 };
                    self.at(at.max(self.now) + late, pid, Happening::Timer(at));
                }
            }
            MemberAction::End { rejoin, .. } => self.worker_over(pid, rejoin),
        }
        Ok(())
    }

    /// A peer without a link is down until one stands.
    fn tell_later(&mut self, pid: Pid, peer: Incarnation) {
        self.after(0, pid, Happening::NotDialled(Some(peer)));
    }

    fn worker_over(&mut self, pid: Pid, rejoin: bool) {
        let worker = self.worker(pid);
        let was = worker.member.take().map(|member| member.incarnation());
        worker.former = was.map(|was| (was, std::mem::replace(&mut worker.stream, Stream::new(0))));
        worker.wanted.clear();
        let links: Vec<ConnectionId> =
            std::mem::take(&mut worker.links).into_values().chain(worker.master.take()).collect();
        let is_leaving = worker.is_leaving;
        for link in links {
            self.reset(link, "it went");
        }
        if rejoin && !is_leaving {
            self.watch.count("a worker came back as another incarnation");
            self.after(100, pid, Happening::TriesToJoin);
        } else {
            self.dead.insert(pid);
            let delay = self.random.within(100, 3000);
            self.after(delay, 0, Happening::StartWorker);
        }
    }

    pub(crate) fn ask_to_leave(&mut self, pid: Pid) {
        self.worker(pid).is_leaving = true;
        self.tell_worker(pid, MemberEvent::AskedToLeave);
    }

    /// A worker dies; another one starts some time later.
    pub(crate) fn lose_worker(&mut self, pid: Pid) {
        let is_silent = self.random.one_in(4);
        self.kill(pid, is_silent);
        let delay = self.random.within(100, 3000);
        self.after(delay, 0, Happening::StartWorker);
    }

    pub(crate) fn say_to_master(&mut self, pid: Pid, message: Message) {
        if let Some(connection) = self.worker(pid).master {
            self.send(connection, pid, message);
        }
    }

    pub(crate) fn say_to_peer(&mut self, pid: Pid, peer: Incarnation, message: ToPeer, carried: Carried) {
        if self.worker(pid).relayed.contains(&peer) {
            self.say_to_master(pid, Message::Relay(peer, message, carried));
        } else if let Some(connection) = self.worker(pid).links.get(&peer).copied() {
            self.send(connection, pid, Message::Peer(message, carried));
        }
    }
}
