//! Beats to the master, and what its answers allow.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::planted::{Planted, has};
use crate::rounds::{MemberOptions, Now};

/// Beats whose answers may be outstanding.
const BEATS_KEPT: usize = 16;

/// Clocks differ: a lease ends so much of the limit before the master may give up who holds it.
const CLOCKS_DIFFER_BY: Now = 32;

/// How a member stays in touch: work may go on for nearly as long as the limit says since an answered beat was sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Touch {
    beat: u64,
    sent: BTreeMap<u64, Now>,
    next: Now,
    /// No work begins after this.
    pub(crate) lease_until: Now,
    pub(crate) paused: bool,
}

fn lease(options: &MemberOptions, planted: Option<Planted>) -> Now {
    match has(planted, Planted::ForgetsThatClocksDiffer) {
        true => options.silence_limit,
        false => options.silence_limit - options.silence_limit.div_ceil(CLOCKS_DIFFER_BY),
    }
}

impl Touch {
    pub(crate) fn new(options: &MemberOptions, now: Now) -> Self {
        let lease_until = now + lease(options, None);
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
    pub(crate) fn renew(&mut self, options: &MemberOptions, beat: u64, paused: bool, planted: Option<Planted>) {
        if let Some(sent) = self.sent.remove(&beat) {
            self.lease_until = self.lease_until.max(sent + lease(options, planted));
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
