//! Views, cuts, and how one without a state comes to have one.

use std::collections::BTreeMap;

use super::super::message::{PeerWord, Report, Sharing};
use super::{
    Act, Copying, Have, Incarnation, Member, MemberAction, Now, PATIENCE, Peer, Planted, Sequence, Stage, ViewNumber,
    Whom,
};
use crate::membership::Paths;
use crate::rounds::{DOES_NOT_FIT, Part, Round};

impl Member {
    /// These are lost: nothing more of them is taken, and the master hears what is held.
    pub(super) fn cut(&mut self, view: ViewNumber, lost: Vec<Incarnation>, now: Now) {
        self.view = view;
        // Who could not be reached has another chance in the new view.
        self.peers.values_mut().for_each(|known| known.down = known.down.map(|_| (now, false)));
        if !self.has_state() {
            // What was subscribed to belongs to an older view.
            self.stage = Stage::Still;
        }
        if !self.has(Planted::TakesMessagesOfTheLost) {
            self.refused.extend(lost.iter().copied());
        }
        // What only they held was not told, and is held by nobody now.
        self.one = self.told.0;
        self.hold_as_far_as_all_do();
        // What an older view has let be fetched is not fetched any more: what is told now must stay true.
        self.missing.clear();
        let have = |lost: Incarnation| {
            let have = self.have.get(&lost).copied().unwrap_or_default();
            let mut from = have.sequence + 1;
            while from > 1 && self.kept.contains_key(&(lost, from - 1)) {
                from -= 1;
            }
            (lost, have, from)
        };
        let have = lost.into_iter().map(have).collect();
        let knows = self.sharing.as_ref().map_or(0, |sharing| sharing.view);
        self.report(Report::Holds { view, has_state: self.has_state(), have, knows });
    }

    pub(super) fn begin(&mut self, sharing: Sharing, now: Now) {
        if self.sharing.as_ref().is_some_and(|old| old.view == sharing.view) {
            return;
        }
        let known = self.sharing.as_ref().map(|known| (known.view, &self.members[..], &self.crew[..]));
        let Some((members, crew)) = sharing.crew.resolve(known) else { return self.end(DOES_NOT_FIT.into(), true) };
        let Some(paths) = Paths::of(&members, self.me, self.options.mesh_limit) else { return };
        let (view, round) = (sharing.view, sharing.round);
        self.actions.push(MemberAction::Begin { view, members: members.clone(), round });
        let is_of_use = |of: &Incarnation| members.contains(of) || sharing.cuts.iter().any(|(lost, ..)| lost == of);
        let forgotten: Vec<Incarnation> = self.have.keys().copied().filter(|of| !is_of_use(of)).collect();
        for origin in forgotten {
            self.have.remove(&origin);
            self.forget(origin, Sequence::MAX);
        }
        self.refused.retain(|lost| is_of_use(lost));
        let peers = sharing.peers.clone();
        self.peers.retain(|peer, _| peers.iter().any(|(linked, _)| linked == peer));
        self.waiting.clear();
        self.missing.clear();
        for (peer, _) in &peers {
            // One that was there before, in a tree, may lack what has not come to it yet; others get it with a state.
            let needs_none_up_to = match self.members.contains(peer) {
                true => self.own_stable().needed,
                false => self.own.sequence,
            };
            let new = || Peer { needs_none_up_to, ..Peer::default() };
            let known = self.peers.entry(*peer).or_insert_with(new);
            known.down = known.down.map(|_| (now, false));
            known.asked_at = None;
        }
        let place = members.iter().position(|member| *member == self.me);
        self.act(Act::Count(Part::of(&crew, place)));
        self.actions.push(MemberAction::Connect(peers.clone()));
        if self.has_state() {
            for (lost, cut, holder) in &sharing.cuts {
                if self.have.get(lost).copied().unwrap_or_default().sequence < cut.sequence {
                    self.missing.insert(*lost, (*cut, *holder));
                }
            }
        } else {
            let held: Vec<Incarnation> = self.have.keys().copied().collect();
            held.into_iter().for_each(|origin| self.forget(origin, Sequence::MAX));
            self.have.clear();
            self.stage = Stage::Joining { asked: 0, asked_at: None };
            if sharing.begins_anew {
                self.have = members.iter().map(|member| (*member, Have::default())).collect();
            }
        }
        (self.sharing, self.members, self.crew) = (Some(sharing), members, crew);
        self.paths = Some(paths);
        self.begin_tree();
        // Links may have stood before the view: what was said there was of no use then.
        peers.into_iter().for_each(|(peer, _)| self.greet(peer, true));
        self.fetch_missing(now);
        self.tell_when_caught_up();
        self.hold_as_far_as_all_do();
    }

