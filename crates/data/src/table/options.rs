use std::fmt;

use serde::{Deserialize, Serialize};

use super::Format;
use crate::Error;
use crate::spec::expect_name;

/// The options of `csv:path?key=value&…`, and of `jsonl:path` but for `header` and `delimiter`. A column is named by its header or by its place from 0; -1 is the last.
///
/// With the schema of a trained model, `columns`, `drop`, `categories` and `task` are those of the training file.
#[derive(Clone, Debug, PartialEq)]
pub struct TableOptions {
    /// `label=species`: the column to predict; several (`label=a,b`) are numbers to predict. None: no targets.
    pub label: Vec<String>,
    /// `columns=a,b,c`: the features; left out: every column but label and weight.
    pub columns: Option<Vec<String>>,
    /// `drop=a,b`: columns that are not features.
    pub drop: Vec<String>,
    /// `categories=a,b`: columns of numbers that are names, such as postal codes.
    pub categories: Vec<String>,
    /// `classes=a,b,c`: all classes there are, in their order; left out: those that the label column has.
    pub classes: Option<Vec<String>>,
    /// `weight=column`: the weight of each example.
    pub weight: Option<String>,
    /// `group=column`: what belongs together stays together when the table is split; it is no feature.
    pub group: Option<String>,
    /// `unknown=error|ignore`: what is done about a category that the training file does not have.
    pub unknown: Option<Unknown>,
    /// `header=auto|yes|no`; auto: the first row is a header if no cell of it is a number.
    pub header: Header,
    /// `delimiter=;` or `delimiter=tab`; left out: a comma, or a tab for a file called `.tsv`.
    pub delimiter: Option<u8>,
    /// `missing=error|drop|mean|value:NUMBER`: what is done about cells that are empty, NA, N/A, NaN, null or `?`.
    pub missing: Option<Missing>,
    /// `task=classes|regression`; left out, a label is a class if it is text, or whole numbers from 0 up with few
    /// distinct values: at most a tenth of the rows, but 10 are always few and 100 the most.
    pub task: Option<Task>,
}

/// Whether the first row names the columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Header {
    /// It does if no cell of it is a number.
    Auto,
    /// It does.
    Yes,
    /// It does not.
    No,
}

/// What a label column is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    /// Its distinct values are classes.
    Classes,
    /// Its numbers are to be predicted.
    Regression,
}

/// What is done about a category that the training file does not have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unknown {
    /// Reading fails and says where.
    #[default]
    Error,
    /// It becomes none of the names: all its features are 0.
    Ignore,
}

impl Unknown {
    pub(crate) fn is_error(&self) -> bool {
        *self == Self::Error
    }
}

/// What is done about a missing value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Missing {
    /// Reading fails and says where.
    #[default]
    Error,
    /// The row is left out.
    Drop,
    /// A number becomes the mean of its column in the training file; a category becomes none of its names.
    Mean,
    /// A number becomes this one; a category becomes none of its names.
    Value(f32),
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Error => f.write_str("error"),
            Self::Drop => f.write_str("drop"),
            Self::Mean => f.write_str("mean"),
            Self::Value(value) => write!(f, "value:{value}"),
        }
    }
}

impl TableOptions {
    const NAMES: [&str; 12] = [
        "label",
        "classes",
        "columns",
        "drop",
        "categories",
        "weight",
        "missing",
        "task",
        "group",
        "unknown",
        "header",
        "delimiter",
    ];

