use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

/// Something that was decided, and why.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Decision {
    /// When, in seconds since the master started.
    pub seconds_since_start: f64,
    /// What, with its reason.
    pub what: String,
}

/// What was decided lately, oldest first. Older decisions are forgotten, long ones cut short: a run of weeks, or a worker
/// with endless excuses, does not fill the memory.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Decisions(VecDeque<Decision>);

impl Decisions {
    /// How many are kept.
    pub const KEPT: usize = 50;
    /// Characters of one that are kept.
    pub const CHARACTERS: usize = 500;

    /// Adds the newest; forgets the oldest if there are too many.
    pub fn push(&mut self, seconds_since_start: f64, what: &str) {
        while self.0.len() >= Self::KEPT {
            self.0.pop_front();
        }
        let what = match what.char_indices().nth(Self::CHARACTERS) {
            Some((end, _)) => format!("{}…", &what[..end]),
            None => what.to_owned(),
        };
        self.0.push_back(Decision { seconds_since_start, what });
    }

    /// All of them, oldest first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Decision> + ExactSizeIterator {
        self.0.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::{Decision, Decisions};

    #[test]
    fn the_newest_fifty_are_kept() {
        let mut decisions = Decisions::default();
        (0..173).for_each(|number| decisions.push(f64::from(number), &format!("decision {number}")));
        let kept: Vec<&Decision> = decisions.iter().collect();
        assert_eq!(kept.len(), 50);
        assert_eq!(*kept[0], Decision { seconds_since_start: 123.0, what: "decision 123".to_owned() });
        assert_eq!(kept[49].what, "decision 172");
    }

    #[test]
    fn a_long_one_is_cut_between_characters() {
        let mut decisions = Decisions::default();
        decisions.push(0.0, &"é".repeat(500));
        decisions.push(1.0, &"é".repeat(501));
        let kept: Vec<&str> = decisions.iter().map(|decision| decision.what.as_str()).collect();
        assert_eq!(kept, ["é".repeat(500), format!("{}…", "é".repeat(500))]);
    }
}
