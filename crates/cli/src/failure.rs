use paceline::{nn, train};
use paceline_cluster::ClusterError;

/// What the program ends with.
pub(crate) type Exit = u8;

/// It did what was asked.
pub(crate) const DONE: Exit = 0;
/// The command line or the job file cannot be understood.
pub(crate) const MISUSE: Exit = 2;
/// The run failed.
pub(crate) const FAILED: Exit = 1;
/// Somebody pressed Ctrl-C.
pub(crate) const INTERRUPTED: Exit = 130;

/// A command line that clap understands and we do not.
#[derive(Debug)]
pub(crate) struct Misuse(pub String);

impl std::fmt::Display for Misuse {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Misuse {}

/// An error with its causes, each of them once: many say what caused them themselves.
pub(crate) fn sentence(error: &anyhow::Error) -> String {
    let mut told = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if !told.contains(&cause) {
            let between = if told.is_empty() || told.ends_with('\n') { "" } else { ": " };
            told = told + between + &cause;
        }
    }
    told
}

/// The exit status of an error.
pub(crate) fn status(error: &anyhow::Error) -> Exit {
    let of_training = match error.downcast_ref::<ClusterError>() {
        Some(ClusterError::Train(inner)) => Some(inner),
        _ => error.downcast_ref::<train::Error>(),
    };
    let misuse = match of_training {
        Some(
            train::Error::Job { .. }
            | train::Error::Setting { .. }
            | train::Error::Varied { .. }
            | train::Error::BadSetting { .. }
            | train::Error::Unsuitable { .. }
            | train::Error::Folds { .. },
        ) => true,
        Some(train::Error::Network(inner)) => is_description(inner),
        Some(train::Error::Data(inner)) => is_specification(inner),
        Some(_) => false,
        None => {
            error.is::<Misuse>()
                || error.downcast_ref::<paceline::data::Error>().is_some_and(is_specification)
                || error.downcast_ref::<ClusterError>().is_some_and(ClusterError::is_misuse)
        }
    };
    if misuse { MISUSE } else { FAILED }
}

fn is_description(error: &nn::Error) -> bool {
    matches!(
        error,
        nn::Error::Config { .. }
            | nn::Error::Layer { .. }
            | nn::Error::Shape { .. }
            | nn::Error::TooLarge { .. }
            | nn::Error::Incomplete(_)
    )
}

fn is_specification(error: &paceline::data::Error) -> bool {
    use paceline::data::Error;
    matches!(
        error,
        Error::UnknownScheme { .. } | Error::UnknownName { .. } | Error::BadSetting { .. } | Error::Unsuitable { .. }
    )
}
