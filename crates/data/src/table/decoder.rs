use std::collections::HashMap;

use csv::StringRecord;
use paceline_model::Targets;

use super::dates::days;
use super::fit::whole_number;
use super::rows::{Cell, Rows};
use super::{Column, ColumnKind, Missing, Schema, SchemaTarget, Unknown};
use crate::suggestion::Suggestion;
use crate::{Advice, Error, ExampleShape, TargetShape};

/// Turns the rows of one file into examples, as a schema says.
pub(crate) struct Decoder {
    columns: Vec<(usize, Feature)>,
    target: Target,
    weight: Option<usize>,
    missing: Missing,
    unknown: Unknown,
    /// Advice for a class that the schema lacks.
    advice: Advice,
    pub(crate) shape: ExampleShape,
}

enum Feature {
    Number { fill: f32, shift: f64, is_date: bool },
    Category { places: HashMap<String, usize> },
}

enum Target {
    None,
    Classes { field: usize, indices: HashMap<String, usize> },
    Values { fields: Vec<TargetColumn> },
}

/// One of several target columns.
struct TargetColumn {
    field: usize,
    /// Subtracted from a number before it is rounded.
    shift: f64,
    /// For texts: the place of each class, which stands for it.
    classes: HashMap<String, usize>,
}

/// Rows that were decoded.
#[derive(Clone, Debug)]
pub(crate) struct Decoded {
    pub(crate) rows: usize,
    pub(crate) features: Vec<f32>,
    pub(crate) targets: Targets,
    pub(crate) weights: Option<Vec<f32>>,
    /// Cells with a category that the schema lacks, taken for none of its names.
    pub(crate) unknown: u64,
}

impl Decoded {
    pub(crate) fn clear(&mut self) {
        (self.rows, self.unknown) = (0, 0);
        self.features.clear();
        match &mut self.targets {
            Targets::None => {}
            Targets::Classes(classes) => classes.clear(),
            Targets::Values { values, .. } => values.clear(),
        }
        self.weights.iter_mut().for_each(Vec::clear);
    }
}

impl Decoder {
    /// Finds the columns of a schema in a file; `label` overrides the name of the label columns.
    pub(crate) fn new(schema: &Schema, rows: &Rows, label: &[String], wants_targets: bool) -> Result<Self, Error> {
        // A file without a header and without a label holds nothing but the features, in their order.
        let by_place = !rows.named && !wants_targets && rows.names.len() == schema.columns.len();
        let lacking: Vec<&str> = schema.columns.iter().map(|column| column.name.as_str()).collect();
        rows.expect_columns(if by_place { &[] } else { &lacking })?;
        let mut columns = Vec::new();
        for (at, Column { name, kind }) in schema.columns.iter().enumerate() {
            let field = if by_place { at } else { rows.column(name)? };
            let feature = match kind {
                ColumnKind::Number { mean, shift, is_date } => {
                    let fill = if let Missing::Value(value) = schema.missing { f64::from(value) } else { *mean };
                    Feature::Number { fill: (fill - shift) as f32, shift: *shift, is_date: *is_date }
                }
                ColumnKind::Category { names } => Feature::Category { places: numbered(names) },
                ColumnKind::Characters { .. } => {
                    let message = "is a table, and the model was trained on `lines:`".into();
                    return Err(Error::Unsuitable { setting: "source", message });
                }
            };
            columns.push((field, feature));
        }
        let target = match &schema.target {
            _ if !wants_targets => Target::None,
            SchemaTarget::None => Target::None,
            SchemaTarget::Classes { column, names } => {
                let field = rows.column(label.first().unwrap_or(column))?;
                Target::Classes { field, indices: numbered(names) }
            }
            SchemaTarget::Values { columns, shifts } => {
                // Several labels are those of the model, in its order, whatever the order of the specification is.
                let is_known = label.len() == columns.len() && label.iter().all(|name| columns.contains(name));
                let names = if label.is_empty() || is_known { columns } else { label };
                if names.len() != columns.len() || names.len() > 1 && names != columns {
                    let expected = format!("`{}`, as in training", columns.join(","));
                    return Err(Error::BadSetting {
                        setting: "label",
                        expected,
                        found: format!("`{}`", label.join(",")),
                    });
                }
                let shifts = shifts.iter().copied().chain(std::iter::repeat(0.0));
                let classes = schema.target_classes.iter().map(|names| numbered(names));
                let classes = classes.chain(std::iter::repeat_with(HashMap::new));
                let field = |((name, shift), classes): ((&String, f64), HashMap<String, usize>)| {
                    Ok(TargetColumn { field: rows.column(name)?, shift, classes })
                };
                let fields = names.iter().zip(shifts).zip(classes).map(field);
                Target::Values { fields: fields.collect::<Result<_, Error>>()? }
            }
        };
        // Weights are for training and scoring; predictions need none.
        let weight = schema.weight.as_deref().filter(|_| wants_targets).map(|name| rows.column(name)).transpose()?;
        let targets = match &schema.target {
            _ if !wants_targets => TargetShape::None,
            SchemaTarget::None => TargetShape::None,
            SchemaTarget::Classes { names, .. } => TargetShape::Classes { names: names.clone() },
            SchemaTarget::Values { columns, .. } => TargetShape::Values { names: columns.clone() },
        };
        let shape = ExampleShape { features: vec![schema.width()], targets };
        let (missing, unknown) = (schema.missing, schema.unknown);
        Ok(Self { columns, target, weight, missing, unknown, advice: Advice::None, shape })
    }

