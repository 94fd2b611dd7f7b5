//! Columns of Arrow, by its C data interface: whatever has `__arrow_c_stream__` (pyarrow, polars, DuckDB, …) is read where it lies.
//!
//! The structures are those of the interface's specification. Numbers are copied once, from the columns into the rows that are
//! trained on; nothing goes through an array of Python. Batches are released when the last column that reads them is dropped.
#![expect(unsafe_code, reason = "structures of C, which the other side owns")]

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;
use std::sync::Arc;

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::failure::{Error, SettingError};

/// A kind of column, as text.
#[repr(C)]
struct Schema {
    format: *const c_char,
    name: *const c_char,
    metadata: *const c_char,
    flags: i64,
    children_count: i64,
    children: *mut *mut Schema,
    dictionary: *mut Schema,
    release: Option<unsafe extern "C" fn(*mut Schema)>,
    private: *mut c_void,
}

/// The content of a column.
#[repr(C)]
struct Array {
    length: i64,
    null_count: i64,
    offset: i64,
    buffers_count: i64,
    children_count: i64,
    buffers: *mut *const c_void,
    children: *mut *mut Array,
    dictionary: *mut Array,
    release: Option<unsafe extern "C" fn(*mut Array)>,
    private: *mut c_void,
}

/// Batches of rows, one after the other.
#[repr(C)]
struct Stream {
    schema: Option<unsafe extern "C" fn(*mut Stream, *mut Schema) -> c_int>,
    next: Option<unsafe extern "C" fn(*mut Stream, *mut Array) -> c_int>,
    last_error: Option<unsafe extern "C" fn(*mut Stream) -> *const c_char>,
    release: Option<unsafe extern "C" fn(*mut Stream)>,
    private: *mut c_void,
}

impl Drop for Schema {
    fn drop(&mut self) {
        if let Some(release) = self.release {
            // SAFETY: whoever filled it in says by this pointer how it is given back, once; it is empty afterwards.
            unsafe { release(self) }
        }
    }
}

impl Drop for Array {
    fn drop(&mut self) {
        if let Some(release) = self.release {
            // SAFETY: as above.
            unsafe { release(self) }
        }
    }
}

const NO_SCHEMA: Schema = Schema {
    format: ptr::null(),
    name: ptr::null(),
    metadata: ptr::null(),
    flags: 0,
    children_count: 0,
    children: ptr::null_mut(),
    dictionary: ptr::null_mut(),
    release: None,
    private: ptr::null_mut(),
};

const NO_ARRAY: Array = Array {
    length: 0,
    null_count: 0,
    offset: 0,
    buffers_count: 0,
    children_count: 0,
    buffers: ptr::null_mut(),
    children: ptr::null_mut(),
    dictionary: ptr::null_mut(),
    release: None,
    private: ptr::null_mut(),
};

/// What a column holds.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Number(Number),
    /// Numbers of the values of a dictionary, and what those are.
    Dictionary(Number, Value),
    Text(Text),
    /// Lists of numbers: offsets of so many bytes, or lists of one length.
    Lists {
        offsets: usize,
        of: Number,
    },
    Fixed {
        length: usize,
        of: Number,
    },
}

/// How texts lie.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Text {
    /// One after the other, with offsets of so many bytes.
    Offsets(usize),
    /// As views: short texts in place, others in one of several buffers.
    Views,
}

/// A value of a dictionary.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Value {
    Number(Number),
    Text(Text),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Number {
    Bool,
    I8,
    U8,
    I16,
    U16,
    I32,
    U32,
    I64,
    U64,
    F32,
    F64,
}

/// A batch of rows, which its producer owns until it is released.
struct ArrowBatch(Array);

// SAFETY: what a batch shows is never written to after it was handed out, and its specification lets any thread release it.
unsafe impl Send for ArrowBatch {}
// SAFETY: as above.
unsafe impl Sync for ArrowBatch {}

/// Numbers of a column that lie together.
enum Piece {
    /// In a buffer of a batch.
    Batch { of: Number, values: Values, from: usize, count: usize, _batch: Arc<ArrowBatch> },
    /// Looked up in a dictionary.
    Numbers(Vec<f64>),
}

/// The first byte of a buffer of numbers.
struct Values(*const c_void);

