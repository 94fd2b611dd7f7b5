//! The columns of a table, before anything is decided about them.

use std::collections::BTreeSet;

use super::dates::days;
use super::narrowing::looks_like_a_number;
use super::{Cell, Cells};
use crate::{Error, OpenOptions, cells};

/// Distinct values that are counted; more are as good as all different.
const MOST_DISTINCT: usize = 10_000;

/// The content of one column of a table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ColumnSurvey {
    /// Its name in the header, or its place from 0.
    pub name: String,
    /// Cells that are numbers.
    pub numbers: u64,
    /// Cells that are texts.
    pub texts: u64,
    /// Texts that people would read as numbers, such as `$12`.
    pub numeric_texts: u64,
    /// The first of these, if there is one.
    pub numeric_text: Option<String>,
    /// Texts that are dates of ISO 8601.
    pub dates: u64,
    /// Cells without a value.
    pub missing: u64,
    /// Distinct values, up to 10,000.
    pub distinct: usize,
    /// True if every number is whole and not negative.
    pub is_countable: bool,
    /// The smallest number.
    pub minimum: Option<f64>,
    /// The mean of all numbers.
    pub mean: Option<f64>,
    /// The largest number.
    pub maximum: Option<f64>,
    /// The first value.
    pub example: String,
}

impl ColumnSurvey {
    /// Rows of the table.
    pub fn rows(&self) -> u64 {
        self.numbers + self.texts + self.missing
    }

    /// True if every value is a date: the column is read as days since 1970-01-01.
    pub fn is_date(&self) -> bool {
        self.numbers == 0 && self.dates > 0 && self.dates == self.texts
    }

    /// True if most values are texts that are no dates: the column is a category.
    pub fn is_text(&self) -> bool {
        self.texts > 0 && self.texts >= self.numbers && !self.is_date()
    }

    /// `number`, `date`, `text` or `empty`.
    pub fn kind(&self) -> &'static str {
        match self {
            _ if self.is_date() => "date",
            _ if self.is_text() => "text",
            Self { numbers: 0, .. } => "empty",
            _ => "number",
        }
    }

    /// A sentence on the column that a reader should look at, if there is one.
    pub fn warning(&self) -> Option<String> {
        let values = self.numbers + self.texts;
        match self {
            _ if values == 0 => Some("has no value".into()),
            _ if self.distinct == 1 => Some("has one value only".into()),
            _ if self.is_text() && 2 * self.numeric_texts > self.texts => {
                let example = self.numeric_text.as_deref().unwrap_or_default();
                Some(format!("holds numbers such as `{example}` that cannot be read as numbers"))
            }
            _ if self.is_text() && self.distinct as u64 == values && values > 20 => {
                Some("has another text in every row, as names and keys have".into())
            }
            _ if self.is_text() && self.distinct > 100 => Some("has very many different texts".into()),
            _ if !self.is_text() && !self.is_date() && self.texts > 0 => {
                Some(format!("has {} text{} among its numbers", self.texts, if self.texts == 1 { "" } else { "s" }))
            }
            _ => None,
        }
    }
}

/// The columns of `csv:` or `jsonl:`; none for other sources.
pub fn survey(spec: &str, options: &OpenOptions) -> Result<Option<Vec<ColumnSurvey>>, Error> {
    let Some(mut cells) = cells(spec, options)? else { return Ok(None) };
    // Texts that stand on top of a column, and how often they occur.
    let mut first: Vec<(String, u64)> = vec![Default::default(); Cells::names(&cells).len()];
    let mut columns: Vec<(ColumnSurvey, BTreeSet<String>, f64)> = Cells::names(&cells)
        .iter()
        .map(|name| {
            let column = ColumnSurvey { name: name.clone(), is_countable: true, ..ColumnSurvey::default() };
            (column, BTreeSet::new(), 0.0)
        })
        .collect();
    let places: Vec<usize> = (0..columns.len()).collect();
    while let Some(row) = cells.next_row(&places)? {
        for (((column, distinct, sum), (on_top, repeats)), text) in columns.iter_mut().zip(&mut first).zip(row) {
            if column.rows() == 0 {
                on_top.clone_from(&text);
            }
            *repeats += u64::from(*on_top == text);
            // `1` and `1.0` are one value.
            let mut value = None;
            match Cell::of(&text) {
                Cell::Missing => {
                    column.missing += 1;
                    continue;
                }
                Cell::Number(number) => {
                    column.numbers += 1;
                    value = Some(number.to_string());
                    column.is_countable &= number >= 0.0 && number.fract() == 0.0;
                    column.minimum = Some(column.minimum.map_or(number, |least| least.min(number)));
                    column.maximum = Some(column.maximum.map_or(number, |most| most.max(number)));
                    *sum += number;
                }
                Cell::Text(text) => {
                    column.texts += 1;
                    if looks_like_a_number(text) {
                        column.numeric_texts += 1;
                        column.numeric_text.get_or_insert_with(|| text.to_owned());
                    }
                    column.dates += u64::from(days(text).is_some());
                }
            }
            if column.example.is_empty() {
                column.example.clone_from(&text);
            }
            if distinct.len() < MOST_DISTINCT {
                distinct.insert(value.unwrap_or(text));
            }
        }
    }
    for (at, ((column, distinct, _), (_, repeats))) in columns.iter().zip(&first).enumerate() {
        let is_number = column.texts == 1 && column.numbers > 1;
        let is_alone = column.texts >= 10 && 2 * distinct.len() as u64 <= column.texts;
        if *repeats == 1 && (is_number || is_alone) {
            cells.expect_header(at)?;
        }
    }
    let finish = |(column, distinct, sum): (ColumnSurvey, BTreeSet<String>, f64)| {
        let mean = (column.numbers > 0).then(|| sum / column.numbers as f64);
        ColumnSurvey { distinct: distinct.len(), mean, ..column }
    };
    Ok(Some(columns.into_iter().map(finish).collect()))
}
