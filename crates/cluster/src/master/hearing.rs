//! What a master hears over its links.

use paceline_exchange::rounds::message::{ToMaster, ToMember};
use paceline_exchange::rounds::{Incarnation, MasterEvent};
use paceline_exchange::{Bulk, Frame, Planted};
use paceline_train::{Event, ReplicaMode, Spent};

use super::host::MasterHost;
use super::term::{Known, Term};
use crate::ClusterError;
use crate::names::host_name;
use crate::transport::{LinkId, TransportEvent};
use crate::trust::TOKENS;
use crate::wire::{PROTOCOL, Purpose, Version, Word};

impl Term {
    pub(super) fn happen(&mut self, event: TransportEvent, host: &mut dyn MasterHost) -> Result<(), ClusterError> {
        match event {
            TransportEvent::Frame { link, frame } => self.hear(link, &frame, host)?,
            TransportEvent::Arriving { link } => {
                if let Some(member) = self.links.get(&link).copied() {
                    self.feed(MasterEvent::Arriving(member), host)?;
                }
            }
            TransportEvent::Closed { link, reason } => {
                self.door.forget(link);
                if let Some(member) = self.links.remove(&link) {
                    let reason = self.why_gone(member, reason, host);
                    self.feed(MasterEvent::LinkLost(member, reason), host)?;
                }
            }
            TransportEvent::Accepted { .. } | TransportEvent::Opened { .. } | TransportEvent::Writable { .. } => {}
        }
        Ok(())
    }

    /// Why a link has ended: the kernel may have killed whoever was there.
    fn why_gone(&mut self, member: Incarnation, reason: String, host: &mut dyn MasterHost) -> String {
        let known = self.members.get_mut(&member).and_then(|known| known.whereabouts.as_mut());
        let Some(killed) = known.and_then(|at| host.was_killed(at).then(|| at.clone())) else { return reason };
        // One counter counts for all of a group.
        self.members.values_mut().filter_map(|known| known.whereabouts.as_mut()).for_each(|at| at.knows(&killed));
        format!("the kernel has killed it because its machine or control group is out of memory ({reason})")
    }

