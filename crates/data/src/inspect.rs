use std::fmt;

use paceline_model::Targets;

use crate::normaliser::of_step;
use crate::source::for_each_piece;
use crate::{Error, Schema, Source, TargetShape};

/// More columns than these are summed up as one.
const MOST_COLUMNS: usize = 64;

/// What a source holds; prints as a table.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    /// The number of examples.
    pub examples: usize,
    /// The shape of the features of one.
    pub features: Vec<usize>,
    /// How many examples each class has, if the source has classes.
    pub classes: Vec<(String, u64)>,
    /// The features, column by column; all together as one if there are more than 64.
    pub columns: Vec<ColumnSummary>,
    /// The target values, column by column, if the source has them.
    pub targets: Vec<ColumnSummary>,
}

/// What one column holds.
#[derive(Clone, Debug, PartialEq)]
pub struct ColumnSummary {
    /// Its name.
    pub name: String,
    /// The smallest value.
    pub minimum: f64,
    /// The mean.
    pub mean: f64,
    /// The largest value.
    pub maximum: f64,
    /// Values that are there: fewer than examples, or more, for steps of sequences.
    pub count: u64,
}

impl ColumnSummary {
    fn new(name: String) -> Self {
        Self { name, minimum: f64::INFINITY, mean: 0.0, maximum: f64::NEG_INFINITY, count: 0 }
    }

    /// Adds to the limits and, for now, to the sum in `mean`.
    fn add(&mut self, value: f32) {
        let value = f64::from(value);
        self.minimum = self.minimum.min(value);
        self.maximum = self.maximum.max(value);
        self.mean += value;
        self.count += 1;
    }

    /// Makes the mean of the sum.
    fn finish(&mut self) {
        match self.count {
            0 => (self.minimum, self.mean, self.maximum) = (0.0, 0.0, 0.0),
            count => self.mean /= count as f64,
        }
    }
}

/// Sums up a source in one pass and bounded memory.
pub fn inspect(source: &dyn Source) -> Result<Summary, Error> {
    let shape = source.shape();
    // Of sequences the steps are taken together, those that are there.
    let width = of_step(source);
    let is_sequence = width < shape.width();
    let names = source.schema().map(|schema| schema.feature_names()).filter(|names| names.len() == width);
    let names = names.unwrap_or_else(|| (0..width).map(|at| format!("feature {at}")).collect());
    let mut columns: Vec<ColumnSummary> = match width <= MOST_COLUMNS {
        true => names.into_iter().map(ColumnSummary::new).collect(),
        false => vec![ColumnSummary::new(format!("all {width} features"))],
    };
    let mut classes = match &shape.targets {
        TargetShape::Classes { names } => names.iter().map(|name| (name.clone(), 0)).collect(),
        _ => Vec::new(),
    };
    let mut targets: Vec<ColumnSummary> = match &shape.targets {
        TargetShape::Values { names } => names.iter().cloned().map(ColumnSummary::new).collect(),
        _ => Vec::new(),
    };
    for_each_piece(source, |batch| {
        match &mut columns[..] {
            [all] => batch.features.iter().filter(|value| !value.is_nan()).for_each(|value| all.add(*value)),
            columns => {
                for row in batch.features.chunks_exact(width) {
                    let present = columns.iter_mut().zip(row).filter(|(_, value)| !value.is_nan());
                    present.for_each(|(column, value)| column.add(*value));
                }
            }
        }
        match &batch.targets {
            Targets::None => {}
            Targets::Classes(found) => found.iter().for_each(|class| classes[*class as usize].1 += 1),
            Targets::Values { width, values } => {
                let present = values.iter().enumerate().filter(|(_, value)| !value.is_nan());
                present.for_each(|(at, value)| targets[at % width].add(*value));
            }
        }
        Ok(())
    })?;
    let examples = source.examples();
    columns.iter_mut().chain(&mut targets).for_each(ColumnSummary::finish);
    // As they stand in the file.
    if let Some(shifts) = source.schema().map(Schema::shifts).filter(|shifts| shifts.len() == columns.len()) {
        for (column, shift) in columns.iter_mut().zip(shifts) {
            (column.minimum, column.mean) = (column.minimum + shift, column.mean + shift);
            column.maximum += shift;
        }
    }
    let shifts = source.schema().map(Schema::target_shifts).unwrap_or_default();
    for (column, shift) in targets.iter_mut().zip(shifts) {
        (column.minimum, column.mean) = (column.minimum + shift, column.mean + shift);
        column.maximum += shift;
    }
    if is_sequence {
        // Named after their steps, there would be a line for each.
        let names = targets.iter().map(|column| column.name.split('.').next().unwrap_or_default().to_owned());
        let names: Vec<String> = names.collect();
        if targets.len() > MOST_COLUMNS && names.iter().all(|name| *name == names[0]) {
            targets = vec![together(&names[0], &targets)];
        }
    }
    Ok(Summary { examples, features: shape.features.clone(), classes, columns, targets })
}

/// Several columns as one.
fn together(name: &str, columns: &[ColumnSummary]) -> ColumnSummary {
    let mut all = ColumnSummary::new(name.to_owned());
    for column in columns.iter().filter(|column| column.count > 0) {
        all.minimum = all.minimum.min(column.minimum);
        all.maximum = all.maximum.max(column.maximum);
        all.mean += column.mean * column.count as f64;
        all.count += column.count;
    }
    all.finish();
    all
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shape: Vec<String> = self.features.iter().map(usize::to_string).collect();
        writeln!(f, "{} examples of {} features", self.examples, shape.join(" × "))?;
        if !self.classes.is_empty() {
            let wide = width_of(self.classes.iter().map(|(name, _)| name.as_str()), "class");
            writeln!(f, "\n{:<wide$}  {:>10}  {:>7}", "class", "examples", "share")?;
            for (name, count) in &self.classes {
                let name = short(name);
                let share = 100.0 * *count as f64 / self.examples.max(1) as f64;
                writeln!(f, "{name:<wide$}  {count:>10}  {share:>6.1}%")?;
            }
        }
        for (title, columns) in [("column", &self.columns), ("target", &self.targets)] {
            if columns.is_empty() {
                continue;
            }
            let wide = width_of(columns.iter().map(|column| column.name.as_str()), title);
            writeln!(f, "\n{title:<wide$}  {:>12}  {:>12}  {:>12}", "minimum", "mean", "maximum")?;
            for ColumnSummary { name, minimum, mean, maximum, .. } in columns {
                let name = short(name);
                let [minimum, maximum] = [*minimum, *maximum].map(shown);
                writeln!(f, "{name:<wide$}  {minimum:>12}  {mean:>12.4}  {maximum:>12}")?;
            }
        }
        Ok(())
    }
}

/// With no more digits than it has.
fn shown(value: f64) -> String {
    let narrow = value as f32;
    if f64::from(narrow) == value { narrow.to_string() } else { value.to_string() }
}

fn width_of<'a>(names: impl Iterator<Item = &'a str>, title: &'a str) -> usize {
    names.map(short).chain([title.to_owned()]).map(|name| name.chars().count()).max().unwrap_or(0)
}

/// Characters of a name that a table shows.
const SHOWN: usize = 60;

fn short(name: &str) -> String {
    match name.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &name[..end]),
        None => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::short;

    #[test]
    fn long_names_are_cut_between_characters() {
        assert_eq!(short("petal"), "petal");
        assert_eq!(short(&"ä".repeat(70_000)), format!("{}…", "ä".repeat(60)));
    }
}
