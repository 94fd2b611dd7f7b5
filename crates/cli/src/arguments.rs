use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

/// Trains neural networks.
#[derive(Parser)]
#[command(name = "paceline", version, about = "Trains one neural network on many workers", max_term_width = 100)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Train the network of a job file, or the built-in digits job
    Train(Train),
    /// Judge a model on data with targets
    Evaluate(Evaluate),
    /// Write what a model says of data into a CSV file
    Predict(Predict),
    /// Fetch, look at or export data
    Data {
        #[command(subcommand)]
        command: Data,
    },
    /// Look at a model file
    Model {
        #[command(subcommand)]
        command: Model,
    },
    /// Show the state of a run on many machines
    Status(Status),
    /// Tell what would stop a run on this machine
    Doctor(Doctor),
}

#[derive(Args)]
pub(crate) struct Train {
    /// The job file (TOML or JSON); without one, the built-in digits job, which needs no network
    pub job: Option<PathBuf>,
    /// Replicas on this machine, each on a thread of its own [default: the job's, or all cores if only a mode is given]
    #[arg(long, value_name = "N")]
    pub workers: Option<usize>,
    /// How replicas stay together [default: the job's, or `sync` if there are several]
    #[arg(long)]
    pub mode: Option<Mode>,
    /// Where to compute
    #[arg(long, default_value = "cpu")]
    pub device: Device,
    /// Lay a setting over the job file, as in `train.epochs=3` or `network.layers.0.conv2d.filters=32`
    #[arg(long = "set", value_name = "PATH=VALUE")]
    pub settings: Vec<String>,
    /// Where the model and checkpoints go [default: runs/JOB]
    #[arg(long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// Go on from the checkpoint in the output folder
    #[arg(long)]
    pub resume: bool,
    /// What to show: a progress bar or plain lines, JSON lines on standard output, or nothing
    #[arg(long, default_value = "auto")]
    pub events: Events,
    #[command(flatten)]
    pub cache: Cache,
}

#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum Mode {
    /// One replica, alone
    Solo,
    /// Every step together: gradients are summed, one update
    Sync,
    /// Steps on their own; every few steps all become their mean (`train.mode.averaging.frequency`)
    Averaging,
    /// Hardly waiting: what has grown large in an update is sent, and applied as it comes
    Shared,
}

impl Mode {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Mode::Solo => "solo",
            Mode::Sync => "sync",
            Mode::Averaging => "averaging",
            Mode::Shared => "shared",
        }
    }
}

#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum Device {
    /// The processor
    Cpu,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Events {
    /// A progress bar on a terminal, plain lines elsewhere
    Auto,
    /// One JSON object per line on standard output
    Json,
    /// Nothing
    None,
}

#[derive(Args)]
pub(crate) struct Cache {
    /// Where fetched data is kept [default: $PACELINE_CACHE, or `paceline` in the user's cache folder]
    #[arg(long, value_name = "DIR")]
    pub cache: Option<PathBuf>,
    /// Never fetch anything
    #[arg(long)]
    pub offline: bool,
}

#[derive(Args)]
pub(crate) struct Evaluate {
    /// The model file
    pub model: PathBuf,
    /// The data, such as `mnist:test` or `csv:flowers.csv?label=species`
    #[arg(long, value_name = "SPEC")]
    pub data: String,
    /// Examples in a batch
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub batch: u32,
    /// Print the scores as JSON
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub workers: Workers,
    #[command(flatten)]
    pub cache: Cache,
}

#[derive(Args)]
pub(crate) struct Workers {
    /// Threads that run the model; the result is the same for any number [default: all cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub workers: Option<u32>,
}

#[derive(Args)]
pub(crate) struct Predict {
    /// The model file
    pub model: PathBuf,
    /// The data, such as `csv:flowers.csv`; a label column is not needed
    #[arg(long, value_name = "SPEC")]
    pub data: String,
    /// The CSV file to write
    #[arg(long, value_name = "FILE.csv")]
    pub output: PathBuf,
    /// Examples in a batch
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub batch: u32,
    #[command(flatten)]
    pub workers: Workers,
    #[command(flatten)]
    pub cache: Cache,
}

#[derive(Subcommand)]
pub(crate) enum Data {
    /// Bring a well-known dataset into the cache and check it
    Fetch {
        /// Its name: `mnist`
        name: String,
        #[command(flatten)]
        cache: Cache,
    },
    /// Tell what a source holds
    Inspect {
        /// The source, such as `mnist:train`
        source: String,
        #[command(flatten)]
        cache: Cache,
    },
    /// Write a source into files that other tools read
    Export {
        /// The source, such as `digits:`
        source: String,
        /// The folder
        folder: PathBuf,
        /// The kind of file
        #[arg(long, default_value = "idx")]
        format: Format,
        #[command(flatten)]
        cache: Cache,
    },
}

#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum Format {
    /// Images and labels in two IDX files
    Idx,
    /// One table
    Csv,
}

#[derive(Subcommand)]
pub(crate) enum Model {
    /// Tell what a model file holds
    Show {
        /// The model file
        model: PathBuf,
        /// Print the network's description as JSON
        #[arg(long)]
        json: bool,
    },
}

#[derive(Args)]
pub(crate) struct Status {
    /// Where the master shows its state: `HOST:PORT`
    #[arg(value_name = "ADDR")]
    pub address: String,
    /// The file with the master's token, which is needed from another machine
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// Print the state as it came, one line of JSON
    #[arg(long)]
    pub json: bool,
    /// Show it again every so many seconds, until the run ends
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..=86_400))]
    pub watch: Option<u32>,
}

#[derive(Args)]
pub(crate) struct Doctor {
    #[command(flatten)]
    pub cache: Cache,
}