// SAFETY: the buffer is never written to, and lives as long as the batch beside it.
unsafe impl Send for Values {}
// SAFETY: as above.
unsafe impl Sync for Values {}

/// A column of a table, read where it lies.
#[pyclass(module = "paceline._native", frozen)]
pub(crate) struct ArrowColumn {
    /// Its name.
    #[pyo3(get)]
    name: String,
    /// Numbers in each row; none for texts.
    #[pyo3(get)]
    width: Option<usize>,
    /// Whether its numbers are whole, or truth values.
    #[pyo3(get)]
    is_whole: bool,
    /// Whether its numbers are bytes, as pixels are.
    #[pyo3(get)]
    is_bytes: bool,
    /// True if its numbers are truth values.
    #[pyo3(get)]
    is_bool: bool,
    of: Option<Number>,
    pieces: Vec<Piece>,
    texts: Vec<String>,
}

#[pymethods]
impl ArrowColumn {
    /// Its numbers, row after row.
    fn numbers<'py>(&self, py: Python<'py>) -> Bound<'py, numpy::PyArray1<f64>> {
        let mut numbers = Vec::with_capacity(self.rows() * self.numbers_of_a_row());
        self.each(usize::MAX, &mut |_, _, number| numbers.push(number));
        numpy::PyArray1::from_vec(py, numbers)
    }

    /// Its texts.
    fn texts(&self) -> Vec<String> {
        self.texts.clone()
    }

    fn __len__(&self) -> usize {
        self.rows()
    }
}

impl ArrowColumn {
    pub(crate) fn numbers_of_a_row(&self) -> usize {
        self.width.unwrap_or(1)
    }

    pub(crate) fn rows(&self) -> usize {
        let numbers: usize = self.pieces.iter().map(Piece::count).sum();
        if self.texts.is_empty() { numbers / self.numbers_of_a_row() } else { self.texts.len() }
    }

    /// True if 32 bits hold every number of its type.
    pub(crate) fn is_narrow(&self) -> bool {
        use Number::{Bool, F32, I8, I16, U8, U16};
        matches!(self.of, Some(Bool | F32 | I8 | I16 | U8 | U16))
    }

    /// Hands every number to `add`, after its row and its place in the row; of at most so many rows.
    pub(crate) fn each(&self, most: usize, add: &mut dyn FnMut(usize, usize, f64)) {
        let width = self.numbers_of_a_row();
        let (mut at, end) = (0, most.saturating_mul(width));
        for piece in &self.pieces {
            if at >= end {
                return;
            }
            piece.each(end - at, &mut |number| {
                add(at / width, at % width, number);
                at += 1;
            });
        }
    }
}

impl Piece {
    fn count(&self) -> usize {
        match self {
            Self::Batch { count, .. } => *count,
            Self::Numbers(numbers) => numbers.len(),
        }
    }

    fn each(&self, most: usize, add: &mut dyn FnMut(f64)) {
        match self {
            Self::Batch { of, values, from, count, .. } => numbers_of(values.0, *of, *from, (*count).min(most), add),
            Self::Numbers(numbers) => numbers.iter().take(most).for_each(|number| add(*number)),
        }
    }
}

/// Hands numbers of a buffer that was checked to `add`.
fn numbers_of(values: *const c_void, of: Number, from: usize, count: usize, add: &mut dyn FnMut(f64)) {
    macro_rules! numbers {
        ($kind:ty) => {{
            // SAFETY: a column of this kind has a number for every row, from its offset on; `buffer` has seen that it is aligned.
            let all = unsafe { std::slice::from_raw_parts(values.cast::<$kind>().add(from), count) };
            all.iter().for_each(|number| add(*number as f64));
        }};
    }
    match of {
        Number::Bool => {
            let bits = values.cast::<u8>();
            // SAFETY: there is a bit for every row.
            let bit = |at: usize| unsafe { *bits.add(at / 8) } >> (at % 8) & 1;
            (from..from + count).for_each(|at| add(f64::from(bit(at))));
        }
        Number::I8 => numbers!(i8),
        Number::U8 => numbers!(u8),
        Number::I16 => numbers!(i16),
        Number::U16 => numbers!(u16),
        Number::I32 => numbers!(i32),
        Number::U32 => numbers!(u32),
        Number::I64 => numbers!(i64),
        Number::U64 => numbers!(u64),
        Number::F32 => numbers!(f32),
        Number::F64 => numbers!(f64),
    }
}

