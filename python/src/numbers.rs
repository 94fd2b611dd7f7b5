//! Numbers of arrays of NumPy and of columns of Arrow, read where they lie.
//!
//! Features and targets have 32 bits. Numbers with more are read twice: once for the offset that is subtracted from their column, in
//! 64 bits, and once for the difference. Nothing else copies them.

use numpy::ndarray::ArrayViewD;
use numpy::{PyReadonlyArrayDyn, PyUntypedArrayMethods};
use paceline::data::{Arrays, Column, ColumnKind};
use pyo3::prelude::*;
use pyo3::types::PyList;

use crate::arrow::ArrowColumn;
use crate::failure::SettingError;

/// Rows at the begin of a table that remarks are about.
const SAMPLED_ROWS: usize = 1000;
/// A table of more columns is not sampled for remarks.
const SAMPLED_COLUMNS: usize = 4096;

/// A number as 64-bit float.
trait Wide: Copy {
    fn wide(self) -> f64;
}

macro_rules! kinds {
    ($($variant:ident $kind:ty, $is_narrow:expr, $wide:expr;)*) => {
        $(impl Wide for $kind {
            fn wide(self) -> f64 {
                $wide(self)
            }
        })*

        /// An array of NumPy, borrowed from the interpreter.
        pub(crate) enum Borrowed<'py> {
            $($variant(PyReadonlyArrayDyn<'py, $kind>),)*
            Arrow(Bound<'py, ArrowColumn>),
        }

        impl<'py> Borrowed<'py> {
            fn new(from: &Bound<'py, PyAny>) -> PyResult<Self> {
                if let Ok(column) = from.cast::<ArrowColumn>() {
                    return Ok(Self::Arrow(column.clone()));
                }
                $(if let Ok(array) = from.extract::<PyReadonlyArrayDyn<'py, $kind>>() {
                    return Ok(Self::$variant(array));
                })*
                Err(SettingError::new_err(format!("expected an array of numbers, found {}", from.get_type())))
            }

            fn view(&self) -> View<'_> {
                match self {
                    $(Self::$variant(array) => View::$variant(array.as_array()),)*
                    Self::Arrow(column) => View::Arrow(column.get()),
                }
            }

            fn rows(&self) -> usize {
                match self {
                    $(Self::$variant(array) => array.shape().first().copied().unwrap_or(0),)*
                    Self::Arrow(column) => column.get().rows(),
                }
            }
        }

        /// The same without the interpreter.
        enum View<'a> {
            $($variant(ArrayViewD<'a, $kind>),)*
            Arrow(&'a ArrowColumn),
        }

        impl View<'_> {
            /// Numbers of a row.
            fn width(&self) -> usize {
                match self {
                    $(Self::$variant(view) => view.shape().iter().skip(1).product(),)*
                    Self::Arrow(column) => column.numbers_of_a_row(),
                }
            }

            /// True if 32 bits hold every number of this type.
            fn is_narrow(&self) -> bool {
                match self {
                    $(Self::$variant(_) => $is_narrow,)*
                    Self::Arrow(column) => column.is_narrow(),
                }
            }

            /// Hands every number to `add`, after its row and its place in the row; of at most so many rows.
            fn each(&self, most: usize, add: &mut dyn FnMut(usize, usize, f64)) {
                match self {
                    $(Self::$variant(view) => each(view, most, add),)*
                    Self::Arrow(column) => column.each(most, add),
                }
            }
        }
    };
}

kinds! {
    F32 f32, true, f64::from;
    F64 f64, false, |number| number;
    I64 i64, false, |number| number as f64;
    U64 u64, false, |number| number as f64;
    I32 i32, false, f64::from;
    U32 u32, false, f64::from;
    I16 i16, true, f64::from;
    U16 u16, true, f64::from;
    I8 i8, true, f64::from;
    U8 u8, true, f64::from;
    Bool bool, true, |is_true| f64::from(u8::from(is_true));
}

fn each<T: Wide>(view: &ArrayViewD<'_, T>, most: usize, add: &mut dyn FnMut(usize, usize, f64)) {
    let width = view.shape().iter().skip(1).product::<usize>().max(1);
    if let Some(numbers) = view.as_slice() {
        for (row, numbers) in numbers.chunks_exact(width).take(most).enumerate() {
            numbers.iter().enumerate().for_each(|(place, number)| add(row, place, number.wide()));
        }
        return;
    }
    for (row, numbers) in view.outer_iter().take(most).enumerate() {
        numbers.iter().enumerate().for_each(|(place, number)| add(row, place, number.wide()));
    }
}

/// Rows of numbers: an array, or several whose rows are put side by side.
pub(crate) struct BorrowedRows<'py> {
    parts: Vec<Borrowed<'py>>,
    rows: usize,
}

