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
    /// Write a job file for a table: label, task, missing values and layers guessed, with a comment for each guess
    Init(Init),
    /// Train the network of a job file, or the built-in digits job
    Train(Train),
    /// Find a better job: train variants of one, several at a time, and compare them
    Tune(Tune),
    /// List the runs of a folder with their figures, or compare some of them
    Runs(Runs),
    /// Judge a model on data with targets
    Evaluate(Evaluate),
    /// Write what a model says of data, as CSV or Parquet
    Predict(Predict),
    /// Go on with a text, by a model that was trained on text
    Generate(Generate),
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
    /// Lead the run of a job that workers on this and other machines train
    Master(Master),
    /// Lend this machine's cores to a master
    Worker(Worker),
    /// Show the state of a run on many machines
    Status(Status),
    /// Tell what would stop a run on this machine
    Doctor(Doctor),
    /// Train a job on a Spark cluster, without a line of Python
    Submit(Submit),
    /// Print the completions of a shell, such as `paceline completions bash > ~/.local/share/bash-completion/completions/paceline`
    Completions {
        /// Which shell
        shell: clap_complete::Shell,
    },
    /// Write manual pages, one for each command
    Man {
        /// Where they go, such as ~/.local/share/man/man1
        folder: PathBuf,
    },
}

#[derive(Args)]
pub(crate) struct Init {
    /// The table: `FILE.csv`, `FILE.tsv` or `FILE.jsonl`, packed by gzip or not, or a source such as `csv:FILE?delimiter=;`
    pub data: String,
    /// The column to learn [default: one called `label`, `target`, `class` or the like, or the last]
    #[arg(long, value_name = "NAME")]
    pub label: Option<String>,
    /// The job file to write [default: the name of the table, with `.toml`]
    #[arg(long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Replace the job file
    #[arg(long)]
    pub overwrite: bool,
}

#[derive(Args)]
pub(crate) struct Train {
    /// The job file (TOML or JSON), or `-` for one on standard input; without one, the built-in digits job, which needs no network
    pub job: Option<PathBuf>,
    /// Replicas on this machine, each on a thread of its own [default: the job's, or all cores if only a mode is given]
    #[arg(long, value_name = "N")]
    pub workers: Option<usize>,
    /// How replicas stay together [default: the job's, or `sync` if there are several]
    #[arg(long)]
    pub mode: Option<Mode>,
    /// Epochs to train: `--set train.epochs=N`
    #[arg(long, value_name = "N")]
    pub epochs: Option<u64>,
    /// Examples that one worker takes in one step: `--set data.batch=N`
    #[arg(long, value_name = "N")]
    pub batch: Option<usize>,
    /// The learning rate of the updater: `--set network.learning_rate=X`
    #[arg(long, value_name = "X")]
    pub learning_rate: Option<f64>,
    /// The seed of weights, order and splits: `--set network.seed=N`
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Where to compute
    #[arg(long, default_value = "cpu")]
    pub device: Device,
    /// Lay a setting over the job file, as in `train.epochs=3` or `network.layers.0.conv2d.filters=32`
    #[arg(long = "set", value_name = "PATH=VALUE")]
    pub settings: Vec<String>,
    /// Where the model and checkpoints go [default: runs/JOB]
    #[arg(long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// Begin with what a model of the same layers has learned, instead of a new network; the updater begins anew
    #[arg(long, value_name = "MODEL")]
    pub from: Option<PathBuf>,
    /// Go on from the checkpoint in the output folder
    #[arg(long)]
    pub resume: bool,
    /// Replace the run that is in the output folder
    #[arg(long, conflicts_with = "resume")]
    pub overwrite: bool,
    /// Train although the network needs more memory than there is
    #[arg(long)]
    pub force: bool,
    /// Tell shapes, parameters and memory, compute the first step, and train nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Train it so many times, each time judged on another part of the training data; figures and predictions go to the output folder
    #[arg(long, value_name = "FOLDS", value_parser = clap::value_parser!(u32).range(2..=1000), conflicts_with_all = ["from", "dry_run"])]
    pub cv: Option<u32>,
    /// What to show: a progress bar or plain lines, JSON lines on standard output, or nothing
    #[arg(long, default_value = "auto")]
    pub events: Events,
    #[command(flatten)]
    pub cache: Cache,
}