/// The buffer of the numbers of an array.
fn values_of(array: &Array, of: Number) -> PyResult<Values> {
    let found = match of {
        Number::Bool | Number::I8 | Number::U8 => buffer::<u8>(array, 1)?.cast(),
        Number::I16 | Number::U16 => buffer::<u16>(array, 1)?.cast(),
        Number::I32 | Number::U32 | Number::F32 => buffer::<u32>(array, 1)?.cast(),
        Number::I64 | Number::U64 | Number::F64 => buffer::<u64>(array, 1)?.cast(),
    };
    Ok(Values(found))
}

/// Reads columns of a table by name, or all of them.
#[pyfunction]
#[pyo3(signature = (table, names=None))]
pub(crate) fn read_arrow(table: &Bound<'_, PyAny>, names: Option<Vec<String>>) -> PyResult<Vec<ArrowColumn>> {
    let capsule = table.call_method0("__arrow_c_stream__")?;
    let capsule =
        capsule.cast::<PyCapsule>().map_err(|_| PyTypeError::new_err("`__arrow_c_stream__` gave no capsule"))?;
    let pointer = capsule.pointer_checked(Some(c"arrow_array_stream"))?.cast::<Stream>();
    // SAFETY: a capsule of this name holds a stream, which lives as long as the capsule. It is moved out, and what is left is
    // marked as released, as the specification has it for consumers.
    let mut stream = unsafe { ptr::read(pointer.as_ptr()) };
    unsafe { (*pointer.as_ptr()).release = None };
    let read = read_stream(&mut stream, names.as_deref());
    if let Some(release) = stream.release {
        // SAFETY: it was moved here, and is released once.
        unsafe { release(&raw mut stream) }
    }
    read
}

fn read_stream(stream: &mut Stream, names: Option<&[String]>) -> PyResult<Vec<ArrowColumn>> {
    let mut schema = NO_SCHEMA;
    let (Some(get_schema), Some(next)) = (stream.schema, stream.next) else {
        return Err(Error::new_err("this stream of Arrow was read before"));
    };
    // SAFETY: both functions belong to this stream, and fill in what they are given.
    let failed = |stream: &mut Stream, status: c_int| {
        let told = stream.last_error.map(|last| unsafe { last(stream) }).filter(|text| !text.is_null());
        // SAFETY: a text of C that lives until the stream is used again.
        let why = told.map(|text| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned());
        Error::new_err(format!("the stream of Arrow has failed: {}", why.unwrap_or_else(|| format!("status {status}"))))
    };
    // SAFETY: as above.
    let status = unsafe { get_schema(stream, &raw mut schema) };
    if status != 0 {
        return Err(failed(stream, status));
    }
    if text(schema.format) != "+s" {
        return Err(SettingError::new_err("expected a table of Arrow, found a single array"));
    }
    // SAFETY: a structure has as many children as it says, all of them schemas.
    let fields = unsafe { slice(schema.children.cast_const(), schema.children_count) };
    // SAFETY: as above.
    let all: Vec<String> = fields.iter().map(|field| text(unsafe { (**field).name })).collect();
    let wanted: Vec<String> = names.map_or_else(|| all.clone(), <[String]>::to_vec);
    let mut places = Vec::new();
    let mut columns = Vec::new();
    for name in wanted {
        let Some(place) = all.iter().position(|other| *other == name) else {
            return Err(SettingError::new_err(format!(
                "the table has no column `{name}`: its columns are {}",
                all.join(", ")
            )));
        };
        // SAFETY: as above.
        let kind = kind_of(unsafe { &*fields[place] }, &name)?;
        let of = match kind {
            Kind::Number(of)
            | Kind::Lists { of, .. }
            | Kind::Fixed { of, .. }
            | Kind::Dictionary(_, Value::Number(of)) => Some(of),
            Kind::Text(_) | Kind::Dictionary(_, Value::Text(_)) => None,
        };
        let is_whole = of.is_some_and(|of| !matches!(of, Number::F32 | Number::F64));
        let (is_bytes, is_bool) = (of == Some(Number::U8), of == Some(Number::Bool));
        places.push((place, kind));
        let (pieces, texts) = (Vec::new(), Vec::new());
        columns.push(ArrowColumn { name, width: None, is_whole, is_bytes, is_bool, of, pieces, texts });
    }
    loop {
        let mut batch = NO_ARRAY;
        // SAFETY: as above.
        let status = unsafe { next(stream, &raw mut batch) };
        if status != 0 {
            return Err(failed(stream, status));
        }
        if batch.release.is_none() {
            return Ok(columns);
        }
        let batch = Arc::new(ArrowBatch(batch));
        // SAFETY: a batch has the children of its schema.
        let arrays = unsafe { slice(batch.0.children.cast_const(), batch.0.children_count) };
        for ((place, kind), column) in places.iter().zip(&mut columns) {
            let Some(array) = arrays.get(*place) else {
                return Err(Error::new_err("a batch of Arrow has fewer columns than its schema"));
            };
            // SAFETY: as above; rows of the batch begin at its offset in every child.
            let array = unsafe { &**array };
            let from = to_size(batch.0.offset)? + to_size(array.offset)?;
            column.add(&batch, array, *kind, from, to_size(batch.0.length)?)?;
        }
    }
}

