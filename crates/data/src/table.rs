//! Tables of comma-separated values, and of lines of JSON.
//!
//! One pass over the file fits the schema and notes where blocks of rows begin. A table that fits the memory limit is
//! then decoded whole; a larger one is decoded block by block, by the same decoder.

use std::path::Path;
use std::sync::{Arc, Mutex};

use csv::Position;
use paceline_model::Batch;

use crate::source::Notes;
use crate::{Arrays, Error, ExampleShape, LeftOut, NormaliserKind, OpenOptions, Order, Source};

mod agreement;
mod blocks;
mod dates;
mod decoder;
mod dropped;
mod fit;
mod foreign;
mod json_lines;
mod narrowing;
mod options;
mod rows;
mod schema;
mod survey;

use blocks::{BlockTable, Cache};
pub(crate) use dates::days;
pub(crate) use decoder::Decoder;
pub(crate) use dropped::Dropped;
use fit::Groups;
pub(crate) use fit::{Fitted, fit};
pub(crate) use foreign::Foreign;
pub(crate) use narrowing::{Spread, remark_on_classes, remark_on_held_out, remark_on_unknown};
pub use options::{Header, Missing, TableOptions, Task, Unknown};
pub(crate) use rows::{Cell, Rows};
pub use schema::{Column, ColumnKind, ImageForm, LabelType, Schema, SchemaTarget, SequenceColumns};
pub use survey::{ColumnSurvey, survey};

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
    Ok(Arc::new(Table::new(scan(path, format, pairs, options)?, options.memory_limit)?))
}

/// The examples of a table.
pub(crate) struct Table {
    content: Box<dyn Source>,
    groups: Option<Vec<u32>>,
    /// The way to fit its schema to some of its rows; none where the schema is that of a trained model.
    origin: Option<Origin>,
    memory_limit: usize,
}

/// A table before its schema is fitted.
struct Origin {
    rows: Rows,
    options: TableOptions,
    wants_targets: bool,
}

impl Table {
    fn new(mut scanned: Scanned, memory_limit: usize) -> Result<Self, Error> {
        let (groups, origin) = (scanned.groups.take(), scanned.origin.take());
        let is_large = scanned.examples.saturating_mul(scanned.decoder.row_bytes()) > memory_limit;
        let content: Box<dyn Source> =
            if is_large { Box::new(scanned.into_blocks()) } else { Box::new(scanned.into_arrays()?) };
        Ok(Self { content, groups, origin, memory_limit })
    }
}

impl Source for Table {
    fn examples(&self) -> usize {
        self.content.examples()
    }

    fn shape(&self) -> &ExampleShape {
        self.content.shape()
    }

    fn read(&self, indices: &[u64], batch: &mut Batch) -> Result<(), Error> {
        self.content.read(indices, batch)
    }

    fn order(&self) -> Order {
        self.content.order()
    }

    fn schema(&self) -> Option<&Schema> {
        self.content.schema()
    }

    fn default_normaliser(&self) -> NormaliserKind {
        self.content.default_normaliser()
    }

    fn remarks(&self) -> &[String] {
        self.content.remarks()
    }

    fn left_out(&self) -> &[LeftOut] {
        self.content.left_out()
    }

    fn weighted(&self) -> bool {
        self.content.weighted()
    }

    fn groups(&self) -> Option<Vec<u32>> {
        self.groups.clone()
    }

    fn fitted_to(&self, learned: &[u64]) -> Result<Option<Arc<dyn Source>>, Error> {
        let Some(origin) = &self.origin else { return Ok(None) };
        let mut is_learned = vec![false; self.examples()];
        learned.iter().for_each(|index| is_learned[*index as usize] = true);
        let scanned = origin.scan(Some(&is_learned))?;
        Ok(Some(Arc::new(Self::new(scanned, self.memory_limit)?)))
    }
}

/// The rows of a table as they are written.
pub struct Cells {
    rows: Rows,
}

impl Cells {
    /// The rows of `csv:` or `jsonl:`; none for other sources.
    pub(crate) fn open(path: &Path, format: Format, pairs: &[(&str, String)]) -> Result<Self, Error> {
        let mut table = TableOptions { label: Vec::new(), weight: None, ..TableOptions::parse(pairs, format)? };
        let rows = match format {
            Format::Csv => Rows::open(path, &table)?,
            Format::JsonLines => {
                (table.columns, table.drop, table.categories) = (None, Vec::new(), Vec::new());
                Rows::open_json(path, &mut table, false, None)?
            }
        };
        Ok(Self { rows })
    }

    /// The names of its columns.
    pub fn names(&self) -> &[String] {
        &self.rows.names
    }

    /// The places of these columns.
    pub fn places(&self, names: &[String]) -> Result<Vec<usize>, Error> {
        names.iter().map(|name| self.rows.column(name)).collect()
    }

