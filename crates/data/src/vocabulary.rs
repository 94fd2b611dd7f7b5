use std::collections::BTreeSet;

/// The characters that a text may have, by number.
pub(crate) struct Vocabulary {
    /// The characters, in the order of their numbers.
    pub(crate) names: Vec<String>,
    /// The same with their numbers, sorted.
    numbers: Vec<(char, u32)>,
}

impl Vocabulary {
    /// What a model was trained with, or else the characters of a text, sorted.
    pub(crate) fn of(known: Option<&[String]>, text: impl Iterator<Item = char>) -> Self {
        let names: Vec<String> = match known {
            Some(names) => names.to_vec(),
            None => text.collect::<BTreeSet<_>>().into_iter().map(String::from).collect(),
        };
        let mut numbers: Vec<(char, u32)> =
            names.iter().zip(0..).filter_map(|(name, number)| Some((name.chars().next()?, number))).collect();
        numbers.sort_unstable();
        Self { names, numbers }
    }

    /// The number of a character, if it is one of these.
    pub(crate) fn number(&self, character: char) -> Option<u32> {
        let found = self.numbers.binary_search_by_key(&character, |(known, _)| *known);
        found.ok().map(|at| self.numbers[at].1)
    }
}