#[derive(Args)]
pub(crate) struct Tune {
    /// The job file (TOML or JSON), or `-` for one on standard input; without one, the built-in digits job
    pub job: Option<PathBuf>,
    /// What a key may be: `KEY=16,32,64`, `KEY=log:1e-4..0.1`, `KEY=uniform:0..0.5` or `KEY=whole:8..128`; may be given again
    /// [default: that of the job's table `tune`, or the learning rate, the batch and l2]
    #[arg(long, value_name = "KEY=CHOICE")]
    pub vary: Vec<String>,
    /// Which trials there are [default: the job's, or `random`]
    #[arg(long)]
    pub method: Option<Method>,
    /// How many [default: the job's, or all of a grid, or 20, or as many as there is time for]
    #[arg(long, value_name = "N")]
    pub trials: Option<usize>,
    /// Ends after so many seconds [default: the job's, or when all trials have ended]
    #[arg(long, value_name = "SECONDS")]
    pub seconds: Option<f64>,
    /// What trials are compared by on the test data, such as `accuracy` or `r2` [default: the job's, or `score`, the loss]
    #[arg(long, value_name = "NAME")]
    pub metric: Option<String>,
    /// Trials that are trained at once, each on one core [default: all cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub workers: Option<u32>,
    /// Lay a setting over the job file for every trial, as in `train.epochs=3`
    #[arg(long = "set", value_name = "PATH=VALUE")]
    pub settings: Vec<String>,
    /// Where trials, the best job and its model go [default: runs/JOB-tune]
    #[arg(long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// Go on with the search in the output folder: no trial that has ended is trained again
    #[arg(long)]
    pub resume: bool,
    /// Replace the search that is in the output folder
    #[arg(long, conflicts_with = "resume")]
    pub overwrite: bool,
    /// Train although trials need more memory than there is
    #[arg(long)]
    pub force: bool,
    /// What to show: lines and a table, JSON lines on standard output, or nothing
    #[arg(long, default_value = "auto")]
    pub events: Events,
    #[command(flatten)]
    pub cache: Cache,
}

/// A probability, strictly between 0 and 1.
fn probability(text: &str) -> Result<f32, String> {
    let found = text.parse().ok().filter(|p| *p > 0.0 && *p < 1.0);
    found.ok_or_else(|| "expected a probability between 0 and 1, such as 0.3".into())
}

#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum Method {
    /// Each is drawn
    Random,
    /// Every value with every other
    Grid,
    /// Each is drawn and trained for a while; the best third goes on, again and again
    Halving,
}

