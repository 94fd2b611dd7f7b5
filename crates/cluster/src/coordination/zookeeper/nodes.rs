//! The nodes of a run, and what they hold.
//!
//! ```text
//! PATH/term                              {"term":7,"candidate":"NONCE-0000000012"}, changed only by compare-and-set
//! PATH/record                            what the newest master has published; empty before the first
//! PATH/candidates/NONCE-0000000012       ephemeral: who leads or waits; the lowest number may take a term
//! PATH/workers/NONCE~NAME                ephemeral: a worker that is there
//! ```

use serde::{Deserialize, Serialize};

use super::super::{CoordinationError, RunRecord};

/// The paths of a run's nodes.
#[derive(Clone, Debug)]
pub(super) struct Nodes {
    pub(super) root: String,
    pub(super) term: String,
    pub(super) record: String,
    pub(super) candidates: String,
    pub(super) workers: String,
}

/// What the node of the term holds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Term {
    pub(super) term: u64,
    /// The node of the candidate that took it.
    pub(super) candidate: String,
}

/// Where a candidate stands among those who wait.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Position {
    /// It has no node.
    Absent,
    /// Its node is the lowest.
    First {
        /// Its node.
        mine: String,
    },
    /// Another one is before it; no more than the nearest has to be watched.
    Behind {
        /// Its node.
        mine: String,
        /// The nearest.
        nearest: String,
    },
}

impl Nodes {
    pub(super) fn below(root: &str) -> Self {
        let node = |name| format!("{root}/{name}");
        let (term, record) = (node("term"), node("record"));
        Self { root: root.to_owned(), term, record, candidates: node("candidates"), workers: node("workers") }
    }

    pub(super) fn candidate(&self, name: &str) -> String {
        format!("{}/{name}", self.candidates)
    }

    pub(super) fn decode_term(&self, data: &[u8]) -> Result<Term, CoordinationError> {
        serde_json::from_slice(data).map_err(|error| CoordinationError::BadNode {
            node: self.term.clone(),
            expected: "a term and the candidate that took it",
            found: error.to_string(),
        })
    }

    pub(super) fn decode_record(&self, data: &[u8]) -> Result<Option<RunRecord>, CoordinationError> {
        if data.is_empty() {
            return Ok(None);
        }
        RunRecord::decode(data).map(Some).map_err(|found| CoordinationError::BadNode {
            node: self.record.clone(),
            expected: "a record of a run",
            found,
        })
    }
}

impl Term {
    pub(super) fn encode(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("a number and a text")
    }
}

/// Where the candidate whose nodes begin with `prefix` stands. It may have several, if replies were lost: the lowest counts.
pub(super) fn position(candidates: &[String], prefix: &str) -> Position {
    let number = |name: &String| name.rsplit_once('-').and_then(|(_, digits)| digits.parse::<i64>().ok());
    let mut standing: Vec<_> = candidates.iter().filter_map(|name| Some((number(name)?, name))).collect();
    standing.sort_unstable();
    match standing.iter().position(|(_, name)| name.starts_with(prefix)) {
        None => Position::Absent,
        Some(0) => Position::First { mine: standing[0].1.clone() },
        Some(place) => Position::Behind { mine: standing[place].1.clone(), nearest: standing[place - 1].1.clone() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(names: &[&str], prefix: &str) -> Position {
        position(&names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>(), prefix)
    }

    #[test]
    fn the_lowest_number_is_first_whatever_its_name() {
        let names = ["b-0000000010", "c-0000000002", "a-0000000011"];
        assert_eq!(of(&names, "c-"), Position::First { mine: "c-0000000002".into() });
        let behind = |mine: &str, nearest: &str| Position::Behind { mine: mine.into(), nearest: nearest.into() };
        assert_eq!(of(&names, "b-"), behind("b-0000000010", "c-0000000002"));
        assert_eq!(of(&names, "a-"), behind("a-0000000011", "b-0000000010"));
        assert_eq!(of(&names, "d-"), Position::Absent);
    }

    #[test]
    fn a_candidate_never_waits_for_a_second_node_of_its_own() {
        let names = ["a-0000000003", "b-0000000002", "a-0000000001", "stranger"];
        assert_eq!(of(&names, "a-"), Position::First { mine: "a-0000000001".into() });
        let behind = Position::Behind { mine: "b-0000000002".into(), nearest: "a-0000000001".into() };
        assert_eq!(of(&names, "b-"), behind);
    }

    #[test]
    fn what_is_no_term_is_named() {
        let error = Nodes::below("/p").decode_term(b"7").expect_err("no term").to_string();
        assert!(error.contains("`/p/term`"), "{error}");
    }
}
