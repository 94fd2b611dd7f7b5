//! The first pass over a table: it finds out what the columns are, and where blocks of rows begin.

use std::collections::BTreeSet;

use csv::{Position, StringRecord};

use super::decoder::missing_value;
use super::narrowing::{Spread, remark_on_names};
use super::rows::{Cell, Rows};
use super::{Column, ColumnKind, Dropped, Missing, Schema, SchemaTarget, TableOptions, Task};
use crate::Error;
use crate::source::Notes;

/// The most distinct texts that a column may have, so that a column of free text cannot fill the memory.
const MOST_NAMES: usize = 10_000;

/// What the first pass found.
pub(super) struct Fitted {
    pub(super) schema: Schema,
    pub(super) rows: usize,
    /// Where each block of rows begins.
    pub(super) starts: Vec<Position>,
    pub(super) notes: Notes,
}

/// What one column holds, gathered row by row.
#[derive(Default)]
struct Gathered {
    numbers: u64,
    texts: u64,
    sum: f64,
    spread: Spread,
    /// Whether some number has a fraction or is negative, so that it cannot be a class.
    not_countable: bool,
    /// The distinct cells; `None` once they are too many.
    names: Option<BTreeSet<String>>,
    /// Where the first text stands: the culprit, if the column turns out to hold numbers.
    first_text: Option<(Position, String)>,
}

impl Gathered {
    fn add(&mut self, text: &str, cell: Cell<'_>, position: impl Fn() -> Position) {
        match cell {
            Cell::Missing => return,
            Cell::Number(number) => {
                self.numbers += 1;
                self.sum += number;
                self.spread.add(number);
                self.not_countable |= number < 0.0 || number.fract() != 0.0 || number > 1e9;
            }
            Cell::Text(_) => {
                self.texts += 1;
                if self.first_text.is_none() {
                    self.first_text = Some((position(), text.to_owned()));
                }
            }
        }
        if let Some(names) = &mut self.names
            && !names.contains(text)
        {
            names.insert(text.to_owned());
            if names.len() > MOST_NAMES {
                self.names = None;
            }
        }
    }

    /// A column is what most of its cells are.
    fn is_text(&self) -> bool {
        self.texts >= self.numbers && self.texts > 0
    }
}

/// Fits a schema to a file, and notes where every `block_rows` rows begin.
pub(super) fn fit(
    rows: &mut Rows,
    options: &TableOptions,
    wants_targets: bool,
    block_rows: usize,
) -> Result<Fitted, Error> {
    let mut left_out = Dropped::new(!wants_targets || options.group.is_some());
    let labels = options.label.iter().map(|name| rows.column(name)).collect::<Result<Vec<_>, _>>();
    // A file to predict on may lack its label; where it has one, that is still no feature.
    let labels = if wants_targets { labels? } else { labels.unwrap_or_default() };
    let weight = options.weight.as_deref().map(|name| rows.column(name)).transpose()?;
    let dropped = options.drop.iter().map(|name| rows.column(name)).collect::<Result<Vec<_>, _>>()?;
    let forced = options.categories.iter().map(|name| rows.column(name)).collect::<Result<Vec<_>, _>>()?;
    let mut features = match &options.columns {
        Some(names) => names.iter().map(|name| rows.column(name)).collect::<Result<Vec<_>, _>>()?,
        None => (0..rows.names.len()).collect(),
    };
    let group = options.group.as_deref().map(|name| rows.column(name)).transpose()?;
    features.retain(|field| {
        !labels.contains(field) && !dropped.contains(field) && ![weight, group].contains(&Some(*field))
    });
    if features.is_empty() {
        return Err(Error::NothingLeft { path: rows.path.clone(), what: "feature columns" });
    }
    let missing = options.missing.unwrap_or_default();
    let mut used = features.clone();
    used.extend(labels.iter().filter(|_| wants_targets));
    used.extend(weight);
    let (gathered, count, starts) = gather(rows, &used, missing, block_rows, &mut left_out)?;
    let mut notes = left_out.notes(rows, count);
    notes.remarks.extend(rows.remark());
    for (field, gathered) in used.iter().zip(&gathered).filter(|_| !rows.guessed.is_empty()) {
        // One text on top of a column of numbers is its name.
        let is_on_top = gathered.first_text.as_ref().is_some_and(|(position, _)| position.record() == 0);
        if gathered.texts == 1 && gathered.numbers > 1 && is_on_top {
            return Err(rows.numbers_in_header(*field));
        }
    }
    let of = |field: usize| &gathered[used.iter().position(|of| *of == field).expect("every used field is gathered")];

    let mut columns = Vec::new();
    for field in &features {
        let name = rows.names[*field].clone();
        let kind = match forced.contains(field) || of(*field).is_text() {
            true => {
                let names = category_names(of(*field), rows, *field)?;
                notes.remarks.extend(remark_on_names(names.len(), rows, &name));
                ColumnKind::Category { names }
            }
            false => {
                expect_numbers(of(*field), rows, *field)?;
                let Gathered { numbers, sum, spread, .. } = of(*field);
                let shift = spread.shift();
                notes.remarks.extend(spread.remark(shift, rows, &name));
                ColumnKind::Number { mean: if *numbers == 0 { 0.0 } else { sum / *numbers as f64 }, shift }
            }
        };
        columns.push(Column { name, kind });
    }
    let name = |field: &usize| rows.names[*field].clone();
    let target = match &labels[..] {
        _ if !wants_targets => SchemaTarget::None,
        [] => SchemaTarget::None,
        [label] if is_class(of(*label), options.task, count) => {
            SchemaTarget::Classes { column: name(label), names: class_names(of(*label), rows, *label)? }
        }
        labels => {
            labels.iter().try_for_each(|label| expect_numbers(of(*label), rows, *label))?;
            notes.remarks.extend(labels.iter().filter_map(|label| of(*label).spread.remark(0.0, rows, &name(label))));
            SchemaTarget::values(labels.iter().map(name).collect())
        }
    };
    let schema = Schema {
        columns,
        target,
        weight: weight.as_ref().map(name),
        missing,
        unknown: options.unknown.unwrap_or_default(),
    };
    Ok(Fitted { schema, rows: count, starts, notes })
}

