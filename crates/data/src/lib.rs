//! From sources to batches: readers, normalisers, shuffling, prefetching, and a cache of well-known datasets.
//!
//! This crate knows nothing of networks. A [`Source`] gives examples by their index; a [`Loader`] turns them into
//! batches in an order that depends on the seed and the epoch only.
//!
//! ```
//! use paceline_data::{Loader, LoaderOptions, Normaliser, OpenOptions, open};
//!
//! let source = open("digits:train", &OpenOptions::default())?;
//! let normaliser = Normaliser::fit(source.default_normaliser(), &*source)?;
//! let loader = Loader::new(source, LoaderOptions { batch: 64, normaliser, ..LoaderOptions::default() })?;
//! let mut epoch = loader.epoch(0, 0);
//! while let Some(batch) = epoch.next() {
//!     let batch = batch?;
//!     assert!(batch.features.iter().all(|value| (0.0..=1.0).contains(value)));
//!     epoch.recycle(batch);
//! }
//! # Ok::<(), paceline_data::Error>(())
//! ```
//!
//! # Layout
//!
//! - [`Source`], [`ExampleShape`], [`Order`]: what every kind of data looks like from outside (`source`).
//! - [`open`], [`OpenOptions`]: a source by its specification, such as `mnist:train` (`open`, its grammar in `spec`).
//! - The sources: [`Arrays`] and [`Stream`] from Rust values; `bytes` for images that stay bytes; `digits`, `mnist` and
//!   `cifar` and `idx` over it; `images` for folders of images; `table` for comma-separated values and lines of JSON, with
//!   its [`Schema`]; `sequences` for tables whose rows are
//!   steps, `text` for characters, `lines` for those of each line;
//!   `shards` for folders of Parquet or Arrow files (a feature); [`Subset`] and [`split`] as views; [`Partitions`] where each
//!   worker has some of the data.
//! - [`Normaliser`]: brings features to a range that networks learn well from.
//! - [`Shuffle`], [`Loader`], [`Epoch`]: the order of an epoch, and its batches, read ahead by a thread.
//! - [`fetch()`], [`cache_folder`]: datasets from the network, checked and kept.
//! - [`fingerprint()`]: tells two sources of the same size apart.
//! - [`inspect()`], [`export()`]: what a source holds, and the same for other tools. [`survey()`]: the columns of a table before
//!   anything is decided about them.
//! - [`Error`]: one enum, with a [`Suggestion`] where a name was misspelt.

mod arrays;
mod beside;
mod bytes;
mod cifar;
mod classes;
mod digits;
mod division;
mod error;
mod export;
mod fetch;
mod fingerprint;
mod idx;
#[cfg(feature = "images")]
mod images;
mod inspect;
mod lines;
mod loader;
mod mnist;
mod normaliser;
mod open;
mod partitions;
mod plain;
mod sequences;
#[cfg(feature = "shards")]
mod shards;
mod shuffle;
mod source;
mod spec;
mod stream;
mod subset;
mod suggestion;
mod table;
mod text;
mod vocabulary;

pub use arrays::Arrays;
pub use division::{Division, class_counts};
pub use error::{Advice, BoxError, Error};
pub use export::{ExportFormat, export};
pub use fetch::{Attempts, FetchOptions, FetchProgress, Fetched, Progress, cache_folder, fetch};
pub use fingerprint::fingerprint;
pub use idx::{IdxData, IdxFile};
pub use inspect::{ColumnSummary, Summary, inspect};
pub use loader::{Epoch, Loader, LoaderOptions, Share, check_by_length};
pub use normaliser::{Normaliser, NormaliserKind};
pub use open::{OpenOptions, PartitionSource, cells, image_files, open, reads, takes_some};
pub use partitions::{HeldPartition, PartitionNote, PartitionNotes, Partitions, Statistics, describe};
#[cfg(feature = "shards")]
pub use shards::ParquetWriter;
pub use shuffle::{Permutation, Shuffle};
pub use source::{ExampleShape, LeftOut, Order, Source, TargetShape};
pub use stream::{Example, ExampleTarget, Stream};
pub use subset::{Subset, split};
pub use suggestion::Suggestion;
pub use table::{
    Cells, Column, ColumnKind, ColumnSurvey, Header, ImageForm, LabelType, Missing, Schema, SchemaTarget,
    SequenceColumns, TableOptions, Task, Unknown, survey,
};
