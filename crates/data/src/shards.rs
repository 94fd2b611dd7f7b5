//! Folders of Parquet and Arrow files: columns of numbers, or of lists of numbers, one row for each example.
//!
//! All files are decoded once, when the source is opened: into memory, or beyond the memory limit into a temporary file. After
//! that every example costs the same, and its place is its row, counted through the files in the order of their names.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use paceline_model::Batch;

use crate::{Arrays, Error, ExampleShape, NormaliserKind, OpenOptions, Schema, Source};

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
    let origin = Origin { path: path.to_owned(), asked: ShardOptions::parse(pairs)?, options: options.clone() };
    let table = origin.guarded(|shards| {
        let layout = Layout::find(path, shards, &origin.asked, options, None)?;
        origin.decode(shards, layout)
    })?;
    Ok(Arc::new(table))
}

/// The rows of all files, decoded.
struct ShardTable {
    content: Box<dyn Source>,
    layout: Layout,
    normaliser: NormaliserKind,
    /// The way to fit its classes and offsets to some of its rows.
    origin: Origin,
}

/// Files before their layout is found.
#[derive(Clone)]
struct Origin {
    path: PathBuf,
    asked: ShardOptions,
    options: OpenOptions,
}

impl Origin {
    /// Works on the files. The libraries that read them assert some of what a damaged file may break.
    fn guarded(&self, work: impl FnOnce(&[Shard]) -> Result<ShardTable, Error>) -> Result<ShardTable, Error> {
        let panicked = |_| Err(Error::DamagedShards { path: self.path.clone() });
        catch_unwind(AssertUnwindSafe(|| work(&files::open(&self.path)?))).unwrap_or_else(panicked)
    }

    fn decode(&self, shards: &[Shard], layout: Layout) -> Result<ShardTable, Error> {
        let mut room = Room::new(&layout, self.options.memory_limit);
        for shard in shards {
            layout.decode(shard, &mut room)?;
        }
        let content: Box<dyn Source> = match room.end()? {
            Spilled::InMemory { features, targets, weights } => {
                let arrays = Arrays::new(features, layout.shape.clone(), targets)?;
                Box::new(match weights {
                    Some(weights) => arrays.with_weights(weights)?,
                    None => arrays,
                })
            }
            Spilled::InFile(rows) => Box::new(rows),
        };
        let normaliser = if self.asked.images { NormaliserKind::Image } else { NormaliserKind::None };
        Ok(ShardTable { content, layout, normaliser, origin: self.clone() })
    }
}

impl Source for ShardTable {
    fn examples(&self) -> usize {
        self.content.examples()
    }

    fn shape(&self) -> &ExampleShape {
        &self.layout.shape
    }

    fn read(&self, indices: &[u64], batch: &mut Batch) -> Result<(), Error> {
        self.content.read(indices, batch)
    }

    fn schema(&self) -> Option<&Schema> {
        self.layout.schema.as_ref()
    }

    fn default_normaliser(&self) -> NormaliserKind {
        self.normaliser
    }

    fn remarks(&self) -> &[String] {
        &self.layout.remarks
    }

    fn weighted(&self) -> bool {
        self.content.weighted()
    }

    fn fitted_to(&self, learned: &[u64]) -> Result<Option<Arc<dyn Source>>, Error> {
        if !self.layout.is_fitted {
            return Ok(None);
        }
        let mut is_learned = vec![false; self.examples()];
        learned.iter().for_each(|index| is_learned[*index as usize] = true);
        let Origin { path, asked, options } = &self.origin;
        let table = self.origin.guarded(|shards| {
            if rows(shards) != is_learned.len() {
                let what = "it has another number of rows than before";
                return Err(Error::FileChanged { path: path.clone(), what });
            }
            let layout = Layout::find(path, shards, asked, options, Some(&is_learned))?;
            self.origin.decode(shards, layout)
        })?;
        Ok(Some(Arc::new(table)))
    }
}

/// All rows of all files.
fn rows(shards: &[Shard]) -> usize {
    shards.iter().map(Shard::rows).sum()
}
