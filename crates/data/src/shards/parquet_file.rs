//! A Parquet file: where its columns are, and what they hold, a piece at a time.

use std::fs::File;

use parquet::basic::{ConvertedType, LogicalType, TimeUnit, Type};
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::{ByteArray, ByteArrayType, DataType};
use parquet::file::reader::{FileReader, RowGroupReader, SerializedFileReader};
use parquet::schema::types::ColumnDescriptor;

use super::PIECE;
use super::column::{ANY, Cells, EXPECTED, Place, VisitRaw, unknown};
use super::files::Shard;
use crate::Error;

/// A file, its table of contents read.
pub(super) type ParquetFile = SerializedFileReader<File>;

pub(super) fn rows(file: &ParquetFile) -> usize {
    usize::try_from(file.metadata().file_metadata().num_rows()).unwrap_or(0)
}

/// The columns of a file.
pub(super) fn names(file: &ParquetFile) -> Vec<String> {
    let root = file.metadata().file_metadata().schema();
    root.get_fields().iter().map(|field| field.name().to_owned()).collect()
}

/// Finds a column by its name.
pub(super) fn find(shard: &Shard, file: &ParquetFile, name: &str) -> Result<Place, Error> {
    let schema = file.metadata().file_metadata().schema_descr();
    let leaves: Vec<usize> =
        (0..schema.num_columns()).filter(|at| schema.column(*at).path().parts()[0] == name).collect();
    let [at] = leaves[..] else {
        return Err(match leaves.is_empty() {
            true => unknown(shard, name),
            false => shard.wrong(
                name,
                0,
                EXPECTED,
                "a structure of several columns; `vector_to_array` turns a vector of Spark into a list".to_owned(),
            ),
        });
    };
    let column = schema.column(at);
    let (levels, parts) = (column.max_rep_level(), column.path().parts().len());
    let is_list = levels == 1;
    let is_text = is_text(&column);
    let found = match what_else(&column) {
        Some(other) => other,
        None if levels > 1 => "lists of lists",
        None if levels == 0 && parts > 1 => "a structure",
        None if is_list && is_text => "lists of texts",
        None => {
            let whole = column.max_def_level();
            return Ok(Place { name: name.to_owned(), at, is_list, is_text, whole, per_day: units_of_a_day(&column) });
        }
    };
    Err(shard.wrong(name, 0, EXPECTED, found.to_owned()))
}

/// How many numbers the first row of a column of lists has.
pub(super) fn first_length(shard: &Shard, file: &ParquetFile, place: &Place) -> Result<usize, Error> {
    for at in 0..file.num_row_groups() {
        let group = file.get_row_group(at).map_err(|error| damaged(shard, error))?;
        if group.metadata().num_rows() > 0 {
            let mut reader = reader(shard, &*group, place)?;
            let mut cells = Cells::default();
            Piece { place, shard, from: 0, rows: 1, width: ANY }.read_into(&mut reader, &mut cells)?;
            return Ok(cells.numbers.len());
        }
    }
    Ok(1)
}

/// Hands over some columns of a file, a piece at a time, with the first row of each piece.
pub(super) fn each_piece(
    shard: &Shard,
    file: &ParquetFile,
    columns: &[(&Place, usize)],
    visit: VisitRaw<'_>,
) -> Result<(), Error> {
    let mut from = 0;
    let mut cells = vec![Cells::default(); columns.len()];
    for at in 0..file.num_row_groups() {
        let group = file.get_row_group(at).map_err(|error| damaged(shard, error))?;
        let mut readers =
            columns.iter().map(|(place, _)| reader(shard, &*group, place)).collect::<Result<Vec<_>, _>>()?;
        let mut left = usize::try_from(group.metadata().num_rows()).unwrap_or(0);
        while left > 0 {
            let rows = left.min(PIECE);
            for (((place, width), reader), cells) in columns.iter().zip(&mut readers).zip(&mut cells) {
                cells.clear();
                Piece { place, shard, from, rows, width: *width }.read_into(reader, cells)?;
            }
            if visit(&mut cells, from)?.is_break() {
                return Ok(());
            }
            from += rows;
            left -= rows;
        }
    }
    Ok(())
}

fn reader(shard: &Shard, group: &dyn RowGroupReader, place: &Place) -> Result<ColumnReader, Error> {
    group.get_column_reader(place.at).map_err(|error| damaged(shard, error))
}

fn damaged(shard: &Shard, source: parquet::errors::ParquetError) -> Error {
    Error::NotParquet { path: shard.path.clone(), source: Box::new(source) }
}

/// A piece of a column that is being read: so many rows from one on, and how many numbers a row must have.
struct Piece<'a> {
    place: &'a Place,
    shard: &'a Shard,
    from: usize,
    rows: usize,
    width: usize,
}

