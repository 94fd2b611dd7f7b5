//! Which columns become features, targets and weights, and how wide they are.

use std::path::Path;

use paceline_model::Targets;

use super::Room;
use super::column::{Cells, Place, each_piece, names};
use super::files::Shard;
use super::labels::{Lookup, classes};
use super::options::ShardOptions;
use crate::{Error, ExampleShape, OpenOptions, TargetShape, Task};

/// How rows become examples.
pub(super) struct Layout {
    pub(super) shape: ExampleShape,
    /// The columns of the features, with the numbers that each gives.
    features: Vec<(Place, usize)>,
    targets: Wanted,
    weight: Option<Place>,
}

enum Wanted {
    Nothing,
    Classes { place: Place, lookup: Lookup },
    Values { places: Vec<(Place, usize)> },
}

impl Layout {
    pub(super) fn find(
        path: &Path,
        shards: &[Shard],
        asked: &ShardOptions,
        options: &OpenOptions,
    ) -> Result<Self, Error> {
        let first = shards.iter().find(|shard| shard.rows() > 0).unwrap_or(&shards[0]);
        let is_other = |name: &&String| {
            asked.label.contains(name) || asked.drop.contains(name) || asked.weight.as_ref() == Some(*name)
        };
        for name in asked.drop.iter().chain(&asked.label).chain(&asked.weight) {
            // What is only to be predicted may have no labels and no weights.
            if options.targets || asked.drop.contains(name) {
                Place::find(first, name)?;
            }
        }
        let chosen = match &asked.columns {
            Some(columns) => columns.clone(),
            None => names(first).iter().filter(|name| !is_other(name)).cloned().collect(),
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
        let targets = match &asked.label[..] {
            _ if !options.targets => Wanted::Nothing,
            [] => Wanted::Nothing,
            [name] => {
                let place = Place::find(first, name)?;
                let trained = options.schema.as_ref().and_then(|schema| schema.class_names().map(<[String]>::to_vec));
                let known = asked.classes.clone().or(trained).filter(|_| asked.task != Some(Task::Regression));
                let names = if known.is_some() { known } else { classes(shards, &place, asked.task)? };
                match names {
                    Some(names) => Wanted::Classes { lookup: Lookup::new(&names), place },
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
        Ok(Self { shape, features, targets, weight })
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
            weave(&cells[..features], &columns[..features], rows, &mut piece.features);
            match (&self.targets, &mut piece.targets) {
                (Wanted::Classes { place, lookup }, Targets::Classes(classes)) => {
                    lookup.read(shard, &place.name, from, &cells[features], classes)?;
                }
                (Wanted::Values { .. }, Targets::Values { values, .. }) => {
                    weave(&cells[targets.clone()], &columns[targets.clone()], rows, values);
                }
                _ => {}
            }
            if self.weight.is_some() {
                weave(&cells[columns.len() - 1..], &columns[columns.len() - 1..], rows, &mut piece.weights);
            }
            self.check(shard, from, &piece)?;
            room.add(&piece)
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
            Self::Values { places } => {
                let several = |(place, width): &(Place, usize)| match place.is_list {
                    true => (0..*width).map(|at| format!("{}[{at}]", place.name)).collect(),
                    false => vec![place.name.clone()],
                };
                TargetShape::Values { names: places.iter().flat_map(several).collect() }
            }
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

/// Columns side by side, row after row, in 32 bits.
fn weave(cells: &[Cells], columns: &[(&Place, usize)], rows: usize, out: &mut Vec<f32>) {
    if let [only] = cells {
        out.extend(only.numbers.iter().map(|number| *number as f32));
        return;
    }
    for row in 0..rows {
        for (cells, (_, width)) in cells.iter().zip(columns) {
            out.extend(cells.numbers[row * width..(row + 1) * width].iter().map(|number| *number as f32));
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
