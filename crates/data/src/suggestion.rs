use std::fmt;

/// The name that was probably meant, if any comes near; prints as the end of an error message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Suggestion(pub Option<String>);

impl Suggestion {
    /// The candidate nearest to `found`, unless even that is too far away to have been meant.
    pub fn nearest<'a>(found: &str, candidates: impl IntoIterator<Item = &'a str>) -> Self {
        let found = found.to_lowercase();
        let likeness = |name: &str| match name.to_lowercase() {
            // A beginning, such as `acc`, is a better hint than letters in common.
            name if found.len() > 1 && name.starts_with(&found) && name != found => 0.99,
            name => strsim::normalized_damerau_levenshtein(&found, &name),
        };
        let best = candidates.into_iter().map(|name| (likeness(name), name)).max_by(|(a, _), (b, _)| a.total_cmp(b));
        // Below this the "nearest" name reads like a non sequitur.
        Self(best.filter(|(score, _)| *score >= 0.6).map(|(_, name)| name.to_owned()))
    }
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
        assert_eq!(Suggestion::nearest("species", ["petal", "sepal", "price"]).0, None);
    }
}
