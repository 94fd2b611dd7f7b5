//! Errors as exceptions, with the same sentences as on the command line.

use paceline::{data, nn, train};
use paceline_cluster::ClusterError;
use pyo3::{PyErr, import_exception};

// Classes of Python: `SettingError` has two bases.
import_exception!(paceline.errors, Error);
import_exception!(paceline.errors, SettingError);

pub(crate) fn of_train(error: train::Error) -> PyErr {
    use train::Error as E;
    match &error {
        E::Job { .. }
        | E::Setting { .. }
        | E::BadSetting { .. }
        | E::Unsuitable { .. }
        | E::OtherModel { .. }
        | E::Misfit { .. } => setting(&error),
        E::Network(inner) => of_network(inner),
        E::Data(inner) => of_data(inner),
        _ => Error::new_err(in_python(&error)),
    }
}

pub(crate) fn of_network(error: &nn::Error) -> PyErr {
    use nn::Error as E;
    match error {
        E::Config { .. } | E::Layer { .. } | E::Shape { .. } | E::TooLarge { .. } | E::Incomplete(_) => setting(error),
        _ => Error::new_err(in_python(&error)),
    }
}

pub(crate) fn of_data(error: &data::Error) -> PyErr {
    use data::Error as E;
    match error {
        E::UnknownScheme { .. }
        | E::UnknownName { .. }
        | E::BadSetting { .. }
        | E::Unsuitable { .. }
        | E::NotFinite { .. }
        | E::ShapeMismatch { .. }
        | E::LabelOutOfRange { .. }
        | E::LabelCount { .. }
        | E::IndexOutOfRange { .. } => setting(error),
        _ => Error::new_err(in_python(&error)),
    }
}

pub(crate) fn of_cluster(error: ClusterError) -> PyErr {
    match error {
        ClusterError::Train(error) => of_train(error),
        ClusterError::Data(error) => of_data(&error),
        error if error.is_misuse() => setting(&error),
        error => Error::new_err(in_python(&error)),
    }
}

fn setting(error: &dyn std::fmt::Display) -> PyErr {
    SettingError::new_err(in_python(error))
}

/// The sentence of an error with the arguments of Python in place of the options of the command line.
fn in_python(error: &dyn std::fmt::Display) -> String {
    spoken(&error.to_string())
}

/// Remedies in the words of a job file, and the same in Python.
const SENTENCES: [(&str, &str); 4] = [
    ("set `data.test` or `data.test_share`", "pass it to `fit`, as in `fit(train, test)`"),
    ("name the test data with `data.test`", "pass the test data to `fit`, as in `fit(train, test)`"),
    (", or, if every class has several rows, set `data.stratified = true`", ""),
    ("`paceline train --resume` continues it", "`resume=True` continues it"),
];

/// A sentence, or a line of JSON with sentences, with the arguments of Python in place of options and of keys of a job file.
pub(crate) fn spoken(text: &str) -> String {
    let mut text = text.to_owned();
    for (sentence, instead) in SENTENCES {
        text = text.replace(sentence, instead);
    }
    let parts: Vec<&str> = text.split('`').collect();
    // Behind every second backtick there is code; a text without its last one has none there.
    let is_code = |place: usize| place % 2 == 1 && place + 1 < parts.len();
    let each = |(place, part): (usize, &&str)| match is_code(place) {
        true => argument(part).unwrap_or_else(|| (*part).to_owned()),
        false => (*part).to_owned(),
    };
    parts.iter().enumerate().map(each).collect::<Vec<_>>().join("`")
}

/// Keys of the tables `data` and `train` that are arguments of a `Trainer`.
const ARGUMENTS: [&str; 20] = [
    "auc_thresholds",
    "batch",
    "by_length",
    "checkpoint",
    "class_weights",
    "early_stopping",
    "epochs",
    "evaluate",
    "evaluate_every",
    "global_batch",
    "micro_batch",
    "mode",
    "normaliser",
    "plateau",
    "seed",
    "shuffle",
    "steps",
    "target_normaliser",
    "test",
    "workers",
];

/// The argument that an option or a key of a job file is in Python; none if it is neither.
fn argument(code: &str) -> Option<String> {
    if let Some(option) = code.strip_prefix("--") {
        let name = option.split(' ').next().unwrap_or_default();
        return Some(match name {
            "resume" | "overwrite" | "restart" | "force" => format!("{name}=True"),
            "partition" => "partitions".to_owned(),
            "token-file" | "status-token-file" => name.trim_end_matches("-file").replace('-', "_"),
            _ => name.replace('-', "_"),
        });
    }
    let rest = code.strip_prefix("data.").or_else(|| code.strip_prefix("train."))?;
    let (key, value) = rest.split_once(" = ").map_or((rest, None), |(key, value)| (key, Some(value)));
    if !ARGUMENTS.contains(&key) {
        return None;
    }
    Some(match value {
        None => key.to_owned(),
        Some("true") => format!("{key}=True"),
        Some("false") => format!("{key}=False"),
        Some(value) => format!("{key}={value}"),
    })
}
