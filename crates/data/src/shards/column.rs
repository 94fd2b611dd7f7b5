//! One column of a file, of whatever kind the file is.

use std::ops::ControlFlow;

use super::files::{Content, Shard};
use super::{arrow_file, parquet_file};
use crate::Error;
use crate::suggestion::{Suggestion, listed};

/// A row may have as many numbers as it likes.
pub(super) const ANY: usize = usize::MAX;
/// What a column may hold.
pub(super) const EXPECTED: &str = "a number, a text or a list of numbers";

/// Where a column stands in a file, and what it holds.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Place {
    pub(super) name: String,
    /// Among all columns of the file; in Parquet those of structures are counted one by one.
    pub(super) at: usize,
    /// Whether each row has a list of numbers.
    pub(super) is_list: bool,
    pub(super) is_text: bool,
    /// In Parquet: a value with less than this is missing.
    pub(super) whole: i16,
    /// For dates and times: how many of their units a day has. They become days since 1970-01-01.
    pub(super) per_day: Option<f64>,
}

/// The content of a column for some rows.
#[derive(Clone, Debug, Default)]
pub(super) struct Cells {
    pub(super) numbers: Vec<f64>,
    pub(super) texts: Vec<String>,
}

impl Cells {
    pub(super) fn clear(&mut self) {
        self.numbers.clear();
        self.texts.clear();
    }
}

/// Is handed columns as they stand in the file.
pub(super) type VisitRaw<'a> = &'a mut dyn FnMut(&mut [Cells], usize) -> Result<ControlFlow<()>, Error>;
/// Is handed columns for some rows, and the first of these rows; may end the visit.
pub(super) type Visit<'a> = &'a mut dyn FnMut(&[Cells], usize) -> Result<ControlFlow<()>, Error>;

impl Place {
    /// Finds a column by its name.
    pub(super) fn find(shard: &Shard, name: &str) -> Result<Self, Error> {
        match &shard.content {
            Content::Parquet(file) => parquet_file::find(shard, file, name),
            Content::Arrow(file) => arrow_file::find(shard, file, name),
        }
    }

    /// How many numbers the first row of a column of lists has.
    pub(super) fn first_length(&self, shard: &Shard) -> Result<usize, Error> {
        match &shard.content {
            Content::Parquet(file) => parquet_file::first_length(shard, file, self),
            Content::Arrow(file) => arrow_file::first_length(shard, file, self),
        }
    }
}

/// The columns of a file.
pub(super) fn names(shard: &Shard) -> Vec<String> {
    match &shard.content {
        Content::Parquet(file) => parquet_file::names(file),
        Content::Arrow(file) => file.names(),
    }
}

/// Hands over some columns of a file, a piece at a time, until the visit ends; each row must have so many numbers.
pub(super) fn each_piece(shard: &Shard, columns: &[(&Place, usize)], visit: Visit<'_>) -> Result<(), Error> {
    let mut in_days = |cells: &mut [Cells], from: usize| {
        for (cells, (place, _)) in cells.iter_mut().zip(columns) {
            if let Some(per_day) = place.per_day {
                cells.numbers.iter_mut().for_each(|number| *number /= per_day);
            }
        }
        visit(cells, from)
    };
    match &shard.content {
        Content::Parquet(file) => parquet_file::each_piece(shard, file, columns, &mut in_days),
        Content::Arrow(file) => arrow_file::each_piece(shard, file, columns, &mut in_days),
    }
}

/// There is no column of that name.
pub(super) fn unknown(shard: &Shard, name: &str) -> Error {
    let names = names(shard);
    Error::NoSuchColumn {
        path: shard.path.clone(),
        found: name.to_owned(),
        columns: listed(names.iter().map(String::as_str)),
        suggestion: Suggestion::nearest(name, names.iter().map(String::as_str)),
    }
}
