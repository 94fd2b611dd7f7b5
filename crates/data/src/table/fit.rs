//! The first pass over a table: it finds out what the columns are, and where blocks of rows begin.

use std::collections::{BTreeSet, HashMap};

use csv::{Position, StringRecord};

use super::dates::days;
use super::decoder::missing_value;
use super::narrowing::{
    Spread, looks_like_a_number, remark_on_classes, remark_on_dates, remark_on_labels, remark_on_names,
    remark_on_numbers,
};
use super::rows::{Cell, Rows};
use super::{Column, ColumnKind, Dropped, LabelType, Missing, Schema, SchemaTarget, TableOptions, Task};
use crate::Error;
use crate::source::Notes;

/// The most distinct texts that a column may have, so that a column of free text cannot fill the memory.
const MOST_NAMES: usize = 10_000;

/// What the first pass found.
pub(crate) struct Fitted {
    pub(crate) schema: Schema,
    pub(crate) rows: usize,
    /// Where each block of rows begins.
    pub(crate) starts: Vec<Position>,
    pub(crate) notes: Notes,
    /// The group of every row, where the options name its column.
    pub(crate) groups: Option<Vec<u32>>,
}

/// What one column holds, gathered row by row.
#[derive(Default)]
struct Gathered {
    numbers: u64,
    texts: u64,
    spread: Spread,
    /// Texts that are dates, and the days that they stand for.
    dates: u64,
    days: Spread,
    /// Whether some number has a fraction or is negative, so that it cannot be a class.
    not_countable: bool,
    /// The distinct cells; `None` once they are too many.
    names: Option<BTreeSet<String>>,
    /// Texts that people would read as numbers.
    numeric_texts: u64,
    /// Where the first text stands: the culprit, if the column turns out to hold numbers.
    first_text: Option<(Position, String)>,
    /// How often that text occurs.
    first_repeats: u64,
}