    /// Says what is held of a peer's messages, and asks it to say the same.
    pub(super) fn greet(&mut self, peer: Incarnation, answers: bool) {
        if self.is_tree() {
            return self.compare(peer, answers);
        }
        let starts_with_nothing = !self.has_state() && !self.have.contains_key(&peer);
        let have = (!starts_with_nothing).then(|| self.have.get(&peer).map_or(0, |have| have.sequence));
        let view = self.sharing.as_ref().map_or(0, |sharing| sharing.view);
        self.say(peer, PeerWord::Resume { have, has_state: self.has_state(), answers, view });
    }

    pub(super) fn peer_up(&mut self, peer: Incarnation) {
        let known = self.peers.entry(peer).or_default();
        (known.is_fed, known.down, known.asked_at) = (false, None, None);
        if self.is_member(peer) {
            match self.is_tree() {
                true => self.relink(peer),
                false => self.greet(peer, true),
            }
            if let Stage::Joining { asked_at, .. } = &mut self.stage {
                *asked_at = None;
            }
            self.missing_asked_at = 0;
        }
    }

    /// What comes behind this number of a peer's messages will arrive here.
    pub(super) fn subscribed(&mut self, peer: Incarnation, view: ViewNumber, sequence: Sequence) {
        let is_current = self.sharing.as_ref().is_some_and(|sharing| sharing.view == view);
        if is_current && matches!(self.stage, Stage::Joining { .. }) && self.is_member(peer) {
            self.have.entry(peer).or_insert(Have { sequence, ..Have::default() });
        }
    }

    pub(super) fn go_on_joining(&mut self, now: Now) {
        if now >= self.missing_asked_at + PATIENCE {
            self.fetch_missing(now);
        }
        let Stage::Joining { asked, asked_at } = self.stage else { return };
        let Some(sharing) = self.sharing.as_ref().filter(|sharing| sharing.view == self.view) else { return };
        if asked_at.is_some_and(|at| now < at + PATIENCE) {
            return;
        }
        let (donors, round, view) = (sharing.donors.clone(), sharing.round, sharing.view);
        let at_least: Vec<(Incarnation, Sequence)> =
            self.have.iter().filter(|(of, _)| **of != self.me).map(|(of, have)| (*of, have.sequence)).collect();
        if donors.is_empty() {
            self.actions.push(MemberAction::AskMasterForState(round));
        } else if at_least.len() == self.members.len() - 1 || self.has(Planted::JoinsBeforeItSubscribes) {
            let donor = donors[asked % donors.len()];
            self.say(donor, PeerWord::WantSnapshot { view, at_least });
        } else {
            return;
        }
        self.stage = Stage::Joining { asked: asked + 1, asked_at: Some(now) };
    }

    fn fetch_missing(&mut self, now: Now) {
        if self.missing.is_empty() {
            return;
        }
        self.missing_asked_at = now;
        for (origin, (cut, holder)) in self.missing.clone() {
            let from = self.have.get(&origin).copied().unwrap_or_default().sequence + 1;
            self.say(holder, PeerWord::WantUpdates { origin, from, to: cut.sequence });
        }
    }

    pub(super) fn tell_when_caught_up(&mut self) {
        if self.has_state() && self.missing.is_empty() {
            self.report(Report::CaughtUp { view: self.view });
        }
    }

    pub(super) fn take_state_of_master(&mut self, round: Round) {
        let is_wanted = |sharing: &Sharing| sharing.donors.is_empty() && sharing.round == round;
        if self.sharing.as_ref().is_some_and(is_wanted) && matches!(self.stage, Stage::Joining { .. }) {
            self.adopt(&BTreeMap::new(), round);
        }
    }

