//! What is wrong with a setting, in words that need no knowledge of Rust.

/// Names that other tools use for what is called otherwise here.
const ELSEWHERE: [(&str, &str); 10] = [
    ("lr", "learning_rate"),
    ("eta", "learning_rate"),
    ("optimizer", "updater"),
    ("optimiser", "updater"),
    ("batch_size", "batch"),
    ("kernel_size", "kernel"),
    ("num_epochs", "epochs"),
    ("n_epochs", "epochs"),
    ("max_epochs", "epochs"),
    ("out_features", "units"),
];

/// Names that are less alike have nothing to do with each other.
const ALIKE: f64 = 0.6;

/// The name in `known` that `name` was most likely meant to be.
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let name = name.to_lowercase();
    let meant = ELSEWHERE.iter().find(|(other, _)| *other == name).map_or("", |(_, ours)| ours);
    let likeness = |known: &str| match known == meant {
        true => 1.0,
        // A beginning, such as `acc` or that of `reluu`, is a better hint than letters in common.
        false if known.len() > 2 && name.starts_with(&known.to_lowercase()) => 0.95,
        false if name.len() > 1 && known.to_lowercase().starts_with(&name) => 0.99,
        false => strsim::normalized_damerau_levenshtein(&name, &known.to_lowercase()),
    };
    let scored = known.into_iter().map(|known| (likeness(known), known));
    scored.max_by(|(a, _), (b, _)| a.total_cmp(b)).filter(|(score, _)| *score >= ALIKE).map(|(_, known)| known)
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
        if kind == "key" {
            known.extend(more);
        }
        known.sort_unstable();
        known.dedup();
        let hint = match nearest(found, known.iter().copied()) {
            Some(name) => format!("did you mean `{name}`?"),
            None => {
                format!("expected one of {}", known.iter().map(|k| format!("`{k}`")).collect::<Vec<_>>().join(", "))
            }
        };
        // A number in quotes where a number or a table of its own may stand.
        if kind == "name" && found.parse::<f64>().is_ok() && known.contains(&"cosine") {
            return format!("expected a number or a schedule, found the text \"{found}\": leave out the quotes");
        }
        return format!("unknown {kind} `{found}`; {hint}");
    }
    for what in ["invalid type: ", "invalid value: ", "invalid length "] {
        if let Some((before, rest)) = message.split_once(what)
            && let Some((found, expected)) = rest.rsplit_once(", expected ")
        {
            return format!("{before}expected {}, found {}", wanted(expected), seen(found));
        }
    }
    message.replace("missing field", "missing key")
}

/// What a type of Rust, or what serde calls it, is for who writes a file.
fn wanted(expected: &str) -> String {
    let length = |text: &str| text.split(' ').find(|word| word.parse::<usize>().is_ok()).map(str::to_owned);
    match expected {
        "u8" => "a whole number from 0 to 255".into(),
        "u16" => "a whole number from 0 to 65,535".into(),
        "u32" => "a whole number from 0 to 4,294,967,295".into(),
        "usize" | "u64" => "a whole number, 0 or more".into(),
        "isize" | "i64" | "i32" => "a whole number".into(),
        "f32" | "f64" => "a number".into(),
        "a boolean" => "`true` or `false`".into(),
        "a string" | "a borrowed string" => "a text".into(),
        "a sequence" => "a list".into(),
        "a map" => "a table".into(),
        _ if expected.starts_with("a nonzero ") => "a whole number above 0".into(),
        _ if expected.starts_with("struct ") => "a table".into(),
        _ if expected.starts_with("enum ") || expected == "string or map" || expected == "unit variant" => {
            "a name".into()
        }
        _ if expected.starts_with("an array of length") || expected.starts_with("a tuple of size") => {
            format!("a list of {}", length(expected).unwrap_or_default())
        }
        "fewer elements in array" | "fewer elements in seq" => "a shorter list".into(),
        _ if expected.contains("struct ") || expected.contains("enum ") => "a table".into(),
        _ => expected.to_owned(),
    }
}

/// What serde has found there.
fn seen(found: &str) -> String {
    if let Some(text) = found.strip_prefix("string ") {
        return format!("the text {text}");
    }
    match found {
        "sequence" => "a list".into(),
        "map" => "a table".into(),
        "null" | "unit value" => "nothing".into(),
        _ if found.parse::<usize>().is_ok() => format!("one of {found}"),
        // A number or a truth value, in backticks.
        _ => found.split_once('`').map_or_else(|| found.to_owned(), |(_, value)| format!("`{value}")),
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::{explain, nearest};

    #[derive(Debug, Deserialize)]
    #[expect(dead_code, reason = "only what is wrong with them is looked at")]
    struct Settings {
        count: Option<usize>,
        small: Option<u8>,
        rate: Option<f64>,
        flag: Option<bool>,
        name: Option<String>,
        pair: Option<(u32, u32)>,
        list: Option<Vec<u32>>,
        inner: Option<Inner>,
        choice: Option<Choice>,
    }

    #[derive(Debug, Deserialize)]
    struct Inner {}

    #[derive(Debug, Deserialize)]
    #[serde(rename_all = "snake_case")]
    enum Choice {
        Red,
    }

    #[test]
    fn no_word_of_rust_is_in_what_is_told() {
        for (text, expected) in [
            (r#"{"count": -3}"#, "expected a whole number, 0 or more, found `-3`"),
            (r#"{"count": 1.5}"#, "expected a whole number, 0 or more, found `1.5`"),
            (
                r#"{"count": "many, expected few"}"#,
                "expected a whole number, 0 or more, found the text \"many, expected few\"",
            ),
            (r#"{"small": 300}"#, "expected a whole number from 0 to 255, found `300`"),
            (r#"{"rate": "fast"}"#, "expected a number, found the text \"fast\""),
            (r#"{"flag": 1}"#, "expected `true` or `false`, found `1`"),
            (r#"{"name": true}"#, "expected a text, found `true`"),
            (r#"{"pair": [1]}"#, "expected a list of 2, found one of 1"),
            (r#"{"list": 4}"#, "expected a list, found `4`"),
            (r#"{"inner": 4}"#, "expected a table, found `4`"),
            (r#"{"choice": 4}"#, "expected a name, found `4`"),
        ] {
            let value: serde_json::Value = serde_json::from_str(text).expect("JSON");
            let error = serde_json::from_value::<Settings>(value).expect_err("it is wrong").to_string();
            assert_eq!(explain(&error, &[]), expected, "{error}");
        }
    }

    #[test]
    fn only_names_that_are_alike_are_suggested() {
        let known = ["epochs", "steps", "workers", "mode", "prefetch", "evaluate", "checkpoint"];
        for (wrong, right) in [("epoch", "epochs"), ("Steps", "steps"), ("worker", "workers"), ("n_epochs", "epochs")] {
            assert_eq!(nearest(wrong, known), Some(right), "{wrong}");
        }
        for wrong in ["dropout", "seed", "device", "gpu", "lr", "x"] {
            assert_eq!(nearest(wrong, known), None, "{wrong}");
        }
        assert_eq!(nearest("lr", ["l1", "l2", "learning_rate"]), Some("learning_rate"));
        assert_eq!(nearest("optimizer", ["updater", "seed"]), Some("updater"));
    }
}
