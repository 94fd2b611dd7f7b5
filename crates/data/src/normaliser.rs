use serde::{Deserialize, Serialize};

use paceline_model::Targets;

use crate::source::for_each_piece;
use crate::{Error, Source, Statistics, TargetShape};

/// The mean red, green and blue of the images of ImageNet, from 0 to 255, that networks of the kind VGG were trained with (Simonyan and
/// Zisserman 2014, section 2.1; the numbers are those of their published models).
const VGG16_MEAN: [f32; 3] = [123.68, 116.779, 103.939];

/// Which normaliser to fit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NormaliserKind {
    /// Features stay as they are.
    #[default]
    None,
    /// Every column from its smallest to its largest value becomes 0 to 1.
    MinMax,
    /// Every column gets mean 0 and deviation 1.
    Standardise,
    /// Bytes become 0 to 1.
    Image,
    /// From red, green and blue, which go from 0 to 255, the means of ImageNet are subtracted.
    Vgg16,
}

/// Brings features to a range that networks learn well from; fitted on training data, kept with the model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Normaliser {
    /// `(x − minimum) / range`, column by column.
    MinMax {
        /// The smallest value of each column.
        minimum: Vec<f32>,
        /// The largest less the smallest; 1 for a constant column.
        range: Vec<f32>,
    },
    /// `(x − mean) / deviation`, column by column.
    Standardise {
        /// The mean of each column.
        mean: Vec<f32>,
        /// The standard deviation of each column (of the whole, not of a sample); 1 for a constant column.
        deviation: Vec<f32>,
    },
    /// `x / scale`.
    Image {
        /// The largest value a pixel can have.
        scale: f32,
    },
    /// `x − mean`, colour by colour: for pixels of red, green and blue.
    Vgg16 {
        /// The mean of each colour.
        mean: [f32; 3],
    },
}

impl Normaliser {
    /// Fits a normaliser to a source in one pass and bounded memory; `None` for [`NormaliserKind::None`].
    pub fn fit(kind: NormaliserKind, source: &dyn Source) -> Result<Option<Self>, Error> {
        if kind == NormaliserKind::Vgg16 {
            expect_colours(&source.shape().features)?;
        }
        if let Some(partitions) = source.partitions() {
            return Ok(Self::from_statistics(kind, &partitions.notes().statistics));
        }
        Ok(match kind {
            NormaliserKind::None => None,
            NormaliserKind::Image => Some(Self::Image { scale: 255.0 }),
            NormaliserKind::Vgg16 => Some(Self::Vgg16 { mean: VGG16_MEAN }),
            NormaliserKind::MinMax => Some(Self::fit_min_max(source)?),
            NormaliserKind::Standardise => Some(Self::fit_standardise(source)?),
        })
    }

    /// Of sequences the steps are taken together, those that are there: a number means the same at each.
    fn fit_min_max(source: &dyn Source) -> Result<Self, Error> {
        let width = of_step(source);
        let (mut minimum, mut maximum) = (vec![f32::INFINITY; width], vec![f32::NEG_INFINITY; width]);
        for_each_piece(source, |batch| {
            for row in batch.features.chunks_exact(width) {
                for (column, value) in row.iter().enumerate().filter(|(_, value)| !value.is_nan()) {
                    minimum[column] = minimum[column].min(*value);
                    maximum[column] = maximum[column].max(*value);
                }
            }
            Ok(())
        })?;
        // Without examples the limits never met a value.
        minimum.iter_mut().filter(|value| !value.is_finite()).for_each(|value| *value = 0.0);
        Ok(Self::min_max(minimum, &maximum).repeated(source.shape().width() / width))
    }

