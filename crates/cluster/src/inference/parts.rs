//! Who runs the model over which part of the data, and what has come of it.

use std::collections::{BTreeMap, BTreeSet};

use crate::transport::LinkId;

/// Who computes: a helper, or this process.
pub(super) type Who = Option<LinkId>;

/// The parts of a pass, from the first to the last.
pub(super) struct Parts<A> {
    count: usize,
    /// The first that nobody was given yet.
    next: usize,
    /// The first that was not handed on yet.
    first: usize,
    /// Those of helpers that have gone.
    back: BTreeSet<usize>,
    out: BTreeMap<usize, BTreeSet<Who>>,
    done: BTreeMap<usize, A>,
}

impl<A> Parts<A> {
    /// So many, all of them to be done.
    pub(super) fn new(count: usize) -> Self {
        Self { count, next: 0, first: 0, back: BTreeSet::new(), out: BTreeMap::new(), done: BTreeMap::new() }
    }

    /// The part that somebody does next, of those that are not too far ahead of the first: what is done waits in memory for those
    /// before it.
    ///
    /// This process never waits for a helper: when all is given out, it does what helpers have not done yet, once.
    pub(super) fn give(&mut self, who: Who, ahead: usize) -> Option<usize> {
        let is_new = self.next < self.count && self.next < self.first + ahead;
        let part = self.back.pop_first().or_else(|| is_new.then_some(self.next));
        let part = part.or_else(|| {
            let mut others = self.out.iter().filter(|(_, by)| who.is_none() && !by.contains(&None));
            others.next().map(|(part, _)| *part)
        })?;
        self.next = self.next.max(part + 1);
        self.out.entry(part).or_default().insert(who);
        Some(part)
    }

    /// Whether anybody was given a part so far.
    pub(super) fn was_given(&self, part: usize) -> bool {
        part < self.next
    }

    /// What came of a part, and whether that is news: whoever is second says the same, and is not heard.
    pub(super) fn take(&mut self, part: usize, answer: A) -> bool {
        let is_news = self.out.remove(&part).is_some() || self.back.remove(&part);
        if is_news {
            self.done.insert(part, answer);
        }
        is_news
    }

    /// Somebody has gone: what nobody else does is done anew. Says how many parts that are.
    pub(super) fn gone(&mut self, who: Who) -> usize {
        let mut again = 0;
        self.out.retain(|part, by| {
            by.remove(&who);
            if by.is_empty() {
                self.back.insert(*part);
                again += 1;
            }
            !by.is_empty()
        });
        again
    }

    /// The next answer in the order of the data.
    pub(super) fn hand_on(&mut self) -> Option<A> {
        let answer = self.done.remove(&self.first)?;
        self.first += 1;
        Some(answer)
    }

    /// Whether all were handed on.
    pub(super) fn is_over(&self) -> bool {
        self.first == self.count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn helper(number: u64) -> Who {
        Some(LinkId::new(number))
    }

    fn all<A>(parts: &mut Parts<A>) -> Vec<A> {
        std::iter::from_fn(|| parts.hand_on()).collect()
    }

    #[test]
    fn answers_come_in_the_order_of_the_data() {
        let mut parts = Parts::new(3);
        let given: Vec<_> = [None, helper(1), helper(2), helper(2)].map(|who| parts.give(who, 10)).into();
        assert_eq!(given, [Some(0), Some(1), Some(2), None]);
        parts.take(2, 'c');
        parts.take(0, 'a');
        assert_eq!(all(&mut parts), ['a']);
        parts.take(1, 'b');
        assert_eq!(all(&mut parts), ['b', 'c']);
        assert!(parts.is_over());
    }

    #[test]
    fn parts_of_a_helper_that_has_gone_come_again() {
        let mut parts = Parts::<char>::new(4);
        let given: Vec<_> = [helper(1), helper(2), helper(1)].map(|who| parts.give(who, 10)).into();
        assert_eq!(given, [Some(0), Some(1), Some(2)]);
        assert_eq!(parts.gone(helper(1)), 2);
        let given: Vec<_> = [helper(2), None, None].map(|who| parts.give(who, 10)).into();
        assert_eq!(given, [Some(0), Some(2), Some(3)]);
    }

    #[test]
    fn nobody_runs_further_ahead_than_memory_allows() {
        let mut parts = Parts::new(9);
        assert_eq!([helper(1), helper(2), helper(3)].map(|who| parts.give(who, 2)), [Some(0), Some(1), None]);
        parts.take(1, 'b');
        assert_eq!(parts.give(helper(2), 2), None, "the first is still missing");
        parts.take(0, 'a');
        assert_eq!(all(&mut parts), ['a', 'b']);
        assert_eq!([helper(1), helper(2), helper(3)].map(|who| parts.give(who, 2)), [Some(2), Some(3), None]);
    }

    #[test]
    fn this_process_waits_for_no_helper_and_the_second_answer_is_not_heard() {
        let mut parts = Parts::new(2);
        assert_eq!([helper(1), helper(1)].map(|who| parts.give(who, 10)), [Some(0), Some(1)]);
        assert_eq!([None, None, None, helper(2)].map(|who| parts.give(who, 10)), [Some(0), Some(1), None, None]);
        assert!(parts.take(0, 'a'));
        assert!(!parts.take(0, 'x'));
        assert_eq!(parts.gone(helper(1)), 0, "this process does the other one");
        parts.take(1, 'b');
        parts.take(1, 'y');
        assert_eq!(all(&mut parts), ['a', 'b']);
        assert!(parts.is_over());
    }
}