impl ArrowColumn {
    fn add(&mut self, batch: &Arc<ArrowBatch>, array: &Array, kind: Kind, from: usize, rows: usize) -> PyResult<()> {
        if rows == 0 {
            return Ok(());
        }
        self.refuse_nulls(array, from, rows)?;
        match kind {
            Kind::Number(of) => {
                self.expect_width(1)?;
                self.take(batch, array, of, from, rows)
            }
            Kind::Dictionary(of, value) => self.look_up(array, of, value, from, rows),
            Kind::Text(lie) => {
                let mut texts = texts_of(array, lie, from, rows, &self.name)?;
                self.texts.append(&mut texts);
                Ok(())
            }
            Kind::Lists { offsets: size, of } => {
                let ends = offsets(array, size, from, rows)?;
                for pair in ends.windows(2) {
                    self.expect_width(pair[1] - pair[0])?;
                }
                let inner = child(array)?;
                let (begin, end) = (ends[0], ends[rows]);
                let at = to_size(inner.offset)? + begin;
                self.refuse_nulls(inner, at, end - begin)?;
                self.take(batch, inner, of, at, end - begin)
            }
            Kind::Fixed { length, of } => {
                self.expect_width(length)?;
                let inner = child(array)?;
                let at = to_size(inner.offset)? + from * length;
                self.refuse_nulls(inner, at, rows * length)?;
                self.take(batch, inner, of, at, rows * length)
            }
        }
    }

    fn take(&mut self, batch: &Arc<ArrowBatch>, array: &Array, of: Number, from: usize, count: usize) -> PyResult<()> {
        let values = values_of(array, of)?;
        self.pieces.push(Piece::Batch { of, values, from, count, _batch: batch.clone() });
        Ok(())
    }

    /// Takes the values of a dictionary that rows name by their numbers.
    fn look_up(&mut self, array: &Array, of: Number, value: Value, from: usize, rows: usize) -> PyResult<()> {
        if array.dictionary.is_null() {
            return Err(Error::new_err(format!("column `{}` of Arrow has no dictionary", self.name)));
        }
        // SAFETY: an array of this kind has a dictionary, which lives as long as it.
        let dictionary = unsafe { &*array.dictionary };
        let (begin, known) = (to_size(dictionary.offset)?, to_size(dictionary.length)?);
        self.refuse_nulls(dictionary, begin, known)?;
        let mut places = Vec::with_capacity(rows);
        numbers_of(values_of(array, of)?.0, of, from, rows, &mut |place| places.push(place as usize));
        if places.iter().any(|place| *place >= known) {
            return Err(Error::new_err(format!("column `{}` of Arrow names values that it does not have", self.name)));
        }
        match value {
            Value::Text(lie) => {
                let texts = texts_of(dictionary, lie, begin, known, &self.name)?;
                self.texts.extend(places.into_iter().map(|place| texts[place].clone()));
            }
            Value::Number(of) => {
                self.expect_width(1)?;
                let mut numbers = Vec::with_capacity(known);
                numbers_of(values_of(dictionary, of)?.0, of, begin, known, &mut |number| numbers.push(number));
                self.pieces.push(Piece::Numbers(places.into_iter().map(|place| numbers[place]).collect()));
            }
        }
        Ok(())
    }