    /// The decoder of a table whose schema was fitted to some of its rows: categories that only the others have are none of the names.
    pub(crate) fn with_held_out_rows(mut self) -> Self {
        (self.unknown, self.advice) = (Unknown::Ignore, Advice::HeldOut);
        self
    }

    /// The fields that features are made of.
    pub(crate) fn fields(&self) -> impl Iterator<Item = usize> {
        self.columns.iter().map(|(field, _)| *field)
    }

    /// Room for this many rows.
    pub(crate) fn room(&self, rows: usize) -> Decoded {
        Decoded {
            rows: 0,
            features: Vec::with_capacity(rows * self.shape.width()),
            targets: match &self.target {
                Target::None => Targets::None,
                Target::Classes { .. } => Targets::Classes(Vec::with_capacity(rows)),
                Target::Values { fields } => {
                    Targets::Values { width: fields.len(), values: Vec::with_capacity(rows * fields.len()) }
                }
            },
            weights: self.weight.map(|_| Vec::with_capacity(rows)),
            unknown: 0,
        }
    }

    /// Bytes that one decoded row takes.
    pub(crate) fn row_bytes(&self) -> usize {
        let targets = match &self.target {
            Target::None => 0,
            Target::Classes { .. } => 1,
            Target::Values { fields } => fields.len(),
        };
        4 * (self.shape.width() + targets + usize::from(self.weight.is_some()))
    }

    pub(crate) fn weighted(&self) -> bool {
        self.weight.is_some()
    }

    /// Reads the next row that is not dropped into `out`; `false` at the end of the file.
    pub(crate) fn read_row(&self, rows: &mut Rows, out: &mut Decoded) -> Result<bool, Error> {
        self.read_row_telling(rows, out, |_| {})
    }

    /// The same; tells which field was empty for every row that is dropped.
    pub(crate) fn read_row_telling(
        &self,
        rows: &mut Rows,
        out: &mut Decoded,
        mut dropped: impl FnMut(usize),
    ) -> Result<bool, Error> {
        loop {
            let Some(record) = rows.next()? else { return Ok(false) };
            if self.missing == Missing::Drop
                && let Some(field) = self.lacks_a_value(record)
            {
                dropped(field);
                continue;
            }
            match self.decode(record, out) {
                Ok(()) => {
                    out.rows += 1;
                    return Ok(true);
                }
                Err(bad) => {
                    let found = record[bad.field].to_owned();
                    return Err(bad.explain(rows, found, self.missing));
                }
            }
        }
    }

    /// The first field that is needed and empty.
    fn lacks_a_value(&self, record: &StringRecord) -> Option<usize> {
        let targets: Vec<usize> = match &self.target {
            Target::None => Vec::new(),
            Target::Classes { field, .. } => vec![*field],
            Target::Values { fields } => fields.iter().map(|column| column.field).collect(),
        };
        let features = self.columns.iter().map(|(field, _)| *field);
        let mut needed = features.chain(targets).chain(self.weight);
        needed.find(|field| Cell::of(&record[*field]) == Cell::Missing)
    }

