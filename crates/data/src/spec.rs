//! The grammar of a source specification: `scheme:rest`, and where a scheme has options `csv:path?key=value&key=value`.

use crate::Error;
use crate::suggestion::{Suggestion, listed};

/// The schemes there are.
pub(crate) const SCHEMES: [&str; 14] = [
    "mnist",
    "digits",
    "idx",
    "csv",
    "jsonl",
    "sequences",
    "text",
    "lines",
    "cifar10",
    "images",
    "shards",
    "parquet",
    "partitions",
    "given",
];
/// Those that have options.
const WITH_OPTIONS: [&str; 11] =
    ["mnist", "digits", "csv", "jsonl", "sequences", "text", "lines", "cifar10", "images", "shards", "parquet"];

/// A specification, split at its marks.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Spec<'a> {
    pub(crate) scheme: &'a str,
    pub(crate) rest: &'a str,
    /// Keys and decoded values, in the order given.
    pub(crate) options: Vec<(&'a str, String)>,
}

impl<'a> Spec<'a> {
    pub(crate) fn parse(text: &'a str) -> Result<Self, Error> {
        let unknown = |suggestion| Error::UnknownScheme { spec: text.to_owned(), suggestion };
        let Some((scheme, rest)) = text.split_once(':') else {
            let path = text.split('?').next().unwrap_or(text);
            let suggestion = match SCHEMES.contains(&text) {
                true => Suggestion(Some(format!("{text}:"))),
                false if path.to_lowercase().ends_with(".csv") => Suggestion(Some(format!("csv:{text}"))),
                false if path.to_lowercase().ends_with(".csv.gz") => Suggestion(Some(format!("csv:{text}"))),
                false if path.to_lowercase().ends_with(".parquet") => Suggestion(Some(format!("parquet:{text}"))),
                false if path.to_lowercase().ends_with(".jsonl") => Suggestion(Some(format!("jsonl:{text}"))),
                false => Suggestion::nearest(text, SCHEMES),
            };
            return Err(unknown(suggestion));
        };
        if !SCHEMES.contains(&scheme) {
            let nearest = Suggestion::nearest(scheme, SCHEMES);
            return Err(unknown(Suggestion(nearest.0.map(|name| format!("{name}:{rest}")))));
        }
        // File names of other schemes may hold a question mark.
        let (rest, query) = match scheme {
            scheme if WITH_OPTIONS.contains(&scheme) => rest.rsplit_once('?').unwrap_or((rest, "")),
            _ => (rest, ""),
        };
        let mut options = Vec::new();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let Some((key, value)) = pair.split_once('=') else {
                let expected = "written as `key=value`".to_owned();
                return Err(Error::BadSetting { setting: "option of a source", expected, found: format!("`{pair}`") });
            };
            if options.iter().any(|(known, _)| *known == key) {
                return Err(Error::RepeatedOption { option: key.to_owned(), spec: text.to_owned() });
            }
            options.push((key, percent_decoded(value)));
        }
        Ok(Self { scheme, rest, options })
    }
}

impl Spec<'_> {
    /// Takes out how many examples are wanted, and the seed that they are drawn by.
    pub(crate) fn take_sample(&mut self) -> Result<Option<(usize, u64)>, Error> {
        let mut take = |name: &'static str| match self.options.iter().position(|(key, _)| *key == name) {
            None => Ok(None),
            Some(at) => {
                let (_, value) = self.options.remove(at);
                let number: Option<u64> = value.parse().ok();
                let wrong =
                    || Error::BadSetting { setting: name, expected: "a number".into(), found: format!("`{value}`") };
                number.map(Some).ok_or_else(wrong)
            }
        };
        let (examples, seed) = (take("examples")?, take("seed")?);
        match (examples, seed) {
            (Some(0), _) => {
                Err(Error::BadSetting { setting: "examples", expected: "at least 1".into(), found: "0".into() })
            }
            (Some(examples), seed) => Ok(Some((examples as usize, seed.unwrap_or(0)))),
            (None, None) => Ok(None),
            (None, Some(seed)) => {
                let message = "is for the examples that `examples=N` draws: set that, too, or leave it out".into();
                let _ = seed;
                Err(Error::Unsuitable { setting: "seed", message })
            }
        }
    }

    /// Fails if there are options, which only tables and shards have.
    pub(crate) fn expect_no_options(&self) -> Result<(), Error> {
        match self.options.first() {
            None => Ok(()),
            Some((key, _)) => expect_name("option of a source", key, &["examples", "seed"]),
        }
    }
}

/// More steps than any sequence has.
pub(crate) const MOST: usize = 1 << 24;

/// A number from 1 on.
pub(crate) fn count(setting: &'static str, value: &str) -> Result<usize, Error> {
    value.parse().ok().filter(|count| (1..=MOST).contains(count)).ok_or_else(|| {
        let (expected, found) = (format!("a number from 1 on, and at most {MOST}"), format!("`{value}`"));
        Error::BadSetting { setting, expected, found }
    })
}

/// Fails with the nearest name unless `found` is one of `known`.
pub(crate) fn expect_name(what: &'static str, found: &str, known: &[&str]) -> Result<(), Error> {
    if known.contains(&found) {
        return Ok(());
    }
    Err(Error::UnknownName {
        what,
        found: found.to_owned(),
        expected: listed(known.iter().copied()),
        suggestion: Suggestion::nearest(found, known.iter().copied()),
    })
}

/// Turns `%26` and the like into the characters that would otherwise end a value; anything else stays.
pub(crate) fn percent_decoded(text: &str) -> String {
    let bytes = text.as_bytes();
    let (mut decoded, mut at) = (Vec::with_capacity(bytes.len()), 0);
    while at < bytes.len() {
        let hex = bytes.get(at + 1..at + 3).and_then(|pair| std::str::from_utf8(pair).ok());
        match hex.and_then(|pair| u8::from_str_radix(pair, 16).ok()) {
            Some(byte) if bytes[at] == b'%' => {
                decoded.push(byte);
                at += 3;
            }
            _ => {
                decoded.push(bytes[at]);
                at += 1;
            }
        }
    }
    String::from_utf8(decoded).unwrap_or_else(|_| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::Spec;

    #[test]
    fn a_table_has_a_path_and_decoded_options() {
        let spec = Spec::parse("csv:a dir/x.csv?label=species&delimiter=%3B").unwrap();
        assert_eq!((spec.scheme, spec.rest), ("csv", "a dir/x.csv"));
        assert_eq!(spec.options, [("label", "species".to_owned()), ("delimiter", ";".to_owned())]);
    }

    #[test]
    fn a_wrong_scheme_is_answered_with_the_nearest_one() {
        let message = |spec| Spec::parse(spec).unwrap_err().to_string();
        assert!(message("mnits:train").contains("did you mean `mnist:train`?"), "{}", message("mnits:train"));
        assert!(message("data/iris.csv?label=x").contains("did you mean `csv:data/iris.csv?label=x`?"));
        assert!(message("digits").contains("did you mean `digits:`?"));
    }
}
