//! Contributions and sums of a round while they become final: a chunk goes out as soon as it is there.

use std::collections::BTreeSet;

use paceline_exchange::rounds::message::ToPeer;
use paceline_exchange::rounds::{Incarnation, Member, Round, WorkNumber};
use paceline_exchange::{Bulk, MemberRules, Paths};

use super::chunks::{Chunk, Head, RoundKey, Whole};
use super::host::WorkerHost;
use super::membership::Membership;
use crate::wire::Word;

/// A round whose parts go out as they become final.
pub(super) struct Flow {
    pub(super) key: RoundKey,
    /// What computes it.
    pub(super) work: WorkNumber,
    pub(super) paths: Paths,
    /// Those who were sent everything so far, on a link that stood all the time.
    pub(super) reached: BTreeSet<Incarnation>,
}

impl Membership {
    /// Takes what came beside a word of a peer. Says whether the rules hear of it: not before all parts of it are here.
    pub(super) fn take_numbers(
        &mut self,
        peer: Incarnation,
        said: &ToPeer,
        numbers: &Bulk,
        host: &mut dyn WorkerHost,
    ) -> Result<bool, String> {
        if let ToPeer::Sharing(word) = said {
            return self.take_beside(word, numbers, host).map(|()| true);
        }
        let rounds = self.rounds.as_mut().ok_or("no data is read here yet")?;
        if let ToPeer::State { round } = said {
            self.fetched_state = Some((*round, numbers.clone()));
            return Ok(true);
        }
        let numbers = &numbers.to_bytes().map_err(|error| error.to_string())?;
        match said {
            ToPeer::Contribution { view, round } => {
                let (chunk, of) = Chunk::read(numbers, rounds.cut)?;
                let index = chunk.as_ref().map(|chunk| chunk.index);
                let is_whole = rounds.take((*view, *round), peer, chunk, of);
                index.into_iter().for_each(|index| self.sum_chunk((*view, *round), index, host));
                return Ok(is_whole);
            }
            ToPeer::Reduced { view, round } => {
                let key = (*view, *round);
                let (chunk, of) = Chunk::read(numbers, rounds.cut)?;
                let news = chunk.clone().filter(|chunk| !rounds.has_sum(key, chunk.index));
                let is_whole = rounds.take_sum(key, peer, chunk, of);
                news.into_iter().for_each(|chunk| self.pass_on(key, chunk, host));
                return Ok(is_whole);
            }
            ToPeer::Result { round } => rounds.fetched_result = Some((*round, Whole::read(rounds.cut, numbers)?)),
            ToPeer::State { .. } | ToPeer::WantResult { .. } | ToPeer::WantState { .. } | ToPeer::Sharing(_) => {}
        }
        Ok(true)
    }

    /// A chunk of the own contribution is final: it goes to the member that sums it.
    pub(super) fn take_chunk(&mut self, round: Round, work: WorkNumber, chunk: Chunk, host: &mut dyn WorkerHost) {
        let me = self.me();
        let Some(rounds) = &mut self.rounds else { return };
        rounds.take_own(round, work, chunk.clone());
        let Some(flow) = self.flow.as_ref().filter(|flow| flow.work == work) else { return };
        let Flow { key, paths, reached, .. } = flow;
        let (key, index) = (*key, chunk.index);
        let (part, parts) = paths.part();
        let at = rounds.cut.place(index, parts);
        let of = rounds.cut.of_member(at, parts).len();
        match paths {
            Paths::Mesh { members, .. } if at != part => {
                if reached.contains(&members[at]) {
                    let (to, word) = (members[at], ToPeer::Contribution { view: key.0, round: key.1 });
                    self.send_chunks(to, &word, &[chunk], of, host);
                }
            }
            Paths::Mesh { .. } | Paths::Tree { .. } => {
                rounds.take(key, me, Some(chunk), of);
                self.sum_chunk(key, index, host);
            }
        }
    }