    fn decode(&self, record: &StringRecord, out: &mut Decoded) -> Result<(), Bad> {
        for (field, feature) in &self.columns {
            let (text, field) = (&record[*field], *field);
            match (feature, Cell::of(text)) {
                (_, Cell::Missing) if self.missing == Missing::Error => return Err(Bad { field, why: Why::Missing }),
                (Feature::Number { fill, .. }, Cell::Missing) => out.features.push(*fill),
                (Feature::Number { shift, is_date: true, .. }, _) => match days(text) {
                    Some(days) => out.features.push((days - shift) as f32),
                    None => return Err(Bad { field, why: Why::NotANumber("date such as 2024-01-31, as in training") }),
                },
                (Feature::Number { shift, .. }, Cell::Number(number)) => out.features.push((number - shift) as f32),
                (Feature::Number { .. }, Cell::Text(_)) => {
                    return Err(Bad { field, why: Why::NotANumber("finite number") });
                }
                (Feature::Category { places }, cell) => {
                    let place = places.get(text).copied();
                    if place.is_none() && cell != Cell::Missing {
                        if self.unknown == Unknown::Error {
                            return Err(unknown(field, text, places, Advice::Ignore));
                        }
                        out.unknown += 1;
                    }
                    let start = out.features.len();
                    out.features.resize(start + places.len(), 0.0);
                    place.into_iter().for_each(|place| out.features[start + place] = 1.0);
                }
            }
        }
        match (&self.target, &mut out.targets) {
            (Target::Classes { field, indices }, Targets::Classes(classes)) => {
                let text = &record[*field];
                if Cell::of(text) == Cell::Missing {
                    return Err(Bad { field: *field, why: Why::Missing });
                }
                let index = indices.get(text).copied();
                let index = index.or_else(|| indices.get(&whole_number(text)?.to_string()).copied());
                classes.push(index.ok_or_else(|| unknown(*field, text, indices, self.advice))? as u32);
            }
            (Target::Values { fields }, Targets::Values { values, .. }) => {
                for TargetColumn { field, shift, classes } in fields {
                    let text = &record[*field];
                    values.push(match Cell::of(text) {
                        _ if classes.is_empty() => (number_in(record, *field, "finite number")? - shift) as f32,
                        Cell::Missing => return Err(Bad { field: *field, why: Why::Missing }),
                        _ => match classes.get(text) {
                            Some(place) => *place as f32,
                            None => return Err(unknown(*field, text, classes, self.advice)),
                        },
                    });
                }
            }
            _ => {}
        }
        if let (Some(field), Some(weights)) = (self.weight, &mut out.weights) {
            const EXPECTED: &str = "weight, a finite number that is not negative";
            let weight = number_in(record, field, EXPECTED)?;
            if weight < 0.0 {
                return Err(Bad { field, why: Why::NotANumber(EXPECTED) });
            }
            weights.push(weight as f32);
        }
        Ok(())
    }
}

fn numbered(names: &[String]) -> HashMap<String, usize> {
    names.iter().enumerate().map(|(at, name)| (name.clone(), at)).collect()
}

fn number_in(record: &StringRecord, field: usize, expected: &'static str) -> Result<f64, Bad> {
    match Cell::of(&record[field]) {
        Cell::Number(number) => Ok(number),
        Cell::Missing => Err(Bad { field, why: Why::Missing }),
        Cell::Text(_) => Err(Bad { field, why: Why::NotANumber(expected) }),
    }
}

fn unknown(field: usize, text: &str, known: &HashMap<String, usize>, advice: Advice) -> Bad {
    let suggestion = Suggestion::nearest(text, known.keys().map(String::as_str));
    Bad { field, why: Why::Unknown { known: known.len() as u32, suggestion, advice } }
}

/// A cell that could not be decoded; where it stands is looked up only then.
struct Bad {
    field: usize,
    why: Why,
}

enum Why {
    Missing,
    NotANumber(&'static str),
    Unknown { known: u32, suggestion: Suggestion, advice: Advice },
}

impl Bad {
    fn explain(self, rows: &Rows, found: String, rule: Missing) -> Error {
        let (path, line, column) = (rows.path.clone(), rows.line(), rows.names[self.field].clone());
        match self.why {
            Why::Missing => missing_value(rows, self.field, found, rule, String::new()),
            Why::NotANumber(expected) => Error::BadCell { path, line, column, expected, found },
            Why::Unknown { known, suggestion, advice } => {
                Error::UnknownCategory { path, line, column, found, known, suggestion, advice }
            }
        }
    }
}

/// A value that is missing where the rule does not help: under `missing=error`, or in a label or weight.
pub(crate) fn missing_value(rows: &Rows, field: usize, found: String, rule: Missing, all: String) -> Error {
    let advice = match rule {
        Missing::Error => "; other rules are `missing=drop`, `missing=mean` and `missing=value:NUMBER`",
        _ => ", which does not fill in labels and weights; `missing=drop` leaves such rows out",
    };
    let (path, line, column) = (rows.path.clone(), rows.line(), rows.names[field].clone());
    Error::MissingValue { path, line, column, found, rule, advice, all: all.into() }
}
