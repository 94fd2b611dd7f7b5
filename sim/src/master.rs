//! The driver of a master in the simulator.

use std::collections::BTreeMap;

use paceline_exchange::MasterRules;
use paceline_exchange::Planted;
use paceline_exchange::rounds::message::DataProof;
use paceline_exchange::rounds::{
    Incarnation, Master, MasterAction, MasterEvent, MasterOptions, Now, Round, Schedule, StepSize, Told,
};
use paceline_exchange::sharing::{self, SharingOptions};

use crate::network::{ConnectionId, Message, Pid};
use crate::numbers::State;
use crate::worker::WorkerProcess;
use crate::world::{Disk, Happening, Rules, World};

/// What every worker of a history has.
pub(crate) const DATA: DataProof = DataProof { examples: 7, fingerprint: 7 };
pub(crate) const SILENCE_LIMIT: Now = 2000;
/// Examples of a step in `shared`.
pub(crate) const SHARE: StepSize = StepSize::Each(2);

#[derive(Clone, Debug)]
pub(crate) struct MasterProcess {
    pub(crate) machine: MasterRules,
    members: BTreeMap<Incarnation, ConnectionId>,
    states: BTreeMap<Round, (State, Schedule)>,
    /// What members without state start from: the checkpoint that this master began with or wrote last.
    checkpoint: (Round, State),
    timer: Now,
}

impl World {
    pub(crate) fn start_master(&mut self) {
        let pid = self.new_pid();
        if self.planted != Some(Planted::TakesTheSameTermAgain) || self.disk.term == 0 {
            self.disk.term += 1;
        }
        let options = MasterOptions {
            min_workers: self.faults.min_workers,
            silence_limit: SILENCE_LIMIT,
            waiting_limit: 100_000,
            waiting_told_every: 5000,
            stops_on_poison: false,
            overlap: self.faults.overlap,
            data: DATA,
        };
        let Disk { term, round, rest, .. } = self.disk.clone();
        let mut machine = match self.rules {
            Rules::Rounds => MasterRules::Rounds(Master::new(options, term, round, rest, self.now)),
            Rules::Sharing => {
                let save_every = self.faults.save_every.map(|every| every * 3);
                let sharing = SharingOptions { share: SHARE, steps_per_lease: 4, save_every };
                MasterRules::Sharing(sharing::Master::new(options, sharing, term, round, rest, self.now))
            }
        };
        machine.plant(self.planted);
        self.watch.master_began(self.now, self.disk.term, self.disk.round);
        let checkpoint = (self.disk.round, self.disk.state.clone());
        let process =
            MasterProcess { machine, members: BTreeMap::new(), states: BTreeMap::new(), checkpoint, timer: Now::MAX };
        self.masters.insert(pid, process);
        self.master_address = Some(pid);
        self.tell_master(pid, MasterEvent::Tick);
    }

    fn master(&mut self, pid: Pid) -> &mut MasterProcess {
        self.masters.get_mut(&pid).expect("only live masters are driven")
    }

    pub(crate) fn happen_to_master(&mut self, pid: Pid, happening: Happening) {
        match happening {
            Happening::Arrives(connection, message) => self.master_hears(pid, connection, message),
            Happening::ConnectionDown(connection, why) => {
                if let Some(member) = self.member_at(pid, connection) {
                    self.tell_master(pid, MasterEvent::LinkLost(member, why.into()));
                }
            }
            Happening::Timer(at) if self.master(pid).timer == at => {
                self.master(pid).timer = Now::MAX;
                // Whoever has been succeeded learns it from the coordinator, sooner or later.
                if self.master(pid).machine.term() < self.disk.term {
                    self.watch.count("an old master learnt that it was succeeded");
                    return self.kill(pid, false);
                }
                self.tell_master(pid, MasterEvent::Tick);
            }
            _ => {}
        }
    }

    fn member_at(&mut self, pid: Pid, connection: ConnectionId) -> Option<Incarnation> {
        self.master(pid).members.iter().find(|(_, id)| **id == connection).map(|(member, _)| *member)
    }

    fn master_hears(&mut self, pid: Pid, connection: ConnectionId, message: Message) {
        let term = self.master(pid).machine.term();
        let member = self.member_at(pid, connection);
        match (message, member) {
            (Message::Hello(known), _) => {
                // A worker that has seen a newer master knows more than this one.
                if known > term {
                    return self.reset(connection, "the master is out of office");
                }
                let member = self.next_incarnation;
                self.next_incarnation += 1;
                self.master(pid).members.insert(member, connection);
                self.send(connection, pid, Message::Welcome(term, member));
                self.tell_master(pid, MasterEvent::Joined(member));
            }
            (Message::ToMaster(said), Some(member)) => self.tell_master(pid, MasterEvent::Said(member, said)),
            (Message::Relay(to, said, carried), Some(member)) => {
                if let Some(connection) = self.master(pid).members.get(&to).copied() {
                    self.watch.count("the master carried what two workers say");
                    self.send(connection, pid, Message::Relayed(member, said, carried));
                }
            }
            (Message::WantState(round), Some(_)) => {
                let (of, state) = self.master(pid).checkpoint.clone();
                if of == round {
                    self.send(connection, pid, Message::StateFromMaster(round, state));
                }
            }
            (Message::SaveState(round, rest, state), Some(member)) => {
                self.master(pid).states.insert(round, (state, rest.clone()));
                self.tell_master(pid, MasterEvent::StateArrived(member, round, rest));
            }
            (Message::SaveShared { view, epoch, vector, round, state }, Some(member)) => {
                let rest = self.disk.rest.clone();
                self.master(pid).states.insert(round, (state, rest));
                self.tell_master(pid, MasterEvent::SharedStateArrived { member, view, epoch, round, vector });
            }
            _ => {}
        }
    }