    /// Fits a normaliser to the targets of a source, which are numbers: rows of this many steps. Targets that are not there are left out.
    pub fn fit_targets(kind: NormaliserKind, source: &dyn Source, steps: usize) -> Result<Option<Self>, Error> {
        if kind == NormaliserKind::None {
            return Ok(None);
        }
        let bad = |expected: &str, found: &str| {
            Err(Error::BadSetting {
                setting: "data.target_normaliser",
                expected: expected.to_owned(),
                found: found.to_owned(),
            })
        };
        let TargetShape::Values { names } = &source.shape().targets else {
            return bad(
                "left out for data whose targets are classes (`task=regression` takes whole numbers for numbers)",
                "set",
            );
        };
        if source.partitions().is_some() {
            return bad("left out for partitions, whose notes say nothing of targets", "set");
        }
        let (all, steps) = (names.len(), steps.max(1));
        let mut columns = vec![Column::default(); all / steps];
        for_each_piece(source, |batch| {
            let Targets::Values { width, values } = &batch.targets else { return Ok(()) };
            for row in values.chunks_exact(*width) {
                for (at, value) in row.iter().enumerate().filter(|(_, value)| !value.is_nan()) {
                    columns[at % (all / steps)].add(*value);
                }
            }
            Ok(())
        })?;
        let normaliser = match kind {
            NormaliserKind::MinMax => {
                let maximum: Vec<f32> = columns.iter().map(|column| column.maximum.unwrap_or(0.0)).collect();
                Self::min_max(columns.iter().map(|column| column.minimum.unwrap_or(0.0)).collect(), &maximum)
            }
            NormaliserKind::Standardise => Self::Standardise {
                mean: columns.iter().map(|column| column.mean as f32).collect(),
                deviation: columns.iter().map(Column::deviation).collect(),
            },
            NormaliserKind::None | NormaliserKind::Image | NormaliserKind::Vgg16 => {
                return bad("`min_max`, `standardise` or `none`", "a normaliser for images");
            }
        };
        Ok(Some(normaliser.repeated(steps)))
    }

    /// The same for every step of a sequence.
    fn repeated(self, steps: usize) -> Self {
        match self {
            Self::MinMax { minimum, range } => {
                Self::MinMax { minimum: minimum.repeat(steps), range: range.repeat(steps) }
            }
            Self::Standardise { mean, deviation } => {
                Self::Standardise { mean: mean.repeat(steps), deviation: deviation.repeat(steps) }
            }
            Self::Image { .. } | Self::Vgg16 { .. } => self,
        }
    }

    fn min_max(minimum: Vec<f32>, maximum: &[f32]) -> Self {
        let range = minimum.iter().zip(maximum).map(|(low, high)| divisor(f64::from(*high) - f64::from(*low)));
        Self::MinMax { range: range.collect(), minimum }
    }

    fn standardise(mean: &[f64], squares: &[f64], count: f64) -> Self {
        let deviation = squares.iter().map(|sum| divisor((sum / count.max(1.0)).sqrt())).collect();
        Self::Standardise { mean: mean.iter().map(|value| *value as f32).collect(), deviation }
    }

    /// From what is known of data that cannot be read here.
    fn from_statistics(kind: NormaliserKind, known: &Statistics) -> Option<Self> {
        let limits = |values: &[Option<f32>]| -> Vec<f32> { values.iter().map(|value| value.unwrap_or(0.0)).collect() };
        match kind {
            NormaliserKind::None => None,
            NormaliserKind::Image => Some(Self::Image { scale: 255.0 }),
            NormaliserKind::Vgg16 => Some(Self::Vgg16 { mean: VGG16_MEAN }),
            NormaliserKind::MinMax => Some(Self::min_max(limits(&known.minimum), &limits(&known.maximum))),
            NormaliserKind::Standardise => Some(Self::standardise(&known.mean, &known.squares, known.count as f64)),
        }
    }

    fn fit_standardise(source: &dyn Source) -> Result<Self, Error> {
        let width = of_step(source);
        let (mut mean, mut squares, mut count) = (vec![0.0f64; width], vec![0.0f64; width], 0.0f64);
        for_each_piece(source, |batch| {
            for row in batch.features.chunks_exact(width).filter(|row| !row[0].is_nan()) {
                count += 1.0;
                let share = 1.0 / count;
                // Welford 1962: squares of deviations from the running mean, so that large means cost no digits.
                for (column, value) in row.iter().enumerate() {
                    let delta = f64::from(*value) - mean[column];
                    mean[column] += delta * share;
                    squares[column] += delta * (f64::from(*value) - mean[column]);
                }
            }
            Ok(())
        })?;
        Ok(Self::standardise(&mean, &squares, count).repeated(source.shape().width() / width))
    }

