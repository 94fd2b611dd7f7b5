//! Messages in a view that is a tree: everybody passes on what is new to the others that they are linked with.
//!
//! Two neighbours first compare what they hold, and each sends the other what it lacks. What the whole view holds is found out in two
//! sweeps: the least of what each part of the tree holds goes up, and the least of all comes down.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::super::message::{Minimum, PeerWord};
use super::{Act, Have, Incarnation, Kept, Member, Now, PATIENCE, Planted, Sequence, Stage, ViewNumber};
use crate::membership::{Paths, with_those_below};

/// What is known of a neighbour.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Edge {
    /// Whether it has said on this link what it holds, so that messages can be sent to it.
    is_fed: bool,
    /// By origin: it has these, or was sent them on this link.
    has: BTreeMap<Incarnation, Sequence>,
    /// By origin: the least that is held below it, if it is below.
    below: BTreeMap<Incarnation, Minimum>,
    /// Who is below it, with itself.
    side: BTreeSet<Incarnation>,
    /// What it was last told of that, on this link.
    told: BTreeMap<Incarnation, Minimum>,
    /// What was held of an origin when it was last asked about a gap.
    asked_at: Option<(Incarnation, Sequence)>,
}

/// Messages of an origin that no neighbour can give: up to where, and when they were asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Gap {
    up_to: Sequence,
    asked_at: Now,
}

/// What the whole view holds of others' messages is told at the latest after so many.
const TOLD_EVERY: Sequence = 16;

impl Member {
    fn children(&self) -> Vec<Incarnation> {
        self.paths.as_ref().filter(|paths| paths.is_tree()).map_or_else(Vec::new, Paths::receivers)
    }

    pub(super) fn is_tree(&self) -> bool {
        self.paths.as_ref().is_some_and(|paths| paths.is_tree())
    }

    /// A view begins that is a tree: all is compared anew.
    pub(super) fn begin_tree(&mut self) {
        self.edges = self.linked().into_iter().map(|peer| (peer, Edge::default())).collect();
        for child in self.children() {
            let side = with_those_below(&self.members, child, self.options.mesh_limit).into_iter().collect();
            self.edges.entry(child).or_default().side = side;
        }
        if self.is_tree() {
            // What they were told before may have been lost with its link.
            self.peers.values_mut().for_each(|known| known.told = 0);
        }
        self.gaps.clear();
        self.stable.retain(|of, _| self.members.contains(of));
        self.subscribed = (!self.have.is_empty() && !self.has_state()).then(|| self.held());
        self.has_swept = false;
    }

    /// What is held of everybody else.
    fn held(&self) -> BTreeMap<Incarnation, Sequence> {
        let of = |peer| (peer, self.have.get(&peer).map_or(0, |have| have.sequence));
        self.others().into_iter().map(of).collect()
    }

    /// Whether it is known here from where on all messages come: with a state, or as soon as one will fit.
    fn is_subscribed(&self) -> bool {
        self.has_state() || self.subscribed.is_some()
    }

    /// Says what is held here, and asks a neighbour to say the same.
    pub(super) fn compare(&mut self, peer: Incarnation, answers: bool) {
        let Some(view) = self.sharing.as_ref().map(|sharing| sharing.view) else { return };
        let own = (self.me, self.own.sequence);
        let vector = self.is_subscribed().then(|| self.held().into_iter().chain([own]).collect());
        self.say(peer, PeerWord::Compare { view, vector, answers });
    }

    /// The link to a neighbour is new: nothing that was sent before may have arrived.
    pub(super) fn relink(&mut self, peer: Incarnation) {
        if let Some(edge) = self.edges.get_mut(&peer) {
            let Edge { below, side, .. } = std::mem::take(edge);
            *edge = Edge { below, side, ..Edge::default() };
            self.peers.entry(peer).and_modify(|known| known.told = 0);
            self.compare(peer, true);
        }
    }

    pub(super) fn unlink(&mut self, peer: Incarnation) {
        self.edges.entry(peer).and_modify(|edge| edge.is_fed = false);
    }

    /// A neighbour says what it holds.
    pub(super) fn take_compared(
        &mut self,
        peer: Incarnation,
        view: ViewNumber,
        vector: Option<Vec<(Incarnation, Sequence)>>,
        answers: bool,
    ) {
        let is_current = self.sharing.as_ref().is_some_and(|sharing| sharing.view == view);
        if !is_current || !self.edges.contains_key(&peer) {
            return;
        }
        if let Some(vector) = vector {
            self.subscribe(peer, &vector);
            if let Some(edge) = self.edges.get_mut(&peer) {
                (edge.is_fed, edge.has) = (true, vector.into_iter().collect());
                edge.told.clear();
            }
            self.has_swept = false;
            self.feed_edge(peer);
        }
        if answers {
            self.compare(peer, false);
        }
    }

