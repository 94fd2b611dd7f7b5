//! What a worker hears over its links.

use std::time::Duration;

use paceline_exchange::rounds::{Member, MemberEvent};
use paceline_exchange::{Bulk, Frame, MemberRules, Planted, sharing};

use super::WorkerEvent;
use super::host::WorkerHost;
use super::links::Links;
use super::membership::{Ended, LastRun, Membership};
use super::rounds::Rounds;
use crate::names::name_of;
use crate::transport::{LinkId, TransportEvent};
use crate::trust::{MemberIdentity, Proof, TOKENS, Trust};
use crate::wire::{PROTOCOL, Purpose, Word};
use crate::{ClusterError, door};

impl Membership {
    pub(super) fn happen(&mut self, event: TransportEvent, host: &mut dyn WorkerHost) -> Result<(), ClusterError> {
        match event {
            TransportEvent::Opened { link } if link == self.master => {
                host.links().admit(link);
                // Members have certificates of the same authority.
                if self.expects_master && host.links().proof(link) != Proof::Master {
                    self.ended = Some(Ended::NotFound("it is a member of the run and not its master".into()));
                    return Ok(());
                }
                self.nonce = host.nonce()?;
                let (nonce, program) = (self.nonce.clone(), env!("CARGO_PKG_VERSION").to_owned());
                let LastRun { run: known_run, term: known_term } = self.last_run;
                let (version, host_name, purpose) = (PROTOCOL, host.machine(), Purpose::Train);
                let hello = Word::Hello { nonce, known_run, known_term, version, program, host: host_name, purpose };
                self.send(self.master, &hello, host);
            }
            TransportEvent::Opened { link } => {
                if let Some(peer) = self.links.opened(link) {
                    host.links().admit(link);
                    let from = self.me();
                    self.send(link, &Word::PeerHello { from, to: peer }, host);
                    self.feed(MemberEvent::PeerUp(peer), host);
                }
            }
            TransportEvent::Frame { link, frame } => self.hear(link, &frame, host)?,
            TransportEvent::Closed { link, reason } if link == self.master => {
                if self.member.is_some() {
                    self.feed(MemberEvent::MasterLost(reason), host);
                } else {
                    self.ended = Some(Ended::NotFound(reason));
                }
            }
            TransportEvent::Closed { link, .. } => {
                if let Some(peer) = self.links.closed(link) {
                    self.feed(MemberEvent::PeerDown(peer), host);
                }
            }
            TransportEvent::Arriving { link } => {
                let from = if link == self.master { Some(None) } else { self.links.heard(link).map(Some) };
                if let Some(from) = from {
                    self.feed(MemberEvent::Arriving(from), host);
                }
            }
            // A full queue: a round has at most a few frames under way, so the link is as good as down.
            TransportEvent::Accepted { .. } | TransportEvent::Writable { .. } => {}
        }
        Ok(())
    }

    /// Both know the token, and neither shows it.
    fn answer(&mut self, nonce: &str, proof: &str, host: &mut dyn WorkerHost) {
        let binding = host.links().binding(self.master);
        match door::answer(self.setup.token.as_ref(), &self.nonce, nonce, proof, &binding) {
            Ok((answer, is_master_proved)) => {
                self.is_master_proved |= is_master_proved;
                self.send(self.master, &answer, host);
            }
            Err(reason) => self.ended = Some(Ended::Refused(reason)),
        }
    }

    pub(super) fn hear(&mut self, link: LinkId, frame: &Frame, host: &mut dyn WorkerHost) -> Result<(), ClusterError> {
        let (word, numbers) = match Word::read(frame) {
            Ok(read) => read,
            Err(error) => {
                host.links().close(link, &error.to_string());
                return Ok(());
            }
        };
        if link == self.master {
            return self.hear_master(frame, word, &numbers, host);
        }
        if frame.run != self.run {
            host.links().close(link, "it belongs to another run");
            return Ok(());
        }
        match word {
            Word::PeerHello { from, to } => {
                // With TLS, the certificate says who it is.
                let is_itself = match host.links().proof(link) {
                    Proof::Member { incarnation } => incarnation == from,
                    _ => !self.is_encrypted,
                };
                if self.member.is_some() && to == self.me() && is_itself {
                    host.links().admit(link);
                    self.links.identify(link, from);
                    self.feed(MemberEvent::PeerUp(from), host);
                } else {
                    host.links().close(link, "no such member here");
                }
            }
            Word::ToPeer(said) => {
                if let Some(peer) = self.links.heard(link) {
                    match self.take_numbers(peer, &said, &numbers, host) {
                        Ok(true) => self.feed(MemberEvent::PeerSaid(peer, said), host),
                        Ok(false) => {}
                        Err(reason) => host.links().close(link, &reason),
                    }
                }
            }
            _ => host.links().close(link, "expected a word between members"),
        }
        Ok(())
    }

