//! Reading names or tables: an alternative without settings of its own may be written as its bare name.

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

/// The name in `known` that `name` was most likely meant to be.
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let scored = known.into_iter().map(|k| (strsim::damerau_levenshtein(&name.to_lowercase(), k), k));
    scored.min_by_key(|(distance, _)| *distance).filter(|(d, k)| *d <= 1 + k.len().max(name.len()) / 3).map(|(_, k)| k)
}

/// Rewrites serde's messages: a suggestion for an unknown name, and our words for the rest.
///
/// `more` are names that would have been right too but that serde does not know of.
pub fn explain(message: &str, more: &[&str]) -> String {
    let message = message.split(" at line ").next().unwrap_or(message);
    for (what, kind) in [("unknown field `", "key"), ("unknown variant `", "name")] {
        let Some(rest) = message.split_once(what).map(|(_, rest)| rest) else { continue };
        let Some((found, expected)) = rest.split_once('`') else { continue };
        // The names stand between backticks, so every second piece is one.
        let mut known: Vec<&str> = expected.split('`').skip(1).step_by(2).collect();
        known.extend(more);
        known.sort_unstable();
        known.dedup();
        let hint = match nearest(found, known.iter().copied()) {
            Some(name) => format!("did you mean `{name}`?"),
            None => {
                format!("expected one of {}", known.iter().map(|k| format!("`{k}`")).collect::<Vec<_>>().join(", "))
            }
        };
        return format!("unknown {kind} `{found}`; {hint}");
    }
    message.replace("missing field", "missing key")
}

/// Reads an enum from a bare name or a table of one entry; a name alone takes all defaults.
pub(crate) fn named<T: DeserializeOwned>(value: Value) -> Result<T, serde_json::Error> {
    match &value {
        Value::String(name) => {
            let table = Value::Object(Map::from_iter([(name.clone(), Value::Object(Map::new()))]));
            serde_json::from_value(value).or_else(|first| {
                // A kind with settings is not a bare name for serde; an unknown name is unknown both ways.
                if first.to_string().starts_with("unknown variant") {
                    Err(first)
                } else {
                    serde_json::from_value(table)
                }
            })
        }
        Value::Object(map) if map.len() == 1 => {
            let (name, inner) = map.iter().next().expect("one entry");
            let empty = inner.as_object().is_some_and(Map::is_empty);
            let bare = Value::String(name.clone());
            if empty { serde_json::from_value(value).or_else(|_| named(bare)) } else { serde_json::from_value(value) }
        }
        _ => serde_json::from_value(value),
    }
}

/// `deserialize_with` for a required enum.
pub(crate) fn required<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: serde::Deserializer<'de>,
    T: DeserializeOwned,
{
    use serde::{Deserialize, de::Error};
    named(Value::deserialize(deserializer)?).map_err(|e| D::Error::custom(explain(&e.to_string(), &[])))
}

/// `deserialize_with` for an optional enum.
pub(crate) fn optional<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: serde::Deserializer<'de>,
    T: DeserializeOwned,
{
    required(deserializer).map(Some)
}

/// `deserialize_with` for an optional list of enums.
pub(crate) fn optional_list<'de, D, T>(deserializer: D) -> Result<Option<Vec<T>>, D::Error>
where
    D: serde::Deserializer<'de>,
    T: DeserializeOwned,
{
    use serde::{Deserialize, de::Error};
    let values = Vec::<Value>::deserialize(deserializer)?;
    let list: Result<Vec<T>, _> = values.into_iter().map(named).collect();
    list.map(Some).map_err(|e| D::Error::custom(explain(&e.to_string(), &[])))
}

#[cfg(test)]
mod tests {
    use super::{explain, named, nearest};
    use crate::{Activation, Updater};

    #[test]
    fn a_bare_name_takes_the_defaults() {
        let activation: Activation = named("leaky_relu".into()).expect("a name");
        assert_eq!(activation, Activation::LeakyRelu { alpha: 0.01 });
        assert_eq!(named::<Activation>("relu".into()).expect("a name"), Activation::Relu);
        assert_eq!(named::<Updater>("noop".into()).expect("a name"), Updater::Noop);
        let table = serde_json::json!({ "relu": {} });
        assert_eq!(named::<Activation>(table).expect("an empty table"), Activation::Relu);
    }

    #[test]
    fn a_misspelt_name_is_answered_with_the_nearest_one() {
        let error = named::<Activation>("rleu".into()).expect_err("no such name").to_string();
        assert_eq!(explain(&error, &[]), "unknown name `rleu`; did you mean `relu`?");
        assert_eq!(nearest("xyzzyx", ["relu", "tanh"]), None);
    }
}