impl Piece<'_> {
    /// Adds the cells of the next rows.
    fn read_into(&self, reader: &mut ColumnReader, out: &mut Cells) -> Result<(), Error> {
        let numbers = &mut out.numbers;
        match reader {
            ColumnReader::BoolColumnReader(reader) => {
                self.read(reader, |value: bool| numbers.push(f64::from(u8::from(value))))
            }
            ColumnReader::Int32ColumnReader(reader) => self.read(reader, |value: i32| numbers.push(value.into())),
            ColumnReader::Int64ColumnReader(reader) => self.read(reader, |value: i64| numbers.push(value as f64)),
            ColumnReader::FloatColumnReader(reader) => self.read(reader, |value: f32| numbers.push(value.into())),
            ColumnReader::DoubleColumnReader(reader) => self.read(reader, |value: f64| numbers.push(value)),
            ColumnReader::ByteArrayColumnReader(reader) => self.read_texts(reader, &mut out.texts),
            ColumnReader::Int96ColumnReader(_) | ColumnReader::FixedLenByteArrayColumnReader(_) => {
                unreachable!("was refused when the column was found")
            }
        }
    }

    fn read<T: DataType>(&self, reader: &mut ColumnReaderImpl<T>, keep: impl FnMut(T::T)) -> Result<(), Error> {
        let (mut definitions, mut repetitions, mut values) = (Vec::new(), Vec::new(), Vec::new());
        let mut rows = 0;
        while rows < self.rows {
            let read = reader
                .read_records(self.rows - rows, Some(&mut definitions), Some(&mut repetitions), &mut values)
                .map_err(|error| damaged(self.shard, error))?;
            if read.0 == 0 {
                let what = "it has fewer rows than its table of contents says";
                return Err(Error::FileChanged { path: self.shard.path.clone(), what });
            }
            rows += read.0;
        }
        self.check(&definitions, &repetitions)?;
        values.into_iter().for_each(keep);
        Ok(())
    }

    fn read_texts(&self, reader: &mut ColumnReaderImpl<ByteArrayType>, texts: &mut Vec<String>) -> Result<(), Error> {
        let mut raw: Vec<ByteArray> = Vec::new();
        self.read(reader, |value| raw.push(value))?;
        for (row, value) in raw.iter().enumerate() {
            let Ok(text) = std::str::from_utf8(value.data()) else {
                return Err(self.wrong(self.from + row, "a text", "bytes that are no UTF-8".to_owned()));
            };
            texts.push(text.to_owned());
        }
        Ok(())
    }

    /// Fails on the first row that has no value, or not as many numbers as the others.
    fn check(&self, definitions: &[i16], repetitions: &[i16]) -> Result<(), Error> {
        if let Some(at) = definitions.iter().position(|level| *level < self.place.whole) {
            let before = match self.place.is_list {
                true => repetitions[..=at].iter().filter(|level| **level == 0).count().saturating_sub(1),
                false => at,
            };
            return Err(self.wrong(self.from + before, "a value", "nothing: it is null or an empty list".to_owned()));
        }
        if !self.place.is_list || self.width == ANY {
            return Ok(());
        }
        let mut starts = repetitions.iter().enumerate().filter(|(_, level)| **level == 0).map(|(at, _)| at).peekable();
        let mut row = self.from;
        while let Some(start) = starts.next() {
            let length = starts.peek().unwrap_or(&repetitions.len()) - start;
            if length != self.width {
                let found = format!("{length} numbers, and {} elsewhere", self.width);
                return Err(self.wrong(row, "as many numbers as in the other rows", found));
            }
            row += 1;
        }
        Ok(())
    }

    fn wrong(&self, row: usize, expected: &'static str, found: String) -> Error {
        self.shard.wrong(&self.place.name, row, expected, found)
    }
}

fn is_text(column: &ColumnDescriptor) -> bool {
    column.physical_type() == Type::BYTE_ARRAY
}

/// What a column holds that is neither a number nor a text.
fn what_else(column: &ColumnDescriptor) -> Option<&'static str> {
    let logical = column.logical_type_ref();
    match (column.physical_type(), column.converted_type()) {
        _ if matches!(logical, Some(LogicalType::Time { .. })) => Some("times of a day; write them as numbers"),
        _ if matches!(logical, Some(LogicalType::Decimal { .. })) => Some("decimals; cast them to double"),
        (Type::INT96, _) => Some("times"),
        (Type::FIXED_LEN_BYTE_ARRAY, _) => Some("bytes"),
        (Type::BYTE_ARRAY, _) if matches!(logical, Some(LogicalType::String | LogicalType::Enum)) => None,
        (Type::BYTE_ARRAY, ConvertedType::UTF8 | ConvertedType::ENUM) => None,
        (Type::BYTE_ARRAY, _) => Some("bytes"),
        (_, ConvertedType::DECIMAL) => Some("decimals; cast them to double"),
        (_, ConvertedType::TIME_MILLIS | ConvertedType::TIME_MICROS) => Some("times of a day; write them as numbers"),
        _ => None,
    }
}

/// How many of its units a day has, for a column of dates or times since 1970.
fn units_of_a_day(column: &ColumnDescriptor) -> Option<f64> {
    if let Some(LogicalType::Timestamp(timestamp)) = column.logical_type_ref() {
        return Some(match timestamp.unit {
            TimeUnit::MILLIS => 86.4e6,
            TimeUnit::MICROS => 86.4e9,
            TimeUnit::NANOS => 86.4e12,
        });
    }
    match (column.logical_type_ref(), column.converted_type()) {
        (Some(LogicalType::Date), _) | (_, ConvertedType::DATE) => Some(1.0),
        (_, ConvertedType::TIMESTAMP_MICROS) => Some(86.4e9),
        (_, ConvertedType::TIMESTAMP_MILLIS) => Some(86.4e6),
        _ => None,
    }
}
