//! Links to peers: of two members the later one dials, and goes on trying.

use std::collections::{BTreeMap, BTreeSet};

use paceline_exchange::THROUGH_THE_MASTER;
use paceline_exchange::rounds::{Incarnation, Now};

use crate::transport::{LinkId, Transport};

/// Between two tries to reach a peer, in milliseconds.
const AGAIN_AFTER: Now = 250;

/// The links of one incarnation.
pub(super) struct Links {
    me: Incarnation,
    /// Peers of the view, and where they are.
    wanted: BTreeMap<Incarnation, String>,
    /// What is used to speak to them.
    up: BTreeMap<Incarnation, LinkId>,
    /// Who is at the other end, of links that a newer one replaced too.
    known: BTreeMap<LinkId, Incarnation>,
    dialling: BTreeMap<LinkId, Incarnation>,
    again: BTreeMap<Incarnation, Now>,
    /// Peers that are reached through the master.
    relayed: BTreeSet<Incarnation>,
}

impl Links {
    pub(super) fn new(me: Incarnation) -> Self {
        Self {
            me,
            wanted: BTreeMap::new(),
            up: BTreeMap::new(),
            known: BTreeMap::new(),
            dialling: BTreeMap::new(),
            again: BTreeMap::new(),
            relayed: BTreeSet::new(),
        }
    }

    /// Wants links to these peers and no others; says which have none yet.
    pub(super) fn want(
        &mut self,
        peers: Vec<(Incarnation, String)>,
        transport: &mut dyn Transport,
        now: Now,
    ) -> Vec<Incarnation> {
        let (relayed, wanted): (Vec<_>, Vec<_>) =
            peers.into_iter().partition(|(_, address)| address == THROUGH_THE_MASTER);
        self.relayed = relayed.into_iter().map(|(peer, _)| peer).collect();
        self.wanted = wanted.into_iter().collect();
        let gone: Vec<LinkId> =
            self.known.iter().filter(|(_, peer)| !self.wanted.contains_key(peer)).map(|(link, _)| *link).collect();
        // What is being dialled and not wanted any more is not missed when it fails.
        self.dialling.retain(|_, peer| self.wanted.contains_key(peer));
        for link in gone {
            if let Some(peer) = self.known.remove(&link) {
                self.up.remove(&peer);
            }
            transport.close(link, "it is not a member of the view");
        }
        self.dial(transport, now);
        self.wanted.keys().filter(|peer| !self.up.contains_key(peer)).copied().collect()
    }

    /// Dials who is wanted, has no link and may be dialled again.
    pub(super) fn dial(&mut self, transport: &mut dyn Transport, now: Now) {
        for (peer, address) in &self.wanted {
            let is_missing =
                *peer < self.me && !self.up.contains_key(peer) && !self.dialling.values().any(|d| d == peer);
            if is_missing && self.again.get(peer).is_none_or(|at| now >= *at) {
                self.again.insert(*peer, now + AGAIN_AFTER);
                self.dialling.insert(transport.connect(address), *peer);
            }
        }
    }

    /// When somebody is to be dialled next.
    pub(super) fn next_dial(&self) -> Option<Now> {
        let missing = self.wanted.keys().filter(|peer| **peer < self.me && !self.up.contains_key(peer));
        missing.filter_map(|peer| self.again.get(peer).copied()).min()
    }

    /// Whom a link that stands now was dialled to.
    pub(super) fn opened(&mut self, link: LinkId) -> Option<Incarnation> {
        let peer = self.dialling.remove(&link)?;
        self.identify(link, peer);
        Some(peer)
    }

    /// A link is known to lead to a peer; it replaces an older one.
    pub(super) fn identify(&mut self, link: LinkId, peer: Incarnation) {
        self.known.insert(link, peer);
        self.up.insert(peer, link);
    }

    /// Who is at the other end. What arrives shows that the link stands, which an older one may not.
    pub(super) fn heard(&mut self, link: LinkId) -> Option<Incarnation> {
        let peer = *self.known.get(&link)?;
        self.up.insert(peer, link);
        Some(peer)
    }

    /// A link is gone; says which peer has none any more.
    pub(super) fn closed(&mut self, link: LinkId) -> Option<Incarnation> {
        if let Some(peer) = self.dialling.remove(&link) {
            return Some(peer);
        }
        let peer = self.known.remove(&link)?;
        if self.up.get(&peer) == Some(&link) {
            self.up.remove(&peer);
            return Some(peer);
        }
        None
    }

    /// Peers that are reached.
    pub(super) fn peers(&self) -> Vec<Incarnation> {
        self.up.keys().chain(&self.relayed).copied().collect()
    }

    /// Whether there should be a link to it; what is said to others goes through the master.
    pub(super) fn is_wanted(&self, peer: Incarnation) -> bool {
        self.wanted.contains_key(&peer)
    }

    /// Those of them that are reached through the master.
    pub(super) fn relayed(&self) -> &BTreeSet<Incarnation> {
        &self.relayed
    }

    pub(super) fn to(&self, peer: Incarnation) -> Option<LinkId> {
        self.up.get(&peer).copied()
    }

    pub(super) fn all(&self) -> Vec<LinkId> {
        self.known.keys().chain(self.dialling.keys()).copied().collect()
    }
}
