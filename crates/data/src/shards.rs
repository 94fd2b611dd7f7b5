//! Folders of Parquet and Arrow files: columns of numbers, or of lists of numbers, one row for each example.
//!
//! All files are decoded once, when the source is opened: into memory, or beyond the memory limit into a temporary file. After
//! that every example costs the same, and its place is its row, counted through the files in the order of their names.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

use crate::{Arrays, Error, NormaliserKind, OpenOptions, Source};

mod arrow_file;
mod column;
mod files;
mod labels;
mod layout;
mod options;
mod parquet_file;
mod spilled;
mod writing;

use files::Shard;
use layout::Layout;
use options::ShardOptions;
use spilled::{Room, Spilled};

pub(crate) use files::listed;
pub use writing::ParquetWriter;

/// Rows that are decoded at a time.
const PIECE: usize = 4096;

/// Opens a folder of Parquet or Arrow files, or one of them, with the options of its specification.
pub(crate) fn open(path: &Path, pairs: &[(&str, String)], options: &OpenOptions) -> Result<Arc<dyn Source>, Error> {
    // The libraries that read them assert some of what a damaged file may break.
    let panicked = |_| Err(Error::DamagedShards { path: path.to_owned() });
    catch_unwind(AssertUnwindSafe(|| decode(path, pairs, options))).unwrap_or_else(panicked)
}

fn decode(path: &Path, pairs: &[(&str, String)], options: &OpenOptions) -> Result<Arc<dyn Source>, Error> {
    let asked = ShardOptions::parse(pairs)?;
    let shards = files::open(path)?;
    let layout = Layout::find(path, &shards, &asked, options)?;
    let mut room = Room::new(&layout, options.memory_limit);
    for shard in &shards {
        layout.decode(shard, &mut room)?;
    }
    let normaliser = if asked.images { NormaliserKind::Image } else { NormaliserKind::None };
    match room.end()? {
        Spilled::InMemory { features, targets, weights } => {
            let arrays = Arrays::new(features, layout.shape, targets)?;
            let arrays = match weights {
                Some(weights) => arrays.with_weights(weights)?,
                None => arrays,
            };
            Ok(Arc::new(arrays.suits(normaliser)))
        }
        Spilled::InFile(rows) => Ok(Arc::new(rows.suits(normaliser))),
    }
}

/// All rows of all files.
fn rows(shards: &[Shard]) -> usize {
    shards.iter().map(Shard::rows).sum()
}
