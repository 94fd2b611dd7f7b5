//! Rows of text and numbers into a Parquet file.

use std::io::Write;
use std::sync::Arc;

use parquet::basic::{Compression, LogicalType, Repetition, Type as Physical};
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, FloatType, Int64Type};
use parquet::errors::Result;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::Type;

/// Rows that are written at once: what a reader must hold.
const GROUP: usize = 64 << 10;

/// Writes a table whose first column may count its rows, whose next ones are text, and whose others are numbers.
pub struct ParquetWriter<W: Write + Send> {
    writer: SerializedFileWriter<W>,
    /// From 1, if they are counted.
    counts: Option<Vec<i64>>,
    counted: i64,
    /// By column.
    text: Vec<Vec<ByteArray>>,
    /// By column; those that are there.
    numbers: Vec<Vec<f64>>,
    /// Whether numbers have 64 bits in the file.
    is_wide: bool,
    /// By row: 1 if it has numbers.
    has_numbers: Vec<i16>,
}

impl<W: Write + Send> ParquetWriter<W> {
    /// A table with these columns; its numbers have 64 bits if it `is_wide`, else 32.
    pub fn new(
        out: W,
        count: Option<&str>,
        text: &[String],
        numbers: &[String],
        is_wide: bool,
    ) -> std::io::Result<Self> {
        let physical = if is_wide { Physical::DOUBLE } else { Physical::FLOAT };
        let column = |name: &str, physical, logical, repetition| {
            let builder = Type::primitive_type_builder(name, physical).with_repetition(repetition);
            builder.with_logical_type(logical).build().map(Arc::new)
        };
        let writer = (|| {
            let texts = text
                .iter()
                .map(|name| column(name, Physical::BYTE_ARRAY, Some(LogicalType::String), Repetition::REQUIRED));
            let rest = numbers.iter().map(|name| column(name, physical, None, Repetition::OPTIONAL));
            let first = count.map(|name| column(name, Physical::INT64, None, Repetition::REQUIRED));
            let fields = first.into_iter().chain(texts).chain(rest).collect::<Result<Vec<_>>>()?;
            let schema = Arc::new(Type::group_type_builder("table").with_fields(fields).build()?);
            let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
            SerializedFileWriter::new(out, schema, Arc::new(properties))
        })();
        let writer = writer.map_err(std::io::Error::other)?;
        let (text, numbers) = (vec![Vec::new(); text.len()], vec![Vec::new(); numbers.len()]);
        let (counts, has_numbers) = (count.map(|_| Vec::new()), Vec::new());
        Ok(Self { writer, counts, counted: 0, text, numbers, is_wide, has_numbers })
    }

    /// Adds a row; without numbers these are null.
    pub fn row(&mut self, text: &[String], numbers: Option<&[f64]>) -> std::io::Result<()> {
        self.counted += 1;
        self.counts.iter_mut().for_each(|counts| counts.push(self.counted));
        for (column, text) in self.text.iter_mut().zip(text) {
            column.push(text.as_str().into());
        }
        for (column, number) in self.numbers.iter_mut().zip(numbers.unwrap_or_default()) {
            column.push(*number);
        }
        self.has_numbers.push(i16::from(numbers.is_some()));
        if self.has_numbers.len() < GROUP { Ok(()) } else { self.write_group().map_err(std::io::Error::other) }
    }

    fn write_group(&mut self) -> Result<()> {
        let mut group = self.writer.next_row_group()?;
        if let Some(counts) = &mut self.counts {
            let mut writer = group.next_column()?.expect("as many columns as the schema has");
            writer.typed::<Int64Type>().write_batch(counts, None, None)?;
            writer.close()?;
            counts.clear();
        }
        for column in &mut self.text {
            let mut writer = group.next_column()?.expect("as many columns as the schema has");
            writer.typed::<ByteArrayType>().write_batch(column, None, None)?;
            writer.close()?;
            column.clear();
        }
        for column in &mut self.numbers {
            let mut writer = group.next_column()?.expect("as many columns as the schema has");
            match self.is_wide {
                true => writer.typed::<DoubleType>().write_batch(column, Some(&self.has_numbers), None)?,
                false => {
                    let narrow: Vec<f32> = column.iter().map(|number| *number as f32).collect();
                    writer.typed::<FloatType>().write_batch(&narrow, Some(&self.has_numbers), None)?
                }
            };
            writer.close()?;
            column.clear();
        }
        self.has_numbers.clear();
        group.close()?;
        Ok(())
    }

    /// Writes what is left, and the end of the file.
    pub fn finish(mut self) -> std::io::Result<()> {
        let rest = if self.has_numbers.is_empty() { Ok(()) } else { self.write_group() };
        rest.and_then(|()| self.writer.close().map(drop)).map_err(std::io::Error::other)
    }
}

#[cfg(test)]
mod tests {
    use paceline_model::Batch;

    use super::{GROUP, ParquetWriter};
    use crate::{OpenOptions, open};

    #[test]
    fn what_is_written_is_read_again() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("table.parquet");
        let file = std::fs::File::create(&path).expect("a file");
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<String>>();
        let mut writer =
            ParquetWriter::new(file, Some("row"), &names(&["name"]), &names(&["a", "b"]), false).expect("a file");
        let rows = GROUP + 10;
        for row in 0..rows {
            let numbers = [row as f64, -0.5];
            writer.row(&[format!("row {row}")], Some(&numbers)).expect("written");
        }
        writer.finish().expect("written");
        let spec = format!("shards:{}?columns=row,a,b", path.display());
        let source = open(&spec, &OpenOptions { targets: false, ..OpenOptions::default() }).expect("a table");
        assert_eq!(source.examples(), rows);
        let mut batch = Batch::empty();
        source.read(&[0, rows as u64 - 1], &mut batch).expect("rows");
        assert_eq!(batch.features, [1.0, 0.0, -0.5, rows as f32, rows as f32 - 1.0, -0.5]);
    }
}
