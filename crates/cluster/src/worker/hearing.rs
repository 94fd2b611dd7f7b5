//! What a worker hears over its links.

use bytes::Bytes;
use paceline_exchange::Frame;
use paceline_exchange::rounds::message::ToMember;
use paceline_exchange::rounds::{Member, MemberEvent};
use paceline_exchange::sharing::message::Order;
use paceline_exchange::{MemberRules, sharing};

use super::event_loop::{Ended, EventLoop};
use super::links::Links;
use super::prepare::Prepared;
use super::rounds::Rounds;
use super::{Target, WorkerEvent};
use crate::ClusterError;
use crate::transport::{LinkId, Transport, TransportEvent};
use crate::trust::{MemberIdentity, Proof, Trust};
use crate::wire::{JobText, Word};

impl EventLoop<'_> {
    pub(super) fn happen(
        &mut self,
        event: TransportEvent,
        prepared: &mut Option<Prepared>,
        tell: &mut dyn FnMut(&WorkerEvent),
    ) -> Result<(), ClusterError> {
        match event {
            TransportEvent::Opened { link } if link == self.master => {
                self.transport.admit(link);
                // Members have certificates of the same authority; only the master may see the token.
                if matches!(self.options.target, Target::Join(_)) && self.transport.proof(link) != Proof::Master {
                    self.ended = Some(Ended::NotFound("it is a member of the run and not its master".into()));
                    return Ok(());
                }
                let token = match &self.options.target {
                    Target::Join(join) => Some(join.token.reveal()),
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

    pub(super) fn hear(
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

    pub(super) fn hear_master(
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
    pub(super) fn begin_to_prepare(
        &mut self,
        job: JobText,
        prepared: &mut Option<Prepared>,
    ) -> Result<(), ClusterError> {
        match prepared.take().filter(|prepared| prepared.job == job) {
            Some(ready) => self.take_prepared(ready, prepared),
            None => {
                self.preparing = Some(Prepared::begin(job, self.options.standing_for(), self.options.open.clone())?)
            }
        }
        Ok(())
    }

    pub(super) fn take_prepared(&mut self, ready: Prepared, prepared: &mut Option<Prepared>) {
        let (data, was) = (ready.proof.clone(), ready.former.as_ref().map(|former| former.incarnation));
        self.rounds = Some(Rounds::new(ready.layout));
        *prepared = Some(ready);
        let address = self.transport.local_address().to_owned();
        let slots = self.options.standing_for();
        self.feed(MemberEvent::DataRead { data, address, was, slots }, prepared);
    }
}
