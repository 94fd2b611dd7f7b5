//! From the numbers of a file, which have 64 bits, to features of 32.

use super::rows::Rows;

/// Numbers that are looked at, to see whether they can still be told apart.
const SAMPLED: usize = 1000;
/// An error of rounding beyond this share of a column's spread counts.
const BLURRED: f64 = 1e-5;
/// A column of more names than these is perhaps not meant to be a category.
const MANY_NAMES: usize = 100;

/// How the numbers of a column lie.
pub(super) struct Spread {
    least: f64,
    most: f64,
    /// The largest error of rounding.
    blur: f64,
    /// The first numbers.
    sample: Vec<f64>,
}

impl Default for Spread {
    fn default() -> Self {
        Self { least: f64::INFINITY, most: f64::NEG_INFINITY, blur: 0.0, sample: Vec::new() }
    }
}

impl Spread {
    pub(super) fn add(&mut self, number: f64) {
        (self.least, self.most) = (self.least.min(number), self.most.max(number));
        self.blur = self.blur.max((number - f64::from(number as f32)).abs());
        if self.sample.len() < SAMPLED {
            self.sample.push(number);
        }
    }

    /// What to subtract before rounding: the middle, if rounding first would blur the column; else nothing.
    pub(super) fn shift(&self) -> f64 {
        let range = self.most - self.least;
        if range > 0.0 && self.blur > BLURRED * range { self.least + range / 2.0 } else { 0.0 }
    }

    /// Says so where numbers that differ become the same.
    pub(super) fn remark(&self, shift: f64, rows: &Rows, column: &str) -> Option<String> {
        let mut numbers = self.sample.clone();
        numbers.sort_unstable_by(f64::total_cmp);
        numbers.dedup();
        let distinct = numbers.len();
        let mut narrow: Vec<f32> = numbers.iter().map(|number| (number - shift) as f32).collect();
        narrow.dedup();
        (narrow.len() < distinct).then(|| {
            format!(
                "column `{column}` of `{}`: {distinct} different numbers among the first {} become {} when they are rounded to \
                 32 bits; if they are names, not amounts, `drop={column}` or `categories={column}` says so",
                rows.path.display(),
                self.sample.len(),
                narrow.len()
            )
        })
    }
}

/// Whole numbers of more distinct values than these are perhaps amounts, not classes.
const MANY_CLASSES: usize = 10;

/// Says so where whole numbers are taken for classes.
pub(super) fn remark_on_classes(is_text: bool, names: &[String], column: &str) -> Option<String> {
    (!is_text && names.len() > MANY_CLASSES).then(|| {
        format!(
            "the whole numbers of column `{column}` are taken for {} classes; if they are amounts to predict, `task=regression` says so",
            names.len()
        )
    })
}

/// Says so where held-out rows have categories that the rows to learn from lack.
pub(crate) fn remark_on_held_out(unknown: u64, rows: &Rows) -> Option<String> {
    (unknown > 0).then(|| {
        format!(
            "{unknown} cells of the held-out rows of `{}` have categories that the rows to learn from lack: they are taken for none of \
             the known ones",
            rows.path.display()
        )
    })
}

/// Whether a text is a number in the writing of people: `$12`, `1,234`, `0,5`, `12 %`, or an infinite one.
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

/// Says so where a column of texts becomes very many features.
pub(super) fn remark_on_names(names: usize, rows: &Rows, column: &str) -> Option<String> {
    (names > MANY_NAMES).then(|| {
        format!(
            "column `{column}` of `{}` has {names} different texts and becomes as many features; `drop={column}` leaves it out",
            rows.path.display()
        )
    })
}