    /// Fails unless this normaliser fits rows of this width; to be asked of one that came from a file.
    pub fn check(&self, width: usize) -> Result<(), Error> {
        let (shift, divisors) = match self {
            Self::MinMax { minimum, range } => (minimum, range),
            Self::Standardise { mean, deviation } => (mean, deviation),
            Self::Image { scale } => return check_divisor(*scale),
            Self::Vgg16 { mean } => return check_mean(mean, width),
        };
        for found in [shift.len(), divisors.len()] {
            if found != width {
                let what = "the number of columns of the normaliser";
                return Err(Error::ShapeMismatch { what, expected: width.to_string(), found: found.to_string() });
            }
        }
        divisors.iter().try_for_each(|divisor| check_divisor(*divisor))
    }

    /// Normalises rows of `width` numbers in place.
    pub fn apply(&self, features: &mut [f32], width: usize) -> Result<(), Error> {
        self.check(width)?;
        let (shift, divisors) = match self {
            Self::MinMax { minimum, range } => (minimum, range),
            Self::Standardise { mean, deviation } => (mean, deviation),
            Self::Image { scale } => {
                features.iter_mut().for_each(|value| *value /= scale);
                return Ok(());
            }
            Self::Vgg16 { mean } => {
                let pixels = features.chunks_exact_mut(mean.len());
                pixels.for_each(|pixel| pixel.iter_mut().zip(mean).for_each(|(value, mean)| *value -= mean));
                return Ok(());
            }
        };
        for row in features.chunks_exact_mut(width) {
            for ((value, shift), divisor) in row.iter_mut().zip(shift).zip(divisors) {
                *value = (*value - shift) / divisor;
            }
        }
        Ok(())
    }

    /// Takes rows of `width` numbers back to what they were, in place.
    pub fn undo(&self, numbers: &mut [f32], width: usize) -> Result<(), Error> {
        self.check(width)?;
        let (shift, divisors) = match self {
            Self::MinMax { minimum, range } => (minimum, range),
            Self::Standardise { mean, deviation } => (mean, deviation),
            Self::Image { scale } => {
                numbers.iter_mut().for_each(|value| *value *= scale);
                return Ok(());
            }
            Self::Vgg16 { mean } => {
                let pixels = numbers.chunks_exact_mut(mean.len());
                pixels.for_each(|pixel| pixel.iter_mut().zip(mean).for_each(|(value, mean)| *value += mean));
                return Ok(());
            }
        };
        for row in numbers.chunks_exact_mut(width) {
            for ((value, shift), divisor) in row.iter_mut().zip(shift).zip(divisors) {
                *value = *value * divisor + shift;
            }
        }
        Ok(())
    }
}

/// What is known of one column of targets.
#[derive(Clone, Debug, Default)]
struct Column {
    count: f64,
    mean: f64,
    squares: f64,
    minimum: Option<f32>,
    maximum: Option<f32>,
}

impl Column {
    /// Welford 1962, as for features.
    fn add(&mut self, value: f32) {
        self.count += 1.0;
        let delta = f64::from(value) - self.mean;
        self.mean += delta / self.count;
        self.squares += delta * (f64::from(value) - self.mean);
        self.minimum = Some(self.minimum.map_or(value, |least| least.min(value)));
        self.maximum = Some(self.maximum.map_or(value, |most| most.max(value)));
    }

    fn deviation(&self) -> f32 {
        divisor((self.squares / self.count.max(1.0)).sqrt())
    }
}

/// Fails unless examples are images of three colours: which number is which, only their shape says.
fn expect_colours(features: &[usize]) -> Result<(), Error> {
    match features {
        [_, _, 3] => Ok(()),
        _ => {
            let expected = "another, unless examples are images of red, green and blue".to_owned();
            let found = format!("`vgg16` for features of shape {features:?}");
            Err(Error::BadSetting { setting: "normaliser", expected, found })
        }
    }
}

