//! Pairs of members that both reach the master, but not each other.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::planted::{Planted, has};
use crate::rounds::{Incarnation, number_of};

/// A direct link that fails so often is given up: what the two say to each other goes through the master.
const FAILURES_UNTIL_RELAYED: u32 = 2;
/// When that does not help either, one of them has to go.
const FAILURES_UNTIL_EVICTED: u32 = 4;

type Pair = (Incarnation, Incarnation);

fn pair(a: Incarnation, b: Incarnation) -> Pair {
    (a.min(b), a.max(b))
}

/// How often pairs have failed since they last worked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Edges {
    failures: BTreeMap<Pair, u32>,
    relayed: BTreeSet<Pair>,
}

/// What is done about a pair that has failed, and what is told of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Remedy {
    /// A new view, in which the link is tried again or the master carries what they say.
    View(String),
    /// This one goes.
    Evict(Incarnation, String),
}

impl Edges {
    /// Both reach the master, but not each other: the link is tried again, then the master carries what they say.
    pub(crate) fn fail(&mut self, a: Incarnation, b: Incarnation, planted: Option<Planted>) -> Remedy {
        let apart = format!("workers {a} and {b} do not reach each other");
        if has(planted, Planted::NeverRelays) {
            return Remedy::View(apart);
        }
        let failures = self.failures.entry(pair(a, b)).or_default();
        *failures += 1;
        if *failures >= FAILURES_UNTIL_EVICTED {
            let all = |of: Incarnation| -> u32 {
                self.failures.iter().filter(|((a, b), _)| *a == of || *b == of).map(|(_, failures)| failures).sum()
            };
            // Who fails with more of the others, and of equals the one that came later.
            let (evicted, other) = if (all(a), a) > (all(b), b) { (a, b) } else { (b, a) };
            let reason =
                format!("it does not reach worker {} and fails with more peers, or came later", number_of(other));
            return Remedy::Evict(evicted, reason);
        }
        if *failures < FAILURES_UNTIL_RELAYED {
            return Remedy::View(apart);
        }
        self.relayed.insert(pair(a, b));
        Remedy::View(format!("{apart}: what they say goes through the master"))
    }

    /// All of these have got something done together: none of their links is broken any more.
    pub(crate) fn work(&mut self, members: &[Incarnation]) {
        self.failures.retain(|(a, b), _| !(members.contains(a) && members.contains(b)));
    }

    /// One that is gone.
    pub(crate) fn forget(&mut self, member: Incarnation) {
        self.failures.retain(|(a, b), _| *a != member && *b != member);
        self.relayed.retain(|(a, b)| *a != member && *b != member);
    }

    /// Whether the master carries what two say to each other.
    pub(crate) fn are_relayed(&self, a: Incarnation, b: Incarnation) -> bool {
        self.relayed.contains(&pair(a, b))
    }

    /// Where one reaches another: nowhere, if the master carries what they say.
    pub(crate) fn address(&self, from: Incarnation, to: Incarnation, address: String) -> String {
        if self.are_relayed(from, to) { THROUGH_THE_MASTER.into() } else { address }
    }
}

/// Stands for the address of a peer that is reached through the master.
pub const THROUGH_THE_MASTER: &str = "";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pair_is_tried_again_then_relayed_then_parted() {
        let mut edges = Edges::default();
        let is_again = |remedy: Remedy| matches!(remedy, Remedy::View(reason) if !reason.contains("master"));
        assert!(is_again(edges.fail(2, 1, None)));
        edges.work(&[1, 2, 3]);
        assert!(is_again(edges.fail(1, 2, None)), "it has worked in between");
        assert_eq!(edges.address(1, 2, "a".into()), "a");
        assert!(!is_again(edges.fail(2, 1, None)));
        assert_eq!(edges.address(1, 2, "a".into()), THROUGH_THE_MASTER);
        assert_eq!(edges.address(1, 3, "a".into()), "a");
        edges.fail(1, 2, None);
        assert!(matches!(edges.fail(1, 2, None), Remedy::Evict(2, _)));
        edges.forget(2);
        assert_eq!(edges, Edges::default());
    }
}
