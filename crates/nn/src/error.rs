use std::path::PathBuf;

/// Why a network could not be made, or a model file not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A configuration that cannot be understood.
    #[error("{}{message}", if path.is_empty() { String::new() } else { format!("`{path}`: ") })]
    Config {
        /// The key, as a path.
        path: String,
        /// What is wrong and what to do.
        message: String,
    },
    /// A layer whose settings cannot be understood.
    #[error("layer {index} ({kind}): {message}")]
    Layer {
        /// Its index, from 0.
        index: usize,
        /// Its kind, as in the job file.
        kind: String,
        /// What is wrong and what to do.
        message: String,
    },
    /// A layer that does not fit what comes in.
    #[error("layer {index} ({kind}) expects {expected}, got {found}")]
    Shape {
        /// Its index, from 0.
        index: usize,
        /// Its kind, as in the job file.
        kind: &'static str,
        /// What it expects.
        expected: String,
        /// What comes in.
        found: String,
    },
    /// A network with more parameters than there is memory for.
    #[error("the network has {parameters} parameters, which take {} MiB with gradient and updater: there is not that much memory", bytes >> 20)]
    TooLarge {
        /// Trained numbers.
        parameters: usize,
        /// What they take.
        bytes: usize,
    },
    /// A network without layers, or without a loss at its end.
    #[error("a network needs {0}")]
    Incomplete(&'static str),
    /// A file that could not be read or written.
    #[error("cannot {action} `{}`: {source}", path.display())]
    File {
        /// What was tried.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// A model file that cannot be trusted.
    #[error("`{}` is not a whole Paceline model: expected {expected}, found {found}", path.display())]
    ModelFile {
        /// The file.
        path: PathBuf,
        /// What should have been there.
        expected: String,
        /// What was there.
        found: String,
    },
    /// A model file of another version.
    #[error(
        "`{}` has format version {found}, and this program reads up to {known}; use the program that wrote it",
        path.display()
    )]
    Version {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: String,
        /// The newest version that is read here.
        known: u32,
    },
}

impl Error {
    /// A setting that means nothing to an optimiser that searches for how far to go.
    pub(crate) fn not_for_searches(name: &str) -> Self {
        let message = format!(
            "`{name}` is something that updaters know: `optimiser` searches for the lowest loss by itself, and knows `l2` only"
        );
        Self::Config { path: String::new(), message }
    }
}
