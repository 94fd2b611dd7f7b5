//! Beats to the master, and what its answers allow.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::rounds::{MemberOptions, Now};

/// Beats whose answers may be outstanding.
const BEATS_KEPT: usize = 16;

/// How a member stays in touch: work may go on for as long as the limit says since an answered beat was sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Touch {
    beat: u64,
    sent: BTreeMap<u64, Now>,
    next: Now,
    /// No work begins after this.
    pub(crate) lease_until: Now,
    pub(crate) paused: bool,
}

impl Touch {
    pub(crate) fn new(options: &MemberOptions, now: Now) -> Self {
        let lease_until = now + options.silence_limit;
        Self { beat: 0, sent: BTreeMap::new(), next: now, lease_until, paused: false }
    }

    /// The beat that is due.
    pub(crate) fn beat(&mut self, options: &MemberOptions, now: Now) -> Option<u64> {
        if now < self.next {
            return None;
        }
        self.beat += 1;
        self.sent.insert(self.beat, now);
        while self.sent.len() > BEATS_KEPT {
            self.sent.pop_first();
        }
        self.next = now + options.beat_every;
        Some(self.beat)
    }

    /// The master has answered a beat.
    pub(crate) fn renew(&mut self, options: &MemberOptions, beat: u64, paused: bool) {
        if let Some(sent) = self.sent.remove(&beat) {
            self.lease_until = self.lease_until.max(sent + options.silence_limit);
            self.paused = paused;
        }
    }

    /// Whether the master must be taken for gone.
    pub(crate) fn is_lost(&self, options: &MemberOptions, now: Now) -> bool {
        now >= self.lease_until + options.patience
    }

    /// When to look again.
    pub(crate) fn next(&self, options: &MemberOptions) -> Now {
        self.next.min(self.lease_until + options.patience)
    }
}
