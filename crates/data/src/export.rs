use std::fs;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use paceline_model::{Batch, Targets};

use crate::beside;
use crate::idx::write_header;
use crate::source::for_each_piece;
use crate::{Error, Schema, SchemaTarget, Source, TargetShape};

/// What other tools shall read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ExportFormat {
    /// `features.idx` and, with targets, `labels.idx`; opened again as `idx:features.idx,labels.idx`. Features that are
    /// all bytes stay bytes, others become `f32`; classes become `u8` or `i32`, values `f32`. Weights are left out.
    #[default]
    Idx,
    /// `examples.csv` with a header; opened again as `csv:examples.csv?label=label`, where `label` is the name that the target has
    /// in its source, if it has one there.
    Csv,
}

impl ExportFormat {
    /// The files that an export may write.
    pub fn files(self) -> &'static [&'static str] {
        match self {
            ExportFormat::Idx => &["features.idx", "labels.idx"],
            ExportFormat::Csv => &["examples.csv"],
        }
    }
}

/// Writes a whole source into a folder in bounded memory; returns the files.
pub fn export(source: &dyn Source, folder: &Path, format: ExportFormat) -> Result<Vec<PathBuf>, Error> {
    fs::create_dir_all(folder).map_err(Error::file("create", folder))?;
    match format {
        ExportFormat::Idx => export_idx(source, folder),
        ExportFormat::Csv => export_csv(source, folder),
    }
}

fn export_idx(source: &dyn Source, folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let mut bytes = true;
    for_each_piece(source, |batch| {
        bytes &= batch.features.iter().all(|value| (0.0..=255.0).contains(value) && value.fract() == 0.0);
        Ok(())
    })?;
    let shape = source.shape();
    let examples = dimension(source.examples())?;
    let mut dimensions = vec![examples];
    for size in &shape.features {
        dimensions.push(dimension(*size)?);
    }
    // Images with one channel have rank 3 in this format.
    if dimensions.len() == 4 && dimensions[3] == 1 {
        dimensions.pop();
    }
    let features = folder.join("features.idx");
    write(
        source,
        &features,
        |file| write_header(file, if bytes { 8 } else { 13 }, &dimensions),
        |file, batch| {
            batch.features.iter().try_for_each(|value| match bytes {
                true => file.write_all(&[*value as u8]),
                false => file.write_all(&value.to_be_bytes()),
            })
        },
    )?;
    let (kind, label_dimensions) = match &shape.targets {
        TargetShape::None => return Ok(vec![features]),
        TargetShape::Classes { names } => (if names.len() <= 256 { 8 } else { 12 }, vec![examples]),
        TargetShape::Values { names } => (13, vec![examples, dimension(names.len())?]),
    };
    let labels = folder.join("labels.idx");
    write(
        source,
        &labels,
        |file| write_header(file, kind, &label_dimensions),
        |file, batch| match &batch.targets {
            Targets::None => Ok(()),
            Targets::Classes(classes) => classes.iter().try_for_each(|class| match kind {
                8 => file.write_all(&[*class as u8]),
                _ => file.write_all(&class.to_be_bytes()),
            }),
            Targets::Values { values, .. } => values.iter().try_for_each(|value| file.write_all(&value.to_be_bytes())),
        },
    )?;
    Ok(vec![features, labels])
}

fn dimension(size: usize) -> Result<u32, Error> {
    u32::try_from(size).map_err(|_| Error::BadSetting {
        setting: "IDX dimension",
        expected: format!("at most {}; export to CSV instead", u32::MAX),
        found: size.to_string(),
    })
}

fn export_csv(source: &dyn Source, folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let shape = source.shape();
    let names = source.schema().map(|schema| schema.feature_names()).filter(|names| names.len() == shape.width());
    let mut header = names.unwrap_or_else(|| (0..shape.width()).map(|at| format!("f{at}")).collect());
    let classes: &[String] = match &shape.targets {
        TargetShape::None => &[],
        TargetShape::Classes { names } => {
            header.push(match source.schema().map(|schema| &schema.target) {
                Some(SchemaTarget::Classes { column, .. }) if !column.is_empty() => column.clone(),
                _ => "label".to_owned(),
            });
            names
        }
        TargetShape::Values { names } => {
            header.extend(names.iter().cloned());
            &[]
        }
    };
    if source.weighted() {
        header.push("weight".to_owned());
    }
    let header: Vec<String> = header.iter().map(|name| quoted(name)).collect();
    let shifts = source.schema().map(Schema::shifts).filter(|shifts| shifts.len() == shape.width());
    let shifts = shifts.unwrap_or_else(|| vec![0.0; shape.width()]);
    let path = folder.join("examples.csv");
    write(
        source,
        &path,
        |file| writeln!(file, "{}", header.join(",")),
        |file, batch| {
            for row in 0..batch.examples() {
                for (at, (value, shift)) in batch.row(row).iter().zip(&shifts).enumerate() {
                    let comma = if at == 0 { "" } else { "," };
                    // As it stood in the file.
                    match *shift {
                        0.0 => write!(file, "{comma}{value}")?,
                        shift => write!(file, "{comma}{}", f64::from(*value) + shift)?,
                    }
                }
                match &batch.targets {
                    Targets::None => {}
                    Targets::Classes(of) => write!(file, ",{}", quoted(&classes[of[row] as usize]))?,
                    Targets::Values { width, values } => {
                        values[row * width..(row + 1) * width].iter().try_for_each(|value| write!(file, ",{value}"))?;
                    }
                }
                if let Some(weights) = &batch.weights {
                    write!(file, ",{}", weights[row])?;
                }
                writeln!(file)?;
            }
            Ok(())
        },
    )?;
    Ok(vec![path])
}

fn quoted(text: &str) -> String {
    match text.contains(['"', ',', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.to_owned(),
    }
}

/// Writes a beginning and then every batch, beside the place and renamed.
fn write(
    source: &dyn Source,
    path: &Path,
    begin: impl FnOnce(&mut dyn Write) -> std::io::Result<()>,
    mut each: impl FnMut(&mut dyn Write, &Batch) -> std::io::Result<()>,
) -> Result<(), Error> {
    let mut file = beside::temporary(path)?;
    let mut writer = BufWriter::new(file.as_file_mut());
    begin(&mut writer).map_err(Error::file("write", path))?;
    for_each_piece(source, |batch| each(&mut writer, batch).map_err(Error::file("write", path)))?;
    writer.flush().map_err(Error::file("write", path))?;
    drop(writer);
    beside::put(file, path)
}
