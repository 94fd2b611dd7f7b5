//! Messages: sent, taken, kept until everybody has them.

use super::super::message::{PeerWord, Report};
use super::{Act, COVERED_EVERY, Have, Incarnation, Kept, Member, Planted, Sequence, Stage, ViewNumber};

impl Member {
    pub(super) fn hear(&mut self, peer: Incarnation, word: PeerWord) {
        if !self.is_member(peer) {
            // Of a view that is over, or has not begun here: then both say again what matters.
            return;
        }
        match word {
            PeerWord::Resume { have, has_state, answers, view } => self.feed(peer, have, has_state, answers, view),
            PeerWord::From(view, sequence) => self.subscribed(peer, view, sequence),
            // Said before the view became a tree.
            PeerWord::Update { sequence, covered, examples, .. } if self.is_tree() => {
                self.take_passed(peer, peer, sequence, Kept { covered, examples, bytes: 0 });
            }
            PeerWord::Update { sequence, covered, examples, stable } => {
                self.take(peer, sequence, Kept { covered, examples, bytes: 0 });
                let held = self.have.get(&peer).map_or(0, |have| have.sequence);
                self.forget(peer, stable.min(held));
            }
            PeerWord::Got(sequence) => {
                let known = self.peers.entry(peer).or_default();
                known.has_state = true;
                known.holds = known.holds.max(sequence);
                known.needs_none_up_to = known.needs_none_up_to.max(sequence);
                self.hold_as_far_as_all_do();
            }
            PeerWord::WantUpdates { origin, from, to } => self.relay(peer, origin, from, to),
            PeerWord::Relayed { origin, sequence, covered, examples } => {
                let message = Kept { covered, examples, bytes: 0 };
                match self.is_tree() && !self.missing.contains_key(&origin) {
                    true => self.take_passed(peer, origin, sequence, message),
                    false => self.take_relayed(origin, sequence, message),
                }
            }
            PeerWord::Compare { view, vector, answers } => self.take_compared(peer, view, vector, answers),
            PeerWord::CannotGive { origin, up_to } => self.take_gap(origin, up_to),
            PeerWord::Minima { view, is_up, minima } => self.take_minima(peer, view, is_up, minima),
            PeerWord::WantSnapshot { view, at_least } => self.want_state(peer, view, at_least),
            PeerWord::Snapshot { view, vector, round } => self.take_state_of_peer(view, vector, round),
            PeerWord::Running { .. } => {}
        }
    }

    /// A peer says what it holds; from there on it is sent all there is.
    fn feed(&mut self, peer: Incarnation, have: Option<Sequence>, has_state: bool, answers: bool, view: ViewNumber) {
        let own = self.own.sequence;
        let known = self.peers.entry(peer).or_default();
        known.is_fed = true;
        match have {
            Some(have) => {
                known.has_state |= has_state;
                if has_state {
                    // One that still waits for a state begins anew in the next view.
                    known.holds = known.holds.max(have);
                    known.needs_none_up_to = known.needs_none_up_to.max(have);
                }
                for sequence in have + 1..=own {
                    self.send(peer, sequence);
                }
            }
            None => {
                // It may ask twice before it hears: what came between is the first answer's. In a new view it begins anew.
                let (of, from) = known.subscribed.filter(|(of, _)| *of >= view).unwrap_or((view, own));
                known.subscribed = Some((of, from));
                known.needs_none_up_to = known.needs_none_up_to.max(from);
                self.say(peer, PeerWord::From(of, from));
                for sequence in from + 1..=own {
                    self.send(peer, sequence);
                }
            }
        }
        self.hold_as_far_as_all_do();
        if answers {
            self.greet(peer, false);
        }
    }

    pub(super) fn send(&mut self, to: Incarnation, sequence: Sequence) {
        if let Some(Kept { covered, examples, .. }) = self.kept.get(&(self.me, sequence)).copied() {
            self.act(Act::Send { to, sequence, covered, examples, stable: self.all.sequence });
        }
    }

    /// A message of a peer: the next one is taken, one that is here already is not, and a gap is asked about once.
    fn take(&mut self, peer: Incarnation, sequence: Sequence, message: Kept) {
        if self.refused.contains(&peer) {
            return;
        }
        let Some(held) = self.have.get(&peer).map(|have| have.sequence).or(self.has_state().then_some(0)) else {
            return;
        };
        if sequence > held + 1 {
            let known = self.peers.entry(peer).or_default();
            if known.asked_at.replace(held) != Some(held) {
                self.greet(peer, false);
            }
            return;
        }
        if sequence <= held && !self.has(Planted::AppliesAMessageTwice) {
            return;
        }
        self.keep(peer, sequence, message);
    }

    fn take_relayed(&mut self, origin: Incarnation, sequence: Sequence, message: Kept) {
        let Some((cut, _)) = self.missing.get(&origin).copied() else { return };
        if sequence != self.have.get(&origin).copied().unwrap_or_default().sequence + 1 || sequence > cut.sequence {
            return;
        }
        self.keep(origin, sequence, message);
        if sequence == cut.sequence {
            self.missing.remove(&origin);
            self.tell_when_caught_up();
        }
    }

