//! What comes together is one view: whoever joins, and links that are broken, are gathered for a moment.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::edges::{Edges, Remedy};
use super::roster::Roster;
use crate::planted::{Planted, has};
use crate::rounds::{Incarnation, Now, number_of};

/// How long what asks for a view is gathered, in milliseconds.
pub(crate) const GATHERED_FOR: Now = 100;

/// What asks for a new view.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Gathering {
    joined: Vec<Incarnation>,
    broken: BTreeSet<(Incarnation, Incarnation)>,
    until: Option<Now>,
}

/// What follows from it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Due {
    /// Why a view begins, if it does.
    pub(crate) reasons: Vec<String>,
    /// Who goes, and why.
    pub(crate) evicted: Vec<(Incarnation, String)>,
}

impl Gathering {
    /// Somebody has joined; others are waited for so long.
    pub(crate) fn join(&mut self, member: Incarnation, now: Now, wait: Now) {
        self.joined.push(member);
        self.until = Some(self.until.map_or(now + wait, |until| until.min(now + wait)));
    }

    /// Two do not reach each other.
    pub(crate) fn break_up(&mut self, a: Incarnation, b: Incarnation, now: Now) {
        self.broken.insert((a.min(b), a.max(b)));
        self.until.get_or_insert(now + GATHERED_FOR);
    }

    /// What is due: a view with those who have joined, in which all pairs that do not reach each other are mended or parted.
    pub(crate) fn take_due(
        &mut self,
        now: Now,
        roster: &Roster,
        edges: &mut Edges,
        planted: Option<Planted>,
    ) -> Option<Due> {
        self.until.filter(|at| now >= *at)?;
        let Self { joined, broken, .. } = std::mem::take(self);
        let mut due = Due::default();
        let joined: Vec<String> = joined.iter().map(|worker| number_of(*worker)).collect();
        match &joined[..] {
            _ if has(planted, Planted::ForgetsWhoJoined) => {}
            [] => {}
            [one] => due.reasons.push(format!("worker {one} joined")),
            all => due.reasons.push(format!("workers {} joined", all.join(", "))),
        }
        for (a, b) in broken {
            let is_there =
                |member| roster.contains(member) && due.evicted.iter().all(|(evicted, _)| *evicted != member);
            if is_there(a) && is_there(b) {
                match edges.fail(a, b, planted) {
                    Remedy::View(reason) => due.reasons.push(reason),
                    Remedy::Evict(evicted, reason) => due.evicted.push((evicted, reason)),
                }
            }
        }
        Some(due)
    }

    /// A view begins for another reason, with all who are here.
    pub(crate) fn take_all(&mut self, edges: &mut Edges, planted: Option<Planted>) {
        for (a, b) in std::mem::take(self).broken {
            // Should one of them have to go, that is seen when they fail the next time.
            let _ = edges.fail(a, b, planted);
        }
    }

    /// When a view is due.
    pub(crate) fn next(&self) -> Option<Now> {
        self.until
    }
}

/// Reasons beyond so many bytes are not listed.
const LONGEST_REASON: usize = 500;
const AND_OTHERS: &str = "; and others";

/// One more reason for a view.
pub(crate) fn add_reason(reason: &mut String, more: &str) {
    match reason.len() < LONGEST_REASON {
        true => *reason = format!("{reason}; {more}"),
        false if reason.ends_with(AND_OTHERS) => {}
        false => reason.push_str(AND_OTHERS),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_reasons_the_first_are_told() {
        let mut reason = "worker 1 was lost".to_owned();
        (2..500).for_each(|worker| add_reason(&mut reason, &format!("worker {worker} was lost")));
        assert!(reason.starts_with("worker 1 was lost; worker 2 was lost; "), "{reason}");
        assert!(reason.ends_with(" was lost; and others") && reason.len() < 550, "{reason}");
    }

    #[test]
    fn of_pairs_that_share_a_member_only_that_one_goes() {
        let (mut roster, mut edges) = (Roster::default(), Edges::default());
        (1..=3).for_each(|member| roster.join(member, 0));
        let mut fail = || {
            let mut gathering = Gathering::default();
            gathering.break_up(1, 3, 0);
            gathering.break_up(2, 3, 0);
            let due = gathering.take_due(GATHERED_FOR, &roster, &mut edges, None).expect("it is due");
            due.evicted.into_iter().map(|(member, _)| member).collect::<Vec<_>>()
        };
        let evicted: Vec<Vec<Incarnation>> = (0..4).map(|_| fail()).collect();
        assert_eq!(evicted, [vec![], vec![], vec![], vec![3]]);
    }

    #[test]
    fn what_comes_within_a_moment_is_one_view() {
        let mut gathering = Gathering::default();
        gathering.join(1, 1000, GATHERED_FOR);
        gathering.break_up(4, 3, 1020);
        gathering.join(2, 1050, GATHERED_FOR);
        gathering.break_up(3, 4, 1060);
        gathering.break_up(3, 5, 1060);
        let (mut roster, mut edges) = (Roster::default(), Edges::default());
        (1..=4).for_each(|member| roster.join(member, 0));
        assert_eq!(gathering.take_due(1099, &roster, &mut edges, None), None);
        let due = gathering.take_due(1100, &roster, &mut edges, None).expect("it is due");
        assert_eq!(due.reasons, ["workers 1, 2 joined", "workers 3 and 4 do not reach each other"], "there is no 5");
        assert_eq!(due.evicted, []);
        assert_eq!(gathering, Gathering::default());
    }
}
