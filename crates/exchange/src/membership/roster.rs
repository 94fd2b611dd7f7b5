//! Who has joined, who can be counted on, and who was not heard of.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::rounds::{Capacity, Incarnation, MOST_SLOTS, MasterOptions, Missing, Now, ViewNumber};

/// A worker that has joined.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Candidate {
    /// None until its data is proved.
    address: Option<String>,
    capacity: Capacity,
    heard: Now,
}

/// What is told of one that goes by itself.
pub(crate) const LEFT: &str = "it left, because it was asked to go (Ctrl-C, SIGTERM or a pre-emption)";

/// What is told of one that came with a partition for an epoch.
pub(crate) const DONE: &str = "its partition is done for this epoch";

/// Why a member is gone.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It may have died of what it held.
    ToBlame,
    /// It may come again at once.
    None,
    /// It wants to go.
    Goes,
}

/// Workers that have joined and are not gone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Roster {
    candidates: BTreeMap<Incarnation, Candidate>,
}

impl Roster {
    pub(crate) fn join(&mut self, member: Incarnation, now: Now) {
        self.candidates.insert(member, Candidate { address: None, capacity: Capacity::of(1), heard: now });
    }

    /// Whether it is known who speaks.
    pub(crate) fn hear(&mut self, member: Incarnation, now: Now) -> bool {
        let candidate = self.candidates.get_mut(&member);
        candidate.map(|candidate| candidate.heard = now).is_some()
    }

    /// Nobody was listened to for a while: everybody has as much time as if it had just been heard.
    pub(crate) fn hear_all(&mut self, now: Now) {
        self.candidates.values_mut().for_each(|candidate| candidate.heard = now);
    }

    pub(crate) fn contains(&self, member: Incarnation) -> bool {
        self.candidates.contains_key(&member)
    }

    /// Its data is proved: it can be counted on, for so much. That is said once.
    pub(crate) fn admit(&mut self, member: Incarnation, address: String, capacity: Capacity) {
        if let Some(candidate) = self.candidates.get_mut(&member).filter(|candidate| candidate.address.is_none()) {
            let slots = capacity.slots.clamp(1, MOST_SLOTS);
            (candidate.address, candidate.capacity) = (Some(address), Capacity { slots, ..capacity });
        }
    }

    pub(crate) fn capacity(&self, member: Incarnation) -> Capacity {
        self.candidates.get(&member).map_or(Capacity::of(1), |candidate| candidate.capacity.clone())
    }

    /// Those that can be counted on, in order.
    pub(crate) fn ready(&self) -> Vec<Incarnation> {
        self.candidates.iter().filter(|(_, c)| c.address.is_some()).map(|(member, _)| *member).collect()
    }

    /// Whether a view of them can begin: to stop with what is there, one is enough.
    pub(crate) fn has_enough(&self, options: &MasterOptions, is_stopping: bool) -> bool {
        let needed = if is_stopping { 1 } else { options.min_workers.max(1) };
        self.ready().len() >= needed
    }

    /// How long others are waited for when somebody has just joined: before the first view, until as many as are expected are here.
    pub(crate) fn gathers_for(&self, usual: Now, options: &MasterOptions, view: ViewNumber) -> Now {
        match view == 0 && self.ready().len() < options.expected_workers {
            true => options.expected_within.max(usual),
            false => usual,
        }
    }

    pub(crate) fn address(&self, member: Incarnation) -> String {
        self.candidates.get(&member).and_then(|c| c.address.clone()).unwrap_or_default()
    }

    /// One that is gone: whether it could be counted on, if it was there at all.
    pub(crate) fn remove(&mut self, member: Incarnation) -> Option<bool> {
        self.candidates.remove(&member).map(|candidate| candidate.address.is_some())
    }

    pub(crate) fn remove_all(&mut self) -> Vec<Incarnation> {
        std::mem::take(&mut self.candidates).into_keys().collect()
    }

    pub(crate) fn silent(&self, now: Now, limit: Now) -> Vec<Incarnation> {
        self.candidates.iter().filter(|(_, c)| now >= c.heard + limit).map(|(member, _)| *member).collect()
    }

    /// When the next one would be silent for too long.
    pub(crate) fn next_silence(&self, limit: Now) -> Option<Now> {
        self.candidates.values().map(|c| c.heard + limit).min()
    }

    /// Everybody, with when they were last heard of.
    pub(crate) fn heard(&self) -> impl Iterator<Item = (Incarnation, Now)> {
        self.candidates.iter().map(|(member, candidate)| (*member, candidate.heard))
    }
}

/// A run that waits for workers: since when, and when that was last told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Waiting {
    since: Now,
    told: Option<Now>,
}

/// What a run that waits does.
pub(crate) enum Patience {
    /// Goes on waiting in silence.
    Waits,
    /// Says what it waits for.
    Tells,
    /// Ends, with this error.
    Over(String),
}

impl Waiting {
    pub(crate) fn new(now: Now) -> Self {
        Self { since: now, told: None }
    }

    pub(crate) fn look(&mut self, options: &MasterOptions, missing: &Missing, now: Now) -> Patience {
        if now >= self.since + options.waiting_limit {
            return Patience::Over(missing.for_too_long(options.waiting_limit / 1000));
        }
        if self.told.is_none_or(|told| now >= told + options.waiting_told_every) {
            self.told = Some(now);
            return Patience::Tells;
        }
        Patience::Waits
    }

    /// When to look again.
    pub(crate) fn next(&self, options: &MasterOptions, now: Now) -> Now {
        (self.told.unwrap_or(now) + options.waiting_told_every).min(self.since + options.waiting_limit)
    }
}
