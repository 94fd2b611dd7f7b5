//! Tables whose rows are the steps of sequences: those with the same value in one column belong together, in the order of the file.
//! Sequences may differ in length: what shorter ones lack is no number.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use paceline_model::Targets;

use crate::spec::{count, expect_name};
use crate::{
    Arrays, Error, ExampleShape, NormaliserKind, OpenOptions, Schema, SchemaTarget, Source, Suggestion, TargetShape,
    classes,
};

/// What the specification says.
#[derive(Default)]
struct Options {
    id: Option<String>,
    label: Vec<String>,
    columns: Option<Vec<String>>,
    drop: Vec<String>,
    steps: Option<usize>,
    /// Whether every step has a label; else a sequence has that of its last step.
    each_step: bool,
    /// Whether labels are numbers to predict; else they are classes.
    is_regression: bool,
}

const KEYS: [&str; 8] = ["id", "label", "columns", "drop", "steps", "each", "task", "examples"];

impl Options {
    fn read(options: &[(&str, String)]) -> Result<Self, Error> {
        let mut read = Self::default();
        let list = |value: &str| value.split(',').map(str::to_owned).collect::<Vec<_>>();
        for (key, value) in options {
            match *key {
                "id" => read.id = Some(value.clone()),
                "label" => read.label = list(value),
                "columns" => read.columns = Some(list(value)),
                "drop" => read.drop = list(value),
                "steps" => read.steps = Some(count("steps", value)?),
                "each" => {
                    expect_name("`each` of `sequences:`", value, &["step", "sequence"])?;
                    read.each_step = value == "step";
                }
                "task" => {
                    expect_name("`task` of `sequences:`", value, &["classes", "regression"])?;
                    read.is_regression = value == "regression";
                }
                other => expect_name("option of `sequences:`", other, &KEYS)?,
            }
        }
        Ok(read)
    }
}

/// One sequence: its steps, and their labels as text.
#[derive(Default)]
struct Sequence {
    features: Vec<f32>,
    labels: Vec<Vec<String>>,
}

/// Opens a table.
pub(crate) fn open(
    path: &Path,
    options: &[(&str, String)],
    open_options: &OpenOptions,
) -> Result<Arc<dyn Source>, Error> {
    let mut options = Options::read(options)?;
    let Some(id) = options.id.clone() else {
        let expected = "the column whose value the steps of a sequence share, as in `?id=patient`".into();
        return Err(Error::BadSetting { setting: "id", expected, found: "not set".into() });
    };
    let delimiter = if path.extension().is_some_and(|ending| ending == "tsv") { b'\t' } else { b',' };
    let reader = csv::ReaderBuilder::new().delimiter(delimiter).trim(csv::Trim::All).from_path(path);
    let fail = |error: csv::Error| {
        let line = error.position().map_or_else(String::new, |at| format!(", line {}", at.line()));
        match error.into_kind() {
            csv::ErrorKind::Io(source) => Error::File { action: "read", path: path.to_owned(), source },
            kind => wrong(path, format!("cannot be read{line}: {kind:?}")),
        }
    };
    let mut reader = reader.map_err(fail)?;
    let header: Vec<String> = reader.headers().map_err(fail)?.iter().map(str::to_owned).collect();
    let place = |name: &String| {
        header.iter().position(|known| known == name).ok_or_else(|| Error::UnknownName {
            what: "column",
            found: name.clone(),
            expected: header.join(", "),
            suggestion: Suggestion::nearest(name, header.iter().map(String::as_str)),
        })
    };
    let id = place(&id)?;
    // Labels are no features, whether anybody wants them or not.
    let labels: Vec<usize> = match open_options.targets {
        true => options.label.iter().map(place).collect::<Result<_, _>>()?,
        false => options.label.iter().filter_map(|name| place(name).ok()).collect(),
    };
    let dropped: Vec<usize> = options.drop.iter().map(place).collect::<Result<_, _>>()?;
    let columns: Vec<usize> = match &options.columns {
        Some(names) => names.iter().map(place).collect::<Result<_, _>>()?,
        None => (0..header.len()).filter(|at| *at != id && !labels.contains(at) && !dropped.contains(at)).collect(),
    };
    if columns.is_empty() {
        return Err(wrong(path, "no column is left that could be a feature".into()));
    }
    let mut order: BTreeMap<String, usize> = BTreeMap::new();
    let mut sequences: Vec<Sequence> = Vec::new();
    for row in reader.records() {
        let row = row.map_err(fail)?;
        let line = row.position().map_or(0, csv::Position::line);
        let next = order.len();
        let at = *order.entry(row[id].to_owned()).or_insert(next);
        if at == sequences.len() {
            sequences.push(Sequence::default());
        }
        for column in &columns {
            let cell = &row[*column];
            let number = cell.parse::<f32>().ok().filter(|number| number.is_finite());
            sequences[at].features.push(number.ok_or_else(|| {
                wrong(path, format!("line {line}, column `{}`: expected a number, found `{cell}`", header[*column]))
            })?);
        }
        sequences[at].labels.push(labels.iter().map(|label| row[*label].to_owned()).collect());
    }
    if sequences.is_empty() {
        return Err(wrong(path, "has no rows".into()));
    }
    let features = columns.len();
    let longest = sequences.iter().map(|sequence| sequence.features.len() / features).max().unwrap_or(0);
    let steps = options.steps.unwrap_or(longest);
    if longest > steps {
        let expected = format!("at least {longest}, the steps of its longest sequence");
        return Err(Error::BadSetting { setting: "steps", expected, found: steps.to_string() });
    }
    if !open_options.targets {
        options.label.clear();
    }
    let (targets, shape, schema) = labelled(path, &sequences, &options, steps, open_options.schema.as_ref())?;
    let mut rows: Vec<f32> = Vec::new();
    let numbers = sequences.len().saturating_mul(steps).saturating_mul(features);
    if rows.try_reserve_exact(numbers).is_err() {
        let expected = format!("less: {} sequences of so many steps do not fit the memory", sequences.len());
        return Err(Error::BadSetting { setting: "steps", expected, found: steps.to_string() });
    }
    for sequence in &sequences {
        rows.extend_from_slice(&sequence.features);
        rows.resize(rows.len().next_multiple_of(steps * features), f32::NAN);
    }
    let shape = ExampleShape { features: vec![steps, features], targets: shape };
    Ok(Arc::new(Arrays::new(rows, shape, targets)?.described(schema, NormaliserKind::Standardise)))
}