    pub(crate) fn parse(pairs: &[(&str, String)], format: Format) -> Result<Self, Error> {
        let mut options = Self {
            label: Vec::new(),
            columns: None,
            drop: Vec::new(),
            categories: Vec::new(),
            classes: None,
            weight: None,
            group: None,
            unknown: None,
            header: Header::Auto,
            delimiter: None,
            missing: None,
            task: None,
        };
        let (what, known) = match format {
            Format::Csv => ("option of `csv:`", &Self::NAMES[..]),
            // All but the last two.
            Format::JsonLines => ("option of `jsonl:`", &Self::NAMES[..Self::NAMES.len() - 2]),
        };
        for (key, value) in pairs {
            let list = || value.split(',').map(|name| name.trim().to_owned()).collect::<Vec<_>>();
            match *key {
                "label" => options.label = list(),
                "columns" => options.columns = Some(list()),
                "drop" => options.drop = list(),
                "categories" => options.categories = list(),
                "classes" => options.classes = Some(declared_classes(list())?),
                "weight" => options.weight = Some(value.clone()),
                "group" => options.group = Some(value.clone()),
                "unknown" => {
                    expect_name("value of `unknown`", value, &["error", "ignore"])?;
                    options.unknown = Some(if value == "ignore" { Unknown::Ignore } else { Unknown::Error });
                }
                "header" | "delimiter" if format == Format::JsonLines => expect_name(what, key, known)?,
                "header" => {
                    expect_name("value of `header`", value, &["auto", "yes", "no"])?;
                    options.header = match value.as_str() {
                        "yes" => Header::Yes,
                        "no" => Header::No,
                        _ => Header::Auto,
                    };
                }
                "delimiter" => options.delimiter = Some(parse_delimiter(value)?),
                "missing" => options.missing = Some(parse_missing(value)?),
                "task" => {
                    expect_name("value of `task`", value, &["classes", "regression"])?;
                    options.task = Some(if value == "classes" { Task::Classes } else { Task::Regression });
                }
                _ => expect_name(what, key, known)?,
            }
        }
        if options.classes.is_some() && (options.label.len() != 1 || options.task == Some(Task::Regression)) {
            let (expected, found) = ("used beside one `label` column of classes".to_owned(), "set".to_owned());
            return Err(Error::BadSetting { setting: "classes", expected, found });
        }
        if options.label.len() > 1 && options.task == Some(Task::Classes) {
            let (expected, found) = ("one column when `task=classes`".to_owned(), options.label.join(","));
            return Err(Error::BadSetting { setting: "label", expected, found });
        }
        Ok(options)
    }
}

/// Fails for a class that is named twice.
fn declared_classes(names: Vec<String>) -> Result<Vec<String>, Error> {
    let twice = names.iter().enumerate().find(|(at, name)| names[..*at].contains(name));
    match twice {
        None => Ok(names),
        Some((_, name)) => {
            let expected = "a list in which every class is named once".to_owned();
            Err(Error::BadSetting { setting: "classes", expected, found: format!("`{name}` twice") })
        }
    }
}

fn parse_delimiter(value: &str) -> Result<u8, Error> {
    match value.as_bytes() {
        b"tab" | b"\\t" => Ok(b'\t'),
        [byte] if byte.is_ascii() && !matches!(byte, b'"' | b'\n' | b'\r') => Ok(*byte),
        _ => {
            let expected = "one ASCII character or `tab` (write `&` as %26)".to_owned();
            Err(Error::BadSetting { setting: "delimiter", expected, found: format!("`{value}`") })
        }
    }
}

fn parse_missing(value: &str) -> Result<Missing, Error> {
    if let Some(number) = value.strip_prefix("value:") {
        return match number.parse::<f32>() {
            Ok(number) if number.is_finite() => Ok(Missing::Value(number)),
            _ => {
                let expected = "`value:` and a finite number".to_owned();
                Err(Error::BadSetting { setting: "missing", expected, found: format!("`{value}`") })
            }
        };
    }
    expect_name("value of `missing`", value, &["error", "drop", "mean", "value:NUMBER"])?;
    Ok(match value {
        "drop" => Missing::Drop,
        "mean" => Missing::Mean,
        "error" => Missing::Error,
        _ => {
            let expected = "a number after `value:`".to_owned();
            return Err(Error::BadSetting { setting: "missing", expected, found: format!("`{value}`") });
        }
    })
}

#[cfg(test)]
mod tests {
    use super::{Format, Missing, TableOptions};

    #[test]
    fn an_unknown_option_is_answered_with_the_nearest_one() {
        let message = TableOptions::parse(&[("lable", "x".to_owned())], Format::Csv).unwrap_err().to_string();
        assert!(message.contains("did you mean `label`?"), "{message}");
        let message = TableOptions::parse(&[("missing", "meen".to_owned())], Format::Csv).unwrap_err().to_string();
        assert!(message.contains("did you mean `mean`?"), "{message}");
    }

    #[test]
    fn the_rule_for_missing_values_prints_as_it_is_written() {
        for rule in ["error", "drop", "mean", "value:-1.5"] {
            let options = TableOptions::parse(&[("missing", rule.to_owned())], Format::Csv).unwrap();
            assert_eq!(options.missing.unwrap().to_string(), rule);
        }
        assert_eq!(Missing::default(), Missing::Error);
    }
}