    /// Sums a chunk if all contributions that fall to this one are here, and sends the sum to those who are reached.
    pub(super) fn sum_chunk(&mut self, key: RoundKey, index: usize, host: &mut dyn WorkerHost) {
        let Some((rounds, flow)) = self.rounds.as_mut().zip(self.flow.as_ref().filter(|flow| flow.key == key)) else {
            return;
        };
        let Some(sum) = rounds.sum(key, &flow.paths, index) else { return };
        host.all_in();
        let (part, parts) = flow.paths.part();
        let of = rounds.cut.of_member(part, parts).len();
        let (view, round) = key;
        let (to, word) = match flow.paths.parent() {
            Some(parent) => (vec![parent], ToPeer::Contribution { view, round }),
            None => (flow.paths.receivers(), ToPeer::Reduced { view, round }),
        };
        for to in to.into_iter().filter(|to| flow.reached.contains(to)).collect::<Vec<_>>() {
            self.send_chunks(to, &word, std::slice::from_ref(&sum), of, host);
        }
    }

    /// In a tree: a chunk of the whole sum has come from above, and goes to those below.
    fn pass_on(&mut self, key: RoundKey, chunk: Chunk, host: &mut dyn WorkerHost) {
        let Some(flow) = self.flow.as_ref().filter(|flow| flow.key == key && flow.paths.is_tree()) else { return };
        let below = flow.paths.receivers().into_iter().filter(|to| flow.reached.contains(to)).collect::<Vec<_>>();
        let of = self.rounds.as_ref().map_or(0, |rounds| rounds.cut.count());
        let word = ToPeer::Reduced { view: key.0, round: key.1 };
        for to in below {
            self.send_chunks(to, &word, std::slice::from_ref(&chunk), of, host);
        }
    }

    /// Sends chunks beside a word, each in a frame of its own; one that says so if there are none.
    pub(super) fn send_chunks(
        &mut self,
        to: Incarnation,
        word: &ToPeer,
        chunks: &[Chunk],
        of: usize,
        host: &mut dyn WorkerHost,
    ) {
        let head = Head { word: word.clone(), of };
        if of == 0 {
            self.send_to_peer(to, word.clone(), Chunk::NONE.to_vec(), host);
        }
        for chunk in chunks {
            if self.links.relayed().contains(&to) {
                self.send_to_peer(to, word.clone(), chunk.numbers(&head), host);
            } else if let Some(link) = self.links.to(to) {
                let body = chunk.body(&head);
                self.bytes_sent += body.len() as u64;
                self.send_body(link, &Word::ToPeer(word.clone()), body.into(), host);
            }
        }
    }

    /// A round begins whose parts may go out as they become final.
    pub(super) fn begin_flow(&mut self, key: RoundKey, work: WorkNumber, paths: Paths) {
        let is_reached = |peer: &Incarnation| self.links.to(*peer).is_some() || self.links.relayed().contains(peer);
        let reached = paths.receivers().into_iter().chain(paths.parent()).filter(is_reached).collect();
        self.flow = Some(Flow { key, work, paths, reached });
    }

    /// Whether a member was sent everything of a round as it became final.
    pub(super) fn has_reached(&self, key: RoundKey, peer: Incarnation) -> bool {
        self.flow.as_ref().is_some_and(|flow| flow.key == key && flow.reached.contains(&peer))
    }

    /// Whether parts of this round go out as they become final.
    pub(super) fn is_flowing(&self, key: RoundKey) -> bool {
        self.flow.as_ref().is_some_and(|flow| flow.key == key)
    }

    /// The part of the sum that falls to this one in its view, and of how many.
    pub(super) fn own_part(&self) -> (usize, usize) {
        let rules = self.member.as_ref().and_then(MemberRules::rounds);
        rules.and_then(Member::paths).map_or((0, 1), Paths::part)
    }
}
