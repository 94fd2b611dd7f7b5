//! An Arrow file (IPC, as `pyarrow.feather` and `pyarrow.ipc.new_file` write it): where its columns are, and what they hold.
//!
//! All lengths that the file tells are compared with the file before anything is allocated for them.

use std::fs::File;
use std::ops::ControlFlow;
use std::os::unix::fs::FileExt;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date32Type, Date64Type, Float16Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType, UInt8Type,
    UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_buffer::Buffer;
use arrow_ipc::convert::try_fb_to_schema;
use arrow_ipc::reader::{FileDecoder, read_footer_length};
use arrow_ipc::{Block, Message, MetadataVersion, root_as_footer, root_as_message};
use arrow_schema::{DataType, SchemaRef, TimeUnit};

use super::PIECE;
use super::column::{ANY, Cells, EXPECTED, Place, VisitRaw, unknown};
use super::files::Shard;
use crate::Error;
use crate::error::BoxError;

/// The last bytes of a file: the length of its table of contents, and who it is.
const TRAILER: usize = 10;
/// A packed buffer is not unpacked to more than so many times its length.
const MOST_UNPACKED: u64 = 4096;

/// A file, its table of contents read.
pub(super) struct ArrowFile {
    file: File,
    schema: SchemaRef,
    version: MetadataVersion,
    dictionaries: Vec<Block>,
    batches: Vec<Block>,
    rows: usize,
}

impl ArrowFile {
    pub(super) fn open(file: File) -> Result<Self, BoxError> {
        let length = file.metadata()?.len();
        let mut trailer = [0; TRAILER];
        let end = length.checked_sub(TRAILER as u64).ok_or("it is shorter than any Arrow file")?;
        file.read_exact_at(&mut trailer, end)?;
        let footer = read_footer_length(trailer)? as u64;
        let start = end.checked_sub(footer).ok_or("its table of contents is longer than the file")?;
        let mut bytes = vec![0; footer as usize];
        file.read_exact_at(&mut bytes, start)?;
        let footer = root_as_footer(&bytes).map_err(|error| format!("its table of contents is damaged: {error:?}"))?;
        let schema = footer.schema().ok_or("it does not say which columns it has")?;
        let schema = try_fb_to_schema(schema)?.into();
        let dictionaries: Vec<Block> = footer.dictionaries().iter().flatten().copied().collect();
        let batches: Vec<Block> = footer.recordBatches().iter().flatten().copied().collect();
        dictionaries.iter().chain(&batches).try_for_each(|block| lies_within(block, length))?;
        let version = footer.version();
        let mut opened = Self { file, schema, version, dictionaries, batches, rows: 0 };
        for block in &opened.batches {
            let rows = opened.with_message(block, |message| Some(message.header_as_record_batch()?.length()))?;
            let rows = rows.and_then(|rows| usize::try_from(rows).ok()).ok_or("it holds something else than rows")?;
            opened.rows = opened.rows.checked_add(rows).ok_or("it has more rows than can be counted")?;
        }
        Ok(opened)
    }

    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    pub(super) fn names(&self) -> Vec<String> {
        self.schema.fields().iter().map(|field| field.name().clone()).collect()
    }

