//! Lines of text, each a sequence of characters. What is to be learned is the label before a tab, if lines have one; else the next
//! character, and after the last the end of the line.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use paceline_model::{Batch, Targets};

use crate::source::{begin, check_indices, copy_targets, value_targets};
use crate::spec::{MOST, count, expect_name};
use crate::table::{Column, ColumnKind};
use crate::vocabulary::Vocabulary;
use crate::{Error, ExampleShape, OpenOptions, Schema, SchemaTarget, Source, Suggestion, TargetShape, classes, text};

/// How what stands before the tab is called.
const LABEL: &str = "label";

/// What the specification says.
#[derive(Default)]
struct Options {
    /// Characters of a line that count.
    length: Option<usize>,
    /// Whether a label stands before the first tab.
    labels: Option<bool>,
}

impl Options {
    fn read(pairs: &[(&str, String)]) -> Result<Self, Error> {
        let mut read = Self::default();
        for (key, value) in pairs {
            match *key {
                "length" => read.length = Some(count("length", value)?),
                "labels" => {
                    expect_name("value of `labels`", value, &["yes", "no"])?;
                    read.labels = Some(value == "yes");
                }
                other => expect_name("option of `lines:`", other, &["length", "labels", "examples", "seed"])?,
            }
        }
        Ok(read)
    }
}

/// How the lines of a file are to be read.
struct Form {
    /// Whether labels are to be learned, and not the next character.
    is_labelled: bool,
    /// Whether a label stands before the first tab: to predict on, it may be missing.
    is_cut_at_tab: bool,
    /// Whether only the first line tells so.
    is_guessed: bool,
}

impl Form {
    /// What a trained model has learned decides, then the options, then the first line.
    fn of(whole: &str, asked: Option<bool>, trained: Option<&Schema>, wants_targets: bool) -> Result<Self, Error> {
        let has_label =
            |schema: &Schema| matches!(&schema.target, SchemaTarget::Classes { column, .. } if column == LABEL);
        let learned = trained.map(has_label);
        let wrong = |expected: &str, found: &str| {
            Err(Error::BadSetting { setting: "labels", expected: expected.to_owned(), found: found.to_owned() })
        };
        match (learned, asked) {
            (Some(true), Some(false)) if wants_targets => {
                return wrong("`yes` or left out, for a model that learned labels", "`no`");
            }
            (Some(false), Some(true)) => {
                return wrong("`no` or left out, for a model that learned no labels", "`yes`");
            }
            _ => {}
        }
        let first = whole.lines().find(|line| !line.trim().is_empty());
        let has_tab = first.is_some_and(|line| line.contains('\t'));
        let is_labelled = learned.or(asked).unwrap_or(has_tab);
        let is_cut_at_tab = is_labelled && asked.unwrap_or(wants_targets || has_tab);
        Ok(Self { is_labelled, is_cut_at_tab, is_guessed: learned.is_none() && asked.is_none() })
    }
}

/// A line of the file.
struct Line<'a> {
    /// From 1 on.
    number: u64,
    label: Option<&'a str>,
    text: &'a str,
}

/// The lines of a file, cut to some length; what shorter ones lack is no number.
struct Lines {
    shape: ExampleShape,
    schema: Schema,
    /// The numbers of all characters, and where each line ends.
    numbers: Vec<u32>,
    ends: Vec<usize>,
    steps: usize,
    /// The labels; nothing where the next character is to be told.
    targets: Targets,
    tells_next: bool,
    remarks: Vec<String>,
}

/// What a model was trained with: the characters and the steps of the lines.
fn trained(schema: &Schema) -> Option<(&[String], usize)> {
    match &schema.columns[..] {
        [Column { kind: ColumnKind::Characters { names, steps }, .. }] if (1..=MOST).contains(steps) => {
            Some((names, *steps))
        }
        _ => None,
    }
}

/// Opens a file.
pub(crate) fn open(path: &Path, pairs: &[(&str, String)], options: &OpenOptions) -> Result<Arc<dyn Source>, Error> {
    let asked = Options::read(pairs)?;
    let whole = text::read_file(path)?;
    let schema = options.schema.as_ref();
    let known = schema.and_then(trained);
    let form = Form::of(&whole, asked.labels, known.and(schema), options.targets)?;
    let lines = split(path, &whole, &form)?;
    let is_labelled = form.is_labelled;
    let end = if is_labelled { None } else { Some('\n') };
    let known_names = match (known, is_labelled) {
        (Some((names, _)), _) => Some(names),
        // A model that was trained on a text knows its characters as classes.
        (None, false) => schema.and_then(Schema::class_names),
        (None, true) => None,
    };
    let vocabulary = Vocabulary::of(known_names, lines.iter().flat_map(|line| line.text.chars().chain(end)));
    let longest = lines.iter().map(|line| line.text.chars().count()).max().unwrap_or(0);
    let Some(steps) = asked.length.or(known.map(|(_, steps)| steps)).or(Some(longest).filter(|steps| *steps <= MOST))
    else {
        let expected = format!("set where a line has {longest} characters");
        return Err(Error::BadSetting { setting: "length", expected, found: "not set".to_owned() });
    };
    // The next character needs one more.
    let most = steps.saturating_add(usize::from(!is_labelled));
    let (numbers, ends) = numbered(path, &lines, end, most, &vocabulary)?;
    let names = vocabulary.names.clone();
    let (targets, shape, target) = match options.targets {
        false => (Targets::None, TargetShape::None, SchemaTarget::None),
        true if is_labelled => {
            let trained = known.and(schema).and_then(Schema::class_names);
            let (classes, names) = labelled(path, &lines, trained)?;
            let target = SchemaTarget::Classes { column: LABEL.to_owned(), names: names.clone() };
            (Targets::Classes(classes), TargetShape::Classes { names }, target)
        }
        true => {
            let shape = TargetShape::Values { names: (1..=steps).map(|step| step.to_string()).collect() };
            (Targets::None, shape, SchemaTarget::Classes { column: String::new(), names: names.clone() })
        }
    };
    let column = Column { name: "text".to_owned(), kind: ColumnKind::Characters { names, steps } };
    let built = Schema { columns: vec![column], target, ..Schema::default() };
    Ok(Arc::new(Lines {
        shape: ExampleShape { features: vec![steps, 1], targets: shape },
        schema: known.and(schema).cloned().unwrap_or(built),
        numbers,
        ends,
        steps,
        targets,
        tells_next: !is_labelled,
        remarks: remark(path, &lines, steps).into_iter().collect(),
    }))
}

