//! Cells of a file that a model has not been trained on: categories that it does not know, and columns without any value.

use csv::StringRecord;

use super::rows::{Cell, Rows};
use super::{Decoder, remark_on_unknown};
use crate::suggestion::listed;

/// Counts such cells of the rows that are read for a trained model.
pub(crate) struct Foreign {
    unknown: u64,
    rows: u64,
    /// The fields in which no row had a value yet.
    empty: Vec<usize>,
}

impl Foreign {
    pub(crate) fn new(decoder: &Decoder) -> Self {
        Self { unknown: 0, rows: 0, empty: decoder.fields().collect() }
    }

    /// A row was decoded, with so many cells of unknown categories.
    pub(crate) fn add(&mut self, record: &StringRecord, unknown: u64) {
        self.unknown += unknown;
        self.rows += 1;
        self.empty.retain(|field| Cell::of(&record[*field]) == Cell::Missing);
    }

    /// A sentence for each kind.
    pub(crate) fn remarks(self, rows: &Rows) -> Vec<String> {
        let mut remarks: Vec<String> = remark_on_unknown(self.unknown, rows).into_iter().collect();
        // One row without a value says nothing of its column.
        if self.rows > 1 && !self.empty.is_empty() {
            let names = listed(self.empty.iter().map(|field| rows.names[*field].as_str()));
            remarks.push(format!(
                "no row of `{}` has a value in {names}, which the model was trained on: what it gives is a guess",
                rows.path.display()
            ));
        }
        remarks
    }
}