/// Numbers that are fitted apart: those of an example, or of a step of a sequence.
pub(crate) fn of_step(source: &dyn Source) -> usize {
    match source.shape().features[..] {
        [_, features] => features,
        _ => source.shape().width(),
    }
}

/// A constant column has no spread; divided by 1 it becomes 0 everywhere instead of not-a-number.
fn divisor(spread: f64) -> f32 {
    let spread = spread as f32;
    if spread.is_normal() && spread > 0.0 { spread } else { 1.0 }
}

fn check_mean(mean: &[f32; 3], width: usize) -> Result<(), Error> {
    if !width.is_multiple_of(mean.len()) {
        let (what, expected) = ("the number of features under the normaliser `vgg16`", "a multiple of 3".to_owned());
        return Err(Error::ShapeMismatch { what, expected, found: width.to_string() });
    }
    match mean.iter().find(|mean| !mean.is_finite()) {
        None => Ok(()),
        Some(mean) => {
            let expected = "finite".to_owned();
            Err(Error::BadSetting { setting: "normaliser mean", expected, found: mean.to_string() })
        }
    }
}

fn check_divisor(divisor: f32) -> Result<(), Error> {
    if divisor.is_finite() && divisor > 0.0 {
        return Ok(());
    }
    let expected = "finite and above 0".to_owned();
    Err(Error::BadSetting { setting: "normaliser divisor", expected, found: divisor.to_string() })
}

#[cfg(test)]
mod tests {
    use paceline_model::Targets;

    use super::{Normaliser, NormaliserKind};
    use crate::{Arrays, Error, ExampleShape, TargetShape};

    fn table() -> Arrays {
        let shape = ExampleShape { features: vec![3], targets: TargetShape::None };
        Arrays::new(vec![1.0, 7.0, 1e6, 2.0, 7.0, 1e6 + 1.0, 6.0, 7.0, 1e6 + 2.0], shape, Targets::None).unwrap()
    }

    #[test]
    fn targets_are_taken_apart_column_by_column_and_brought_back() {
        let names = vec!["a".to_owned(), "b".to_owned()];
        let shape = ExampleShape { features: vec![2, 1], targets: TargetShape::Values { names } };
        let values = vec![1.0, f32::NAN, 3.0, 500.0, 5.0, 700.0];
        let targets = Targets::Values { width: 2, values: values.clone() };
        let source = Arrays::new(vec![0.0; 6], shape, targets).unwrap();
        for (kind, known) in
            [(NormaliserKind::MinMax, [0.0, 0.5, 1.0]), (NormaliserKind::Standardise, [-1.224_745, 0.0, 1.224_745])]
        {
            let normaliser = Normaliser::fit_targets(kind, &source, 1).unwrap().unwrap();
            let mut rows = values.clone();
            normaliser.apply(&mut rows, 2).unwrap();
            let found = [rows[0], rows[2], rows[4]];
            assert!(found.iter().zip(known).all(|(found, known)| (found - known).abs() < 1e-6), "{kind:?}: {found:?}");
            assert!(rows[1].is_nan() && rows[3] == if kind == NormaliserKind::MinMax { 0.0 } else { -1.0 });
            normaliser.undo(&mut rows, 2).unwrap();
            let is_close = |(a, b): (&f32, &f32)| a.is_nan() && b.is_nan() || (a - b).abs() < 1e-6 * b.abs();
            assert!(rows.iter().zip(&values).all(is_close), "{rows:?}");
        }
        // As two steps of one column: one mean for both.
        let steps = Normaliser::fit_targets(NormaliserKind::MinMax, &source, 2).unwrap().unwrap();
        assert_eq!(steps, Normaliser::MinMax { minimum: vec![1.0; 2], range: vec![699.0; 2] });
        let refused = Normaliser::fit_targets(NormaliserKind::Image, &source, 1);
        assert!(matches!(refused, Err(Error::BadSetting { setting: "data.target_normaliser", .. })));
    }