    fn hear(&mut self, link: LinkId, frame: &Frame, host: &mut dyn MasterHost) -> Result<(), ClusterError> {
        let (word, numbers) = match Word::read(frame) {
            Ok(read) => read,
            Err(error) => {
                host.links().close(link, &error.to_string());
                return Ok(());
            }
        };
        let Some(member) = self.links.get(&link).copied() else {
            return match word {
                // Whoever comes for the next phase comes too early: it tries again until that is there.
                Word::Hello { .. } if self.ended.is_some() && self.setup.rules.goes_on => {
                    host.links().close(link, "this phase of the run has ended, and the next one has not begun");
                    Ok(())
                }
                Word::Hello { nonce, known_run, known_term, version, program, host: machine, purpose } => {
                    match self.refusal((known_run, known_term), version, &program, purpose) {
                        Some(reason) => {
                            self.refuse(link, &reason, host);
                            Ok(())
                        }
                        None if self.setup.token.is_some() => self.challenge(link, nonce, machine, host),
                        None => self.welcome(link, &machine, host),
                    }
                }
                Word::Prove { proof } => self.hear_proof(link, &proof, host),
                _ => {
                    host.links().close(link, "expected a worker that says hello");
                    Ok(())
                }
            };
        };
        if frame.run != self.record.run || frame.term != self.record.term {
            // Of another run or an older term: nothing that it says counts here.
            return Ok(());
        }
        match word {
            Word::ToMaster(said) => {
                if let ToMaster::Ready { address, slots, .. } = &said
                    && let Some(known) = self.members.get_mut(&member)
                {
                    known.address.clone_from(address);
                    known.slots = *slots;
                }
                self.feed(MasterEvent::Said(member, said), host)?;
            }
            Word::Relay { .. } if Planted::LosesWhatItRelays.is(self.setup.planted) => {}
            Word::Relay { to, said } => {
                if let Some(link) = self.members.get(&to).map(|known| known.link) {
                    self.send_beside(link, &Word::Relayed { from: member, said }, &numbers, host);
                }
            }
            Word::WantState { round } => {
                let held = self.being_saved.iter().chain([&self.checkpoint]).find(|(of, _)| *of == round);
                if let Some((_, state)) = held.cloned() {
                    self.send_beside(link, &Word::State { round }, &state, host);
                }
            }
            Word::SaveState { round, rest } => {
                self.states.insert(round, numbers);
                self.feed(MasterEvent::StateArrived(member, round, rest), host)?;
            }
            Word::SaveShared { view, epoch, vector, round } => {
                self.states.insert(round, numbers);
                self.feed(MasterEvent::SharedStateArrived { member, view, epoch, round, vector }, host)?;
            }
            Word::Report { loss, weight, bytes_sent, traffic, spent } => {
                self.tally.report(loss, weight, bytes_sent);
                if let Some(spent) = spent {
                    self.take_spent(member, &spent, host);
                }
                if let (Some(known), Some(traffic)) = (self.members.get_mut(&member), traffic) {
                    known.traffic = Some(traffic);
                    let (worker, epoch, iteration) = (self.name(member), self.epoch + 1, self.iteration);
                    let step = iteration.saturating_sub(self.epoch_began_at).max(1);
                    host.tell(&Event::Threshold { worker, epoch, step, iteration, traffic });
                }
            }
            Word::StoodStill(milliseconds) => {
                let (worker, seconds) = (Some(self.name(member)), milliseconds as f64 / 1000.0);
                host.tell(&Event::StoodStill { worker, seconds });
            }
            Word::Whereabouts(whereabouts) => {
                self.members.entry(member).and_modify(|known| known.whereabouts = Some(whereabouts));
            }
            Word::Failed { error } => self.take_failed(member, error, host),
            _ => host.links().close(link, "expected what a member says to its master"),
        }
        Ok(())
    }

    /// What a member's time went into. Steps that are too short for many machines are told, once.
    fn take_spent(&mut self, member: Incarnation, spent: &Spent, host: &mut dyn MasterHost) {
        let (worker, seconds) = (self.name(member), self.tally.seconds(host.now()));
        self.statistics.take(&worker, seconds, spent);
        if !self.told_too_short
            && let Some(message) = self.statistics.too_short(&self.setup.mode)
        {
            self.told_too_short = true;
            host.tell(&Event::Warning { message });
        }
    }

    /// A loss is no number: the best model stands for the run if the job says so, or the run fails.
    fn take_failed(&mut self, member: u64, error: String, host: &mut dyn MasterHost) {
        let reason = if self.judging.forgives_invalid_scores() {
            // Nothing of this state is worth saving.
            self.enough = Some(error);
            self.ended = Some(None);
            "the run has ended".into()
        } else {
            let reason = format!("worker {} cannot go on: {error}", self.name(member));
            self.ended = Some(Some(reason.clone()));
            reason
        };
        let stop = Word::ToMember(ToMember::Stop { reason, rejoin: false });
        let links: Vec<LinkId> = self.members.values().map(|known| known.link).collect();
        links.into_iter().for_each(|link| self.send(link, &stop, host));
    }

    /// Why a stranger is refused, and what to do about it.
    fn refusal(&self, known: (u64, u64), version: Version, program: &str, purpose: Purpose) -> Option<String> {
        let (known_run, known_term) = known;
        let other_version = PROTOCOL.refusal(version, program);
        if other_version.is_some() {
            other_version
        } else if purpose != Purpose::Train {
            Some("it trains a network: lend it cores with `paceline worker --join`".into())
        } else if known_term > self.record.term && [0, self.record.run].contains(&known_run) {
            // The terms of another run say nothing of this one.
            let own = self.record.term;
            Some(format!("it has seen term {known_term}, but this master rules term {own}: another master leads"))
        } else {
            None
        }
    }