    fn expect_width(&mut self, found: usize) -> PyResult<()> {
        let expected = *self.width.get_or_insert(found);
        if expected == found && found > 0 {
            return Ok(());
        }
        let name = &self.name;
        Err(SettingError::new_err(format!(
            "column `{name}` must have as many numbers in every row, at least one: found {found}, and {expected} before"
        )))
    }

    fn refuse_nulls(&self, array: &Array, from: usize, count: usize) -> PyResult<()> {
        // SAFETY: an array has the buffers that it says.
        let bits = unsafe { slice(array.buffers.cast_const(), array.buffers_count) }.first().copied();
        let Some(bits) = bits.filter(|bits| array.null_count != 0 && !bits.is_null()) else { return Ok(()) };
        let bits = bits.cast::<u8>();
        // SAFETY: there is a bit for every value.
        let is_null = |at: usize| unsafe { *bits.add(at / 8) } >> (at % 8) & 1 == 0;
        match (from..from + count).find(|at| is_null(*at)) {
            None => Ok(()),
            Some(at) => {
                let (name, row) = (&self.name, at - from);
                Err(SettingError::new_err(format!(
                    "column `{name}` holds null (value {row} of a batch): drop or fill it"
                )))
            }
        }
    }
}

fn kind_of(schema: &Schema, name: &str) -> PyResult<Kind> {
    let format = text(schema.format);
    let unknown = |what: &str| {
        SettingError::new_err(format!("column `{name}` holds {what}: expected numbers, texts, or lists of numbers"))
    };
    if !schema.dictionary.is_null() {
        // SAFETY: a schema of this kind has that of its dictionary, which lives as long as it.
        let values = text(unsafe { (*schema.dictionary).format });
        let value = text_of(&values).map(Value::Text).or_else(|| number_of(&values).map(Value::Number));
        return match (number_of(&format), value) {
            (Some(of), Some(value)) => Ok(Kind::Dictionary(of, value)),
            _ => Err(unknown("categories that are neither texts nor numbers")),
        };
    }
    if format.starts_with('t') {
        return Err(unknown(
            "dates or times; the seconds since 1970, or the hour and the day of the week, are numbers",
        ));
    }
    let inner = || {
        // SAFETY: a list has one child.
        let children = unsafe { slice(schema.children.cast_const(), schema.children_count) };
        // SAFETY: as above.
        let of = children.first().map(|child| text(unsafe { (**child).format }));
        number_of(of.as_deref().unwrap_or_default()).ok_or_else(|| unknown("lists of something else than numbers"))
    };
    match format.as_str() {
        "+l" => Ok(Kind::Lists { offsets: 4, of: inner()? }),
        "+L" => Ok(Kind::Lists { offsets: 8, of: inner()? }),
        _ if format.starts_with("+w:") => match format[3..].parse() {
            Ok(length) => Ok(Kind::Fixed { length, of: inner()? }),
            Err(_) => Err(unknown(&format!("the format `{format}`"))),
        },
        _ => text_of(&format)
            .map(Kind::Text)
            .or_else(|| number_of(&format).map(Kind::Number))
            .ok_or_else(|| unknown(&format!("the format `{format}` of Arrow"))),
    }
}

fn text_of(format: &str) -> Option<Text> {
    match format {
        "u" => Some(Text::Offsets(4)),
        "U" => Some(Text::Offsets(8)),
        "vu" => Some(Text::Views),
        _ => None,
    }
}

fn number_of(format: &str) -> Option<Number> {
    Some(match format {
        "b" => Number::Bool,
        "c" => Number::I8,
        "C" => Number::U8,
        "s" => Number::I16,
        "S" => Number::U16,
        "i" => Number::I32,
        "I" => Number::U32,
        "l" => Number::I64,
        "L" => Number::U64,
        "f" => Number::F32,
        "g" => Number::F64,
        _ => return None,
    })
}

