//! One column of a file, a piece at a time.

use parquet::basic::{ConvertedType, LogicalType, Type};
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::{ByteArray, ByteArrayType, DataType};
use parquet::file::reader::{FileReader, RowGroupReader};
use parquet::schema::types::ColumnDescriptor;

use super::files::Shard;
use crate::Error;
use crate::suggestion::{Suggestion, listed};

/// A row may have as many numbers as it likes.
const ANY: usize = usize::MAX;

/// Where a column stands in a file, and what it holds.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Place {
    pub(super) name: String,
    /// Among all columns of the file, those of structures counted one by one.
    leaf: usize,
    /// Whether each row has a list of numbers.
    pub(super) is_list: bool,
    pub(super) is_text: bool,
    /// A value with less than this is missing.
    whole: i16,
}

/// The content of a column for some rows.
#[derive(Clone, Debug, Default)]
pub(super) struct Cells {
    pub(super) numbers: Vec<f64>,
    pub(super) texts: Vec<String>,
}

impl Place {
    /// Finds a column by its name.
    pub(super) fn find(shard: &Shard, name: &str) -> Result<Self, Error> {
        let schema = shard.reader.metadata().file_metadata().schema_descr();
        let leaves: Vec<usize> =
            (0..schema.num_columns()).filter(|at| schema.column(*at).path().parts()[0] == name).collect();
        let [leaf] = leaves[..] else {
            return Err(match leaves.is_empty() {
                true => {
                    let names = names(shard);
                    Error::NoSuchColumn {
                        path: shard.path.clone(),
                        found: name.to_owned(),
                        columns: listed(names.iter().map(String::as_str)),
                        suggestion: Suggestion::nearest(name, names.iter().map(String::as_str)),
                    }
                }
                false => shard.wrong(
                    name,
                    0,
                    "a number, a text or a list of numbers",
                    "a structure of several columns; `vector_to_array` turns a vector of Spark into a list".to_owned(),
                ),
            });
        };
        let column = schema.column(leaf);
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
                return Ok(Self { name: name.to_owned(), leaf, is_list, is_text, whole });
            }
        };
        Err(shard.wrong(name, 0, "a number, a text or a list of numbers", found.to_owned()))
    }

    /// How many numbers the first row of a column of lists has.
    pub(super) fn first_length(&self, shard: &Shard) -> Result<usize, Error> {
        for at in 0..shard.reader.num_row_groups() {
            let group = shard.reader.get_row_group(at).map_err(|error| shard.damaged(error))?;
            if group.metadata().num_rows() > 0 {
                let mut reader = self.reader(shard, &*group)?;
                let mut cells = Cells::default();
                self.read(shard, &mut reader, 0, 1, ANY, &mut cells)?;
                return Ok(cells.numbers.len());
            }
        }
        Ok(1)
    }

    pub(super) fn reader(&self, shard: &Shard, group: &dyn RowGroupReader) -> Result<ColumnReader, Error> {
        group.get_column_reader(self.leaf).map_err(|error| shard.damaged(error))
    }

    /// Adds the cells of the next `rows` rows; `from` is the first of them, and `width` how many numbers a row must have.
    pub(super) fn read(
        &self,
        shard: &Shard,
        reader: &mut ColumnReader,
        from: usize,
        rows: usize,
        width: usize,
        out: &mut Cells,
    ) -> Result<(), Error> {
        let numbers = &mut out.numbers;
        let piece = Piece { place: self, shard, from, rows, width };
        match reader {
            ColumnReader::BoolColumnReader(reader) => {
                piece.read(reader, |value: bool| numbers.push(f64::from(u8::from(value))))
            }
            ColumnReader::Int32ColumnReader(reader) => piece.read(reader, |value: i32| numbers.push(value.into())),
            ColumnReader::Int64ColumnReader(reader) => piece.read(reader, |value: i64| numbers.push(value as f64)),
            ColumnReader::FloatColumnReader(reader) => piece.read(reader, |value: f32| numbers.push(value.into())),
            ColumnReader::DoubleColumnReader(reader) => piece.read(reader, |value: f64| numbers.push(value)),
            ColumnReader::ByteArrayColumnReader(reader) => piece.read_texts(reader, &mut out.texts),
            ColumnReader::Int96ColumnReader(_) | ColumnReader::FixedLenByteArrayColumnReader(_) => {
                unreachable!("was refused when the column was found")
            }
        }
    }
}

/// A piece of a column that is being read.
struct Piece<'a> {
    place: &'a Place,
    shard: &'a Shard,
    from: usize,
    rows: usize,
    width: usize,
}

impl Piece<'_> {
    fn read<T: DataType>(&self, reader: &mut ColumnReaderImpl<T>, keep: impl FnMut(T::T)) -> Result<(), Error> {
        let (mut definitions, mut repetitions, mut values) = (Vec::new(), Vec::new(), Vec::new());
        let mut rows = 0;
        while rows < self.rows {
            let read = reader
                .read_records(self.rows - rows, Some(&mut definitions), Some(&mut repetitions), &mut values)
                .map_err(|error| self.shard.damaged(error))?;
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

/// The columns of a file.
pub(super) fn names(shard: &Shard) -> Vec<String> {
    let root = shard.reader.metadata().file_metadata().schema();
    root.get_fields().iter().map(|field| field.name().to_owned()).collect()
}

fn is_text(column: &ColumnDescriptor) -> bool {
    column.physical_type() == Type::BYTE_ARRAY
}

/// What a column holds that is neither a number nor a text.
fn what_else(column: &ColumnDescriptor) -> Option<&'static str> {
    let logical = column.logical_type_ref();
    match (column.physical_type(), column.converted_type()) {
        _ if matches!(logical, Some(LogicalType::Date | LogicalType::Time { .. } | LogicalType::Timestamp { .. })) => {
            Some("dates or times")
        }
        _ if matches!(logical, Some(LogicalType::Decimal { .. })) => Some("decimals; cast them to double"),
        (Type::INT96, _) => Some("times"),
        (Type::FIXED_LEN_BYTE_ARRAY, _) => Some("bytes"),
        (Type::BYTE_ARRAY, _) if matches!(logical, Some(LogicalType::String | LogicalType::Enum)) => None,
        (Type::BYTE_ARRAY, ConvertedType::UTF8 | ConvertedType::ENUM) => None,
        (Type::BYTE_ARRAY, _) => Some("bytes"),
        (_, ConvertedType::DECIMAL) => Some("decimals; cast them to double"),
        (
            _,
            ConvertedType::DATE
            | ConvertedType::TIME_MILLIS
            | ConvertedType::TIME_MICROS
            | ConvertedType::TIMESTAMP_MILLIS
            | ConvertedType::TIMESTAMP_MICROS,
        ) => Some("dates or times"),
        _ => None,
    }
}
