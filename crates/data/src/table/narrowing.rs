//! From the numbers of a file, which have 64 bits, to features of 32.

use std::path::Path;

use super::rows::Rows;
use super::{Column, ColumnKind};
use crate::Arrays;

/// Numbers that are looked at, to see whether they can still be told apart.
const SAMPLED: usize = 1000;
/// An error of rounding beyond this share of a column's spread counts.
const BLURRED: f64 = 1e-5;
/// A column of more names than these is perhaps not meant to be a category.
const MANY_NAMES: usize = 100;

/// The range of a column's numbers, and what rounding them to 32 bits costs.
#[derive(Clone)]
struct Extent {
    least: f64,
    most: f64,
    /// The largest error of rounding.
    blur: f64,
    sum: f64,
    count: u64,
}

impl Default for Extent {
    fn default() -> Self {
        Self { least: f64::INFINITY, most: f64::NEG_INFINITY, blur: 0.0, sum: 0.0, count: 0 }
    }
}

impl Extent {
    fn add(&mut self, number: f64) {
        (self.least, self.most) = (self.least.min(number), self.most.max(number));
        self.blur = self.blur.max((number - f64::from(number as f32)).abs());
        self.sum += number;
        self.count += 1;
    }

    /// What to subtract before rounding: the middle, if rounding first would blur the column; else nothing.
    fn shift(&self) -> f64 {
        let range = self.most - self.least;
        // One number in all rows, which 32 bits would make another.
        if range == 0.0 && self.least.abs() >= f64::from(1 << 24) {
            return self.least;
        }
        if range > 0.0 && self.blur > BLURRED * range { self.least + range / 2.0 } else { 0.0 }
    }

    /// The schema's entry for a column of these numbers.
    fn column(&self, name: String) -> Column {
        let mean = self.sum / self.count.max(1) as f64;
        Column { name, kind: ColumnKind::Number { mean, shift: self.shift(), is_date: false } }
    }
}

/// How the numbers of a column lie.
#[derive(Default)]
pub(crate) struct Spread {
    extent: Extent,
    /// The first numbers.
    sample: Vec<f64>,
}

impl Spread {
    pub(crate) fn add(&mut self, number: f64) {
        self.extent.add(number);
        if self.sample.len() < SAMPLED {
            self.sample.push(number);
        }
    }

    /// What to subtract before rounding: the middle, if rounding first would blur the column; else nothing.
    pub(crate) fn shift(&self) -> f64 {
        self.extent.shift()
    }

    /// True if every number is 0.
    pub(super) fn is_zero(&self) -> bool {
        (self.extent.least, self.extent.most) == (0.0, 0.0)
    }

    /// The mean of all numbers; 0 of none.
    pub(super) fn mean(&self) -> f64 {
        self.extent.sum / self.extent.count.max(1) as f64
    }

    /// Says so where numbers of features that differ become the same.
    pub(crate) fn remark(&self, shift: f64, path: &Path, column: &str) -> Option<String> {
        let remedy = format!("; if they are names, not amounts, `drop={column}` or `categories={column}` says so");
        self.collapses(shift, path, column).map(|collapses| collapses + &remedy)
    }

    /// Says so where numbers to predict that differ become the same.
    pub(crate) fn remark_on_target(&self, shift: f64, path: &Path, column: &str) -> Option<String> {
        self.collapses(shift, path, column).map(|collapses| collapses + ": smaller differences are not learned")
    }

    fn collapses(&self, shift: f64, path: &Path, column: &str) -> Option<String> {
        let sampled = self.sample.len();
        let (distinct, narrow) = distinct_numbers(self.sample.clone(), shift);
        (narrow < distinct).then(|| {
            format!(
                "column `{column}` of `{}`: {distinct} different numbers among the first {sampled} become {narrow} when they are rounded to \
                 32 bits",
                path.display()
            )
        })
    }
}

/// How many different numbers a sample has, as it is and when it is rounded to 32 bits.
fn distinct_numbers(mut numbers: Vec<f64>, shift: f64) -> (usize, usize) {
    numbers.sort_unstable_by(f64::total_cmp);
    numbers.dedup();
    let mut narrow: Vec<f32> = numbers.iter().map(|number| (number - shift) as f32).collect();
    narrow.dedup();
    (numbers.len(), narrow.len())
}

impl Arrays {
    /// The schema's entries for columns of 64-bit numbers that a program holds, under these names: `visit` calls its argument with the
    /// place of a column and a number of it, once for each number. NaN, the padding of sequences, is left out.
    pub fn number_columns(names: Vec<String>, visit: impl FnOnce(&mut dyn FnMut(usize, f64))) -> Vec<Column> {
        let mut extents = vec![Extent::default(); names.len()];
        visit(&mut |column, number| {
            if !number.is_nan() {
                extents[column].add(number);
            }
        });
        names.into_iter().zip(extents).map(|(name, extent)| extent.column(name)).collect()
    }

