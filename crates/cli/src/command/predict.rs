use std::collections::HashSet;
use std::io::{BufWriter, ErrorKind, Write};
use std::iter::Peekable;
use std::path::Path;

use anyhow::{Context, Result, bail};
use paceline::data::{Cells, LeftOut, OpenOptions, cells, image_files, open, reads, takes_some};
use paceline::train::{ClassEnd, SavedModel};

use super::helping::{Led, expect_no_helper, help, lead};
use super::{inference, open_options};
use crate::arguments;
use crate::failure::{DONE, Exit, Misuse};
use crate::outputs::{Kind, expect_free_file, io_error, write_beside};
use crate::sheet::{Format, Numbers, Sheet};

/// Rows without a prediction that are told one by one.
const MOST_TOLD: usize = 20;

pub(crate) fn run(arguments: &arguments::Predict) -> Result<Exit> {
    let arguments::Predict {
        model,
        data,
        output,
        overwrite,
        keep_columns,
        ids,
        threshold,
        batch,
        workers,
        helping,
        cache,
    } = arguments;
    if let Some(join) = &helping.join {
        return help(join, helping, workers, cache);
    }
    expect_no_helper(helping)?;
    let (Some(model), Some(data), Some(output)) = (model, data, output) else {
        bail!("expected a model, `--data` and `--output`")
    };
    let format = Format::of(output)?;
    if *ids && takes_some(data)? {
        let message = format!("`--ids` counts the rows of the whole data: leave `examples=` out of `{data}`");
        return Err(Misuse(message).into());
    }
    if same_file::is_same_file(output, model).unwrap_or(false) {
        let message = format!("`--output {}` is the model that is read: choose another name", output.display());
        return Err(Misuse(message).into());
    }
    let model = SavedModel::load(model)?;
    let options = OpenOptions { schema: model.schema.clone(), targets: false, ..open_options(cache, false) };
    if let Some(input) = reads(data, &options, output)? {
        let message =
            format!("`--output {}` is `{}`, which is read: choose another name", output.display(), input.display());
        return Err(Misuse(message).into());
    }
    let source = open(data, &options)?;
    source.remarks().iter().for_each(|remark| emit!("warning: {remark}"));
    let examples = source.examples();
    // Of a sample, only the rows that were drawn are written.
    let left_out = if takes_some(data)? { Vec::new() } else { source.left_out().to_vec() };
    let kept = keep_columns.as_ref().map(|names| Kept::open(data, &options, names)).transpose()?;
    let said = Said::of(&model, *threshold);
    if let (Some(threshold), false) = (threshold, said.classes && said.names.len() == 2) {
        let message = format!("`--threshold {threshold}` is for models that tell two classes apart");
        return Err(Misuse(message).into());
    }
    let of_files = image_files(data, &options)?.map(|names| ("file".to_owned(), names));
    let of_examples = source.example_names().map(|(column, names)| (column.to_owned(), names.to_vec()));
    let names = of_files.or(of_examples).map(|(column, names)| (column, names.into_iter()));
    let left_out_rows = left_out.iter().peekable();
    let mut rows = Rows { model: said, ids: *ids, names, kept, next: 0, left_out: left_out_rows };
    let (count, (text, numbers)) = (rows.count(), rows.columns()?);
    let is_wide = !rows.model.offsets.is_empty();
    if output != Path::new("-") {
        let header = header_line(count.into_iter().chain(text.iter().chain(&numbers).map(String::as_str)))?;
        let kind = match format {
            Format::Csv => Kind::Csv(&header),
            #[cfg(feature = "shards")]
            Format::Parquet => Kind::Parquet,
        };
        expect_free_file("--output", output, kind, *overwrite)?;
    }
    let bytes = helping.listen.as_ref().map(|_| model.file.to_bytes());
    let inference = inference(model.file, workers)?;
    // Before the names of columns are written.
    inference.expect_inputs(&*source)?;
    let batch = *batch as usize;
    let write = |out: &mut (dyn Write + Send)| {
        let mut sheet = Sheet::new(format, out, count, &text, &numbers, is_wide)?;
        let mut write = |outputs: &[f32]| rows.write(outputs, &mut sheet);
        match (&helping.listen, bytes) {
            (Some(listen), Some(model)) => {
                let led = Led { listen, helping, command: "predict", model, data, source, batch, judged: false };
                lead(led, &inference, |_, outputs, _| write(outputs))?;
            }
            _ => inference.predict(source, batch, |_, outputs| write(outputs))?,
        }
        rows.write_left_out(u64::MAX, &mut sheet)?;
        sheet.finish()
    };
    match output == Path::new("-") {
        true => {
            let written = write(&mut BufWriter::new(std::io::stdout()));
            // A reader that has seen enough, as `head` has, is no failure.
            let is_closed =
                |error: &anyhow::Error| io_error(error).is_some_and(|error| error.kind() == ErrorKind::BrokenPipe);
            match written {
                Err(error) if is_closed(&error) => return Ok(DONE),
                Err(error) if io_error(&error).is_some() => {
                    return Err(error.context("cannot write to standard output"));
                }
                written => written?,
            }
        }
        false => {
            write_beside(output, write)?;
            emit!("wrote {examples} predictions to `{}`", output.display());
        }
    }
    if !left_out.is_empty() {
        emit!("{} rows have no prediction and are empty there:", left_out.len());
        for LeftOut { row, reason } in left_out.iter().take(MOST_TOLD) {
            emit!("  row {}: {reason}", row + 1);
        }
        if left_out.len() > MOST_TOLD {
            emit!("  and {} more", left_out.len() - MOST_TOLD);
        }
    }
    Ok(DONE)
}