    #[test]
    fn min_max_spans_zero_to_one_and_a_constant_column_becomes_zero() {
        let normaliser = Normaliser::fit(NormaliserKind::MinMax, &table()).unwrap().unwrap();
        let mut row = vec![1.0, 7.0, 1e6 + 1.0, 6.0, 7.0, 1e6 + 2.0];
        normaliser.apply(&mut row, 3).unwrap();
        assert_eq!(row, [0.0, 0.0, 0.5, 1.0, 0.0, 1.0]);
    }

    #[test]
    fn standardise_gives_mean_zero_and_deviation_one_also_far_from_zero() {
        let normaliser = Normaliser::fit(NormaliserKind::Standardise, &table()).unwrap().unwrap();
        let mut rows = vec![1.0, 7.0, 1e6, 2.0, 7.0, 1e6 + 1.0, 6.0, 7.0, 1e6 + 2.0];
        normaliser.apply(&mut rows, 3).unwrap();
        for column in [0, 2] {
            let values: Vec<f32> = rows.iter().skip(column).step_by(3).copied().collect();
            let mean = values.iter().sum::<f32>() / 3.0;
            let deviation = (values.iter().map(|value| (value - mean).powi(2)).sum::<f32>() / 3.0).sqrt();
            assert!(mean.abs() < 1e-4 && (deviation - 1.0).abs() < 1e-4, "column {column}: {mean}, {deviation}");
        }
        assert!(rows.iter().skip(1).step_by(3).all(|value| *value == 0.0));
    }

    #[test]
    fn json_keeps_every_kind_and_the_names_of_job_files() {
        for kind in [NormaliserKind::MinMax, NormaliserKind::Standardise, NormaliserKind::Image] {
            let normaliser = Normaliser::fit(kind, &table()).unwrap().unwrap();
            let text = serde_json::to_string(&normaliser).unwrap();
            assert_eq!(serde_json::from_str::<Normaliser>(&text).unwrap(), normaliser);
            let name = serde_json::to_string(&kind).unwrap();
            assert!(text.starts_with(&format!("{{{name}:")), "{text}");
        }
        let kind: NormaliserKind = serde_json::from_str("\"min_max\"").unwrap();
        assert_eq!(kind, NormaliserKind::MinMax);
    }

    #[test]
    fn vgg16_subtracts_a_mean_from_each_colour_of_every_pixel() {
        let images = |channels: usize| {
            let shape = ExampleShape { features: vec![1, 2, channels], targets: TargetShape::None };
            Arrays::new(vec![0.0; 4 * channels], shape, Targets::None).unwrap()
        };
        let normaliser = Normaliser::fit(NormaliserKind::Vgg16, &images(3)).unwrap().unwrap();
        let mut image = vec![0.0, 0.0, 0.0, 255.0, 116.779, 104.0];
        normaliser.apply(&mut image, 6).unwrap();
        assert_eq!(image, [-123.68, -116.779, -103.939, 255.0 - 123.68, 0.0, 104.0 - 103.939]);
        let text = serde_json::to_string(&normaliser).unwrap();
        assert_eq!(text, r#"{"vgg16":{"mean":[123.68,116.779,103.939]}}"#);
        assert_eq!(serde_json::from_str::<Normaliser>(&text).unwrap(), normaliser);
        let refused = |of: &Arrays| Normaliser::fit(NormaliserKind::Vgg16, of).unwrap_err().to_string();
        for message in [refused(&images(1)), refused(&table())] {
            assert!(message.contains("images of red, green and blue"), "{message}");
        }
        assert!(matches!(normaliser.check(4), Err(Error::ShapeMismatch { .. })));
        assert!(Normaliser::Vgg16 { mean: [f32::NAN; 3] }.check(6).is_err());
    }

    #[test]
    fn a_normaliser_of_another_width_or_with_a_zero_divisor_is_refused() {
        let normaliser = Normaliser::fit(NormaliserKind::MinMax, &table()).unwrap().unwrap();
        assert!(matches!(normaliser.apply(&mut [0.0; 4], 4), Err(Error::ShapeMismatch { .. })));
        assert!(matches!(Normaliser::Image { scale: 0.0 }.check(4), Err(Error::BadSetting { .. })));
    }
}
