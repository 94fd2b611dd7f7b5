//! Which classes a label column has, if it has classes.

use std::collections::{BTreeSet, HashMap};
use std::ops::ControlFlow;

use super::column::{Cells, Place, each_piece};
use super::files::Shard;
use crate::{Advice, Error, Suggestion, Task};

/// A label with more distinct values than this is none of classes.
const MOST_CLASSES: usize = 10_000;

/// The distinct values of a label column.
struct Distinct {
    texts: BTreeSet<String>,
    whole: BTreeSet<i64>,
    /// The first number that is no class by itself: with a fraction, or beyond all counting.
    uncountable: Option<f64>,
}

/// The names of the classes of the learned rows in their order; none if the column holds numbers to predict.
pub(super) fn classes(
    shards: &[Shard],
    place: &Place,
    task: Option<Task>,
    learned: Option<&[bool]>,
) -> Result<Option<Vec<String>>, Error> {
    if place.is_list || task == Some(Task::Regression) {
        return Ok(None);
    }
    let mut distinct = Distinct { texts: BTreeSet::new(), whole: BTreeSet::new(), uncountable: None };
    let mut before = 0;
    for shard in shards {
        each_piece(shard, std::slice::from_ref(&(place, 1)), &mut |cells, from| {
            distinct.add(&cells[0], |row| learned.is_none_or(|learned| learned[before + from + row]));
            Ok(ControlFlow::Continue(()))
        })?;
        before += shard.rows();
        if distinct.texts.len().max(distinct.whole.len()) > MOST_CLASSES {
            if place.is_text || task == Some(Task::Classes) {
                let (path, column) = (shard.path.clone(), place.name.clone());
                return Err(Error::TooManyClasses { path, column, limit: MOST_CLASSES });
            }
            return Ok(None);
        }
    }
    if place.is_text {
        return Ok(Some(distinct.texts.into_iter().collect()));
    }
    let rows = learned.map_or_else(|| super::rows(shards), |learned| learned.iter().filter(|is| **is).count());
    let few = (rows / 10).clamp(10, 100);
    let negative = distinct.whole.first().is_some_and(|least| *least < 0);
    match (task, distinct.uncountable) {
        (Some(Task::Classes), Some(number)) => {
            Err(shards[0].wrong(&place.name, 0, "whole numbers or texts, for `task=classes`", number.to_string()))
        }
        (None, None) if negative || distinct.whole.len() > few => Ok(None),
        (_, Some(_)) => Ok(None),
        (_, None) => Ok(Some(distinct.whole.iter().map(i64::to_string).collect())),
    }
}

impl Distinct {
    fn add(&mut self, cells: &Cells, is_learned: impl Fn(usize) -> bool) {
        for (_, text) in cells.texts.iter().enumerate().filter(|(row, _)| is_learned(*row)) {
            if !self.texts.contains(text) {
                self.texts.insert(text.clone());
            }
        }
        for (_, number) in cells.numbers.iter().enumerate().filter(|(row, _)| is_learned(*row)) {
            match whole(*number) {
                Some(number) => drop(self.whole.insert(number)),
                None => self.uncountable = self.uncountable.or(Some(*number)),
            }
        }
    }
}

fn whole(number: f64) -> Option<i64> {
    (number.fract() == 0.0 && number.abs() <= 1e9).then_some(number as i64)
}

/// Finds the place of a label among the classes.
pub(super) struct Lookup {
    texts: HashMap<String, u32>,
    whole: HashMap<i64, u32>,
    pub(super) names: Vec<String>,
    /// Advice for a label that is none of the classes.
    advice: Advice,
}

impl Lookup {
    pub(super) fn new(names: &[String], advice: Advice) -> Self {
        let texts = names.iter().zip(0..).map(|(name, at)| (name.clone(), at)).collect();
        let whole_of = |name: &String| name.parse::<f64>().ok().and_then(whole);
        let whole = names.iter().zip(0..).filter_map(|(name, at)| Some((whole_of(name)?, at))).collect();
        Self { texts, whole, names: names.to_vec(), advice }
    }

    /// Adds the classes of some labels; `from` is the first row of them.
    pub(super) fn read(
        &self,
        shard: &Shard,
        column: &str,
        from: usize,
        cells: &Cells,
        out: &mut Vec<u32>,
    ) -> Result<(), Error> {
        let unknown = |row: usize, found: String| Error::UnknownClass {
            path: shard.path.clone(),
            column: column.to_owned(),
            row: (from + row) as u64,
            suggestion: Suggestion::nearest(&found, self.names.iter().map(String::as_str)),
            found,
            known: self.names.len() as u32,
            advice: self.advice,
        };
        for (row, text) in cells.texts.iter().enumerate() {
            out.push(*self.texts.get(text).ok_or_else(|| unknown(row, text.clone()))?);
        }
        for (row, number) in cells.numbers.iter().enumerate() {
            let found = whole(*number).and_then(|number| self.whole.get(&number));
            out.push(*found.ok_or_else(|| unknown(row, number.to_string()))?);
        }
        Ok(())
    }
}
