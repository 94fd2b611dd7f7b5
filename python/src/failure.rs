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
        E::Job { .. } | E::Setting { .. } | E::BadSetting { .. } | E::Misfit { .. } => setting(&error),
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
        E::UnknownScheme { .. } | E::UnknownName { .. } | E::BadSetting { .. } => setting(error),
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
    let text = error.to_string();
    let mut parts = text.split("`--");
    let mut told = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let Some((option, rest)) = part.split_once('`') else {
            told.extend(["`--", part]);
            continue;
        };
        let value = if matches!(option, "resume" | "overwrite" | "restart") { "=True" } else { "" };
        told.extend(["`", &option.replace('-', "_"), value, "`", rest]);
    }
    told
}