#[derive(Args)]
pub(crate) struct Runs {
    /// A folder with runs, or runs to compare
    #[arg(value_name = "FOLDER", default_value = "runs", num_args = 1..)]
    pub folders: Vec<PathBuf>,
    /// Sort by `name`, `changed`, `epochs`, `seconds` or a figure such as `accuracy`, the best first
    #[arg(long, value_name = "KEY")]
    pub sort: Option<String>,
    /// Draw the curves of all that are shown into this file (SVG)
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    /// Write a report of all that are shown: figures, curves, confusion matrices and settings, in one page (HTML)
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Replace the file of `--svg` or `--html`, whatever it holds
    #[arg(long)]
    pub overwrite: bool,
    /// Print them as JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
pub(crate) struct Master {
    /// The job file (TOML or JSON), or `-` for one on standard input; without one, the built-in digits job
    pub job: Option<PathBuf>,
    /// Where workers connect to: HOST:PORT, HOST:FROM-TO for the first free port, or port 0 for any
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:0")]
    pub listen: String,
    /// What workers are told to connect to, if it is another address
    #[arg(long, value_name = "ADDR")]
    pub advertise: Option<String>,
    /// A ZooKeeper that says who leads, as zk://host:port,host:port/path [default: the output folder says so]
    #[arg(long, value_name = "URL")]
    pub coordinator: Option<String>,
    /// Begin with what a model of the same layers has learned, instead of a new network; the updater begins anew
    #[arg(long, value_name = "MODEL")]
    pub from: Option<PathBuf>,
    /// Begin anew where a run is already, also one that has ended: its model is replaced
    #[arg(long)]
    pub restart: bool,
    /// Workers that the run needs; with fewer it waits
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub min_workers: u32,
    /// Workers that the run waits for before its first step; it begins without those who do not come
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=1_000_000))]
    pub expect_workers: u32,
    /// How long it waits for them from the first one on, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 10.0)]
    pub expect_within: f64,
    /// So many workers are all linked with each other; more of them form a tree
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub mesh_limit: u32,
    /// How long it waits for them, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 600)]
    pub waiting_limit: u64,
    /// A worker that is silent for so long is lost, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 5.0)]
    pub silence_limit: f64,
    /// A round of `sync` or `averaging` goes on without what a worker has not done so long after another, in seconds; `auto` for much
    /// longer than rounds have waited lately [default: it waits]
    #[arg(long, value_name = "SECONDS")]
    pub straggler_limit: Option<String>,
    /// A file with the token that workers must show [default: that of the run's identity, where others can connect]
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// The file with the key and the token of the run, made if it is missing; all masters of a run need the same [default:
    /// `identity` in the output folder]
    #[arg(long, value_name = "FILE")]
    pub identity: Option<PathBuf>,
    /// Speak TLS on this machine too; elsewhere it always does
    #[arg(long)]
    pub tls: bool,
    /// How long the certificates of workers hold, in hours; they are renewed after half of that, which must be longer than any
    /// worker's `--patience`
    #[arg(long, value_name = "HOURS", default_value_t = 24.0)]
    pub certificate_hours: f64,
    /// Where its state is shown over HTTP, for `paceline status` and Prometheus; `none` for nowhere
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:0")]
    pub status: String,
    /// A file with the token for that, which `--status` on another address than loopback needs
    #[arg(long, value_name = "FILE")]
    pub status_token_file: Option<PathBuf>,
    /// Tell at the end where the time of the workers went, as a table, and as `statistics.html` and `.json` in the output folder
    #[arg(long)]
    pub statistics: bool,
    /// Write what the rules were told and decided to this file, to replay it
    #[arg(long, value_name = "FILE")]
    pub record: Option<PathBuf>,
    /// What becomes of examples that were lost with two workers
    #[arg(long, value_name = "WHAT", default_value = "set-aside")]
    pub on_poison: OnPoison,
    /// How workers stay together [default: the job's, or `sync`]
    #[arg(long)]
    pub mode: Option<Mode>,
    /// Lay a setting over the job file, as in `train.epochs=3`
    #[arg(long = "set", value_name = "PATH=VALUE")]
    pub settings: Vec<String>,
    /// Where the model and checkpoints go; a run that did not end goes on from there [default: runs/JOB]
    #[arg(long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// What to show: a progress bar or plain lines, JSON lines on standard output, or nothing
    #[arg(long, default_value = "auto")]
    pub events: Events,
    #[command(flatten)]
    pub cache: Cache,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnPoison {
    /// They are left out of the epoch, and reported
    SetAside,
    /// The run ends with an error
    Stop,
}

