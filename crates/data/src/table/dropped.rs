use super::rows::Rows;
use crate::LeftOut;
use crate::source::Notes;

/// Rows that are left out because a value is missing.
pub(super) struct Dropped {
    /// Whether each must be told: predictions and groups stand for rows, so that none may go without a word.
    is_listed: bool,
    count: u64,
    /// The rows, with the field that was empty.
    rows: Vec<(u64, usize)>,
}

impl Dropped {
    pub(super) fn new(is_listed: bool) -> Self {
        Self { is_listed, count: 0, rows: Vec::new() }
    }

    /// A row after so many that were kept lacks this field.
    pub(super) fn add(&mut self, kept: usize, field: usize) {
        if self.is_listed {
            self.rows.push((kept as u64 + self.count, field));
        }
        self.count += 1;
    }

    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// In words, for a file of which so many rows were kept.
    pub(super) fn notes(self, rows: &Rows, kept: usize) -> Notes {
        let all = kept as u64 + self.count;
        let remark = format!(
            "{} of the {all} rows of `{}` lack a value and are left out (`missing=drop`)",
            self.count,
            rows.path.display()
        );
        let reason = |field: usize| format!("no value in column `{}`", rows.names[field]);
        let left_out = self.rows.into_iter().map(|(row, field)| LeftOut { row, reason: reason(field) }).collect();
        Notes { remarks: (self.count > 0).then_some(remark).into_iter().collect(), left_out }
    }
}