fn gather(
    rows: &mut Rows,
    used: &[usize],
    missing: Missing,
    block_rows: usize,
    dropped: &mut Dropped,
) -> Result<(Vec<Gathered>, usize, Vec<Position>), Error> {
    let mut gathered: Vec<Gathered> =
        used.iter().map(|_| Gathered { names: Some(BTreeSet::new()), ..Gathered::default() }).collect();
    let (mut count, mut starts) = (0, Vec::new());
    rows.restart()?;
    while let Some(record) = rows.next()? {
        let empty = used.iter().find(|field| Cell::of(&record[**field]) == Cell::Missing);
        match (missing, empty) {
            (Missing::Drop, Some(field)) => {
                dropped.add(count, *field);
                continue;
            }
            (Missing::Error, Some(field)) => {
                let found = record[*field].to_owned();
                return Err(missing_value(rows, *field, found, missing));
            }
            _ => {}
        }
        for (field, gathered) in used.iter().zip(&mut gathered) {
            let text = &record[*field];
            gathered.add(text, Cell::of(text), || position_of(record));
        }
        if count % block_rows == 0 {
            starts.push(position_of(record));
        }
        count += 1;
    }
    match count {
        0 if dropped.is_empty() => Err(Error::OnlyHeader { path: rows.path.clone() }),
        0 => Err(Error::NothingLeft { path: rows.path.clone(), what: "rows" }),
        _ => Ok((gathered, count, starts)),
    }
}

fn position_of(record: &StringRecord) -> Position {
    record.position().cloned().unwrap_or_else(Position::new)
}

/// Fails with the first text of a column that otherwise holds numbers.
fn expect_numbers(gathered: &Gathered, rows: &Rows, field: usize) -> Result<(), Error> {
    let Some((position, text)) = &gathered.first_text else { return Ok(()) };
    Err(Error::BadCell {
        path: rows.path.clone(),
        line: rows.line_at(position.byte()),
        column: rows.names[field].clone(),
        expected: "finite number, as in most of this column",
        found: text.clone(),
    })
}

fn category_names(gathered: &Gathered, rows: &Rows, field: usize) -> Result<Vec<String>, Error> {
    match &gathered.names {
        Some(names) => Ok(names.iter().cloned().collect()),
        None => {
            let (path, column) = (rows.path.clone(), rows.names[field].clone());
            Err(Error::TooManyNames { path, column, limit: MOST_NAMES })
        }
    }
}

fn is_class(gathered: &Gathered, task: Option<Task>, rows: usize) -> bool {
    let few = (rows / 10).clamp(10, 100);
    match task {
        Some(task) => task == Task::Classes,
        None if gathered.is_text() => true,
        None => !gathered.not_countable && gathered.names.as_ref().is_some_and(|names| names.len() <= few),
    }
}

/// Texts are sorted as texts, whole numbers by value and written without a fraction.
fn class_names(gathered: &Gathered, rows: &Rows, field: usize) -> Result<Vec<String>, Error> {
    let names = category_names(gathered, rows, field)?;
    let whole: Option<BTreeSet<i64>> = names.iter().map(|name| whole_number(name)).collect();
    Ok(match whole {
        Some(numbers) => numbers.iter().map(i64::to_string).collect(),
        None => names,
    })
}

/// The whole number that a text stands for: `3`, but also `3.0`.
pub(super) fn whole_number(text: &str) -> Option<i64> {
    let number = text.parse::<f64>().ok()?;
    (number.fract() == 0.0 && number.abs() <= 1e9).then_some(number as i64)
}