    pub(crate) fn tell_master(&mut self, pid: Pid, event: MasterEvent) {
        let now = self.now;
        let actions = self.master(pid).machine.handle(event, now);
        let kept = self.master(pid).machine.history_kept();
        self.watch.queues(now, "plans", kept);
        for action in actions {
            if self.dead.contains(&pid) || self.watch.violation.is_some() {
                return;
            }
            // A crash can come between any two actions.
            if self.faults.crashes_between_actions(&mut self.random, self.now) {
                self.watch.count("master crashed between two actions");
                self.lose_master(pid);
                return;
            }
            self.say(|| format!("  master {pid}: {action:?}"));
            self.carry_out_for_master(pid, action);
        }
    }

    fn carry_out_for_master(&mut self, pid: Pid, action: MasterAction) {
        let term = self.master(pid).machine.term();
        match action {
            MasterAction::Send(member, message) => {
                if let Some(connection) = self.master(pid).members.get(&member).copied() {
                    self.send(connection, pid, Message::ToMember(term, message));
                }
            }
            // The connection stays until the member goes, so that what was said last arrives.
            MasterAction::Close(member) => drop(self.master(pid).members.remove(&member)),
            MasterAction::Persist { round, rest } => self.persist(pid, round, rest),
            MasterAction::Discard(round) => {
                self.master(pid).states.remove(&round);
            }
            MasterAction::SetTimer(at) => {
                if at < self.master(pid).timer {
                    self.master(pid).timer = at;
                    // Timers ring late now and then.
                    let late = if self.random.one_in(10) { self.random.within(0, 200) } else { 0 };
                    self.at(at.max(self.now) + late, pid, Happening::Timer(at));
                }
            }
            MasterAction::Tell(told) => self.hear_told(pid, told),
            MasterAction::End(error) => {
                if term == self.disk.term {
                    let (round, state) = (self.disk.round, self.disk.state.clone());
                    let process = self.master(pid);
                    let is_here = |member: &&Incarnation| process.members.contains_key(member);
                    let members: Vec<_> = process.machine.view().1.iter().filter(is_here).copied().collect();
                    self.watch.ended(self.now, error, round, &state);
                    if self.rules == Rules::Sharing {
                        let live = self.workers.iter().filter(|(pid, _)| !self.dead.contains(pid));
                        let states = live.filter_map(|(_, worker)| worker.state_of(&members)).collect();
                        self.watch.all_hold_the_same(self.now, states);
                    }
                    self.has_ended = true;
                } else {
                    self.kill(pid, false);
                }
            }
        }
    }

    fn persist(&mut self, pid: Pid, round: Round, rest: Schedule) {
        let term = self.master(pid).machine.term();
        let Some((state, _)) = self.master(pid).states.remove(&round) else {
            return self
                .watch
                .fail(self.now, format!("the state of round {round} was to be published, but is not there"));
        };
        // Publishing is a compare-and-set on the term: a master that was succeeded is refused and goes.
        if term < self.disk.term {
            self.watch.count("an old master was fenced");
            self.kill(pid, false);
            return;
        }
        match self.rules {
            Rules::Rounds => self.watch.published(self.now, round, &state, &rest),
            Rules::Sharing => self.watch.shared_published(self.now, round, &state, &rest),
        }
        self.disk.round = round;
        self.disk.state = state.clone();
        self.disk.rest = rest;
        self.master(pid).checkpoint = (round, state);
        self.tell_master(pid, MasterEvent::Persisted(round));
    }

    fn hear_told(&mut self, pid: Pid, told: Told) {
        // Only what the newest master says is the run's; an old one is refused when it publishes.
        if self.master(pid).machine.term() != self.disk.term || self.master_address != Some(pid) {
            return;
        }
        if let Told::Counted { round, .. } = &told {
            let members = self.master(pid).machine.view().1.to_vec();
            let ways = self.workers.values().filter_map(|worker| worker.way_of(&members, *round)).collect();
            self.watch.same_way(self.now, *round, ways);
        }
        if let Told::Shared { member, epoch, spans, .. } = &told {
            let last = spans.last().map(|span| (*epoch, span.end - 1));
            if let Some(sequence) = last.and_then(|place| self.watch.message_about(*member, place)) {
                let holds = |worker: &WorkerProcess| worker.holds(*member, sequence);
                let in_state = |(state, _): &(State, Schedule)| state.applied.get(member) >= Some(&sequence);
                let is_held = self.workers.values().any(holds) || self.master(pid).states.values().any(in_state);
                // Who held it may just have been lost: what nobody holds when its origin is lost too is taken back then.
                if !is_held && self.master(pid).machine.phase() == "running" {
                    self.watch
                        .fail(self.now, format!("message {sequence} of {member} counts, but nobody else holds it"));
                }
            }
        }
        self.watch.hear(self.now, &told);
    }

    /// A master dies; another one starts some time later.
    pub(crate) fn lose_master(&mut self, pid: Pid) {
        let is_silent = self.random.one_in(4);
        self.kill(pid, is_silent);
        if self.master_address == Some(pid) {
            self.master_address = None;
            let delay = self.random.within(50, 4000);
            self.after(delay, 0, Happening::StartMaster);
        }
    }
}
