//! Which columns become features, targets and weights, and how wide they are.

use std::ops::ControlFlow;
use std::path::Path;

use paceline_model::Targets;

use super::Room;
use super::column::{Cells, Place, each_piece, names};
use super::files::Shard;
use super::labels::{Lookup, classes};
use super::options::ShardOptions;
use crate::table::{Spread, remark_on_classes};
use crate::{
    Advice, Column, ColumnKind, Error, ExampleShape, LabelType, OpenOptions, Schema, SchemaTarget, TargetShape, Task,
};

/// Rows of more numbers than these keep no names and no offsets of their columns.
const MOST_NAMED: usize = 4096;
/// Rows from whose numbers offsets are found.
const SAMPLED: usize = 4096;

/// How rows become examples.
pub(super) struct Layout {
    pub(super) shape: ExampleShape,
    /// The columns of the features, with the numbers that each gives.
    features: Vec<(Place, usize)>,
    targets: Wanted,
    weight: Option<Place>,
    /// The number subtracted from each feature, and from each target, before it is rounded to 32 bits; empty: nothing is.
    shifts: [Vec<f64>; 2],
    pub(super) schema: Option<Schema>,
    pub(super) remarks: Vec<String>,
    /// True if something of it was found in the rows, so that other rows might have given another layout.
    pub(super) is_fitted: bool,
}

enum Wanted {
    Nothing,
    Classes { place: Place, lookup: Lookup },
    Values { places: Vec<(Place, usize)> },
}

impl Layout {
    /// Finds the columns. Classes and offsets are those of a trained model, or else of all rows, or of those that are learned from: a flag
    /// for every row.
    pub(super) fn find(
        path: &Path,
        shards: &[Shard],
        asked: &ShardOptions,
        options: &OpenOptions,
        learned: Option<&[bool]>,
    ) -> Result<Self, Error> {
        let first = shards.iter().find(|shard| shard.rows() > 0).unwrap_or(&shards[0]);
        let trained = options.schema.as_ref();
        let mut asked = asked.clone();
        if asked.label.is_empty() && options.targets {
            asked.label = trained_label(trained, first);
        }
        let asked = &asked;
        let is_other = |name: &&String| {
            asked.label.contains(name) || asked.drop.contains(name) || asked.weight.as_ref() == Some(*name)
        };
        for name in asked.drop.iter().chain(&asked.label).chain(&asked.weight) {
            // What is only to be predicted may have no labels and no weights.
            if options.targets || asked.drop.contains(name) {
                Place::find(first, name)?;
            }
        }
        let known = trained.filter(|schema| !schema.columns.is_empty());
        let chosen = match (known, &asked.columns) {
            (Some(schema), _) => columns_of(schema, first, path)?,
            (None, Some(columns)) => columns.clone(),
            (None, None) => names(first).iter().filter(|name| !is_other(name)).cloned().collect(),
        };
        if chosen.is_empty() {
            return Err(Error::NothingLeft { path: path.to_owned(), what: "feature columns" });
        }
        let wide = |name: &String| -> Result<(Place, usize), Error> {
            let place = Place::find(first, name)?;
            if place.is_text {
                let found = "texts; leave it out with `drop=`, or turn it into numbers".to_owned();
                return Err(first.wrong(name, 0, "numbers", found));
            }
            let width = width(first, &place)?;
            Ok((place, width))
        };
        let features = chosen.iter().map(wide).collect::<Result<Vec<_>, _>>()?;
        let width = features.iter().map(|(_, width)| width).sum::<usize>();
        let shape = asked.shape.clone().unwrap_or_else(|| vec![width]);
        if shape.iter().product::<usize>() != width {
            let expected = format!("{width} numbers, as the columns have");
            let found = format!("{} ({shape:?})", shape.iter().product::<usize>());
            return Err(Error::BadSetting { setting: "shape", expected, found });
        }
        if let Some(schema) = known.filter(|schema| schema.width() != width) {
            let expected = format!("{} features, as the model has", schema.width());
            return Err(Error::ShapeMismatch { what: "the features", expected, found: width.to_string() });
        }
        let (mut is_fitted, mut remarks) = (false, Vec::new());
        let targets = match &asked.label[..] {
            _ if !options.targets => Wanted::Nothing,
            [] => Wanted::Nothing,
            [name] => {
                let place = Place::find(first, name)?;
                let trained = trained.and_then(|schema| schema.class_names().map(<[String]>::to_vec));
                let stated = asked.classes.clone().or(trained).filter(|_| asked.task != Some(Task::Regression));
                let names = match stated {
                    Some(names) => Some(names),
                    None => {
                        is_fitted = asked.task != Some(Task::Regression);
                        let found = classes(shards, &place, asked.task, learned)?;
                        let remark = found.as_ref().and_then(|names| remark_on_classes(names, name));
                        remarks.extend(remark.filter(|_| asked.task.is_none()));
                        found
                    }
                };
                let advice = if learned.is_some() { Advice::HeldOut } else { Advice::None };
                match names {
                    Some(names) => Wanted::Classes { lookup: Lookup::new(&names, advice), place },
                    None => Wanted::Values { places: vec![wide(name)?] },
                }
            }
            names => Wanted::Values { places: names.iter().map(wide).collect::<Result<_, _>>()? },
        };
        let weight = asked.weight.as_ref().filter(|_| options.targets).map(|name| Place::find(first, name));
        let weight = weight.transpose()?;
        if let Some(place) = weight.as_ref().filter(|place| place.is_list || place.is_text) {
            return Err(first.wrong(&place.name, 0, "one number in each row, the weight", "something else".to_owned()));
        }
        let shape = ExampleShape { features: shape, targets: targets.shape() };
        let mut layout = Self {
            shape,
            features,
            targets,
            weight,
            shifts: [Vec::new(), Vec::new()],
            schema: None,
            remarks,
            is_fitted,
        };
        match known {
            Some(schema) => {
                let of_targets = if options.targets { schema.target_shifts().to_vec() } else { Vec::new() };
                layout.shifts = [schema.shifts(), of_targets];
                layout.schema = Some(Schema { target: layout.target(), ..schema.clone() });
            }
            None => layout.fit(shards, trained, learned)?,
        }
        Ok(layout)
    }