    pub(super) fn keep(&mut self, origin: Incarnation, sequence: Sequence, message: Kept) {
        self.have.insert(origin, Have { sequence, covered: message.covered });
        self.kept.insert((origin, sequence), message);
        self.act(Act::Keep { origin, sequence });
        if self.has_state() {
            self.of_others += message.examples;
            self.act(Act::Apply { origin, sequence });
        }
    }

    fn relay(&mut self, to: Incarnation, origin: Incarnation, from: Sequence, to_last: Sequence) {
        let held: Vec<(Sequence, Kept)> =
            self.kept.range((origin, from)..=(origin, to_last.max(from))).map(|(key, kept)| (key.1, *kept)).collect();
        for (sequence, Kept { covered, examples, .. }) in held {
            self.act(Act::Relay { to, origin, sequence, covered, examples });
        }
    }

    pub(super) fn forget(&mut self, origin: Incarnation, up_to: Sequence) {
        let is_kept = self.kept.range((origin, 0)..=(origin, up_to)).next().is_some();
        // One without a state needs what it has until it has one.
        if !is_kept || (matches!(self.stage, Stage::Joining { .. }) && up_to != Sequence::MAX) {
            return;
        }
        self.kept.retain(|(of, sequence), _| *of != origin || *sequence > up_to);
        self.act(Act::Forget { origin, up_to });
    }

    /// Looks how far the own messages are held by another, and by all; the latter are not kept any more.
    pub(super) fn hold_as_far_as_all_do(&mut self) {
        let peers = self.linked();
        let of = |peer: &Incarnation, what: fn(&super::Peer) -> Sequence| self.peers.get(peer).map_or(0, what);
        let are_here = peers.iter().filter(|peer| !self.refused.contains(peer));
        let one = are_here.map(|peer| of(peer, |peer| peer.holds)).max().unwrap_or(0);
        let (all, needed) = match self.is_tree() {
            true => (self.own_stable().held, self.own_stable().needed),
            false => {
                let all = peers.iter().map(|peer| of(peer, |peer| peer.holds)).min();
                let needed = peers.iter().map(|peer| of(peer, |peer| peer.needs_none_up_to)).min();
                (all.unwrap_or(self.own.sequence), needed.unwrap_or(self.own.sequence))
            }
        };
        self.one = self.one.max(self.at(one.min(self.own.sequence)));
        self.all = self.all.max(self.at(all.min(self.own.sequence)));
        if self.has(Planted::ForgetsWhatOneHolds) {
            return self.forget(self.me, one);
        }
        self.forget(self.me, needed.min(self.own.sequence));
    }

    /// How far the own leases were done with an own message that is kept, or with the last.
    fn at(&self, sequence: Sequence) -> Have {
        if sequence == self.own.sequence {
            return self.own;
        }
        let kept = self.kept.get(&(self.me, sequence));
        kept.map_or(Have::default(), |kept| Have { sequence, covered: kept.covered })
    }

    /// Tells peers what is held of theirs, and the master what is held of the own: that soon when there is nothing else to do,
    /// and now and then otherwise.
    pub(super) fn tell_what_is_held(&mut self) {
        let is_idle = self.issued.is_empty();
        for peer in self.linked() {
            let held = self.have.get(&peer).map_or(0, |have| have.sequence);
            let told = self.peers.get(&peer).map_or(0, |peer| peer.told);
            // What came before a step ended is in the parameters of the next one: only then others may go further.
            if self.has_state() && held > told && (is_idle || self.has_stepped) {
                self.say_what_is_held(peer);
            }
        }
        self.has_stepped = false;
        let is_idle = self.is_idle();
        let (one, all) = (self.one, self.all);
        let is_news = (one, all) != self.told;
        let moved = one.sequence + all.sequence - self.told.0.sequence - self.told.1.sequence;
        if is_news && (is_idle || moved >= COVERED_EVERY) {
            self.told = (one, all);
            let early = self.has(Planted::CountsWhatNobodyHolds);
            let one = if early { self.done } else { one.covered };
            self.report(Report::Covered { one, all: all.covered });
        }
    }

    pub(super) fn say_what_is_held(&mut self, peer: Incarnation) {
        let held = self.have.get(&peer).map_or(0, |have| have.sequence);
        let known = self.peers.entry(peer).or_default();
        known.told = held;
        self.say(peer, PeerWord::Got(held));
    }

    /// Whether the others have taken all but the last few steps. What is learnt further ahead is learnt from parameters that
    /// they have left, and young networks diverge of it.
    pub(super) fn is_near(&self) -> bool {
        if self.is_tree() {
            let ahead = self.own.sequence + self.issued.len() as Sequence;
            return ahead < self.own_stable().near.saturating_add(self.options.max_ahead.max(1));
        }
        let taken = self.others().into_iter().filter_map(|peer| self.peers.get(&peer));
        let ahead = self.own.sequence + self.issued.len() as Sequence;
        taken.filter(|peer| peer.has_state).all(|peer| ahead < peer.holds + self.options.max_ahead.max(1))
    }

