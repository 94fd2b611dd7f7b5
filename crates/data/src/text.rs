//! Text as sequences of characters: what goes in is the number of each character, and what is wanted is the number of the next.

use std::path::Path;
use std::sync::Arc;

use paceline_model::{Batch, Targets};

use crate::source::{begin, check_indices, value_targets};
use crate::spec::{count, expect_name};
use crate::vocabulary::Vocabulary;
use crate::{Error, ExampleShape, OpenOptions, Schema, Source, TargetShape};

/// Steps of a sequence unless the specification says otherwise.
const STEPS: usize = 100;

/// A text that is cut into sequences; the last one may be shorter, and what it lacks is no number.
pub(crate) struct Text {
    shape: ExampleShape,
    schema: Schema,
    /// The number of every character.
    numbers: Vec<u32>,
    steps: usize,
    stride: usize,
    targets: bool,
}

/// Opens a file, or all files of a folder whose names end in `.txt` or `.md`, one after the other in the order of their names.
pub(crate) fn open(
    path: &Path,
    options: &[(&str, String)],
    open_options: &OpenOptions,
) -> Result<Arc<dyn Source>, Error> {
    let trained = open_options.schema.as_ref();
    let (mut steps, mut stride) = (trained.and_then(|schema| schema.text_steps).unwrap_or(STEPS), None);
    for (key, value) in options {
        match *key {
            "steps" => steps = count("steps", value)?,
            "stride" => stride = Some(count("stride", value)?),
            other => expect_name("option of `text:`", other, &["steps", "stride", "examples", "seed"])?,
        }
    }
    let text = read(path)?;
    let known = trained.and_then(Schema::class_names);
    let vocabulary = Vocabulary::of(known, text.chars());
    let number = |character: char| {
        vocabulary.number(character).ok_or_else(|| Error::BadSetting {
            setting: "text:",
            expected: "a text of the characters that the model was trained with".into(),
            found: format!("one with {character:?}"),
        })
    };
    let numbers: Vec<u32> = text.chars().map(number).collect::<Result<_, _>>()?;
    if numbers.len() < 2 {
        let (expected, found) = ("a text of at least two characters".into(), format!("{}", numbers.len()));
        return Err(Error::BadSetting { setting: "text:", expected, found });
    }
    let targets = match open_options.targets {
        true => TargetShape::Values { names: (1..=steps).map(|step| step.to_string()).collect() },
        false => TargetShape::None,
    };
    Ok(Arc::new(Text {
        shape: ExampleShape { features: vec![steps, 1], targets },
        schema: Schema { text_steps: Some(steps), ..Schema::of_classes(vocabulary.names) },
        numbers,
        steps,
        stride: stride.unwrap_or(steps),
        targets: open_options.targets,
    }))
}

fn read(path: &Path) -> Result<String, Error> {
    if !path.is_dir() {
        return read_file(path);
    }
    let mut files = Vec::new();
    for entry in std::fs::read_dir(path).map_err(Error::file("read", path))? {
        let file = entry.map_err(Error::file("read", path))?.path();
        if file.extension().is_some_and(|ending| ending == "txt" || ending == "md") {
            files.push(file);
        }
    }
    files.sort();
    files.iter().map(|file| read_file(file)).collect()
}

/// The text of a file, without the mark that some programs begin one with.
pub(crate) fn read_file(path: &Path) -> Result<String, Error> {
    let bytes = std::fs::read(path).map_err(Error::file("read", path))?;
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").map(<[u8]>::to_vec).unwrap_or(bytes);
    String::from_utf8(bytes).map_err(|error| {
        let before = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = 1 + before.iter().filter(|byte| **byte == b'\n').count();
        let source =
            std::io::Error::new(std::io::ErrorKind::InvalidData, format!("line {line} is not UTF-8: save it as UTF-8"));
        Error::File { action: "read", path: path.to_owned(), source }
    })
}

impl Source for Text {
    fn examples(&self) -> usize {
        (self.numbers.len() - 1).div_ceil(self.stride)
    }

    fn shape(&self) -> &ExampleShape {
        &self.shape
    }

    fn read(&self, indices: &[u64], batch: &mut Batch) -> Result<(), Error> {
        check_indices(indices, self.examples())?;
        begin(batch, indices, self.steps);
        // As many steps as have a next character; the others are not there.
        let rows = |offset: usize| {
            indices.iter().flat_map(move |index| {
                let first = *index as usize * self.stride;
                (first..first + self.steps).map(move |at| match self.numbers.get(at + 1) {
                    Some(_) => self.numbers[at + offset] as f32,
                    None => f32::NAN,
                })
            })
        };
        batch.features.extend(rows(0));
        batch.weights = None;
        if self.targets {
            value_targets(batch, self.steps).extend(rows(1));
        } else {
            batch.targets = Targets::None;
        }
        Ok(())
    }

    fn schema(&self) -> Option<&Schema> {
        Some(&self.schema)
    }
}