/// The first line of a CSV file with these columns, without its end.
fn header_line<'a>(names: impl Iterator<Item = &'a str>) -> Result<String> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(names)?;
    let line = writer.into_inner().map_err(|error| error.into_error())?;
    Ok(String::from_utf8_lossy(&line).trim_end_matches('\n').to_owned())
}

/// What a model says of an example.
struct Said {
    /// A name for every output.
    names: Vec<String>,
    /// Whether they are classes.
    classes: bool,
    /// What the numbers of classes are called.
    what: &'static str,
    /// Numbers that come out.
    width: usize,
    /// See [`SavedModel::output_offsets`].
    offsets: Vec<f64>,
    /// The probability from which the second of two classes is predicted; none: where it is the more probable one.
    threshold: Option<f32>,
    /// Of several ends those that tell classes apart whose names are known.
    ends: Vec<ClassEnd>,
}

impl Said {
    fn of(model: &SavedModel, threshold: Option<f32>) -> Self {
        Self {
            threshold,
            ends: model.class_ends(),
            names: model.output_names(),
            classes: model.predicts_classes(),
            what: if model.gives_probabilities() { "probability" } else { "output" },
            width: model.file.network.output().len(),
            offsets: model.output_offsets(),
        }
    }
}

/// Columns of the data that are written as they are.
struct Kept {
    cells: Cells,
    places: Vec<usize>,
    names: Vec<String>,
}

impl Kept {
    fn open(data: &str, options: &OpenOptions, names: &[String]) -> Result<Self> {
        let Some(cells) = cells(data, options)? else {
            let message = format!("`--keep-columns` is for whole tables, `csv:` or `jsonl:`, not for `{data}`");
            return Err(Misuse(message).into());
        };
        let names = if names == ["*"] { cells.names().to_vec() } else { names.to_vec() };
        Ok(Self { places: cells.places(&names)?, names, cells })
    }
}

/// What is written of every row of the data, one after the other.
struct Rows<'a> {
    model: Said,
    ids: bool,
    /// The names of examples, such as the files of images, and of their column.
    names: Option<(String, std::vec::IntoIter<String>)>,
    kept: Option<Kept>,
    /// The row that comes next, from 0.
    next: u64,
    left_out: Peekable<std::slice::Iter<'a, LeftOut>>,
}

