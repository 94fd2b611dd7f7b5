//! A table of text and numbers that is written row by row: CSV, or Parquet where that is built in.

use std::io::Write;
use std::path::Path;

use anyhow::Result;

use crate::failure::Misuse;

/// How a table is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Csv,
    #[cfg(feature = "shards")]
    Parquet,
}

impl Format {
    /// By the ending of a file name; `-` is CSV.
    pub(crate) fn of(path: &Path) -> Result<Self> {
        let is = |ending: &str| path.extension().is_some_and(|found| found.eq_ignore_ascii_case(ending));
        if path == Path::new("-") || is("csv") {
            return Ok(Self::Csv);
        }
        #[cfg(feature = "shards")]
        if is("parquet") {
            return Ok(Self::Parquet);
        }
        let message = match is("parquet") {
            true => {
                "this program was built without Parquet (the feature `shards`): expected a name that ends in `.csv`"
            }
            false => "expected a name that ends in `.csv` or `.parquet`, or `-` for standard output",
        };
        Err(Misuse(format!("`--output {}`: {message}", path.display())).into())
    }
}

/// The numbers of a row.
#[derive(Clone, Copy)]
pub(crate) enum Numbers<'a> {
    Narrow(&'a [f32]),
    /// Numbers that 32 bits cannot tell apart.
    Wide(&'a [f64]),
}

/// A table under way.
pub(crate) enum Sheet<'a> {
    /// With the rows so far, if they are counted.
    Csv(Box<csv::Writer<&'a mut (dyn Write + Send)>>, Option<u64>),
    #[cfg(feature = "shards")]
    Parquet(Box<paceline::data::ParquetWriter<&'a mut (dyn Write + Send)>>),
}

impl<'a> Sheet<'a> {
    /// A table whose first column counts its rows, if it has a name, whose next ones are text, and whose others are numbers.
    #[cfg_attr(not(feature = "shards"), expect(unused_variables, reason = "text has as many digits as it needs"))]
    pub(crate) fn new(
        format: Format,
        out: &'a mut (dyn Write + Send),
        count: Option<&str>,
        text: &[String],
        numbers: &[String],
        is_wide: bool,
    ) -> Result<Self> {
        match format {
            Format::Csv => {
                let mut writer = csv::Writer::from_writer(out);
                writer.write_record(count.into_iter().chain(text.iter().chain(numbers).map(String::as_str)))?;
                Ok(Self::Csv(Box::new(writer), count.map(|_| 0)))
            }
            #[cfg(feature = "shards")]
            Format::Parquet => {
                let writer = paceline::data::ParquetWriter::new(out, count, text, numbers, is_wide)?;
                Ok(Self::Parquet(Box::new(writer)))
            }
        }
    }

    /// Adds a row; one without numbers has empty cells for them.
    pub(crate) fn row(&mut self, text: &[String], numbers: Option<Numbers<'_>>, columns: usize) -> Result<()> {
        match self {
            Self::Csv(writer, rows) => {
                if let Some(rows) = rows {
                    *rows += 1;
                    writer.write_field(rows.to_string())?;
                }
                for cell in text {
                    writer.write_field(cell)?;
                }
                match numbers {
                    Some(Numbers::Narrow(numbers)) => {
                        for number in numbers {
                            writer.write_field(number.to_string())?;
                        }
                    }
                    Some(Numbers::Wide(numbers)) => {
                        for number in numbers {
                            writer.write_field(number.to_string())?;
                        }
                    }
                    None => {
                        for _ in 0..columns {
                            writer.write_field("")?;
                        }
                    }
                }
                writer.write_record(None::<&[u8]>)?;
            }
            #[cfg(feature = "shards")]
            Self::Parquet(writer) => {
                let wide = numbers.map(|numbers| match numbers {
                    Numbers::Narrow(numbers) => numbers.iter().map(|number| f64::from(*number)).collect(),
                    Numbers::Wide(numbers) => numbers.to_vec(),
                });
                writer.row(text, wide.as_deref())?;
            }
        }
        Ok(())
    }

    pub(crate) fn finish(self) -> Result<()> {
        match self {
            Self::Csv(mut writer, _) => writer.flush()?,
            #[cfg(feature = "shards")]
            Self::Parquet(writer) => writer.finish()?,
        }
        Ok(())
    }
}
