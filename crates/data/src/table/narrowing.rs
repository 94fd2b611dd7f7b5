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

/// Says so where a column of texts becomes very many features.
pub(super) fn remark_on_names(names: usize, rows: &Rows, column: &str) -> Option<String> {
    (names > MANY_NAMES).then(|| {
        format!(
            "column `{column}` of `{}` has {names} different texts and becomes as many features; `drop={column}` leaves it out",
            rows.path.display()
        )
    })
}