#[derive(Args)]
#[command(group(clap::ArgGroup::new("where").required(true).args(["join", "coordinator"])))]
pub(crate) struct Worker {
    /// The master's address, or the join string that it printed
    #[arg(long, value_name = "ADDR:PORT")]
    pub join: Option<String>,
    /// A ZooKeeper that knows the master, as zk://host:port,host:port/path
    #[arg(long, value_name = "URL")]
    pub coordinator: Option<String>,
    /// Workers that this process stands for: a thread each, and so many times the examples [default: the cores that it may use]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(paceline_cluster::MOST_SLOTS)))]
    pub slots: Option<u32>,
    /// A file with the token that the master wants
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// Where other workers connect to [default: any port of the address that leads to the master]
    #[arg(long, value_name = "ADDR:PORT")]
    pub listen: Option<String>,
    /// What other workers are told to connect to, if it is another address
    #[arg(long, value_name = "ADDR")]
    pub advertise: Option<String>,
    /// Files that the job names are read below this folder only [default: the current folder]
    #[arg(long, value_name = "DIR")]
    pub data_root: Option<PathBuf>,
    /// A partition of the data that this worker has, where a job's data lives with its workers; may be given again
    #[arg(long = "partition", value_name = "NUMBER=SOURCE")]
    pub partitions: Vec<String>,
    /// Write what the rules were told and decided to this file, to replay it
    #[arg(long, value_name = "FILE")]
    pub record: Option<PathBuf>,
    /// Write what this worker's replica is when the run has ended to this file: little-endian 32-bit numbers
    #[arg(long, value_name = "FILE")]
    pub keep_state: Option<PathBuf>,
    /// How long it looks for a master that is gone, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    pub patience: u64,
    /// What to show: lines, JSON lines on standard output, or nothing
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
    #[arg(required_unless_present = "join")]
    pub model: Option<PathBuf>,
    /// The data, such as `mnist:test` or `csv:flowers.csv?label=species`
    #[arg(long, value_name = "SPEC", required_unless_present = "join")]
    pub data: Option<String>,
    /// Examples in a batch
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub batch: u32,
    /// Predict the second of two classes from this probability on [default: where it is the more probable one]
    #[arg(long, value_name = "P", value_parser = probability)]
    pub threshold: Option<f32>,
    /// Compare probabilities with frequencies: a table of the predictions by their probability
    #[arg(long)]
    pub calibration: bool,
    /// Show how much worse the model gets when the values of a column are dealt to other rows, so often for every column
    #[arg(long, value_name = "REPEATS", num_args = 0..=1, require_equals = true, default_missing_value = "5",
        value_parser = clap::value_parser!(u32).range(1..=1000), conflicts_with_all = ["join", "listen", "threshold"])]
    pub importance: Option<u32>,
    /// Approximate the AUC by so many thresholds, in bounded memory [default: exact, from the scores of all examples]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub auc_thresholds: Option<u32>,
    /// Print the scores as JSON
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub workers: Workers,
    #[command(flatten)]
    pub helping: Helping,
    #[command(flatten)]
    pub cache: Cache,
}

#[derive(Args)]
pub(crate) struct Helping {
    /// Let other machines help, which have the same data: where they connect to, as ADDR:PORT, ADDR:FROM-TO or port 0 for any
    #[arg(long, value_name = "ADDR:PORT")]
    pub listen: Option<String>,
    /// What they are told to connect to, if it is another address
    #[arg(long, value_name = "ADDR", requires = "listen")]
    pub advertise: Option<String>,
    /// Help a process that was started with `--listen`, until it is done: its address, or the join string that it printed
    #[arg(long, value_name = "ADDR:PORT", conflicts_with_all = ["model", "data", "listen"])]
    pub join: Option<String>,
    /// A file with the token that helpers must know
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// With `--join`: files of the data are read below this folder only [default: the current folder]
    #[arg(long, value_name = "DIR")]
    pub data_root: Option<PathBuf>,
    /// With `--join`: how long it looks for the other process, in seconds [default: 60]
    #[arg(long, value_name = "SECONDS")]
    pub patience: Option<u64>,
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
    #[arg(required_unless_present = "join")]
    pub model: Option<PathBuf>,
    /// The data, such as `csv:flowers.csv`; a label column is not needed
    #[arg(long, value_name = "SPEC", required_unless_present = "join")]
    pub data: Option<String>,
    /// The file to write: CSV, Parquet by its ending, or `-` for CSV on standard output
    #[arg(long, value_name = "FILE", required_unless_present = "join", conflicts_with = "join")]
    pub output: Option<PathBuf>,
    /// Replace the file, whatever it holds
    #[arg(long)]
    pub overwrite: bool,
    /// Begin every row with the columns of the data, all or these, as they are written there (of `csv:` and `jsonl:`)
    #[arg(long, value_name = "NAME,…", num_args = 0..=1, require_equals = true, value_delimiter = ',', default_missing_value = "*")]
    pub keep_columns: Option<Vec<String>>,
    /// Begin every row with its number in the data, from 1
    #[arg(long)]
    pub ids: bool,
    /// Predict the second of two classes from this probability on [default: where it is the more probable one]
    #[arg(long, value_name = "P", value_parser = probability)]
    pub threshold: Option<f32>,
    /// Examples in a batch
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub batch: u32,
    #[command(flatten)]
    pub workers: Workers,
    #[command(flatten)]
    pub helping: Helping,
    #[command(flatten)]
    pub cache: Cache,
}