    fn refuse(&mut self, link: LinkId, reason: &str, host: &mut dyn MasterHost) {
        self.send(link, &Word::Refused { reason: reason.to_owned() }, host);
        host.links().close(link, reason);
    }

    /// A stranger says hello: both prove that they know the token, this one first.
    fn challenge(
        &mut self,
        link: LinkId,
        of_worker: String,
        machine: String,
        host: &mut dyn MasterHost,
    ) -> Result<(), ClusterError> {
        let (of_master, binding) = (host.nonce()?, host.links().binding(link));
        let Some(token) = &self.setup.token else { return Ok(()) };
        let challenge = self.door.challenge(link, token, (of_worker, machine), of_master, &binding);
        self.send(link, &challenge, host);
        Ok(())
    }

    fn hear_proof(&mut self, link: LinkId, proof: &str, host: &mut dyn MasterHost) -> Result<(), ClusterError> {
        let binding = host.links().binding(link);
        let token = self.setup.token.as_ref();
        if let Some(machine) = token.and_then(|token| self.door.lets_in(link, token, proof, &binding)) {
            return self.welcome(link, &machine, host);
        }
        self.refuse(link, TOKENS, host);
        Ok(())
    }

    /// A stranger becomes an incarnation.
    fn welcome(&mut self, link: LinkId, machine: &str, host: &mut dyn MasterHost) -> Result<(), ClusterError> {
        host.links().admit(link);
        self.joined += 1;
        let incarnation = (self.record.term << 32) | self.joined;
        let welcome = Word::Welcome {
            incarnation,
            job: self.setup.text.clone(),
            options: self.setup.member.clone(),
            is_shared: matches!(self.setup.mode, ReplicaMode::Shared(_)),
            identity: host.certificate(incarnation)?,
        };
        self.members.insert(
            incarnation,
            Known { link, certified: host.now(), whereabouts: None, address: String::new(), slots: 0, traffic: None },
        );
        self.hosts.insert(incarnation, host_name(machine));
        self.links.insert(link, incarnation);
        self.send(link, &welcome, host);
        self.feed(MasterEvent::Joined(incarnation), host)
    }

    /// Members whose certificates grow old get new ones: others must always be able to connect to them.
    pub(super) fn renew_certificates(&mut self, host: &mut dyn MasterHost) -> Result<(), ClusterError> {
        let Some(age) = self.setup.renews_after else { return Ok(()) };
        let now = host.now();
        let is_due = |known: &Known| now >= known.certified + age;
        let due = self.members.iter().filter(|(_, known)| is_due(known)).map(|(member, _)| *member);
        for member in due.collect::<Vec<_>>() {
            let identity = host.certificate(member)?;
            if let (Some(identity), Some(known)) = (identity, self.members.get_mut(&member)) {
                known.certified = now;
                let link = known.link;
                self.send(link, &Word::Renewed { identity }, host);
            }
        }
        Ok(())
    }

    pub(super) fn send(&mut self, link: LinkId, word: &Word, host: &mut dyn MasterHost) {
        self.send_beside(link, word, &Bulk::default(), host);
    }

    /// Sends a word with numbers beside it.
    fn send_beside(&mut self, link: LinkId, word: &Word, numbers: &Bulk, host: &mut dyn MasterHost) {
        self.sequence += 1;
        let frame = word.frame(self.record.run, self.record.term, 0, self.sequence, numbers);
        // What renews a lease must not wait behind a state.
        let sent = match word {
            Word::ToMember(ToMember::Renew { .. }) => host.links().send_first(link, frame),
            _ => host.links().send(link, frame),
        };
        if sent.is_err() {
            host.links().close(link, "its queue is full");
        }
    }
}