impl<'py> BorrowedRows<'py> {
    /// Borrows an array, or a list of arrays and columns of Arrow with as many rows each.
    pub(crate) fn new(from: &Bound<'py, PyAny>) -> PyResult<Self> {
        let parts: Vec<Borrowed<'py>> = match from.cast::<PyList>() {
            Ok(list) => list.iter().map(|part| Borrowed::new(&part)).collect::<PyResult<_>>()?,
            Err(_) => vec![Borrowed::new(from)?],
        };
        let rows = parts.first().map_or(0, Borrowed::rows);
        if let Some(other) = parts.iter().find(|part| part.rows() != rows) {
            let found = other.rows();
            return Err(SettingError::new_err(format!(
                "expected columns of one length, found {rows} rows and {found} rows"
            )));
        }
        Ok(Self { parts, rows })
    }

    /// The numbers without the interpreter.
    pub(crate) fn view(&self) -> RowNumbers<'_> {
        RowNumbers { parts: self.parts.iter().map(Borrowed::view).collect(), rows: self.rows }
    }
}

/// The numbers of [`BorrowedRows`], for code that does not hold the interpreter.
pub(crate) struct RowNumbers<'a> {
    parts: Vec<View<'a>>,
    rows: usize,
}

impl RowNumbers<'_> {
    /// True if 32 bits hold every number.
    pub(crate) fn is_narrow(&self) -> bool {
        self.parts.iter().all(View::is_narrow)
    }

    fn width(&self) -> usize {
        self.parts.iter().map(View::width).sum()
    }

    /// Hands every number to `add`, after its row and its place in the row; of at most so many rows.
    fn each(&self, most: usize, mut add: impl FnMut(usize, usize, f64)) {
        let mut before = 0;
        for part in &self.parts {
            part.each(most, &mut |row, place, number| add(row, before + place, number));
            before += part.width();
        }
    }

    /// The means and offsets of columns; a row that is a sequence repeats them at every step.
    pub(crate) fn columns(&self, names: Vec<String>) -> Vec<Column> {
        let several = names.len().max(1);
        Arrays::number_columns(names, |add| self.each(usize::MAX, |_, place, number| add(place % several, number)))
    }

    /// The numbers less the offsets of their columns, rounded to 32 bits, row after row.
    pub(crate) fn narrow(&self, shifts: &[f64]) -> Vec<f32> {
        let is_shifted = shifts.iter().any(|shift| *shift != 0.0);
        if let ([View::F32(view)], false) = (&self.parts[..], is_shifted)
            && let Some(numbers) = view.as_slice()
        {
            return numbers.to_vec();
        }
        let width = self.width();
        let mut narrow = vec![0.0; self.rows * width];
        match is_shifted {
            true => self.each(usize::MAX, |row, place, number| {
                narrow[row * width + place] = (number - shifts[place % shifts.len()]) as f32;
            }),
            false => self.each(usize::MAX, |row, place, number| narrow[row * width + place] = number as f32),
        }
        narrow
    }

    /// Remarks on columns whose numbers cannot be told apart after rounding.
    pub(crate) fn remarks(&self, columns: &[Column]) -> Vec<String> {
        if self.is_narrow() || columns.is_empty() || columns.len() > SAMPLED_COLUMNS {
            return Vec::new();
        }
        let mut samples = vec![Vec::new(); columns.len()];
        self.each(SAMPLED_ROWS, |_, place, number| samples[place % columns.len()].push(number));
        let remark =
            |(column, sample): (&Column, &Vec<f64>)| Arrays::remark_on_rounding(&column.name, sample, shift_of(column));
        columns.iter().zip(&samples).filter_map(remark).collect()
    }

    /// A remark on images or volumes whose numbers cannot be told apart after rounding: no offset is subtracted from them.
    pub(crate) fn remark_on_images(&self) -> Option<String> {
        if self.is_narrow() {
            return None;
        }
        let mut sample = Vec::new();
        self.each(1, |_, _, number| {
            if sample.len() < SAMPLED_ROWS {
                sample.push(number);
            }
        });
        Arrays::remark_on_rounding("", &sample, 0.0)?;
        let sentence =
            "the numbers of the images cannot be told apart in 32 bits: subtract a number near their mean before";
        Some(sentence.to_owned())
    }
}

/// The offset subtracted from a column before rounding.
pub(crate) fn shift_of(column: &Column) -> f64 {
    match &column.kind {
        ColumnKind::Number { shift, .. } => *shift,
        _ => 0.0,
    }
}
