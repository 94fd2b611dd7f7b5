//! Reading names or tables: an alternative without settings of its own may be written as its bare name.

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::wording::explain;

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
    use super::{explain, named};
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
    }
}
