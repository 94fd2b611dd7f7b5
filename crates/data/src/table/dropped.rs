use super::rows::Rows;
use crate::LeftOut;
use crate::source::Notes;

/// Rows that are left out because a value is missing.
#[derive(Default)]
pub(crate) struct Dropped {
    /// The rows, with the field that was empty.
    rows: Vec<(u64, usize)>,
}

impl Dropped {
    /// A row after so many that were kept lacks this field.
    pub(crate) fn add(&mut self, kept: usize, field: usize) {
        self.rows.push((kept as u64 + self.rows.len() as u64, field));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// In words, for a file of which so many rows were kept.
    pub(crate) fn notes(self, rows: &Rows, kept: usize) -> Notes {
        let count = self.rows.len();
        let all = kept + count;
        let remark = format!(
            "{count} of the {all} rows of `{}` lack a value and are left out (`missing=drop`)",
            rows.path.display()
        );
        let reason = |field: usize| format!("no value in column `{}`", rows.names[field]);
        let left_out = self.rows.into_iter().map(|(row, field)| LeftOut { row, reason: reason(field) }).collect();
        Notes { remarks: (count > 0).then_some(remark).into_iter().collect(), left_out }
    }
}