/// The lines that say something.
fn split<'a>(path: &Path, whole: &'a str, form: &Form) -> Result<Vec<Line<'a>>, Error> {
    let mut lines = Vec::new();
    for (text, number) in whole.lines().zip(1..).filter(|(text, _)| !text.trim().is_empty()) {
        let wrong = |reason: &str| Error::NoLabel { path: path.to_owned(), line: number, reason: reason.to_owned() };
        let line = match (form.is_cut_at_tab, text.split_once('\t')) {
            (false, Some(_)) if form.is_guessed => {
                return Err(wrong("it has a tab, but the first has none; `labels=no` takes tabs as characters"));
            }
            (false, _) => Line { number, label: None, text },
            (true, None) => return Err(wrong("expected a label, a tab and a text, found no tab")),
            (true, Some((label, text))) if label.trim().is_empty() || text.is_empty() => {
                return Err(wrong("expected a label, a tab and a text, found nothing on one side of the tab"));
            }
            (true, Some((label, text))) => Line { number, label: Some(label.trim()), text },
        };
        lines.push(line);
    }
    match lines.is_empty() {
        true => Err(Error::NoLines { path: path.to_owned(), expected: "a text on every line" }),
        false => Ok(lines),
    }
}

/// The numbers of the characters of all lines, at most so many of each, and where each line ends.
fn numbered(
    path: &Path,
    lines: &[Line<'_>],
    end: Option<char>,
    most: usize,
    vocabulary: &Vocabulary,
) -> Result<(Vec<u32>, Vec<usize>), Error> {
    let (mut numbers, mut ends) = (Vec::new(), Vec::with_capacity(lines.len()));
    for line in lines {
        for character in line.text.chars().chain(end).take(most) {
            numbers.push(vocabulary.number(character).ok_or_else(|| Error::BadSetting {
                setting: "lines:",
                expected: "a text of the characters that the model was trained with".into(),
                found: format!("one with {character:?} in line {} of `{}`", line.number, path.display()),
            })?);
        }
        ends.push(numbers.len());
    }
    Ok((numbers, ends))
}

/// The class of every line, and the names of all.
fn labelled(path: &Path, lines: &[Line<'_>], known: Option<&[String]>) -> Result<(Vec<u32>, Vec<String>), Error> {
    let labels = || lines.iter().filter_map(|line| line.label.map(|label| (line.number, label)));
    let names =
        known.map_or_else(|| classes::names_of(labels().map(|(_, label)| label.to_owned())), <[String]>::to_vec);
    let places: HashMap<&str, u32> = names.iter().map(String::as_str).zip(0..).collect();
    let class = |(line, label): (u64, &str)| {
        places.get(label).copied().ok_or_else(|| Error::UnknownCategory {
            path: path.to_owned(),
            line,
            column: LABEL.to_owned(),
            found: label.to_owned(),
            known: names.len() as u32,
            suggestion: Suggestion::nearest(label, names.iter().map(String::as_str)),
            advice: "",
        })
    };
    let classes = labels().map(class).collect::<Result<_, _>>()?;
    Ok((classes, names))
}

/// Says so where lines are cut.
fn remark(path: &Path, lines: &[Line<'_>], steps: usize) -> Option<String> {
    let cut = lines.iter().filter(|line| line.text.chars().nth(steps).is_some()).count();
    let (of, path) = (lines.len(), path.display());
    (cut > 0).then(|| format!("{cut} of the {of} lines of `{path}` have more than {steps} characters and are cut"))
}

impl Source for Lines {
    fn examples(&self) -> usize {
        self.ends.len()
    }

    fn shape(&self) -> &ExampleShape {
        &self.shape
    }

    fn read(&self, indices: &[u64], batch: &mut Batch) -> Result<(), Error> {
        check_indices(indices, self.examples())?;
        begin(batch, indices, self.steps);
        // A character without a next one is not there, where that is to be told.
        let rows = |offset: usize| {
            indices.iter().flat_map(move |index| {
                let at = *index as usize;
                let line = &self.numbers[at.checked_sub(1).map_or(0, |before| self.ends[before])..self.ends[at]];
                let there = line.len() - usize::from(self.tells_next);
                (0..self.steps).map(move |step| if step < there { line[step + offset] as f32 } else { f32::NAN })
            })
        };
        batch.features.extend(rows(0));
        batch.weights = None;
        match &self.shape.targets {
            TargetShape::Values { .. } => value_targets(batch, self.steps).extend(rows(1)),
            _ => copy_targets(&self.targets, indices, batch),
        }
        Ok(())
    }

    fn schema(&self) -> Option<&Schema> {
        Some(&self.schema)
    }

    fn remarks(&self) -> &[String] {
        &self.remarks
    }
}