    /// Fails if the first line was taken for data although it holds numbers and the name of this column.
    fn expect_header(&self, at: usize) -> Result<(), Error> {
        let is_text = self.rows.guessed.get(at).is_some_and(|cell| matches!(Cell::of(cell), Cell::Text(_)));
        if is_text { Err(self.rows.numbers_in_header(at)) } else { Ok(()) }
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
    groups: Option<Vec<u32>>,
    origin: Option<Origin>,
}

fn scan(path: &Path, format: Format, pairs: &[(&str, String)], options: &OpenOptions) -> Result<Scanned, Error> {
    let mut table = TableOptions::parse(pairs, format)?;
    let trained = options.schema.as_ref();
    let known = trained.filter(|schema| !schema.columns.is_empty());
    let mut rows = match format {
        Format::Csv => Rows::open(path, &table)?,
        Format::JsonLines => Rows::open_json(path, &mut table, options.targets, known)?,
    };
    match known {
        None => {
            // A model of images knows classes but no columns: its classes still decide.
            if let (Some(names), [_]) = (trained.and_then(Schema::class_names), &table.label[..]) {
                table.classes = Some(names.to_vec());
            }
            Origin { rows, options: table, wants_targets: options.targets }.scan(None)
        }
        Some(trained) => {
            table.expect_agreement(trained, &rows)?;
            let mut schema = trained.clone();
            schema.missing = table.missing.unwrap_or(schema.missing);
            schema.unknown = table.unknown.unwrap_or(schema.unknown);
            schema.weight = table.weight.or(schema.weight);
            let decoder = Decoder::new(&schema, &rows, &table.label, options.targets)?;
            let mut dropped = Dropped::default();
            let mut groups = table.group.map(|name| rows.column(&name)).transpose()?.map(Groups::new);
            let block_rows = block_rows(&rows);
            let (examples, starts, remarks) = check_rows(&mut rows, &decoder, block_rows, &mut dropped, &mut groups)?;
            let mut notes = dropped.notes(&rows, examples);
            notes.remarks.extend(remarks);
            let (groups, origin) = (groups.map(|groups| groups.numbers), None);
            Ok(Scanned { rows, schema, decoder, examples, block_rows, starts, notes, groups, origin })
        }
    }
}

fn block_rows(rows: &Rows) -> usize {
    (BLOCK_BYTES / (4 * rows.names.len().max(1))).clamp(16, BLOCK_ROWS)
}

impl Origin {
    /// Fits a schema to all rows, or to those that are `learned`.
    fn scan(&self, learned: Option<&[bool]>) -> Result<Scanned, Error> {
        let Self { options, wants_targets, .. } = self;
        let mut rows = self.rows.again()?;
        let block_rows = block_rows(&rows);
        let Fitted { schema, rows: examples, starts, mut notes, groups } =
            fit(&mut rows, options, *wants_targets, block_rows, learned)?;
        let mut decoder = Decoder::new(&schema, &rows, &options.label, *wants_targets)?;
        if learned.is_some() {
            decoder = decoder.with_held_out_rows();
            // Held-out rows are read here once, so that a cell that cannot be read does not end a run later.
            let mut unknown = 0;
            let mut scratch = decoder.room(1);
            rows.restart()?;
            while decoder.read_row(&mut rows, &mut scratch)? {
                unknown += scratch.unknown;
                scratch.clear();
            }
            notes.remarks.extend(remark_on_held_out(unknown, &rows));
        }
        let origin = Self { rows: self.rows.again()?, options: options.clone(), wants_targets: *wants_targets };
        Ok(Scanned { rows, schema, decoder, examples, block_rows, starts, notes, groups, origin: Some(origin) })
    }
}

/// The first pass with a schema that is given: every cell is checked, and nothing is kept.
fn check_rows(
    rows: &mut Rows,
    decoder: &Decoder,
    block_rows: usize,
    dropped: &mut Dropped,
    groups: &mut Option<Groups>,
) -> Result<(usize, Vec<Position>, Vec<String>), Error> {
    let (mut examples, mut starts, mut scratch) = (0, Vec::new(), decoder.room(1));
    let mut foreign = Foreign::new(decoder);
    rows.restart()?;
    while decoder.read_row_telling(rows, &mut scratch, |field| dropped.add(examples, field))? {
        if examples % block_rows == 0 {
            starts.push(rows.position());
        }
        if let Some(Err(field)) = groups.as_ref().map(|groups| groups.expect(rows.record())) {
            return Err(rows.without_group(field));
        }
        groups.iter_mut().for_each(|groups| groups.add(rows.record()));
        foreign.add(rows.record(), scratch.unknown);
        examples += 1;
        scratch.clear();
    }
    match examples {
        0 => Err(Error::NothingLeft { path: rows.path.clone(), what: "rows" }),
        _ => Ok((examples, starts, foreign.remarks(rows))),
    }
}

impl Scanned {
    fn into_blocks(self) -> BlockTable {
        let Self { rows, schema, decoder, examples, block_rows, starts, notes, .. } = self;
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