    pub(super) fn take_state_of_peer(&mut self, view: ViewNumber, vector: Vec<(Incarnation, Have)>, round: Round) {
        let is_wanted = view == self.view && matches!(self.stage, Stage::Joining { .. });
        if is_wanted && self.sharing.as_ref().is_some_and(|sharing| !sharing.donors.is_empty()) {
            self.adopt(&vector.into_iter().collect(), round);
        }
    }

    /// A state is here: it is taken over, and what came behind it is applied.
    fn adopt(&mut self, vector: &BTreeMap<Incarnation, Have>, round: Round) {
        let Some(sharing) = self.sharing.clone().filter(|_| matches!(self.stage, Stage::Joining { .. })) else {
            return;
        };
        let former = sharing.former.filter(|_| !sharing.begins_anew);
        self.act(Act::Adopt { former });
        self.stage = Stage::Working;
        (self.of_others, self.of_own) = (round, 0);
        self.has_swept = false;
        for peer in self.others() {
            let in_state = vector.get(&peer).copied().unwrap_or_default();
            let mut have = in_state;
            let from = if self.has(Planted::AppliesTwiceAfterJoining) { 0 } else { in_state.sequence + 1 };
            let behind: Vec<_> = self.kept.range((peer, from)..=(peer, Sequence::MAX)).map(|(k, v)| (*k, *v)).collect();
            for ((_, sequence), kept) in behind {
                have = Have { sequence, covered: kept.covered };
                self.of_others += kept.examples;
                self.act(Act::Apply { origin: peer, sequence });
            }
            self.have.insert(peer, have);
        }
        for (lost, cut, _) in &sharing.cuts {
            // The donor had all of it.
            self.have.insert(*lost, *cut);
        }
        self.linked().into_iter().for_each(|peer| self.say_what_is_held(peer));
        self.tell_when_caught_up();
    }

    pub(super) fn want_state(&mut self, peer: Incarnation, view: ViewNumber, at_least: Vec<(Incarnation, Sequence)>) {
        if view == self.view && self.is_member(peer) {
            self.waiting.insert(peer, at_least);
        }
    }

    /// Copies the state for those who wait for one, when it has all that they will not get otherwise.
    pub(super) fn serve_states(&mut self) {
        let is_current = self.sharing.as_ref().is_some_and(|sharing| sharing.view == self.view);
        if !self.has_state() || !self.missing.is_empty() || !is_current {
            return;
        }
        let holds = |(of, sequence): &(Incarnation, Sequence)| {
            let have = if *of == self.me { self.own } else { self.have.get(of).copied().unwrap_or_default() };
            have.sequence >= *sequence
        };
        let is_ready =
            |at_least: &[(Incarnation, Sequence)]| at_least.iter().all(holds) || self.has(Planted::GivesAStateTooSoon);
        let ready: Vec<Incarnation> =
            self.waiting.iter().filter(|(_, at_least)| is_ready(at_least)).map(|(peer, _)| *peer).collect();
        for peer in ready {
            self.waiting.remove(&peer);
            self.copy(Whom::Peer(peer));
        }
    }

    pub(super) fn copy(&mut self, whom: Whom) {
        let vector = self.vector_of_all().into_iter().filter(|(of, _)| *of != self.me).collect();
        self.copying.push_back(Copying { view: self.view, vector, of_others: self.of_others, whom });
        self.act(Act::Snapshot);
    }

    /// All own steps that were asked for before the copy are answered by now, and none behind it.
    pub(super) fn copied(&mut self) {
        let Some(Copying { view, mut vector, of_others, whom }) = self.copying.pop_front() else { return };
        let round = of_others + self.of_own;
        vector.push((self.me, self.own));
        match whom {
            _ if view != self.view => self.act(Act::DropSnapshot),
            Whom::Peer(to) => self.act(Act::SendSnapshot { to, view, vector, round }),
            Whom::Master { epoch } => self.act(Act::SaveSnapshot { view, epoch, vector, round }),
        }
    }
}
