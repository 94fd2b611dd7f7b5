//! What comes together is one view: whoever joins, and links that are broken, are gathered for a moment.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::rounds::{Incarnation, Now};

/// How long what asks for a view is gathered, in milliseconds.
const GATHERED_FOR: Now = 100;

/// What asks for a new view.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Gathering {
    joined: Vec<Incarnation>,
    broken: BTreeSet<(Incarnation, Incarnation)>,
    until: Option<Now>,
}

impl Gathering {
    /// Somebody has joined.
    pub(crate) fn join(&mut self, member: Incarnation, now: Now) {
        self.joined.push(member);
        self.until.get_or_insert(now + GATHERED_FOR);
    }

    /// Two do not reach each other.
    pub(crate) fn break_up(&mut self, a: Incarnation, b: Incarnation, now: Now) {
        self.broken.insert((a.min(b), a.max(b)));
        self.until.get_or_insert(now + GATHERED_FOR);
    }

    /// Why a view is due, and which pairs are broken.
    pub(crate) fn take_due(&mut self, now: Now) -> Option<(String, BTreeSet<(Incarnation, Incarnation)>)> {
        self.until.filter(|at| now >= *at)?;
        let Self { joined, broken, .. } = std::mem::take(self);
        let joined: Vec<String> = joined.iter().map(Incarnation::to_string).collect();
        let reason = match &joined[..] {
            [] => String::new(),
            [one] => format!("worker {one} joined"),
            all => format!("workers {} joined", all.join(", ")),
        };
        Some((reason, broken))
    }

    /// A view begins for another reason, with all who are here.
    pub(crate) fn take_broken(&mut self) -> BTreeSet<(Incarnation, Incarnation)> {
        std::mem::take(self).broken
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
    fn what_comes_within_a_moment_is_one_view() {
        let mut gathering = Gathering::default();
        gathering.join(1, 1000);
        gathering.break_up(4, 3, 1020);
        gathering.join(2, 1050);
        gathering.break_up(3, 4, 1060);
        gathering.break_up(3, 5, 1060);
        assert_eq!(gathering.take_due(1099), None);
        let due = gathering.take_due(1100);
        assert_eq!(due, Some(("workers 1, 2 joined".into(), BTreeSet::from([(3, 4), (3, 5)]))));
        assert_eq!(gathering, Gathering::default());
    }
}