impl Gathered {
    fn add(&mut self, text: &str, cell: Cell<'_>, position: impl Fn() -> Position) {
        match cell {
            Cell::Missing => return,
            Cell::Number(number) => {
                self.numbers += 1;
                self.spread.add(number);
                self.not_countable |= number < 0.0 || number.fract() != 0.0 || number > 1e9;
            }
            Cell::Text(_) => {
                self.texts += 1;
                if let Some(day) = days(text) {
                    self.dates += 1;
                    self.days.add(day);
                }
                self.numeric_texts += u64::from(looks_like_a_number(text));
                let (_, first) = self.first_text.get_or_insert_with(|| (position(), text.to_owned()));
                self.first_repeats += u64::from(first == text);
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

    /// True if every value is a date.
    fn is_date(&self) -> bool {
        self.numbers == 0 && self.dates > 0 && self.dates == self.texts
    }

    /// A column is what most of its cells are.
    fn is_text(&self) -> bool {
        self.texts >= self.numbers && self.texts > 0
    }
}

/// Fits a schema to a file, and notes where every `block_rows` rows begin. With `learned`, a flag for every kept row, other rows have no
/// say in the schema.
pub(crate) fn fit(
    rows: &mut Rows,
    options: &TableOptions,
    wants_targets: bool,
    block_rows: usize,
    learned: Option<&[bool]>,
) -> Result<Fitted, Error> {
    let mut left_out = Dropped::default();
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
    let mut groups = group.map(Groups::new);
    let (gathered, count, starts) = gather(rows, &used, (missing, learned), block_rows, &mut left_out, &mut groups)?;
    let mut notes = left_out.notes(rows, count);
    notes.remarks.extend(rows.remark());
    // All rows decide this, so that it does not depend on which of them are learned from.
    let may_be_header = learned.is_none() && !rows.guessed.is_empty();
    for (field, gathered) in used.iter().zip(&gathered).filter(|_| may_be_header) {
        // One text on top of a column of numbers is its name.
        let is_on_top = gathered.first_text.as_ref().is_some_and(|(position, _)| position.record() == 0);
        // So is a text that comes once, on top of texts that come again and again.
        let distinct = gathered.names.as_ref().map_or(u64::MAX, |names| names.len() as u64);
        let is_alone = gathered.first_repeats == 1 && gathered.texts >= 10 && 2 * distinct <= gathered.texts;
        if is_on_top && (gathered.texts == 1 && gathered.numbers > 1 || is_alone) {
            return Err(rows.numbers_in_header(*field));
        }
    }
    let of = |field: usize| &gathered[used.iter().position(|of| *of == field).expect("every used field is gathered")];

    let mut columns = Vec::new();
    for field in &features {
        let name = rows.names[*field].clone();
        let kind = match forced.contains(field) || of(*field).is_text() {
            true if !forced.contains(field) && of(*field).is_date() => {
                let days = &of(*field).days;
                notes.remarks.push(remark_on_dates(&rows.path, &name));
                ColumnKind::Number { mean: days.mean(), shift: days.shift(), is_date: true }
            }
            true => {
                let names = category_names(of(*field), rows, *field)?;
                let looks_numeric = !forced.contains(field) && 2 * of(*field).numeric_texts > of(*field).texts;
                match &of(*field).first_text {
                    Some((_, text)) if looks_numeric => notes.remarks.push(remark_on_numbers(text, rows, &name)),
                    _ => notes.remarks.extend(remark_on_names(names.len(), rows, &name)),
                }
                ColumnKind::Category { names }
            }
            false => {
                expect_numbers(of(*field), rows, *field)?;
                let spread = &of(*field).spread;
                let shift = spread.shift();
                notes.remarks.extend(spread.remark(shift, &rows.path, &name));
                ColumnKind::Number { mean: spread.mean(), shift, is_date: false }
            }
        };
        columns.push(Column { name, kind });
    }
    let name = |field: &usize| rows.names[*field].clone();
    if let Some(field) = weight.filter(|field| wants_targets && of(*field).texts == 0 && of(*field).spread.is_zero()) {
        let message =
            format!("names `{}`, whose values are all 0: nothing would be learned from any row", name(&field));
        return Err(Error::Unsuitable { setting: "weight", message });
    }
    let mut target_classes: Vec<Vec<String>> = Vec::new();
    let mut label_type = LabelType::Text;
    let target = match &labels[..] {
        _ if !wants_targets => SchemaTarget::None,
        [] => SchemaTarget::None,
        [label] if options.classes.is_some() || is_class(of(*label), options.task, count) => {
            let names = match &options.classes {
                Some(names) => names.clone(),
                None => class_names(of(*label), rows, *label)?,
            };
            label_type = LabelType::of_names(&names);
            if options.task.is_none() && options.classes.is_none() {
                let of_label = of(*label);
                notes.remarks.extend(match &of_label.first_text {
                    Some((_, text)) if 2 * of_label.numeric_texts > of_label.texts => {
                        Some(remark_on_labels(text, rows, &name(label)))
                    }
                    _ => remark_on_classes(&names, &name(label)),
                });
            }
            SchemaTarget::Classes { column: name(label), names }
        }
        labels => {
            // Texts among several labels are classes of an end of their own.
            let is_classes = |label: &usize| labels.len() > 1 && of(*label).is_text();
            for label in labels {
                if is_classes(label) {
                    target_classes.push(category_names(of(*label), rows, *label)?);
                } else {
                    if of(*label).is_date() {
                        let message =
                            format!("names `{}`, which holds dates: write it as numbers to learn it", name(label));
                        return Err(Error::Unsuitable { setting: "label", message });
                    }
                    expect_numbers(of(*label), rows, *label)?;
                    target_classes.push(Vec::new());
                }
            }
            if target_classes.iter().all(Vec::is_empty) {
                target_classes.clear();
            }
            let shift = |label: &usize| if is_classes(label) { 0.0 } else { of(*label).spread.shift() };
            let mut shifts: Vec<f64> = labels.iter().map(shift).collect();
            for (label, shift) in labels.iter().zip(&shifts).filter(|(label, _)| !is_classes(label)) {
                notes.remarks.extend(of(*label).spread.remark_on_target(*shift, &rows.path, &name(label)));
            }
            if shifts.iter().all(|shift| *shift == 0.0) {
                shifts.clear();
            }
            SchemaTarget::Values { columns: labels.iter().map(name).collect(), shifts }
        }
    };
    let schema = Schema {
        columns,
        target,
        weight: weight.as_ref().map(name),
        missing,
        unknown: options.unknown.unwrap_or_default(),
        labels: label_type,
        target_classes,
        sequence: None,
        text_steps: None,
        image: None,
    };
    Ok(Fitted { schema, rows: count, starts, notes, groups: groups.map(|groups| groups.numbers) })
}

/// The groups of rows, numbered in the order in which they appear.
pub(crate) struct Groups {
    field: usize,
    known: HashMap<String, u32>,
    pub(crate) numbers: Vec<u32>,
}

impl Groups {
    pub(crate) fn new(field: usize) -> Self {
        Self { field, known: HashMap::new(), numbers: Vec::new() }
    }

    /// Fails for a row of no group.
    pub(crate) fn expect(&self, record: &StringRecord) -> Result<(), usize> {
        if Cell::of(&record[self.field]) == Cell::Missing { Err(self.field) } else { Ok(()) }
    }

    pub(crate) fn add(&mut self, record: &StringRecord) {
        let next = self.known.len() as u32;
        self.numbers.push(*self.known.entry(record[self.field].to_owned()).or_insert(next));
    }
}

fn gather(
    rows: &mut Rows,
    used: &[usize],
    (missing, learned): (Missing, Option<&[bool]>),
    block_rows: usize,
    dropped: &mut Dropped,
    groups: &mut Option<Groups>,
) -> Result<(Vec<Gathered>, usize, Vec<Position>), Error> {
    let mut gathered: Vec<Gathered> =
        used.iter().map(|_| Gathered { names: Some(BTreeSet::new()), ..Gathered::default() }).collect();
    let (mut count, mut starts) = (0, Vec::new());
    let mut lacking: Vec<(u64, Option<Position>)> = vec![(0, None); used.len()];
    rows.restart()?;
    while let Some(record) = rows.next()? {
        let empty = used.iter().find(|field| Cell::of(&record[**field]) == Cell::Missing);
        match (missing, empty) {
            (Missing::Drop, Some(field)) => {
                dropped.add(count, *field);
                continue;
            }
            (Missing::Error, Some(_)) => {
                for (field, (count, first)) in used.iter().zip(&mut lacking) {
                    if Cell::of(&record[*field]) == Cell::Missing {
                        *count += 1;
                        first.get_or_insert_with(|| position_of(record));
                    }
                }
            }
            _ => {}
        }
        let is_learned = learned.is_none_or(|learned| learned.get(count).copied().unwrap_or_default());
        for (field, gathered) in used.iter().zip(&mut gathered).filter(|_| is_learned) {
            let text = &record[*field];
            gathered.add(text, Cell::of(text), || position_of(record));
        }
        if let Some(Err(field)) = groups.as_ref().map(|groups| groups.expect(record)) {
            return Err(rows.without_group(field));
        }
        groups.iter_mut().for_each(|groups| groups.add(record));
        if count % block_rows == 0 {
            starts.push(position_of(record));
        }
        count += 1;
    }
    let first = lacking.iter().enumerate().filter_map(|(at, (_, first))| Some((first.as_ref()?.byte(), at))).min();
    if let Some((_, at)) = first {
        let columns: Vec<(&str, u64)> = used
            .iter()
            .zip(&lacking)
            .filter(|(_, (count, _))| *count > 0)
            .map(|(field, (count, _))| (rows.names[*field].as_str(), *count))
            .collect();
        let all = columns.iter().map(|(name, count)| format!("`{name}` ({count})")).collect::<Vec<_>>().join(", ");
        rows.seek(lacking[at].1.clone().expect("it is the first"))?;
        let found = rows.next()?.map(|record| record[used[at]].to_owned()).unwrap_or_default();
        return Err(missing_value(
            rows,
            used[at],
            found,
            missing,
            format!("; rows that lack a value, by column: {all}"),
        ));
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
pub(crate) fn whole_number(text: &str) -> Option<i64> {
    let number = text.parse::<f64>().ok()?;
    (number.fract() == 0.0 && number.abs() <= 1e9).then_some(number as i64)
}
