use std::fmt;

/// The name that was probably meant, if any comes near; prints as the end of an error message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Suggestion(pub Option<String>);

impl Suggestion {
    /// The candidate nearest to `found`, unless even that is too far away to have been meant.
    pub fn nearest<'a>(found: &str, candidates: impl IntoIterator<Item = &'a str>) -> Self {
        let found = found.to_lowercase();
        let best = candidates
            .into_iter()
            .map(|candidate| (likeness(&found, &candidate.to_lowercase()), candidate))
            .max_by(|(a, _), (b, _)| a.total_cmp(b));
        // Below this the "nearest" name reads like a non sequitur.
        Self(best.filter(|(score, _)| *score >= 0.65).map(|(_, name)| name.to_owned()))
    }
}

/// Likeness from 0 to 1: by common letters for long names, by single slips for short ones such as `cvs`.
fn likeness(a: &str, b: &str) -> f64 {
    strsim::jaro_winkler(a, b).max(strsim::normalized_damerau_levenshtein(a, b))
}

impl fmt::Display for Suggestion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Some(name) => write!(f, "; did you mean `{name}`?"),
            None => Ok(()),
        }
    }
}

/// Names in backticks with commas, cut off where a list would fill the screen.
pub(crate) fn listed<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    const MOST: usize = 20;
    let names: Vec<&str> = names.into_iter().collect();
    let mut text = names.iter().take(MOST).map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    if names.len() > MOST {
        text.push_str(&format!(" and {} more", names.len() - MOST));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::Suggestion;

    #[test]
    fn a_near_name_is_suggested_and_a_far_one_is_not() {
        assert_eq!(Suggestion::nearest("lable", ["label", "columns"]).0.as_deref(), Some("label"));
        assert_eq!(Suggestion::nearest("cvs", ["idx", "csv"]).0.as_deref(), Some("csv"));
        assert_eq!(Suggestion::nearest("xyz", ["label", "columns"]).0, None);
    }
}
