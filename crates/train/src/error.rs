use std::path::PathBuf;

use crate::run::folder::Holds;
use crate::team::gate::Broken;

/// Why a run could not begin or go on.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A job file that cannot be understood.
    #[error("{origin}{}: {message}", line.map(|l| format!(", line {l}")).unwrap_or_default())]
    Job {
        /// The file, or what stands in for one.
        origin: String,
        /// The line, where it is known.
        line: Option<usize>,
        /// What is wrong and what to do.
        message: String,
    },
    /// A setting on the command line that cannot be understood.
    #[error("`--set {setting}`: {message}")]
    Setting {
        /// The setting, as it was given.
        setting: String,
        /// What is wrong and what to do.
        message: String,
    },
    /// A key or a value of a search that cannot be understood.
    #[error("the trial with `{setting}`: {message}")]
    Varied {
        /// The setting of a trial.
        setting: String,
        /// What is wrong and what to do.
        message: String,
    },
    /// A model that is not of the network that is trained.
    #[error("the model to begin with does not fit the network: expected {expected}, found {found}")]
    OtherModel {
        /// What the network has there.
        expected: String,
        /// What the model has.
        found: String,
    },
    /// Data that nobody sees whole.
    #[error(
        "`data.test_share` cannot be taken from partitions, which nobody sees whole: name the test data with `data.test`"
    )]
    PartitionsAreNotSplit,
    /// Data that could not be had.
    #[error(transparent)]
    Data(#[from] paceline_data::Error),
    /// A network that could not be made, or a model file that could not be read or written.
    #[error(transparent)]
    Network(#[from] paceline_nn::Error),
    /// A batch that does not fit.
    #[error(transparent)]
    Model(#[from] paceline_model::Error),
    /// Data and network that do not fit each other.
    #[error("the {what} data has {found}, but the network expects {expected}")]
    Misfit {
        /// Which data.
        what: &'static str,
        /// What it has.
        found: String,
        /// What the network expects.
        expected: String,
    },
    /// A folder that cannot be written to.
    #[error("cannot write to the output folder `{}`: {source}; choose another with `--output`", path.display())]
    Output {
        /// The folder.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// A folder that another run is writing to.
    #[error("the output folder `{}` is in use by {by} run; wait for it, or choose another with `--output`", path.display())]
    FolderInUse {
        /// The folder.
        path: PathBuf,
        /// By whom.
        by: String,
    },
    /// A folder with a run that nobody said what to do with.
    #[error("`{}` holds {}", path.display(), holds.sentence())]
    RunExists {
        /// The folder.
        path: PathBuf,
        /// What is there.
        holds: Holds,
    },
    /// A run that does not fit the memory.
    #[error(
        "the run needs at least {} GiB of memory, and {} GiB are available: make the network or the batch smaller{}",
        gibibytes(*needed), gibibytes(*available), if *can_force { ", or try with `--force`" } else { "" }
    )]
    NotEnoughMemory {
        /// Bytes that it needs.
        needed: u64,
        /// Bytes that there are.
        available: u64,
        /// True if an option of the command makes it try all the same.
        can_force: bool,
    },
    /// A file that a run reads, in the place of one that it would write.
    #[error("`{}` is read by this run, and would be written or removed by it: choose another folder with `--output`", path.display())]
    InputInTheWay {
        /// The file.
        path: PathBuf,
    },
    /// A file that a run would write, and that no run has written.
    #[error("`{}` is in the way: a run would write it, and no run has; `--output` chooses another folder, `--overwrite` replaces the file", path.display())]
    FileInTheWay {
        /// The file.
        path: PathBuf,
    },
    /// Messages that cannot be written down.
    #[error("cannot write messages to `{}`: {source}; choose another folder with `train.mode.shared.dump`, or leave it out", path.display())]
    Dump {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// Trials of another search.
    #[error("`{}` has the trials of another search: of another job, or with other keys; use another `--output`, or `--overwrite` to begin anew", path.display())]
    OtherTuning {
        /// Where they are.
        path: PathBuf,
    },
    /// Nothing was judged that should have been.
    #[error("nothing was judged: the data has no targets, and the network wants some")]
    NothingToJudge,
    /// Nothing to go on from.
    #[error("there is no checkpoint `{}` to resume from; run without `--resume` to start anew", path.display())]
    NothingToResume {
        /// Where one was looked for.
        path: PathBuf,
    },
    /// A checkpoint of another run.
    #[error("`{}` is a checkpoint of another run: its {what} is {found}, the job's is {expected}; use another `--output`, or run without `--resume`", path.display())]
    OtherRun {
        /// The checkpoint.
        path: PathBuf,
        /// What differs.
        what: String,
        /// What the job has.
        expected: String,
        /// What the checkpoint has.
        found: String,
    },
    /// A loss that is no number.
    #[error("the loss became {loss} at step {step} (epoch {}): {cause}; {checkpoint}", epoch + 1)]
    NotFinite {
        /// The loss.
        loss: f64,
        /// The step, from 0.
        step: u64,
        /// The epoch, from 0.
        epoch: u64,
        /// What most likely made it so.
        cause: String,
        /// The last good checkpoint, in words.
        checkpoint: String,
    },
    /// A setting that does not suit the job.
    #[error("`{setting}` {message}")]
    Unsuitable {
        /// The setting.
        setting: &'static str,
        /// Why, and the remedy.
        message: String,
    },
    /// A setting that makes no sense.
    #[error("`{setting}`: expected {expected}, found {found}")]
    BadSetting {
        /// The setting.
        setting: &'static str,
        /// What it may be.
        expected: &'static str,
        /// What it is.
        found: String,
    },
    /// More folds than examples.
    #[error("`--cv {folds}`: {examples} examples allow 2 to {examples} folds")]
    Folds {
        /// The folds that were asked for.
        folds: usize,
        /// The examples there are.
        examples: usize,
    },
    /// An update that cannot be shared.
    #[error(transparent)]
    Exchange(#[from] paceline_exchange::Error),
    /// A message that makes no sense.
    #[error(transparent)]
    Message(#[from] paceline_exchange::MessageError),
    /// A replica that panicked.
    #[error("worker {worker} panicked: {message}")]
    WorkerPanicked {
        /// The replica, from 0.
        worker: usize,
        /// What it said.
        message: String,
    },
    /// Whatever reads the examples of a replica panicked.
    #[error("reading examples panicked: {message}")]
    ReaderPanicked {
        /// What it said.
        message: String,
    },
    /// A thread that could not be started.
    #[error("cannot start a thread for a worker: {source}; use fewer with `--workers`")]
    WorkerThread {
        /// Why not.
        source: std::io::Error,
    },
    /// A request that was not answered, or a model that cannot answer instead of another one.
    #[error(transparent)]
    Inference(crate::InferenceError),
    /// A replica that waited for another one which had failed; that one's error is the one to look at.
    #[error("another worker has failed")]
    Abandoned,
}

fn gibibytes(bytes: u64) -> String {
    format!("{:.1}", bytes as f64 / f64::from(1 << 30))
}

impl From<Broken> for Error {
    fn from(_: Broken) -> Self {
        Error::Abandoned
    }
}

impl Error {
    /// Whether a file could not be written, which may go better later.
    pub(crate) fn is_about_writing(&self) -> bool {
        matches!(self, Error::Output { .. } | Error::Network(paceline_nn::Error::File { .. }))
    }
}