#[derive(Args)]
pub(crate) struct Generate {
    /// The model file of a run on `text:`
    pub model: PathBuf,
    /// What the text begins with
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub text: String,
    /// Characters to add
    #[arg(long, value_name = "N", default_value_t = 400)]
    pub length: usize,
    /// Below 1 what is likely becomes likelier, above 1 less so; at 0 the likeliest is taken
    #[arg(long, value_name = "T", default_value_t = 1.0)]
    pub temperature: f64,
    /// What chance goes by
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,
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
    /// Note what a partition of the data holds, for a master that does not have it
    Describe {
        /// The source that a worker will bring, such as `csv:mine.csv?label=kind`
        source: String,
        /// The number of the partition, from 0
        #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(..i64::from(paceline::model::MOST_PARTITIONS)))]
        partition: u32,
        /// The folder for the note; one with the notes of all partitions is the `data.train` of a job, as `partitions:FOLDER`
        #[arg(long, value_name = "FOLDER")]
        output: PathBuf,
        /// The note of another partition: columns, classes and means of that one hold for this one, too
        #[arg(long, value_name = "NOTE")]
        like: Option<PathBuf>,
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
        /// Replace files of the same names
        #[arg(long)]
        overwrite: bool,
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
        /// Draw the network as a picture into this file (SVG)
        #[arg(long, value_name = "FILE")]
        svg: Option<PathBuf>,
        /// Draw what the units of a layer look for into this file (PNG): its weights over the image that goes in
        #[arg(long, value_name = "FILE")]
        filters: Option<PathBuf>,
        /// The layer that is drawn, by its name or index [default: the one that was pretrained, or the first with weights]
        #[arg(long, value_name = "NAME", requires = "filters")]
        layer: Option<String>,
        /// Replace the files of `--svg` and `--filters`, whatever they hold
        #[arg(long)]
        overwrite: bool,
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
    /// Look at a Spark cluster instead, such as spark://host:7077: what its executors have, and what they lack
    #[arg(long, value_name = "MASTER")]
    pub spark: Option<String>,
    #[command(flatten)]
    pub with: Spark,
    #[command(flatten)]
    pub cache: Cache,
}

#[derive(Args)]
pub(crate) struct Submit {
    /// The job file, TOML or JSON; its data must be seen under the same names by the driver and by every executor
    pub job: PathBuf,
    /// The master of the Spark cluster: spark://host:7077, yarn, k8s://…, or local[4]
    #[arg(long, value_name = "MASTER")]
    pub spark_master: String,
    /// Tasks that train [default: as many as Spark runs at once]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub workers: Option<u32>,
    /// Where the model goes, on this machine
    #[arg(long, value_name = "DIR", default_value = "runs/spark")]
    pub output: PathBuf,
    /// Lay a value over the job file, as in `train.epochs=3`; may be given again
    #[arg(long, value_name = "PATH=VALUE")]
    pub set: Vec<String>,
    /// Print the command, and run nothing
    #[arg(long)]
    pub dry_run: bool,
    #[command(flatten)]
    pub spark: Spark,
}

#[derive(Args)]
pub(crate) struct Spark {
    /// Spark's own program [default: that of SPARK_HOME, of the Python package `pyspark`, or of the PATH]
    #[arg(long, value_name = "FILE")]
    pub spark_submit: Option<PathBuf>,
    /// An interpreter here that has the package [default: python3]
    #[arg(long, value_name = "FILE")]
    pub python: Option<PathBuf>,
    /// An archive with a Python environment for the executors, as venv-pack or conda-pack make it
    #[arg(long, value_name = "FILE.tar.gz")]
    pub environment: Option<PathBuf>,
    /// A setting of Spark; may be given again
    #[arg(long, value_name = "NAME=VALUE")]
    pub conf: Vec<String>,
}