    /// A remark where numbers at the begin of a column, at most 1,000 of them, collapse when `shift` is subtracted and they are rounded to
    /// 32 bits. Of numbers with random digits a few in a thousand do; that says nothing of a column.
    pub fn remark_on_rounding(column: &str, numbers: &[f64], shift: f64) -> Option<String> {
        let sample: Vec<f64> = numbers.iter().copied().filter(|number| number.is_finite()).take(SAMPLED).collect();
        let sampled = sample.len();
        let (distinct, narrow) = distinct_numbers(sample, shift);
        (narrow < distinct - distinct / 100).then(|| {
            format!(
                "column `{column}`: {distinct} different numbers among the first {sampled} become {narrow} when they are rounded to 32 bits; \
                 leave the column out if they are names, or split it into several columns of amounts"
            )
        })
    }
}

/// Whole numbers of more distinct values than these are perhaps amounts, not classes.
const MANY_CLASSES: usize = 10;

/// Says so where numbers are taken for classes: many whole ones, or some with a fraction.
pub(crate) fn remark_on_classes(names: &[String], column: &str) -> Option<String> {
    let numbers: Option<Vec<f64>> = names.iter().map(|name| name.parse().ok()).collect();
    let is_fractional = numbers?.iter().any(|number| number.fract() != 0.0);
    (is_fractional || names.len() > MANY_CLASSES).then(|| {
        format!(
            "the numbers of column `{column}` are taken for {} classes; if they are amounts to predict, `task=regression` says so",
            names.len()
        )
    })
}

/// Says so where held-out rows have categories that the rows to learn from lack.
pub(crate) fn remark_on_held_out(unknown: u64, rows: &Rows) -> Option<String> {
    (unknown > 0).then(|| {
        format!(
            "{unknown} {} of the held-out rows of `{}` with categories that the rows to learn from lack {} taken for none of the known \
             ones",
            if unknown == 1 { "cell" } else { "cells" },
            rows.path.display(),
            if unknown == 1 { "is" } else { "are" }
        )
    })
}

/// Says so where rows have categories that a trained model does not know.
pub(crate) fn remark_on_unknown(unknown: u64, rows: &Rows) -> Option<String> {
    (unknown > 0).then(|| {
        let (cells, are) = if unknown == 1 { ("cell", "is") } else { ("cells", "are") };
        format!(
            "{unknown} {cells} of `{}` with categories that the model was not trained on {are} taken for none of its categories \
             (`unknown=ignore`)",
            rows.path.display()
        )
    })
}

/// True for a number in the writing of people: `$12`, `1,234`, `0,5`, `12 %`, or an infinite one.
pub(super) fn looks_like_a_number(text: &str) -> bool {
    let plain: String = text.chars().filter(|letter| !" \u{a0}$€£%,'_".contains(*letter)).collect();
    plain.parse::<f64>().is_ok()
}

/// Says so where texts that look like numbers become a category.
pub(super) fn remark_on_numbers(text: &str, rows: &Rows, column: &str) -> String {
    format!(
        "column `{column}` of `{}` holds numbers such as `{text}`, which cannot be read as numbers, and becomes a category: write them \
         with digits and one decimal point, or leave the column out with `drop={column}`",
        rows.path.display()
    )
}

/// Says so where labels that look like numbers become classes.
pub(super) fn remark_on_labels(text: &str, rows: &Rows, column: &str) -> String {
    format!(
        "the label `{column}` of `{}` holds numbers such as `{text}`, which cannot be read as numbers, and each becomes a class: write \
         them with digits and one decimal point to predict amounts",
        rows.path.display()
    )
}

/// Says how dates become numbers.
pub(super) fn remark_on_dates(path: &Path, column: &str) -> String {
    format!(
        "column `{column}` of `{}` holds dates and is read as days since 1970-01-01; `categories={column}` makes a category of it",
        path.display()
    )
}

/// Says so where a column of texts becomes very many features.
pub(super) fn remark_on_names(names: usize, rows: &Rows, column: &str) -> Option<String> {
    (names > MANY_NAMES).then(|| {
        format!(
            "column `{column}` of `{}` has {names} different texts and becomes as many features; `drop={column}` leaves it out",
            rows.path.display()
        )
    })
}

#[cfg(test)]
mod tests {
    use super::Column;
    use crate::{Arrays, ColumnKind};

    #[test]
    fn a_column_of_seconds_since_1970_is_shifted_to_its_middle_and_a_small_one_is_left_alone() {
        let seconds: Vec<f64> = (0..100).map(|at| 1.7e9 + f64::from(at)).collect();
        let columns = Arrays::number_columns(vec!["time".into(), "small".into()], |add| {
            seconds.iter().for_each(|number| add(0, *number));
            [0.1, 0.2, f64::NAN].into_iter().for_each(|number| add(1, number));
        });
        let shift = |Column { kind, .. }: &Column| match kind {
            ColumnKind::Number { mean, shift, .. } => (*mean, *shift),
            other => panic!("a number became {other:?}"),
        };
        assert_eq!(columns.iter().map(shift).map(|(_, shift)| shift).collect::<Vec<_>>(), [1.7e9 + 49.5, 0.0]);
        assert!((shift(&columns[1]).0 - 0.15).abs() < 1e-12);
        assert_eq!(Arrays::remark_on_rounding("time", &seconds, 1.7e9 + 49.5), None);
        let remark = Arrays::remark_on_rounding("time", &seconds, 0.0).expect("seconds collapse at this size");
        assert!(remark.contains("column `time`: 100 different numbers among the first 100 become"), "{remark}");
    }
}