impl Rows<'_> {
    /// The name of the column that counts rows.
    fn count(&self) -> Option<&'static str> {
        self.ids.then_some("row")
    }

    /// The names of the columns of text and of numbers.
    fn columns(&self) -> Result<(Vec<String>, Vec<String>)> {
        let Said { names, classes, what, .. } = &self.model;
        let mut text: Vec<String> = self.names.iter().map(|(column, _)| column.clone()).collect();
        text.extend(self.kept.iter().flat_map(|kept| kept.names.clone()));
        text.extend(classes.then(|| "prediction".into()));
        text.extend(self.model.ends.iter().map(|end| format!("prediction of {}", end.name)));
        // What is predicted beside what is wanted.
        let is_kept = |name: &String| text.contains(name);
        let told = |name: &String| match classes {
            true => format!("{what} of {name}"),
            false if is_kept(name) => format!("prediction of {name}"),
            false => name.clone(),
        };
        let numbers: Vec<String> = names.iter().map(told).collect();
        let mut seen = HashSet::new();
        let count = self.count();
        match count.into_iter().chain(text.iter().chain(&numbers).map(String::as_str)).find(|name| !seen.insert(*name))
        {
            None => Ok((text, numbers)),
            Some(twice) if self.kept.is_some() || self.ids => {
                let message = format!("there would be two columns `{twice}`: name other columns to keep");
                Err(Misuse(message).into())
            }
            // Two outputs of a model may share a name.
            Some(_) => Ok((text, numbers)),
        }
    }

    /// What a row begins with.
    fn begin(&mut self) -> Result<Vec<String>> {
        self.next += 1;
        let mut text = Vec::new();
        if let Some((_, names)) = &mut self.names {
            text.push(names.next().context("the data has fewer examples than before")?);
        }
        if let Some(Kept { cells, places, .. }) = &mut self.kept {
            text.extend(cells.next_row(places)?.context("the data has fewer rows than before")?);
        }
        Ok(text)
    }

    /// Every row of the input has its row of the output, up to this one.
    fn write_left_out(&mut self, before: u64, sheet: &mut Sheet<'_>) -> Result<()> {
        while self.left_out.next_if(|left_out| left_out.row <= before).is_some() {
            let mut text = self.begin()?;
            text.extend(self.model.classes.then(String::new));
            text.extend(self.model.ends.iter().map(|_| String::new()));
            sheet.row(&text, None, self.model.names.len())?;
        }
        Ok(())
    }

    /// Writes what came out for some examples.
    fn write(&mut self, outputs: &[f32], sheet: &mut Sheet<'_>) -> Result<()> {
        for row in outputs.chunks_exact(self.model.width) {
            while self.left_out.peek().is_some_and(|left_out| left_out.row == self.next) {
                self.write_left_out(self.next, sheet)?;
            }
            let mut text = self.begin()?;
            // One output tells two classes apart.
            let pair = [1.0 - row[0], row[0]];
            let row = if self.model.classes && row.len() == 1 { &pair[..] } else { row };
            let best = match self.model.threshold {
                Some(threshold) => usize::from(row[1] >= threshold),
                None => highest(row),
            };
            text.extend(self.model.classes.then(|| self.model.names[best].clone()));
            text.extend(self.model.ends.iter().map(|end| {
                let own = &row[end.columns.clone()];
                end.classes[if own.len() == 1 { usize::from(own[0] > 0.5) } else { highest(own) }].clone()
            }));
            match &self.model.offsets[..] {
                [] => sheet.row(&text, Some(Numbers::Narrow(row)), row.len())?,
                offsets => {
                    let wide: Vec<f64> = row.iter().zip(offsets).map(|(value, by)| f64::from(*value) + by).collect();
                    sheet.row(&text, Some(Numbers::Wide(&wide)), row.len())?;
                }
            }
        }
        Ok(())
    }
}

/// The place of the highest number, the first among equals.
fn highest(row: &[f32]) -> usize {
    (0..row.len()).reduce(|best, at| if row[at] > row[best] { at } else { best }).unwrap_or(0)
}