    pub(super) fn hear_master(
        &mut self,
        frame: &Frame,
        word: Word,
        numbers: &Bulk,
        host: &mut dyn WorkerHost,
    ) -> Result<(), ClusterError> {
        match word {
            Word::Challenge { nonce, proof } if self.member.is_none() => self.answer(&nonce, &proof, host),
            Word::Welcome { .. } if self.setup.token.is_some() && !self.is_master_proved => {
                self.ended = Some(Ended::Refused(format!("it has no token, but this worker has one; {TOKENS}")));
            }
            Word::Welcome { incarnation, job, mut options, is_shared, identity } if self.member.is_none() => {
                if !Planted::GivesASilentMasterUp.is(self.setup.planted) {
                    options.patience = self.setup.patience;
                }
                let is_known = frame.run == self.last_run.run;
                if is_known && frame.term < self.last_run.term {
                    self.ended = Some(Ended::NotFound(format!(
                        "it rules term {}, but a newer master of term {} was seen",
                        frame.term, self.last_run.term
                    )));
                    return Ok(());
                }
                if !is_known && self.last_run.run != 0 {
                    // Messages of the run before mean nothing to this one.
                    self.former = None;
                    host.tell(&WorkerEvent::OtherRun { master: self.address.clone() });
                }
                (self.run, self.term) = (frame.run, frame.term);
                host.links().set_silence(Duration::from_millis(options.silence_limit));
                self.is_encrypted = identity.is_some();
                if let Some(identity) = identity {
                    show(&identity, host)?;
                }
                self.links = Links::new(incarnation);
                let (term, now) = (frame.term, host.now());
                let mut member = match is_shared {
                    true => MemberRules::Sharing(sharing::Member::new(options, incarnation, term, now)),
                    false => MemberRules::Rounds(Member::new(options, incarnation, term, now)),
                };
                member.plant(self.setup.planted);
                host.record().member(&member);
                self.member = Some(member);
                if let Some(whereabouts) = host.whereabouts() {
                    self.send(self.master, &Word::Whereabouts(whereabouts), host);
                }
                if let Some(still) = self.stood_still.take() {
                    self.send(self.master, &Word::StoodStill(still), host);
                }
                host.tell(&WorkerEvent::Joined {
                    master: self.address.clone(),
                    worker: name_of(&host.machine(), incarnation),
                    job: job.name.clone(),
                });
                // Data that was read for the last incarnation is good for this one if the job is the same.
                match self.job.want(job, host) {
                    true => self.begin_to_work(host),
                    false if self.job.ready.is_none() => self.former = None,
                    false => {}
                }
            }
            Word::Renewed { identity } if self.is_encrypted => show(&identity, host)?,
            Word::Refused { reason } => self.ended = Some(Ended::Refused(reason)),
            Word::ToMember(said) => {
                self.feed(MemberEvent::MasterSaid(frame.term, said), host);
            }
            Word::Relayed { from, said } => match self.take_numbers(from, &said, numbers, host) {
                Ok(true) => self.feed(MemberEvent::PeerSaid(from, said), host),
                Ok(false) => {}
                Err(reason) => host.links().close(self.master, &reason),
            },
            Word::State { round } => {
                self.fetched_state = Some((round, numbers.clone()));
                self.feed(MemberEvent::StateFromMaster(round), host);
            }
            _ => {}
        }
        Ok(())
    }

    /// The data is read: the rules hear of it.
    pub(super) fn begin_to_work(&mut self, host: &mut dyn WorkerHost) {
        let Some(ready) = &self.job.ready else { return };
        let (data, was) = (ready.brings.clone(), self.former.as_ref().map(|former| former.incarnation));
        self.rounds = Some(Rounds::new(ready.layout));
        let address = host.links().local_address().to_owned();
        let slots = self.setup.slots;
        self.feed(MemberEvent::DataRead { data, address, was, slots }, host);
    }
}

/// New links show this certificate, and trust others of its run.
fn show(identity: &[u8], host: &mut dyn WorkerHost) -> Result<(), ClusterError> {
    host.links().set_trust(Trust::member(&MemberIdentity::from_bytes(identity)?)?);
    Ok(())
}