    /// One without a state hears from the one above from where on all messages will come.
    fn subscribe(&mut self, peer: Incarnation, vector: &[(Incarnation, Sequence)]) {
        let is_above = self.paths.as_ref().and_then(|paths| paths.parent()) == Some(peer);
        if self.is_subscribed() || !is_above || !matches!(self.stage, Stage::Joining { .. }) {
            return;
        }
        let of: BTreeMap<Incarnation, Sequence> = vector.iter().copied().collect();
        for origin in self.others() {
            let sequence = of.get(&origin).copied().unwrap_or(0);
            self.have.insert(origin, Have { sequence, ..Have::default() });
        }
        self.subscribed = Some(self.held());
        self.linked().into_iter().for_each(|peer| self.compare(peer, true));
    }

    /// Sends a neighbour all that it lacks and that is here.
    fn feed_edge(&mut self, peer: Incarnation) {
        for origin in self.others().into_iter().filter(|origin| *origin != peer).chain([self.me]) {
            let held = if origin == self.me { self.own } else { self.have.get(&origin).copied().unwrap_or_default() };
            let Some(edge) = self.edges.get(&peer) else { return };
            let first = edge.has.get(&origin).copied().unwrap_or(0) + 1;
            if first > held.sequence || self.refused.contains(&origin) {
                continue;
            }
            if self.kept.contains_key(&(origin, first)) {
                (first..=held.sequence).for_each(|sequence| self.pass(peer, origin, sequence));
            } else {
                // It came here with a state.
                self.say(peer, PeerWord::CannotGive { origin, up_to: held.sequence });
            }
        }
    }

    /// Sends a neighbour a message, if it is the next one that it lacks.
    fn pass(&mut self, to: Incarnation, origin: Incarnation, sequence: Sequence) {
        let Some(Kept { covered, examples, .. }) = self.kept.get(&(origin, sequence)).copied() else { return };
        let Some(edge) = self.edges.get_mut(&to).filter(|edge| edge.is_fed) else { return };
        let has = edge.has.entry(origin).or_insert(0);
        if *has + 1 == sequence {
            *has = sequence;
            self.act(Act::Relay { to, origin, sequence, covered, examples });
        }
    }

    /// A message is new here: all neighbours get it.
    pub(super) fn pass_on(&mut self, origin: Incarnation, sequence: Sequence) {
        if self.has(Planted::KeepsMessagesToItself) && origin != self.me {
            return;
        }
        for to in self.linked().into_iter().filter(|to| *to != origin) {
            self.pass(to, origin, sequence);
        }
    }

    /// A message that somebody has passed on.
    pub(super) fn take_passed(&mut self, from: Incarnation, origin: Incarnation, sequence: Sequence, message: Kept) {
        if self.refused.contains(&origin) || !self.is_member(origin) || !self.is_subscribed() {
            return;
        }
        if let Some(edge) = self.edges.get_mut(&from) {
            let has = edge.has.entry(origin).or_insert(0);
            *has = (*has).max(sequence);
        }
        let held = self.have.get(&origin).map_or(0, |have| have.sequence);
        if sequence > held + 1 {
            let asked = self.edges.get_mut(&from).map(|edge| edge.asked_at.replace((origin, held)));
            if asked.is_some_and(|asked| asked != Some((origin, held))) {
                self.compare(from, false);
            }
            return;
        }
        if sequence <= held && !self.has(Planted::AppliesAMessageTwice) {
            return;
        }
        self.keep(origin, sequence, message);
        self.pass_on(origin, sequence);
        self.has_swept = false;
        if self.gaps.get(&origin).is_some_and(|gap| sequence >= gap.up_to) {
            self.gaps.remove(&origin);
            self.linked().into_iter().for_each(|peer| self.compare(peer, false));
        }
    }

    /// A neighbour got messages with a state and cannot give them: their origin can.
    pub(super) fn take_gap(&mut self, origin: Incarnation, up_to: Sequence) {
        let held = self.have.get(&origin).map_or(0, |have| have.sequence);
        if self.is_member(origin) && self.is_subscribed() && held < up_to {
            let gap = self.gaps.entry(origin).or_insert(Gap { up_to, asked_at: 0 });
            gap.up_to = gap.up_to.min(up_to);
        }
    }

    pub(super) fn go_on_with_gaps(&mut self, now: Now) {
        let is_due = |gap: &Gap| gap.asked_at == 0 || now >= gap.asked_at + PATIENCE;
        let due: Vec<(Incarnation, Gap)> =
            self.gaps.iter().filter(|(_, gap)| is_due(gap)).map(|(of, gap)| (*of, *gap)).collect();
        for (origin, Gap { up_to, .. }) in due {
            let from = self.have.get(&origin).map_or(0, |have| have.sequence) + 1;
            self.gaps.insert(origin, Gap { up_to, asked_at: now.max(1) });
            self.say(origin, PeerWord::WantUpdates { origin, from, to: up_to });
        }
    }

    /// When somebody is asked again.
    pub(super) fn next_gap(&self) -> Option<Now> {
        self.gaps.values().map(|gap| gap.asked_at + PATIENCE).min()
    }

