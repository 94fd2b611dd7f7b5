use std::path::PathBuf;

use crate::fetch::Attempts;
use crate::suggestion::Suggestion;

/// An error of somebody else's code, kept as the cause of ours.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The way to allow a category or a class that a schema lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advice {
    /// There is none.
    None,
    /// A category may be ignored.
    Ignore,
    /// A class of held-out rows alone.
    HeldOut,
    /// All classes may be named.
    Classes,
}

impl std::fmt::Display for Advice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::None => "",
            Self::Ignore => "; `unknown=ignore` takes it for none of them",
            Self::HeldOut => {
                "; the rows that this model learns from lack it: name all classes in the source, as in `classes=a,b,c`, or, if every class has \
                 several rows, set `data.stratified = true`"
            }
            Self::Classes => "; `classes=a,b,c` names all classes",
        })
    }
}

/// Why data could not be found, fetched, read or batched.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A source specification without a scheme that we know.
    #[error(
        "`{spec}` does not name a source: expected one of `mnist:`, `digits:`, `idx:`, `csv:`, `jsonl:`, `sequences:`, `text:`, `lines:`, \
         `cifar10:`, `images:`, `shards:`, `parquet:`, `partitions:`{suggestion}"
    )]
    UnknownScheme {
        /// The whole specification.
        spec: String,
        /// The nearest thing that would work.
        suggestion: Suggestion,
    },
    /// A file that must be unpacked or kept to be read, and there is no room for that.
    #[error(
        "cannot unpack `{path}` into a temporary file in `{folder}`: {source}; set TMPDIR to a folder with more room"
    )]
    NoRoomToUnpack {
        /// The file.
        path: PathBuf,
        /// Where the room was looked for.
        folder: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// Data that the program itself should have brought.
    #[error("`given:{name}` is data that the program brings itself, and it has brought none of that name")]
    NotGiven {
        /// The name.
        name: String,
    },
    /// Partitions that do not fit together, or are not here.
    #[error("in the partitions of the data: {reason}")]
    Partitions {
        /// What is wrong, and what to do.
        reason: String,
    },
    /// A file that may not be read.
    #[error("`{path}` does not lie below the data root `{}`: give a relative path without `..` that no link leads out of", root.display())]
    OutsideRoot {
        /// The file, as it was given.
        path: String,
        /// The root.
        root: std::path::PathBuf,
    },
    /// A name that is not one of those we know.
    #[error("unknown {what} `{found}`: expected one of {expected}{suggestion}")]
    UnknownName {
        /// What kind of name it is.
        what: &'static str,
        /// The name given.
        found: String,
        /// The names there are.
        expected: String,
        /// The nearest of them.
        suggestion: Suggestion,
    },
    /// An option that a specification has twice.
    #[error("`{spec}` has the option `{option}` twice: keep one of them")]
    RepeatedOption {
        /// The option.
        option: String,
        /// The specification.
        spec: String,
    },
    /// A setting that does not suit the data.
    #[error("`{setting}` {message}")]
    Unsuitable {
        /// The setting.
        setting: &'static str,
        /// Why, and the remedy.
        message: String,
    },
    /// A setting with a value that makes no sense.
    #[error("`{setting}`: expected {expected}, found {found}")]
    BadSetting {
        /// The setting.
        setting: &'static str,
        /// What it may be.
        expected: String,
        /// What it is.
        found: String,
    },

    /// A file or folder that the operating system would not let us use.
    #[error("cannot {action} `{}`: {source}", path.display())]
    File {
        /// What we were about to do, as a verb.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        source: std::io::Error,
    },
    /// A compressed file that ends early or is damaged.
    #[error("`{}` is not a whole gzip file ({source}): fetch or copy it again", path.display())]
    BrokenGzip {
        /// The file.
        path: PathBuf,
        /// What the decompressor said.
        source: std::io::Error,
    },

    /// A file that does not begin as an IDX file does.
    #[error(
        "`{}` is not an IDX file: expected two zero bytes, a type (08, 09, 0b, 0c, 0d, 0e) and a rank from 1 to 4, found {found:02x?}",
        path.display()
    )]
    IdxMagic {
        /// The file.
        path: PathBuf,
        /// Its first bytes.
        found: Vec<u8>,
    },
    /// An IDX file that does not hold what its header promises.
    #[error(
        "`{}` promises {expected} bytes in its header, but holds {found}: it is cut off or damaged, copy it again",
        path.display()
    )]
    IdxLength {
        /// The file.
        path: PathBuf,
        /// The bytes that the header stands for, as text since they may overflow every integer.
        expected: String,
        /// The bytes there are.
        found: String,
    },
    /// An IDX file of a rank that cannot serve this purpose.
    #[error("`{}` has rank {found}, but {purpose} need rank {expected}", path.display())]
    IdxRank {
        /// The file.
        path: PathBuf,
        /// What it was opened for.
        purpose: &'static str,
        /// The ranks that would do.
        expected: &'static str,
        /// Its rank.
        found: usize,
    },
    /// Features and labels that do not belong together.
    #[error("`{}` holds {examples} examples, but `{}` holds {labels} labels", features.display(), targets.display())]
    LabelCount {
        /// The file of features.
        features: PathBuf,
        /// Its examples.
        examples: usize,
        /// The file of labels.
        targets: PathBuf,
        /// Its labels.
        labels: usize,
    },
    /// A label that is no class.
    #[error("example {example} of {origin} has label {found}, but labels go from 0 to {last}")]
    LabelOutOfRange {
        /// Where the label stands.
        origin: String,
        /// The example.
        example: u64,
        /// Its label.
        found: i64,
        /// The largest label allowed.
        last: i64,
    },
    /// A number that cannot be computed with.
    #[error("example {example} of {origin} holds {found} at place {place}, but every number must be finite")]
    NotFinite {
        /// Where the number stands.
        origin: String,
        /// The example.
        example: u64,
        /// Which of its numbers.
        place: usize,
        /// The number.
        found: f64,
    },

    /// A row with too many or too few fields.
    #[error("`{}` line {line}: expected {expected} fields, found {found}{}", path.display(), spanning(*lines))]
    RaggedRow {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
        /// Fields of the first row.
        expected: usize,
        /// Fields of this row.
        found: usize,
        /// Lines that the row spans: more than one where a quoted cell holds line ends.
        lines: u64,
    },
    /// A cell that should be a finite number.
    #[error("`{}` line {line}, column `{column}`: expected a {expected}, found `{found}`", path.display())]
    BadCell {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
        /// The column.
        column: String,
        /// What the cell should be.
        expected: &'static str,
        /// The text found.
        found: String,
    },
    /// An empty cell under a rule that allows none.
    #[error(
        "`{}` line {line}, column `{column}`: the value is missing (found `{found}`) and the rule is `missing={rule}`{advice}{all}",
        path.display()
    )]
    MissingValue {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
        /// The column.
        column: String,
        /// The text found.
        found: String,
        /// The rule in force.
        rule: crate::Missing,
        /// What else could be done.
        advice: &'static str,
        /// All columns that lack values, where the whole file was read.
        all: Box<str>,
    },
    /// A category or class that the training file did not have.
    #[error(
        "`{}` line {line}, column `{column}`: `{found}` is none of the {known} names seen in training{suggestion}{}",
        path.display(), advice
    )]
    UnknownCategory {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
        /// The column.
        column: String,
        /// The text found.
        found: String,
        /// How many names there are.
        known: u32,
        /// The nearest of them.
        suggestion: Suggestion,
        /// The way to allow it.
        advice: Advice,
    },
    /// A text column with so many names that one-hot columns make no sense.
    #[error(
        "`{}` column `{column}` has more than {limit} distinct texts: leave it out with `drop={column}`",
        path.display()
    )]
    TooManyNames {
        /// The file.
        path: PathBuf,
        /// The column.
        column: String,
        /// The most that are taken.
        limit: usize,
    },
    /// A quoted cell of several lines with text behind its closing quote.
    #[error(
        "`{}` line {line}: the quote that opens here is closed on line {end}, in the middle of a cell: close the first one where its cell \
         ends, or double a quote that belongs to the text",
        path.display()
    )]
    StrayQuote {
        /// The file.
        path: PathBuf,
        /// The line of the quote that opens, from 1.
        line: u64,
        /// The line of the quote that closes.
        end: u64,
    },
    /// A quoted cell that the file ends in.
    #[error(
        "`{}` line {line}: the quote that opens here is never closed, so the rest of the file would be one cell: close it, or double \
         a quote that belongs to the text",
        path.display()
    )]
    OpenQuote {
        /// The file.
        path: PathBuf,
        /// The line of the quote, from 1.
        line: u64,
    },
    /// A column that the file does not have.
    #[error("`{}` has no column `{found}`: its columns are {columns}{suggestion}", path.display())]
    NoSuchColumn {
        /// The file.
        path: PathBuf,
        /// The column asked for.
        found: String,
        /// The columns there are.
        columns: String,
        /// The nearest of them.
        suggestion: Suggestion,
    },
    /// Several columns that the file does not have.
    #[error("`{}` has none of the columns {found}: its columns are {columns}", path.display())]
    NoSuchColumns {
        /// The file.
        path: PathBuf,
        /// The columns asked for.
        found: String,
        /// The columns there are.
        columns: String,
    },
    /// A header that names two columns alike.
    #[error("`{}` names two columns `{column}` in its header: rename one", path.display())]
    DuplicateColumn {
        /// The file.
        path: PathBuf,
        /// The name.
        column: String,
    },
    /// A line that is no JSON object.
    #[error("`{}` line {line} cannot be read as a JSON object: {reason}", path.display())]
    BadLine {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
        /// Why.
        reason: String,
    },
    /// A value of a JSON object that cannot be taken.
    #[error("`{}` line {line}, key `{key}`: expected {expected}, found {found}", path.display())]
    BadKey {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
        /// The key.
        key: String,
        /// What its value should be.
        expected: String,
        /// What it is.
        found: String,
    },
    /// A key that no line has.
    #[error("no line of `{}` has the key `{found}`: its keys are {keys}{suggestion}", path.display())]
    NoSuchKey {
        /// The file.
        path: PathBuf,
        /// The key asked for.
        found: String,
        /// The keys there are.
        keys: String,
        /// The nearest of them.
        suggestion: Suggestion,
    },
    /// A line without the label that others have, or with one that they lack.
    #[error("`{}` line {line}: {reason}", path.display())]
    NoLabel {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
        /// What was expected and found.
        reason: String,
    },
    /// A file of lines that has none.
    #[error("`{}` is empty: expected {expected}", path.display())]
    NoLines {
        /// The file.
        path: PathBuf,
        /// What a line should be.
        expected: &'static str,
    },
    /// More of something than any data has.
    #[error("`{}` has more than {limit} {what}", path.display())]
    TooMany {
        /// The file.
        path: PathBuf,
        /// What there is too much of.
        what: &'static str,
        /// The most that are taken.
        limit: usize,
    },
    /// A file without a byte in it.
    #[error("`{}` is empty: expected a line with the names of its columns, and rows", path.display())]
    EmptyTable {
        /// The file.
        path: PathBuf,
    },
    /// A table with names and nothing else.
    #[error("`{}` has a line with the names of its columns and no rows", path.display())]
    OnlyHeader {
        /// The file.
        path: PathBuf,
    },
    /// A table whose columns are not told apart by what was expected.
    #[error(
        "`{}` has one column, called `{found}`: it seems to be separated by {by}, add `delimiter={option}` to its options",
        path.display()
    )]
    OtherDelimiter {
        /// The file.
        path: PathBuf,
        /// The name of its only column.
        found: String,
        /// What separates the columns.
        by: &'static str,
        /// How to say so.
        option: &'static str,
    },
    /// A first line that was taken for data and holds names.
    #[error(
        "`{}` line 1, column `{column}`: `{found}` seems to be a name, but the line holds numbers and was taken for data: add `header=yes` to its options, or `header=no` if it is data",
        path.display()
    )]
    NumbersInHeader {
        /// The file.
        path: PathBuf,
        /// The place of the column.
        column: String,
        /// The text found.
        found: String,
    },
    /// A table that leaves nothing to learn from.
    #[error("`{}` has no {what} left after its options were applied", path.display())]
    NothingLeft {
        /// The file.
        path: PathBuf,
        /// What there is none of.
        what: &'static str,
    },
    /// A value of a Parquet file that cannot be taken.
    #[error("`{}`, column `{column}`, row {row}: expected {expected}, found {found}", path.display())]
    BadValue {
        /// The file.
        path: PathBuf,
        /// The column.
        column: String,
        /// The row of the file, from 0.
        row: u64,
        /// What it should be.
        expected: &'static str,
        /// What it is.
        found: String,
    },
    /// A label that is none of the classes.
    #[error("`{}`, column `{column}`, row {row}: `{found}` is none of the {known} classes{suggestion}{advice}", path.display())]
    UnknownClass {
        /// The file.
        path: PathBuf,
        /// The column.
        column: String,
        /// The row of the file, from 0.
        row: u64,
        /// The label.
        found: String,
        /// How many classes there are.
        known: u32,
        /// The nearest of them.
        suggestion: Suggestion,
        /// The remedy.
        advice: Advice,
    },
    /// A label column that is none of classes.
    #[error("`{}` column `{column}` has more than {limit} distinct values, too many for classes", path.display())]
    TooManyClasses {
        /// The file.
        path: PathBuf,
        /// The column.
        column: String,
        /// The most that are taken.
        limit: usize,
    },
    /// A file that is no Parquet, or a damaged one.
    #[error("`{}` cannot be read as Parquet: {source}", path.display())]
    NotParquet {
        /// The file.
        path: PathBuf,
        /// Why.
        source: BoxError,
    },
    /// A file that broke its reader.
    #[error("`{}` or a file in it is damaged: its reader has stopped; copy it again", path.display())]
    DamagedShards {
        /// The folder or the file.
        path: PathBuf,
    },
    /// A file that is no Arrow file, or a damaged one.
    #[error("`{}` cannot be read as an Arrow file (IPC): {source}", path.display())]
    NotArrow {
        /// The file.
        path: PathBuf,
        /// Why.
        source: BoxError,
    },
    /// A program that was built without the reader of Parquet files.
    #[error(
        "this program was built without `shards:`: build it with `--features shards`, or use the Python package, which has it"
    )]
    WithoutShards,
    /// A program that was built without the reader of images.
    #[error("this program was built without `images:`: build it with the feature `images` of `paceline-data`")]
    WithoutImages,
    /// Images that cannot be read.
    #[error(
        "{count} of the {of} images of `{}` cannot be read: {listed}; repair or remove them, or add `unreadable=skip` to leave them out",
        path.display()
    )]
    UnreadableImages {
        /// The folder.
        path: PathBuf,
        /// How many cannot be read.
        count: usize,
        /// How many there are.
        of: usize,
        /// The first of them, and why.
        listed: String,
    },
    /// An image that cannot be read any more.
    #[error("the image `{}` cannot be read, but could be when the data was opened: {source}", path.display())]
    LostImage {
        /// The file.
        path: PathBuf,
        /// Why.
        source: BoxError,
    },
    /// A file that is not text.
    #[error("`{}` line {line} is not UTF-8 text: save the file as UTF-8", path.display())]
    NotUtf8 {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
    },
    /// A file that was changed between the first pass and the reading of a block.
    #[error("`{}` was changed while it was read: {what}; start again", path.display())]
    FileChanged {
        /// The file.
        path: PathBuf,
        /// How we noticed.
        what: &'static str,
    },

    /// An example that the source does not have.
    #[error("example {index} was asked for, but the source has {examples} examples (0 to {})", examples.saturating_sub(1))]
    IndexOutOfRange {
        /// The index asked for.
        index: u64,
        /// The examples there are.
        examples: usize,
    },
    /// Arrays that do not fit together.
    #[error("{what}: expected {expected}, found {found}")]
    ShapeMismatch {
        /// What does not fit.
        what: &'static str,
        /// What it should be.
        expected: String,
        /// What it is.
        found: String,
    },
    /// A stream that ended early.
    #[error("the stream was declared with {expected} examples, but ended after {found}")]
    StreamEnded {
        /// The examples declared.
        expected: usize,
        /// The examples it gave.
        found: u64,
    },
    /// A stream that failed.
    #[error("the stream failed at example {example}: {source}")]
    StreamFailed {
        /// The example that did not come.
        example: u64,
        /// What the stream said.
        source: BoxError,
    },
    /// A prefetching thread that panicked.
    #[error("the thread that reads batches panicked at step {step} of epoch {epoch}: {message}")]
    LoaderPanicked {
        /// The epoch.
        epoch: u64,
        /// The step in it.
        step: u64,
        /// What the panic said.
        message: String,
    },
    /// A prefetching thread that could not be started.
    #[error("cannot start the thread that reads batches: {source}")]
    LoaderThread {
        /// What the operating system said.
        source: std::io::Error,
    },

    /// A dataset that is not in the cache while the network may not be used.
    #[error("`{name}` is not in `{}` and fetching is off: run `paceline data fetch {name}` first", cache.display())]
    Offline {
        /// The dataset.
        name: String,
        /// Where it was looked for.
        cache: PathBuf,
    },
    /// A file in the cache that was damaged while the network may not be used.
    #[error("`{}` is damaged and fetching is off: run `paceline data fetch {name}` to replace it", path.display())]
    DamagedCache {
        /// The dataset.
        name: String,
        /// The file.
        path: PathBuf,
    },
    /// No place for the cache.
    #[error("there is no folder for the cache: set PACELINE_CACHE, XDG_CACHE_HOME or HOME")]
    NoCacheFolder,
    /// A server that did not answer as it should.
    #[error("{url}: {source}")]
    Request {
        /// What was asked for.
        url: String,
        /// What went wrong.
        source: BoxError,
    },
    /// A download that was cut off again and again.
    #[error("{url} broke off at {found} bytes{}", expected.map(|e| format!(" of {e}")).unwrap_or_default())]
    BrokenDownload {
        /// What was asked for.
        url: String,
        /// Its length, if the server told.
        expected: Option<u64>,
        /// What arrived.
        found: u64,
    },
    /// A download that is longer than it can be.
    #[error("{url} sends more than {limit} bytes, which this file cannot have")]
    DownloadTooLarge {
        /// What was asked for.
        url: String,
        /// The most that was expected.
        limit: u64,
    },
    /// Bytes that are not the ones we know.
    #[error("`{file}` from {origin} has SHA-256 {found}, expected {expected}; what arrived was deleted")]
    Checksum {
        /// The file.
        file: String,
        /// Where it came from.
        origin: String,
        /// The known checksum.
        expected: String,
        /// The checksum found.
        found: String,
    },
    /// A package that does not hold a file we need.
    #[error("{origin} does not hold `{file}` with {expected} bytes")]
    NotInPackage {
        /// The package.
        origin: String,
        /// The file.
        file: String,
        /// Its known length.
        expected: u64,
    },
    /// A program that failed.
    #[error("`{command}` failed: {message}")]
    Command {
        /// The command line.
        command: String,
        /// What it said.
        message: String,
    },
    /// Every place that a dataset could come from failed.
    #[error("`{name}` could not be fetched into `{}`:{attempts}", cache.display())]
    FetchFailed {
        /// The dataset.
        name: String,
        /// Where it should have gone.
        cache: PathBuf,
        /// What was tried, and what each said.
        attempts: Attempts,
    },
}

impl Error {
    /// Says what we were doing to which file when the operating system refused.
    pub(crate) fn file(action: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |source| Self::File { action, path, source }
    }
}

/// The likely cause of a wrong row that spans several lines.
fn spanning(lines: u64) -> String {
    match lines {
        0 | 1 => String::new(),
        lines => format!(" in a row of {lines} lines: is a quote in it never closed?"),
    }
}