    /// What stands before the numbers of a block.
    fn with_message<T>(&self, block: &Block, look: impl FnOnce(&Message<'_>) -> T) -> Result<T, BoxError> {
        let mut bytes = vec![0; block.metaDataLength() as usize];
        self.file.read_exact_at(&mut bytes, block.offset() as u64)?;
        // A mark that says that the length follows is missing in old files.
        let skipped = if bytes.starts_with(&[0xff; 4]) { 8 } else { 4 };
        let message = bytes.get(skipped..).ok_or("a part of it is cut short")?;
        let message = root_as_message(message).map_err(|error| format!("a part of it is damaged: {error:?}"))?;
        Ok(look(&message))
    }

    /// The bytes of a block, if what they unpack to can be held.
    fn read(&self, block: &Block) -> Result<Buffer, BoxError> {
        let head = block.metaDataLength() as usize;
        let mut bytes = vec![0; head + block.bodyLength() as usize];
        self.file.read_exact_at(&mut bytes, block.offset() as u64)?;
        let body = &bytes[head..];
        let is_bearable = self.with_message(block, |message| {
            let batch = message.header_as_record_batch();
            let batch = batch.or_else(|| message.header_as_dictionary_batch()?.data());
            let Some(batch) = batch.filter(|batch| batch.compression().is_some()) else { return true };
            batch.buffers().iter().flatten().all(|buffer| {
                let packed = usize::try_from(buffer.offset()).ok().and_then(|at| body.get(at..)?.first_chunk::<8>());
                let unpacked = packed.map_or(0, |length| i64::from_le_bytes(*length));
                // -1 is said of what is not packed.
                buffer.length() == 0 || unpacked <= (buffer.length() as u64).saturating_mul(MOST_UNPACKED) as i64
            })
        })?;
        match is_bearable {
            true => Ok(Buffer::from_vec(bytes)),
            false => Err("a part of it would unpack to far more than it holds".into()),
        }
    }

    fn decoder(&self, columns: Vec<usize>) -> Result<FileDecoder, BoxError> {
        let mut decoder = FileDecoder::new(self.schema.clone(), self.version).with_projection(columns);
        for block in &self.dictionaries {
            decoder.read_dictionary(block, &self.read(block)?)?;
        }
        Ok(decoder)
    }

    fn batch(&self, decoder: &FileDecoder, block: &Block) -> Result<RecordBatch, BoxError> {
        let batch = decoder.read_record_batch(block, &self.read(block)?)?;
        batch.ok_or_else(|| "a part of it holds no rows".into())
    }
}

/// Whether a block lies within a file of this length.
fn lies_within(block: &Block, length: u64) -> Result<(), BoxError> {
    let parts = [block.offset(), i64::from(block.metaDataLength()), block.bodyLength()];
    let end = parts.iter().try_fold(0_u64, |end, part| end.checked_add(u64::try_from(*part).ok()?));
    match end {
        Some(end) if end <= length => Ok(()),
        _ => Err("its table of contents speaks of more than the file holds".into()),
    }
}

/// Finds a column by its name.
pub(super) fn find(shard: &Shard, file: &ArrowFile, name: &str) -> Result<Place, Error> {
    let Some((at, field)) = file.schema.column_with_name(name) else { return Err(unknown(shard, name)) };
    let (is_list, of_row) = match field.data_type() {
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => (true, item.data_type()),
        other => (false, other),
    };
    let is_text = matches!(of_row, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
        || matches!(of_row, DataType::Dictionary(_, of) if matches!(**of, DataType::Utf8 | DataType::LargeUtf8));
    let found = match of_row {
        _ if is_text && is_list => "lists of texts",
        _ if is_text || is_number(of_row) || units_of_a_day(of_row).is_some() => {
            return Ok(Place {
                name: name.to_owned(),
                at,
                is_list,
                is_text,
                whole: 0,
                per_day: units_of_a_day(of_row),
            });
        }
        DataType::Time32(_) | DataType::Time64(_) => "times of a day; write them as numbers",
        DataType::Decimal32(..) | DataType::Decimal64(..) | DataType::Decimal128(..) | DataType::Decimal256(..) => {
            "decimals; cast them to double"
        }
        DataType::List(_) | DataType::LargeList(_) | DataType::FixedSizeList(..) => "lists of lists",
        DataType::Struct(_) => "a structure",
        _ => "something else",
    };
    Err(shard.wrong(name, 0, EXPECTED, found.to_owned()))
}

/// How many of its units a day has, for a column of dates or times since 1970.
fn units_of_a_day(kind: &DataType) -> Option<f64> {
    match kind {
        DataType::Date32 => Some(1.0),
        DataType::Timestamp(TimeUnit::Second, _) => Some(86_400.0),
        DataType::Date64 | DataType::Timestamp(TimeUnit::Millisecond, _) => Some(86.4e6),
        DataType::Timestamp(TimeUnit::Microsecond, _) => Some(86.4e9),
        DataType::Timestamp(TimeUnit::Nanosecond, _) => Some(86.4e12),
        _ => None,
    }
}

fn is_number(kind: &DataType) -> bool {
    kind.is_integer() || kind.is_floating() || *kind == DataType::Boolean
}

/// How many numbers the first row of a column of lists has.
pub(super) fn first_length(shard: &Shard, file: &ArrowFile, place: &Place) -> Result<usize, Error> {
    let mut length = None;
    each_batch(shard, file, &[place], &mut |arrays, from| {
        if !arrays[0].is_empty() {
            let mut cells = Cells::default();
            Piece { place, shard, from, width: ANY }.read(&arrays[0].slice(0, 1), &mut cells)?;
            length = Some(cells.numbers.len());
            return Ok(ControlFlow::Break(()));
        }
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(length.unwrap_or(1))
}

/// Hands over some columns of a file, a piece at a time, with the first row of each piece.
pub(super) fn each_piece(
    shard: &Shard,
    file: &ArrowFile,
    columns: &[(&Place, usize)],
    visit: VisitRaw<'_>,
) -> Result<(), Error> {
    let places: Vec<&Place> = columns.iter().map(|(place, _)| *place).collect();
    let mut cells = vec![Cells::default(); columns.len()];
    each_batch(shard, file, &places, &mut |arrays, first| {
        let rows = arrays[0].len();
        for start in (0..rows).step_by(PIECE) {
            let (count, from) = (PIECE.min(rows - start), first + start);
            for (((place, width), array), cells) in columns.iter().zip(arrays).zip(&mut cells) {
                cells.clear();
                Piece { place, shard, from, width: *width }.read(&array.slice(start, count), cells)?;
            }
            if visit(&mut cells, from)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    })
}

/// Is handed columns for some rows, and the first of these rows.
type VisitArrays<'a> = &'a mut dyn FnMut(&[ArrayRef], usize) -> Result<ControlFlow<()>, Error>;

/// Hands over some columns, as many rows at a time as the file has together, with the first of them.
fn each_batch(shard: &Shard, file: &ArrowFile, places: &[&Place], visit: VisitArrays<'_>) -> Result<(), Error> {
    let damaged = |source: BoxError| Error::NotArrow { path: shard.path.clone(), source };
    // What is read once may be asked for twice.
    let mut columns: Vec<usize> = places.iter().map(|place| place.at).collect();
    columns.sort_unstable();
    columns.dedup();
    let decoder = file.decoder(columns.clone()).map_err(damaged)?;
    let mut from = 0;
    for block in &file.batches {
        let batch = file.batch(&decoder, block).map_err(damaged)?;
        let of = |place: &&Place| {
            let at = columns.binary_search(&place.at).expect("it is one of them");
            batch.column(at).clone()
        };
        let arrays: Vec<ArrayRef> = places.iter().map(of).collect();
        if arrays.first().is_some_and(|array| !array.is_empty()) && visit(&arrays, from)?.is_break() {
            break;
        }
        from += batch.num_rows();
    }
    Ok(())
}

/// A piece of a column that is being read, from a row on, and how many numbers a row must have.
struct Piece<'a> {
    place: &'a Place,
    shard: &'a Shard,
    from: usize,
    width: usize,
}

impl Piece<'_> {
    fn read(&self, array: &ArrayRef, out: &mut Cells) -> Result<(), Error> {
        let lists: Option<Vec<ArrayRef>> = match array.data_type() {
            _ if array.null_count() > 0 => None,
            DataType::List(_) => Some(array.as_list::<i32>().iter().flatten().collect()),
            DataType::LargeList(_) => Some(array.as_list::<i64>().iter().flatten().collect()),
            DataType::FixedSizeList(..) => Some(array.as_fixed_size_list().iter().flatten().collect()),
            _ => None,
        };
        let Some(lists) = lists else {
            self.expect_values(array, |row| row)?;
            return self.add(array, out);
        };
        for (row, list) in lists.iter().enumerate() {
            self.expect_values(list, |_| row)?;
            if list.is_empty() {
                return Err(self.missing(row));
            }
            if self.width != ANY && list.len() != self.width {
                let found = format!("{} numbers, and {} elsewhere", list.len(), self.width);
                return Err(self.wrong(row, "as many numbers as in the other rows", found));
            }
            self.add(list, out)?;
        }
        Ok(())
    }

    /// Fails on the first value that is missing.
    fn expect_values(&self, array: &ArrayRef, row_of: impl Fn(usize) -> usize) -> Result<(), Error> {
        match (0..array.len()).find(|at| array.is_null(*at)) {
            Some(at) => Err(self.missing(row_of(at))),
            None => Ok(()),
        }
    }

    /// Adds values, of which none is missing.
    fn add(&self, array: &ArrayRef, out: &mut Cells) -> Result<(), Error> {
        let Cells { numbers, texts } = out;
        macro_rules! numbers {
            ($kind:ty) => {
                numbers.extend(array.as_primitive::<$kind>().values().iter().map(|value| *value as f64))
            };
        }
        match array.data_type() {
            DataType::Boolean => {
                let values = array.as_boolean();
                numbers.extend((0..values.len()).map(|at| f64::from(u8::from(values.value(at)))));
            }
            DataType::Int8 => numbers!(Int8Type),
            DataType::Int16 => numbers!(Int16Type),
            DataType::Int32 => numbers!(Int32Type),
            DataType::Int64 => numbers!(Int64Type),
            DataType::UInt8 => numbers!(UInt8Type),
            DataType::UInt16 => numbers!(UInt16Type),
            DataType::UInt32 => numbers!(UInt32Type),
            DataType::UInt64 => numbers!(UInt64Type),
            DataType::Float16 => {
                numbers.extend(array.as_primitive::<Float16Type>().values().iter().map(|value| value.to_f64()));
            }
            DataType::Date32 => numbers!(Date32Type),
            DataType::Date64 => numbers!(Date64Type),
            DataType::Timestamp(TimeUnit::Second, _) => numbers!(TimestampSecondType),
            DataType::Timestamp(TimeUnit::Millisecond, _) => numbers!(TimestampMillisecondType),
            DataType::Timestamp(TimeUnit::Microsecond, _) => numbers!(TimestampMicrosecondType),
            DataType::Timestamp(TimeUnit::Nanosecond, _) => numbers!(TimestampNanosecondType),
            DataType::Float32 => numbers!(Float32Type),
            DataType::Float64 => numbers!(Float64Type),
            DataType::Utf8 => texts.extend(array.as_string::<i32>().iter().flatten().map(str::to_owned)),
            DataType::LargeUtf8 => texts.extend(array.as_string::<i64>().iter().flatten().map(str::to_owned)),
            DataType::Utf8View => texts.extend(array.as_string_view().iter().flatten().map(str::to_owned)),
            DataType::Dictionary(..) => {
                let dictionary = array.as_any_dictionary();
                let (mut words, keys) = (Cells::default(), dictionary.normalized_keys());
                self.expect_values(dictionary.values(), |row| row)?;
                self.add(dictionary.values(), &mut words)?;
                texts.extend(keys.into_iter().map(|key| words.texts[key].clone()));
            }
            _ => unreachable!("was refused when the column was found"),
        }
        Ok(())
    }

    fn missing(&self, row: usize) -> Error {
        self.wrong(row, "a value", "nothing: it is null or an empty list".to_owned())
    }

    fn wrong(&self, row: usize, expected: &'static str, found: String) -> Error {
        self.shard.wrong(&self.place.name, self.from + row, expected, found)
    }
}