    /// What this one holds of an origin, and what those below do.
    fn least(&self, origin: Incarnation) -> Minimum {
        let from = self.subscribed.as_ref().and_then(|from| from.get(&origin)).copied().unwrap_or(0);
        let held = if origin == self.me { self.own } else { self.have.get(&origin).copied().unwrap_or_default() };
        let own = match self.has_state() {
            true => Minimum { needed: held.sequence, held: held.sequence, near: held.sequence },
            // What comes behind is kept here until there is a state.
            false if self.has(Planted::ForgetsBeforeAllHold) => {
                Minimum { needed: Sequence::MAX, held: 0, near: Sequence::MAX }
            }
            false => Minimum { needed: from, held: 0, near: Sequence::MAX },
        };
        let of = |child: &Incarnation| {
            let nothing = Minimum { needed: 0, held: 0, near: Sequence::MAX };
            self.edges.get(child).and_then(|edge| edge.below.get(&origin)).copied().unwrap_or(nothing)
        };
        self.children().iter().map(of).fold(own, Minimum::and)
    }

    /// The least of what is held goes up, and from the root down.
    pub(super) fn sweep(&mut self) {
        let is_due = self.issued.is_empty() || self.has_stepped;
        if !self.is_tree() || self.has_swept || !is_due {
            return;
        }
        self.has_swept = true;
        let least: Vec<(Incarnation, Minimum)> =
            self.members.iter().map(|origin| (*origin, self.least(*origin))).collect();
        match self.paths.as_ref().and_then(|paths| paths.parent()) {
            Some(parent) => {
                let told = self.edges.get(&parent).map(|edge| &edge.told);
                let is_news = |(of, least): &(Incarnation, Minimum)| told.and_then(|told| told.get(of)) != Some(least);
                let news = least.into_iter().filter(is_news).collect();
                self.tell_minima(parent, news, true);
                self.tell_those_below();
            }
            None => self.take_stable(least),
        }
    }

    /// What the whole view holds of somebody's messages is told to those below on the way to it; to the others now and then, so
    /// that they need not keep them.
    fn tell_those_below(&mut self) {
        for child in self.children() {
            let Some(edge) = self.edges.get(&child) else { continue };
            let is_news = |(of, stable): &(&Incarnation, &Minimum)| {
                let told = edge.told.get(of).copied().unwrap_or_default();
                (edge.side.contains(of) && **stable != told) || stable.needed >= told.needed.saturating_add(TOLD_EVERY)
            };
            let news = self.stable.iter().filter(is_news).map(|(of, stable)| (*of, *stable)).collect();
            self.tell_minima(child, news, false);
        }
    }

    fn tell_minima(&mut self, to: Incarnation, minima: Vec<(Incarnation, Minimum)>, is_up: bool) {
        let Some(sharing) = &self.sharing else { return };
        let view = sharing.view;
        let Some(edge) = self.edges.get_mut(&to).filter(|edge| edge.is_fed && !minima.is_empty()) else { return };
        edge.told.extend(minima.iter().copied());
        let place = |of: &Incarnation| self.members.iter().position(|member| member == of);
        let minima = minima.iter().filter_map(|(of, minimum)| Some((place(of)?, *minimum))).collect();
        self.say(to, PeerWord::Minima { view, is_up, minima });
    }

    pub(super) fn take_minima(
        &mut self,
        peer: Incarnation,
        view: ViewNumber,
        is_up: bool,
        minima: Vec<(usize, Minimum)>,
    ) {
        if self.sharing.as_ref().is_none_or(|sharing| sharing.view != view) {
            return;
        }
        let of = |(place, minimum): (usize, Minimum)| Some((*self.members.get(place)?, minimum));
        let minima: Vec<(Incarnation, Minimum)> = minima.into_iter().filter_map(of).collect();
        let is_above = self.paths.as_ref().and_then(|paths| paths.parent()) == Some(peer);
        let Some(edge) = self.edges.get_mut(&peer).filter(|_| is_above != is_up) else { return };
        if is_up {
            edge.below.extend(minima);
            self.has_swept = false;
        } else {
            self.take_stable(minima);
        }
    }

    /// So much is held by the whole view.
    fn take_stable(&mut self, minima: Vec<(Incarnation, Minimum)>) {
        for (origin, minimum) in minima {
            let stable = self.stable.entry(origin).or_default();
            let (needed, held) = (stable.needed.max(minimum.needed), stable.held.max(minimum.held));
            *stable = Minimum { needed, held, near: minimum.near };
            if origin != self.me {
                let here = self.have.get(&origin).map_or(0, |have| have.sequence);
                self.forget(origin, needed.min(here));
            }
        }
        self.hold_as_far_as_all_do();
        self.tell_those_below();
    }

    /// What all hold of the own messages, need no more, and have taken.
    pub(super) fn own_stable(&self) -> Minimum {
        self.stable.get(&self.me).copied().unwrap_or_default()
    }
}