    /// Whether a message may be made: everybody has taken all but the last few.
    pub(super) fn may_send(&self) -> bool {
        let (count, bytes) = self
            .kept
            .range((self.me, 0)..=(self.me, Sequence::MAX))
            .fold((0, 0), |(count, bytes), (_, kept)| (count + 1, bytes + kept.bytes));
        count == 0 || (count < self.options.window_messages && bytes < self.options.window_bytes)
    }

    /// An own message is there.
    pub(super) fn made(&mut self, bytes: u64) {
        let examples = std::mem::take(&mut self.uncovered);
        self.own = Have { sequence: self.own.sequence + 1, covered: self.done };
        self.of_own += examples;
        self.kept.insert((self.me, self.own.sequence), Kept { covered: self.done, examples, bytes });
        self.has_swept = false;
        if self.is_tree() {
            self.pass_on(self.me, self.own.sequence);
        }
        for peer in self.linked() {
            if !self.is_tree() && self.peers.get(&peer).is_some_and(|peer| peer.is_fed) {
                self.send(peer, self.own.sequence);
            }
        }
        self.hold_as_far_as_all_do();
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::Lease;
    use super::super::super::message::{Order, Sharing};
    use super::super::{Happened, Mark, MemberAction, MemberEvent, MemberOptions, Report, ToMaster, ToMember, ToPeer};
    use super::*;
    use crate::membership::Crew;
    use crate::rounds::{Capacity, Span};

    fn order(member: &mut Member, order: Order) -> Vec<MemberAction> {
        member.handle(MemberEvent::MasterSaid(1, ToMember::Sharing(order)), 1)
    }

    fn view(member: &mut Member, view: ViewNumber, members: &[Incarnation], lost: &[Incarnation]) {
        order(member, Order::Cut { view, lost: lost.to_vec() });
        let cut = |lost: &Incarnation| (*lost, Have::default(), 1);
        let sharing = Sharing {
            view,
            crew: Crew::change((0, &[]), members, &vec![Capacity::of(1); members.len()]),
            peers: members.iter().filter(|member| **member != 1).map(|member| (*member, "a".into())).collect(),
            begins_anew: view == 1,
            cuts: lost.iter().map(cut).collect(),
            donors: if view == 1 { Vec::new() } else { vec![1] },
            round: 0,
            former: None,
        };
        order(member, Order::View(Box::new(sharing)));
    }

    /// One of three, with a state and a lease of four steps.
    fn working() -> Member {
        let mut member = Member::new(MemberOptions::within(60_000, 5), 1, 1, 0);
        view(&mut member, 1, &[1, 2, 3], &[]);
        member.handle(MemberEvent::StateFromMaster(0), 1);
        let spans = vec![Span { start: 0, end: 4, losses: 0 }];
        order(&mut member, Order::Lease(Lease { id: 1, epoch: 0, spans, iteration: 0, step: 4 }));
        member
    }

    fn hears(member: &mut Member, peer: Incarnation, word: PeerWord) -> Vec<MemberAction> {
        member.handle(MemberEvent::PeerSaid(peer, ToPeer::Sharing(word)), 1)
    }

    fn steps(member: &mut Member) -> Vec<MemberAction> {
        member.handle(MemberEvent::Sharing(Happened::Stepped { bytes: Some(10) }), 1)
    }

    #[test]
    fn who_asks_twice_for_all_is_promised_the_same() {
        let mut member = working();
        let asks = |view| PeerWord::Resume { have: None, has_state: false, answers: false, view };
        let from = |view, n| MemberAction::Ask(3, ToPeer::Sharing(PeerWord::From(view, n)));
        assert!(hears(&mut member, 3, asks(1)).contains(&from(1, 0)));
        steps(&mut member);
        // The first message may be lost with the link that it was sent on.
        let again = hears(&mut member, 3, asks(1));
        let sends =
            |action: &MemberAction| matches!(action, MemberAction::Sharing(Act::Send { to: 3, sequence: 1, .. }));
        assert!(again.contains(&from(1, 0)) && again.iter().any(sends), "{again:?}");
        assert!(hears(&mut member, 3, asks(2)).contains(&from(2, 1)), "in a new view it begins anew");
        assert!(hears(&mut member, 3, asks(1)).contains(&from(2, 1)), "what came late changes nothing");
    }

    #[test]
    fn what_only_the_lost_held_is_not_told_as_held() {
        let mut member = working();
        steps(&mut member);
        let told = hears(&mut member, 2, PeerWord::Got(1));
        let covered = |actions: &[MemberAction]| {
            actions.iter().rev().find_map(|action| match action {
                MemberAction::Tell(ToMaster::Sharing(Report::Covered { one, .. })) => Some(*one),
                _ => None,
            })
        };
        assert_eq!(covered(&told), None, "it is told now and then");
        view(&mut member, 2, &[1, 3], &[2]);
        let told: Vec<MemberAction> = (0..3).flat_map(|_| steps(&mut member)).collect();
        assert_eq!(covered(&told), None);
        let told = hears(&mut member, 3, PeerWord::Got(4));
        assert_eq!(covered(&told), Some(Mark { lease: 1, examples: 4 }));
    }
}
