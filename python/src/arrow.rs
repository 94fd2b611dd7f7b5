//! Columns of Arrow, by its C data interface: whatever has `__arrow_c_stream__` (pyarrow, polars, DuckDB, …) is read where it lies.
//!
//! The structures are those of the interface's specification. Numbers are copied once, from the columns into the rows that are
//! trained on; nothing goes through an array of Python.
#![expect(unsafe_code, reason = "structures of C, which the other side owns")]

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;

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
    /// Texts with offsets of so many bytes.
    Text(usize),
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

/// A column of a table, read.
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
    numbers: Vec<f64>,
    texts: Vec<String>,
}

#[pymethods]
impl ArrowColumn {
    /// Its numbers, row after row.
    fn numbers<'py>(&self, py: Python<'py>) -> Bound<'py, numpy::PyArray1<f64>> {
        numpy::PyArray1::from_slice(py, &self.numbers)
    }

    /// The same in 32 bits.
    fn narrow<'py>(&self, py: Python<'py>) -> Bound<'py, numpy::PyArray1<f32>> {
        numpy::PyArray1::from_iter(py, self.numbers.iter().map(|number| *number as f32))
    }

    /// Its texts.
    fn texts(&self) -> Vec<String> {
        self.texts.clone()
    }
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
        let (is_whole, is_bytes) = match kind {
            Kind::Number(of) | Kind::Lists { of, .. } | Kind::Fixed { of, .. } => {
                (!matches!(of, Number::F32 | Number::F64), of == Number::U8)
            }
            Kind::Text(_) => (false, false),
        };
        places.push((place, kind));
        columns.push(ArrowColumn { name, width: None, is_whole, is_bytes, numbers: Vec::new(), texts: Vec::new() });
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
        // SAFETY: a batch has the children of its schema.
        let arrays = unsafe { slice(batch.children.cast_const(), batch.children_count) };
        for ((place, kind), column) in places.iter().zip(&mut columns) {
            let Some(array) = arrays.get(*place) else {
                return Err(Error::new_err("a batch of Arrow has fewer columns than its schema"));
            };
            // SAFETY: as above; rows of the batch begin at its offset in every child.
            let array = unsafe { &**array };
            let from = to_size(batch.offset)? + to_size(array.offset)?;
            column.add(array, *kind, from, to_size(batch.length)?)?;
        }
    }
}

impl ArrowColumn {
    fn add(&mut self, array: &Array, kind: Kind, from: usize, rows: usize) -> PyResult<()> {
        if rows == 0 {
            return Ok(());
        }
        self.refuse_nulls(array, from, rows)?;
        match kind {
            Kind::Number(of) => {
                self.expect_width(1)?;
                self.take(array, of, from, rows)
            }
            Kind::Text(size) => {
                let ends = offsets(array, size, from, rows)?;
                let last = ends.last().copied().unwrap_or(0);
                // SAFETY: the bytes of texts reach to the last offset.
                let bytes = unsafe { std::slice::from_raw_parts(buffer::<u8>(array, 2)?, last) };
                for pair in ends.windows(2) {
                    let text = bytes.get(pair[0]..pair[1]).and_then(|bytes| std::str::from_utf8(bytes).ok());
                    let broken = || Error::new_err(format!("column `{}` holds a text that is no UTF-8", self.name));
                    self.texts.push(text.ok_or_else(broken)?.to_owned());
                }
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
                self.take(inner, of, at, end - begin)
            }
            Kind::Fixed { length, of } => {
                self.expect_width(length)?;
                let inner = child(array)?;
                let at = to_size(inner.offset)? + from * length;
                self.refuse_nulls(inner, at, rows * length)?;
                self.take(inner, of, at, rows * length)
            }
        }
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

    fn take(&mut self, array: &Array, of: Number, from: usize, count: usize) -> PyResult<()> {
        macro_rules! numbers {
            ($kind:ty) => {{
                // SAFETY: a column of this kind has a number for every row, from its offset on.
                let all = unsafe { std::slice::from_raw_parts(buffer::<$kind>(array, 1)?.add(from), count) };
                self.numbers.extend(all.iter().map(|number| *number as f64));
            }};
        }
        match of {
            Number::Bool => {
                let bits = buffer::<u8>(array, 1)?;
                // SAFETY: there is a bit for every row.
                let bit = |at: usize| unsafe { *bits.add(at / 8) } >> (at % 8) & 1;
                self.numbers.extend((from..from + count).map(|at| f64::from(bit(at))));
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
        Ok(())
    }
}

fn kind_of(schema: &Schema, name: &str) -> PyResult<Kind> {
    let format = text(schema.format);
    let unknown = |what: &str| {
        SettingError::new_err(format!("column `{name}` holds {what}: expected numbers, texts, or lists of numbers"))
    };
    if !schema.dictionary.is_null() {
        return Err(unknown("categories of Arrow; cast them to texts or numbers"));
    }
    let inner = || {
        // SAFETY: a list has one child.
        let children = unsafe { slice(schema.children.cast_const(), schema.children_count) };
        // SAFETY: as above.
        let of = children.first().map(|child| text(unsafe { (**child).format }));
        number_of(of.as_deref().unwrap_or_default()).ok_or_else(|| unknown("lists of something else than numbers"))
    };
    match format.as_str() {
        "u" => Ok(Kind::Text(4)),
        "U" => Ok(Kind::Text(8)),
        "+l" => Ok(Kind::Lists { offsets: 4, of: inner()? }),
        "+L" => Ok(Kind::Lists { offsets: 8, of: inner()? }),
        _ if format.starts_with("+w:") => match format[3..].parse() {
            Ok(length) => Ok(Kind::Fixed { length, of: inner()? }),
            Err(_) => Err(unknown(&format!("the format `{format}`"))),
        },
        _ => number_of(&format).map(Kind::Number).ok_or_else(|| unknown(&format!("the format `{format}` of Arrow"))),
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