fn wrong(path: &Path, message: String) -> Error {
    Error::BadSetting {
        setting: "sequences:",
        expected: "a table with a header".into(),
        found: format!("`{}`: {message}", path.display()),
    }
}

/// What is to be learned of the sequences.
fn labelled(
    path: &Path,
    sequences: &[Sequence],
    options: &Options,
    steps: usize,
    known: Option<&Schema>,
) -> Result<(Targets, TargetShape, Option<Schema>), Error> {
    let width = options.label.len();
    if width == 0 {
        return Ok((Targets::None, TargetShape::None, None));
    }
    // The labels of each sequence that count: those of all its steps, or of the last.
    let counted = |sequence: &Sequence| -> Vec<Vec<String>> {
        match options.each_step {
            true => sequence.labels.clone(),
            false => sequence.labels.last().cloned().into_iter().collect(),
        }
    };
    let rows = if options.each_step { steps } else { 1 };
    if options.is_regression {
        let mut values = Vec::new();
        for sequence in sequences {
            for label in counted(sequence).into_iter().flatten() {
                let number = label.parse::<f32>().ok().filter(|number| number.is_finite());
                values.push(number.ok_or_else(|| wrong(path, format!("expected a number as label, found `{label}`")))?);
            }
            values.resize(values.len().next_multiple_of(rows * width), f32::NAN);
        }
        let names: Vec<String> = match options.each_step {
            true => {
                (1..=rows).flat_map(|step| options.label.iter().map(move |name| format!("{name}.{step}"))).collect()
            }
            false => options.label.clone(),
        };
        let schema = Schema { target: SchemaTarget::values(names.clone()), ..Schema::default() };
        return Ok((Targets::Values { width: rows * width, values }, TargetShape::Values { names }, Some(schema)));
    }
    let [column] = &options.label[..] else {
        let expected = "one column of classes, or several of numbers with `task=regression`".into();
        return Err(Error::BadSetting { setting: "label", expected, found: options.label.join(",") });
    };
    let names: Vec<String> = match known.and_then(Schema::class_names) {
        Some(names) => names.to_vec(),
        None => classes::names_of(sequences.iter().flat_map(counted).flatten()),
    };
    let class = |label: &String| {
        let found = names.iter().position(|name| name == label);
        found.ok_or_else(|| wrong(path, format!("the class `{label}` was not there when the model was trained")))
    };
    let target = SchemaTarget::Classes { column: column.clone(), names: names.clone() };
    let schema = Some(Schema { target, ..Schema::default() });
    if !options.each_step {
        let classes = sequences.iter().flat_map(counted).flatten().map(|label| Ok(class(&label)? as u32));
        return Ok((Targets::Classes(classes.collect::<Result<_, Error>>()?), TargetShape::Classes { names }, schema));
    }
    let mut values = Vec::new();
    for sequence in sequences {
        for label in counted(sequence).iter().flatten() {
            values.push(class(label)? as f32);
        }
        values.resize(values.len().next_multiple_of(steps), f32::NAN);
    }
    let shape = TargetShape::Values { names: (1..=steps).map(|step| format!("{column}.{step}")).collect() };
    Ok((Targets::Values { width: steps, values }, shape, schema))
}
