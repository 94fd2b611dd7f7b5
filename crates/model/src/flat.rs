use std::collections::TryReserveError;
use std::ops::{Deref, DerefMut, Range};

use crate::large_pages;
use crate::shared_flat::SharedLines;

/// Sixteen numbers on a cache-line boundary; a vector of these keeps a [`Flat`] aligned without unsafe allocation.
#[derive(Clone, Copy, Default)]
#[repr(C, align(64))]
pub(crate) struct Line<T>([T; LINE]);

pub(crate) const LINE: usize = 16;

/// A number that fills a cache line without padding.
pub trait Number: Copy + Default + PartialEq + private::Sealed {}

impl Number for f32 {}
impl Number for f64 {}

mod private {
    pub trait Sealed {}
    impl Sealed for f32 {}
    impl Sealed for f64 {}
}

/// One contiguous, 64-byte aligned buffer of numbers, `f32` unless said otherwise.
///
/// Parameters, gradients, updater slots and arenas are all of this type, so that whatever is
/// distributed works on slices of one buffer and nothing is ever gathered. It dereferences to a slice.
pub struct Flat<T = f32> {
    lines: Lines<T>,
    len: usize,
}

/// Where the numbers are.
enum Lines<T> {
    Own(Vec<Line<T>>),
    Shared(SharedLines<T>),
}

impl<T: Number> Flat<T> {
    /// A buffer of `len` zeros.
    pub fn zeros(len: usize) -> Self {
        let count = len.div_ceil(LINE);
        let mut lines = room(count);
        lines.resize(count, Line([T::default(); LINE]));
        Self { lines: Lines::Own(lines), len }
    }

    /// A view of memory that others see too; see [`crate::SharedFlat::view`].
    pub(crate) fn over(lines: SharedLines<T>, len: usize) -> Self {
        Self { lines: Lines::Shared(lines), len }
    }

    /// The lines and the length; a copy of those that others see too.
    pub(crate) fn into_lines(self) -> (Vec<Line<T>>, usize) {
        match self.lines {
            Lines::Own(lines) => (lines, self.len),
            Lines::Shared(_) => self.clone().into_lines(),
        }
    }

    /// A part, to be written: claims nothing of the rest, unlike a slice of the whole buffer.
    pub fn part_mut(&mut self, range: Range<usize>) -> &mut [T] {
        assert!(range.start <= range.end && range.end <= self.len, "{range:?} of {} numbers", self.len);
        let start = self.start_mut();
        #[expect(unsafe_code, reason = "a slice of a part that is not made from one of the whole")]
        // SAFETY: the range was checked to lie inside, and `self` is borrowed for as long as the part lives. Whoever made
        // a view of memory that others see too has promised that nobody else uses the part meanwhile.
        unsafe {
            std::slice::from_raw_parts_mut(start.add(range.start), range.len())
        }
    }

    fn start(&self) -> *const T {
        match &self.lines {
            Lines::Own(lines) => lines.as_ptr().cast(),
            Lines::Shared(lines) => lines.start().cast_const(),
        }
    }

    fn start_mut(&mut self) -> *mut T {
        match &mut self.lines {
            Lines::Own(lines) => lines.as_mut_ptr().cast(),
            Lines::Shared(lines) => lines.start(),
        }
    }

    /// A copy of `values`.
    pub fn from_slice(values: &[T]) -> Self {
        let mut flat = Self::zeros(values.len());
        flat.copy_from_slice(values);
        flat
    }

    /// Grows to at least `len` numbers; what it held is kept. Fails if there is not that much memory.
    pub fn grow(&mut self, len: usize) -> Result<(), TryReserveError> {
        if len > self.len {
            let (mut lines, _) = std::mem::take(self).into_lines();
            let more = len.div_ceil(LINE).saturating_sub(lines.len());
            let room = lines.try_reserve_exact(more);
            if room.is_ok() {
                lines.resize(lines.len() + more, Line([T::default(); LINE]));
            }
            let len = if room.is_ok() { len } else { lines.len() * LINE };
            *self = Self { lines: Lines::Own(lines), len };
            room?;
        }
        Ok(())
    }
}

/// Room for so many lines, on large pages if it is large.
fn room<T>(lines: usize) -> Vec<Line<T>> {
    let mut room = Vec::with_capacity(lines);
    large_pages::ask_for(room.spare_capacity_mut());
    room
}

impl<T> Default for Flat<T> {
    fn default() -> Self {
        Self { lines: Lines::Own(Vec::new()), len: 0 }
    }
}

/// A copy has memory of its own.
impl<T: Number> Clone for Flat<T> {
    fn clone(&self) -> Self {
        Self::from_slice(self)
    }
}

impl<T: Number> Deref for Flat<T> {
    type Target = [T];

    #[expect(unsafe_code, reason = "reading an array of aligned lines as the numbers that it is made of")]
    fn deref(&self) -> &[T] {
        // SAFETY: `Line` is `repr(C)` over 16 numbers of 4 or 8 bytes, so it has no padding, and `lines` holds
        // at least `len` numbers. Nobody writes to memory that others see too while it is read here: that is what
        // whoever made such a view has promised.
        unsafe { std::slice::from_raw_parts(self.start(), self.len) }
    }
}

impl<T: Number> DerefMut for Flat<T> {
    #[expect(unsafe_code, reason = "writing an array of aligned lines as the numbers that it is made of")]
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as in `deref`; the exclusive borrow of `self` covers the whole buffer.
        unsafe { std::slice::from_raw_parts_mut(self.start_mut(), self.len) }
    }
}

impl<T> std::fmt::Debug for Flat<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Flat({} numbers)", self.len)
    }
}

impl<T: Number> PartialEq for Flat<T> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

#[cfg(test)]
mod tests {
    use super::Flat;

    #[test]
    fn a_buffer_that_asks_for_large_pages_is_a_buffer_like_any_other() {
        let mut large = Flat::<f32>::zeros((64 << 20) / 4 + 5);
        assert!(large.iter().all(|value| *value == 0.0));
        let last = large.len() - 1;
        large[last] = 7.0;
        let copy = large.clone();
        assert!(copy == large && copy[last] == 7.0);
    }

    #[test]
    fn is_aligned_to_a_cache_line_and_keeps_its_length() {
        for len in [0, 1, 15, 16, 17, 1000] {
            let mut flat = Flat::<f32>::zeros(len);
            assert_eq!(flat.len(), len);
            assert_eq!(flat.as_ptr() as usize % 64, 0);
            flat.iter_mut().enumerate().for_each(|(i, v)| *v = i as f32);
            flat.grow(len + 5).expect("five more floats");
            assert_eq!(flat.len(), len + 5);
            assert!(flat[..len].iter().enumerate().all(|(i, v)| *v == i as f32));
            assert!(flat.grow(usize::MAX / 8).is_err());
        }
    }
}