    /// Finds the offsets of columns far from 0 in the first rows that are learned from, and keeps names and offsets in a schema.
    fn fit(&mut self, shards: &[Shard], trained: Option<&Schema>, learned: Option<&[bool]>) -> Result<(), Error> {
        let values = match &self.targets {
            Wanted::Values { places } => places.clone(),
            _ => Vec::new(),
        };
        let [features, targets] = [&self.features, &values].map(|of| of.iter().map(|(_, width)| width).sum::<usize>());
        if features + targets <= MOST_NAMED {
            let columns: Vec<(&Place, usize)> =
                self.features.iter().chain(&values).map(|(place, width)| (place, *width)).collect();
            let mut spreads: Vec<Spread> = (0..features + targets).map(|_| Spread::default()).collect();
            let (mut before, mut sampled) = (0, 0);
            for shard in shards {
                let places =
                    columns.iter().map(|(place, _)| Place::find(shard, &place.name)).collect::<Result<Vec<_>, _>>()?;
                let columns: Vec<(&Place, usize)> =
                    places.iter().zip(&columns).map(|(place, (_, width))| (place, *width)).collect();
                each_piece(shard, &columns, &mut |cells, from| {
                    let rows = cells[0].numbers.len() / columns[0].1;
                    let is_learned = |row: &usize| learned.is_none_or(|learned| learned[before + from + row]);
                    for row in (0..rows).filter(is_learned).take(SAMPLED - sampled) {
                        let mut spreads = spreads.iter_mut();
                        for (cells, (_, width)) in cells.iter().zip(&columns) {
                            let of_row = cells.numbers[row * width..(row + 1) * width].iter();
                            of_row.zip(&mut spreads).for_each(|(number, spread)| spread.add(*number));
                        }
                        sampled += 1;
                    }
                    Ok(if sampled < SAMPLED { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
                })?;
                before += shard.rows();
                if sampled >= SAMPLED {
                    break;
                }
            }
            // Targets of a trained model have its offsets.
            let stated = trained.map(Schema::target_shifts).filter(|shifts| shifts.len() == targets);
            let mut shifts: Vec<f64> = spreads.iter().map(Spread::shift).collect();
            if let Some(stated) = stated {
                shifts[features..].copy_from_slice(stated);
            }
            let names = named(&self.features).into_iter().chain(named(&values));
            for ((spread, shift), name) in spreads.iter().zip(&shifts).zip(names) {
                self.remarks.extend(spread.remark(*shift, &shards[0].path, &name));
            }
            self.is_fitted |= shifts.iter().any(|shift| *shift != 0.0);
            let of_targets = shifts.split_off(features);
            self.shifts = [shifts, of_targets].map(|shifts| match shifts.iter().all(|shift| *shift == 0.0) {
                true => Vec::new(),
                false => shifts,
            });
        }
        let is_one_list = self.features.len() == 1 && self.features[0].0.is_list;
        let has_names = features + targets <= MOST_NAMED && !(is_one_list && self.shifts[0].is_empty());
        let column = |(name, shift): (String, f64)| Column {
            name,
            kind: ColumnKind::Number { mean: shift, shift, is_date: false },
        };
        let shifts = self.shifts[0].iter().copied().chain(std::iter::repeat(0.0));
        let columns = match has_names {
            true => named(&self.features).into_iter().zip(shifts).map(column).collect(),
            false => Vec::new(),
        };
        let target = self.target();
        if !columns.is_empty() || target != SchemaTarget::None {
            let labels = match &target {
                SchemaTarget::Classes { names, .. } if !columns.is_empty() => LabelType::of_names(names),
                _ => LabelType::Text,
            };
            self.schema = Some(Schema { columns, target, labels, ..Schema::default() });
        }
        Ok(())
    }

    /// The target as the schema of a model keeps it.
    fn target(&self) -> SchemaTarget {
        match (&self.targets, self.targets.shape()) {
            (Wanted::Classes { place, .. }, TargetShape::Classes { names }) => {
                SchemaTarget::Classes { column: place.name.clone(), names }
            }
            (_, TargetShape::Values { names }) => {
                SchemaTarget::Values { columns: names, shifts: self.shifts[1].clone() }
            }
            _ => SchemaTarget::None,
        }
    }

    /// Adds all rows of a file.
    pub(super) fn decode(&self, shard: &Shard, room: &mut Room) -> Result<(), Error> {
        let mut columns: Vec<(&Place, usize)> = self.features.iter().map(|(place, width)| (place, *width)).collect();
        let features = columns.len();
        match &self.targets {
            Wanted::Nothing => {}
            Wanted::Classes { place, .. } => columns.push((place, 1)),
            Wanted::Values { places } => columns.extend(places.iter().map(|(place, width)| (place, *width))),
        }
        let targets = features..columns.len();
        columns.extend(self.weight.iter().map(|place| (place, 1)));
        // Another writer may have laid its columns out in another way.
        let places = columns.iter().map(|(place, _)| Place::find(shard, &place.name)).collect::<Result<Vec<_>, _>>()?;
        for (found, (place, _)) in places.iter().zip(&columns) {
            if (found.is_list, found.is_text) != (place.is_list, place.is_text) {
                let found = "something else than in the files before it".to_owned();
                return Err(shard.wrong(&place.name, 0, "the same kind of column in every file", found));
            }
        }
        let columns: Vec<(&Place, usize)> =
            places.iter().zip(&columns).map(|(place, (_, width))| (place, *width)).collect();
        each_piece(shard, &columns, &mut |cells, from| {
            let rows = cells[0].numbers.len() / columns[0].1;
            let mut piece = Piece { features: Vec::new(), targets: self.targets.room(), weights: Vec::new() };
            weave(&cells[..features], &columns[..features], rows, &self.shifts[0], &mut piece.features);
            match (&self.targets, &mut piece.targets) {
                (Wanted::Classes { place, lookup }, Targets::Classes(classes)) => {
                    lookup.read(shard, &place.name, from, &cells[features], classes)?;
                }
                (Wanted::Values { .. }, Targets::Values { values, .. }) => {
                    weave(&cells[targets.clone()], &columns[targets.clone()], rows, &self.shifts[1], values);
                }
                _ => {}
            }
            if self.weight.is_some() {
                weave(&cells[columns.len() - 1..], &columns[columns.len() - 1..], rows, &[], &mut piece.weights);
            }
            self.check(shard, from, &piece)?;
            room.add(&piece)?;
            Ok(ControlFlow::Continue(()))
        })
    }

    /// Fails on the first number that cannot be computed with.
    fn check(&self, shard: &Shard, from: usize, piece: &Piece) -> Result<(), Error> {
        let bad = |values: &[f32], width: usize, column: String, expected| {
            let finite = values.iter().position(|value| !value.is_finite());
            finite.map(|at| shard.wrong(&column, from + at / width.max(1), expected, values[at].to_string()))
        };
        let named =
            |of: &[(Place, usize)]| of.iter().map(|(place, _)| place.name.as_str()).collect::<Vec<_>>().join(",");
        let expected = "finite numbers that fit 32 bits";
        let mut error = bad(&piece.features, self.shape.width(), named(&self.features), expected);
        if let (Targets::Values { width, values }, Wanted::Values { places }) = (&piece.targets, &self.targets) {
            error = error.or_else(|| bad(values, *width, named(places), expected));
        }
        if let Some(place) = &self.weight {
            let expected = "a weight that is finite and not negative";
            let negative = piece.weights.iter().position(|weight| *weight < 0.0);
            error = error.or_else(|| bad(&piece.weights, 1, place.name.clone(), expected));
            error = error.or_else(|| {
                negative.map(|at| shard.wrong(&place.name, from + at, expected, piece.weights[at].to_string()))
            });
        }
        error.map_or(Ok(()), Err)
    }

    pub(super) fn is_weighted(&self) -> bool {
        self.weight.is_some()
    }

    /// No targets yet, of the kind there will be.
    pub(super) fn room(&self) -> Targets {
        self.targets.room()
    }
}

/// Some rows, decoded.
pub(super) struct Piece {
    pub(super) features: Vec<f32>,
    pub(super) targets: Targets,
    pub(super) weights: Vec<f32>,
}

impl Wanted {
    fn shape(&self) -> TargetShape {
        match self {
            Self::Nothing => TargetShape::None,
            Self::Classes { lookup, .. } => TargetShape::Classes { names: lookup.names.clone() },
            Self::Values { places } => TargetShape::Values { names: named(places) },
        }
    }

    fn room(&self) -> Targets {
        match self {
            Self::Nothing => Targets::None,
            Self::Classes { .. } => Targets::Classes(Vec::new()),
            Self::Values { places } => {
                Targets::Values { width: places.iter().map(|(_, width)| width).sum(), values: Vec::new() }
            }
        }
    }
}

/// A name for every number of these columns: `column`, or `column[3]` of a list.
fn named(places: &[(Place, usize)]) -> Vec<String> {
    let several = |(place, width): &(Place, usize)| match place.is_list {
        true => (0..*width).map(|at| format!("{}[{at}]", place.name)).collect(),
        false => vec![place.name.clone()],
    };
    places.iter().flat_map(several).collect()
}

/// The label columns that a model was trained on, if it knows them by name and the file has them all.
fn trained_label(trained: Option<&Schema>, first: &Shard) -> Vec<String> {
    let names = match trained.map(|schema| &schema.target) {
        Some(SchemaTarget::Classes { column, .. }) => vec![column.clone()],
        Some(SchemaTarget::Values { columns, .. }) => columns.clone(),
        _ => Vec::new(),
    };
    if names.iter().all(|name| Place::find(first, name).is_ok()) { names } else { Vec::new() }
}

/// The columns of a file that a schema means, in its order.
fn columns_of(schema: &Schema, first: &Shard, path: &Path) -> Result<Vec<String>, Error> {
    let there = names(first);
    let mut chosen: Vec<String> = Vec::new();
    for Column { name, kind } in &schema.columns {
        if !matches!(kind, ColumnKind::Number { .. }) {
            let message =
                format!("`{}` holds numbers, and the model was trained on `{name}`, a column of texts", path.display());
            return Err(Error::Unsuitable { setting: "source", message });
        }
        let of_list = name.rsplit_once('[').map(|(list, _)| list.to_owned());
        let column =
            of_list.filter(|list| !there.contains(name) && there.contains(list)).unwrap_or_else(|| name.clone());
        if !chosen.contains(&column) {
            chosen.push(column);
        }
    }
    Ok(chosen)
}

/// Columns side by side, row after row, less an offset for each number, in 32 bits.
fn weave(cells: &[Cells], columns: &[(&Place, usize)], rows: usize, shifts: &[f64], out: &mut Vec<f32>) {
    if let ([only], []) = (cells, shifts) {
        out.extend(only.numbers.iter().map(|number| *number as f32));
        return;
    }
    let mut shifts = shifts.iter().copied().cycle();
    for row in 0..rows {
        for (cells, (_, width)) in cells.iter().zip(columns) {
            let of_row = cells.numbers[row * width..(row + 1) * width].iter();
            out.extend(of_row.map(|number| (number - shifts.next().unwrap_or_default()) as f32));
        }
    }
}

/// How many numbers each row of a column has: those of its first row.
fn width(shard: &Shard, place: &Place) -> Result<usize, Error> {
    if !place.is_list || shard.rows() == 0 {
        return Ok(1);
    }
    place.first_length(shard)
}
