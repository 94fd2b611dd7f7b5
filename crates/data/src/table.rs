//! Tables of comma-separated values, and of lines of JSON.
//!
//! One pass over the file fits the schema and notes where blocks of rows begin. A table that fits the memory limit is
//! then decoded whole; a larger one is decoded block by block, by the same decoder.

use std::path::Path;
use std::sync::{Arc, Mutex};

use csv::Position;

use crate::source::Notes;
use crate::{Arrays, Error, NormaliserKind, OpenOptions, Source};

mod blocks;
mod decoder;
mod dropped;
mod fit;
mod json_lines;
mod narrowing;
mod options;
mod rows;
mod schema;

use blocks::{BlockTable, Cache};
use decoder::Decoder;
use dropped::Dropped;
use fit::{Fitted, fit};
pub use options::{Header, Missing, TableOptions, Task, Unknown};
use rows::Rows;
pub use schema::{Column, ColumnKind, LabelType, Schema, SchemaTarget};

/// Rows in a block, unless they are so wide that a block would pass [`BLOCK_BYTES`].
const BLOCK_ROWS: usize = 1024;
const BLOCK_BYTES: usize = 4 << 20;

/// How a table is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Csv,
    JsonLines,
}

/// Opens a table with the options of its specification.
pub(crate) fn open(
    path: &Path,
    format: Format,
    pairs: &[(&str, String)],
    options: &OpenOptions,
) -> Result<Arc<dyn Source>, Error> {
    let scanned = scan(path, format, pairs, options)?;
    if scanned.examples.saturating_mul(scanned.decoder.row_bytes()) > options.memory_limit {
        return Ok(Arc::new(scanned.into_blocks()));
    }
    Ok(Arc::new(scanned.into_arrays()?))
}

/// The rows of a table as they are written.
pub struct Cells {
    rows: Rows,
    group: Option<String>,
}

impl Cells {
    /// The rows of `csv:` or `jsonl:`; none for other sources.
    pub(crate) fn open(path: &Path, format: Format, pairs: &[(&str, String)]) -> Result<Self, Error> {
        let mut table = TableOptions { label: Vec::new(), weight: None, ..TableOptions::parse(pairs, format)? };
        let group = table.group.clone();
        let rows = match format {
            Format::Csv => Rows::open(path, &table)?,
            Format::JsonLines => {
                (table.columns, table.drop, table.categories) = (None, Vec::new(), Vec::new());
                Rows::open_json(path, &mut table, false, None)?
            }
        };
        Ok(Self { rows, group })
    }

    /// The column that says what belongs together, if one was named.
    pub(crate) fn group(&self) -> Option<&str> {
        self.group.as_deref()
    }

    /// What is said when the file is not what it was.
    pub(crate) fn changed(&self, what: &'static str) -> Error {
        Error::FileChanged { path: self.rows.path.clone(), what }
    }

    /// The names of its columns.
    pub fn names(&self) -> &[String] {
        &self.rows.names
    }

    /// The places of these columns.
    pub fn places(&self, names: &[String]) -> Result<Vec<usize>, Error> {
        names.iter().map(|name| self.rows.column(name)).collect()
    }

    /// Some cells of the next row; nothing behind the last one.
    pub fn next_row(&mut self, places: &[usize]) -> Result<Option<Vec<String>>, Error> {
        let row = self.rows.next()?;
        Ok(row.map(|row| places.iter().map(|place| row.get(*place).unwrap_or_default().to_owned()).collect()))
    }
}

/// A file after the first pass.
struct Scanned {
    rows: Rows,
    schema: Schema,
    decoder: Decoder,
    examples: usize,
    block_rows: usize,
    starts: Vec<Position>,
    notes: Notes,
}

fn scan(path: &Path, format: Format, pairs: &[(&str, String)], options: &OpenOptions) -> Result<Scanned, Error> {
    let mut table = TableOptions::parse(pairs, format)?;
    let trained = options.schema.as_ref();
    let known = trained.filter(|schema| !schema.columns.is_empty());
    let mut rows = match format {
        Format::Csv => Rows::open(path, &table)?,
        Format::JsonLines => Rows::open_json(path, &mut table, options.targets, known)?,
    };
    let block_rows = (BLOCK_BYTES / (4 * rows.names.len().max(1))).clamp(16, BLOCK_ROWS);
    match known {
        None => {
            let Fitted { mut schema, rows: examples, starts, notes } =
                fit(&mut rows, &table, options.targets, block_rows)?;
            // A model of images knows classes but no columns: its classes still decide.
            if let (SchemaTarget::Classes { names, .. }, Some(trained)) =
                (&mut schema.target, trained.and_then(Schema::class_names))
            {
                *names = trained.to_vec();
            }
            let decoder = Decoder::new(&schema, &rows, &table.label, options.targets)?;
            Ok(Scanned { rows, schema, decoder, examples, block_rows, starts, notes })
        }
        Some(trained) => {
            let mut schema = trained.clone();
            schema.missing = table.missing.unwrap_or(schema.missing);
            schema.unknown = table.unknown.unwrap_or(schema.unknown);
            schema.weight = table.weight.or(schema.weight);
            let decoder = Decoder::new(&schema, &rows, &table.label, options.targets)?;
            let mut dropped = Dropped::new(!options.targets || table.group.is_some());
            let (examples, starts) = check_rows(&mut rows, &decoder, block_rows, &mut dropped)?;
            let notes = dropped.notes(&rows, examples);
            Ok(Scanned { rows, schema, decoder, examples, block_rows, starts, notes })
        }
    }
}

/// The first pass with a schema that is given: every cell is checked, and nothing is kept.
fn check_rows(
    rows: &mut Rows,
    decoder: &Decoder,
    block_rows: usize,
    dropped: &mut Dropped,
) -> Result<(usize, Vec<Position>), Error> {
    let (mut examples, mut starts, mut scratch) = (0, Vec::new(), decoder.room(1));
    rows.restart()?;
    while decoder.read_row_telling(rows, &mut scratch, |field| dropped.add(examples, field))? {
        if examples % block_rows == 0 {
            starts.push(rows.position());
        }
        examples += 1;
        scratch.clear();
    }
    match examples {
        0 => Err(Error::NothingLeft { path: rows.path.clone(), what: "rows" }),
        _ => Ok((examples, starts)),
    }
}

impl Scanned {
    fn into_blocks(self) -> BlockTable {
        let Self { rows, schema, decoder, examples, block_rows, starts, notes } = self;
        BlockTable { schema, decoder, examples, block_rows, starts, notes, cache: Mutex::new(Cache::new(rows)) }
    }

    fn into_arrays(mut self) -> Result<Arrays, Error> {
        let mut decoded = self.decoder.room(self.examples);
        self.rows.restart()?;
        while self.decoder.read_row(&mut self.rows, &mut decoded)? {
            if decoded.rows > self.examples {
                break;
            }
        }
        if decoded.rows != self.examples {
            let what = "the number of rows is another";
            return Err(Error::FileChanged { path: self.rows.path, what });
        }
        let arrays = Arrays::new(decoded.features, self.decoder.shape.clone(), decoded.targets)?;
        let arrays = match decoded.weights {
            Some(weights) => arrays.with_weights(weights)?,
            None => arrays,
        };
        Ok(arrays.described(Some(self.schema), NormaliserKind::Standardise).noted(self.notes))
    }
}
