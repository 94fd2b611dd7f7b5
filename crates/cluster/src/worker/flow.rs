//! Contributions and sums of a round while they become final: a chunk goes out as soon as it is there.

use std::collections::BTreeSet;

use bytes::Bytes;
use paceline_exchange::MemberRules;
use paceline_exchange::rounds::message::ToPeer;
use paceline_exchange::rounds::{Incarnation, Member, Round, WorkNumber};

use super::chunks::{Chunk, Head, RoundKey, Whole};
use super::host::WorkerHost;
use super::membership::Membership;
use crate::wire::Word;

/// A round whose parts go out as they become final.
pub(super) struct Flow {
    pub(super) key: RoundKey,
    /// What computes it.
    pub(super) work: WorkNumber,
    pub(super) members: Vec<Incarnation>,
    /// The place of this one among them.
    pub(super) place: usize,
    /// Those who were sent everything so far, on a link that stood all the time.
    pub(super) reached: BTreeSet<Incarnation>,
}

impl Membership {
    /// Takes what came beside a word of a peer. Says whether the rules hear of it: not before all parts of it are here.
    pub(super) fn take_numbers(
        &mut self,
        peer: Incarnation,
        said: &ToPeer,
        numbers: &Bytes,
        host: &mut dyn WorkerHost,
    ) -> Result<bool, String> {
        if let ToPeer::Sharing(word) = said {
            return self.take_beside(word, numbers, host).map(|()| true);
        }
        let rounds = self.rounds.as_mut().ok_or("no data is read here yet")?;
        match said {
            ToPeer::Contribution { view, round } => {
                let (chunk, of) = Chunk::read(numbers, rounds.cut)?;
                let index = chunk.as_ref().map(|chunk| chunk.index);
                let is_whole = rounds.take((*view, *round), peer, chunk, of);
                index.into_iter().for_each(|index| self.sum_chunk((*view, *round), index, host));
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
    pub(super) fn take_chunk(&mut self, round: Round, work: WorkNumber, chunk: Chunk, host: &mut dyn WorkerHost) {
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
            self.sum_chunk(key, index, host);
        } else if reached.contains(&members[to]) {
            let (to, word) = (members[to], ToPeer::Contribution { view: key.0, round: key.1 });
            self.send_chunks(to, &word, &[chunk], of, host);
        }
    }

    /// Sums a chunk if all members' are here, and sends the sum to those who are reached.
    pub(super) fn sum_chunk(&mut self, key: RoundKey, index: usize, host: &mut dyn WorkerHost) {
        let Some((rounds, flow)) = self.rounds.as_mut().zip(self.flow.as_ref().filter(|flow| flow.key == key)) else {
            return;
        };
        let Some(sum) = rounds.sum(key, &flow.members, index) else { return };
        let of = rounds.cut.of_member(flow.place, flow.members.len()).len();
        let word = ToPeer::Reduced { view: key.0, round: key.1 };
        for to in flow.reached.clone() {
            self.send_chunks(to, &word, std::slice::from_ref(&sum), of, host);
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
            self.send_to_peer(to, word.clone(), &Chunk::NONE, host);
        }
        for chunk in chunks {
            if self.links.relayed().contains(&to) {
                self.send_to_peer(to, word.clone(), &chunk.numbers(&head), host);
            } else if let Some(link) = self.links.to(to) {
                let body = chunk.body(&head);
                self.bytes_sent += body.len() as u64;
                self.send_body(link, &Word::ToPeer(word.clone()), body, host);
            }
        }
    }

    /// A round begins whose parts may go out as they become final.
    pub(super) fn begin_flow(&mut self, key: RoundKey, work: WorkNumber, members: Vec<Incarnation>) {
        let me = self.me();
        let Some(place) = members.iter().position(|member| *member == me) else { return };
        let is_reached =
            |peer: &Incarnation| *peer != me && (self.links.to(*peer).is_some() || self.links.relayed().contains(peer));
        let reached = members.iter().copied().filter(is_reached).collect();
        self.flow = Some(Flow { key, work, members, place, reached });
    }

    /// Whether a member was sent everything of a round as it became final.
    pub(super) fn has_reached(&self, key: RoundKey, peer: Incarnation) -> bool {
        self.flow.as_ref().is_some_and(|flow| flow.key == key && flow.reached.contains(&peer))
    }

    /// Whether parts of this round go out as they become final.
    pub(super) fn is_flowing(&self, key: RoundKey) -> bool {
        self.flow.as_ref().is_some_and(|flow| flow.key == key)
    }

    /// The place of this one in its view, and how many there are.
    pub(super) fn place_in_view(&self) -> (usize, usize) {
        let rules = self.member.as_ref().and_then(MemberRules::rounds);
        rules.and_then(Member::place).unwrap_or((0, 1))
    }
}