/// The texts of some rows of an array.
fn texts_of(array: &Array, lie: Text, from: usize, rows: usize, column: &str) -> PyResult<Vec<String>> {
    let broken = || Error::new_err(format!("column `{column}` holds a text that is no UTF-8"));
    let read = |bytes: Option<&[u8]>| {
        let text = bytes.and_then(|bytes| std::str::from_utf8(bytes).ok());
        text.map(str::to_owned).ok_or_else(broken)
    };
    match lie {
        Text::Offsets(size) => {
            let ends = offsets(array, size, from, rows)?;
            let last = ends.last().copied().unwrap_or(0);
            let bytes: &[u8] = match last {
                0 => &[],
                // SAFETY: the bytes of texts reach to the last offset.
                _ => unsafe { std::slice::from_raw_parts(buffer::<u8>(array, 2)?, last) },
            };
            ends.windows(2).map(|pair| read(bytes.get(pair[0]..pair[1]))).collect()
        }
        Text::Views => {
            // SAFETY: there is a view of four numbers for every row, from the array's offset on.
            let views = unsafe { std::slice::from_raw_parts(buffer::<[u32; 4]>(array, 1)?.add(from), rows) };
            let text = |view: &[u32; 4]| {
                let length = view[0] as usize;
                if length <= 12 {
                    let bytes: Vec<u8> = view[1..].iter().flat_map(|four| four.to_ne_bytes()).collect();
                    return read(bytes.get(..length));
                }
                let (place, begin) = (view[2] as usize, view[3] as usize);
                // SAFETY: a long text names its buffer, which reaches to its end.
                read(Some(unsafe { std::slice::from_raw_parts(buffer::<u8>(array, 2 + place)?.add(begin), length) }))
            };
            views.iter().map(text).collect()
        }
    }
}

/// Where the lists or texts of some rows begin, and the last one ends; never backwards.
fn offsets(array: &Array, size: usize, from: usize, rows: usize) -> PyResult<Vec<usize>> {
    let raw: Vec<i64> = match size {
        // SAFETY: there is one more offset than rows, from the array's offset on.
        4 => unsafe { std::slice::from_raw_parts(buffer::<i32>(array, 1)?.add(from), rows + 1) }
            .iter()
            .map(|at| i64::from(*at))
            .collect(),
        // SAFETY: as above.
        _ => unsafe { std::slice::from_raw_parts(buffer::<i64>(array, 1)?.add(from), rows + 1) }.to_vec(),
    };
    if raw[0] < 0 || raw.windows(2).any(|pair| pair[1] < pair[0]) {
        return Err(Error::new_err("a column of Arrow has offsets that go backwards"));
    }
    Ok(raw.iter().map(|at| *at as usize).collect())
}

fn buffer<T>(array: &Array, place: usize) -> PyResult<*const T> {
    // SAFETY: an array has the buffers that it says.
    let found = unsafe { slice(array.buffers.cast_const(), array.buffers_count) }.get(place).copied();
    match found.filter(|buffer| !buffer.is_null() && buffer.cast::<T>().is_aligned()) {
        Some(buffer) => Ok(buffer.cast()),
        None => Err(Error::new_err("a column of Arrow has no buffer where its numbers should be")),
    }
}

fn child(array: &Array) -> PyResult<&Array> {
    // SAFETY: a list has one child.
    let children = unsafe { slice(array.children.cast_const(), array.children_count) };
    // SAFETY: as above.
    children.first().map(|child| unsafe { &**child }).ok_or_else(|| Error::new_err("a list of Arrow has no content"))
}

/// # Safety
///
/// There must be so many of them, or none.
unsafe fn slice<'a, T>(first: *const T, count: i64) -> &'a [T] {
    match usize::try_from(count) {
        // SAFETY: the caller's.
        Ok(count) if count > 0 && !first.is_null() => unsafe { std::slice::from_raw_parts(first, count) },
        _ => &[],
    }
}

fn text(from: *const c_char) -> String {
    match from.is_null() {
        true => String::new(),
        // SAFETY: texts of the interface end with 0 and live as long as their schema.
        false => unsafe { CStr::from_ptr(from) }.to_string_lossy().into_owned(),
    }
}

fn to_size(number: i64) -> PyResult<usize> {
    usize::try_from(number).map_err(|_| Error::new_err("a column of Arrow has a negative length or offset"))
}
