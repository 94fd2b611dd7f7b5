use std::marker::PhantomData;
use std::ops::{Deref, DerefMut, Range};
use std::sync::Arc;

use crate::SharedFlat;
use crate::block::{Block, NoMemory, give_up};

/// A number that buffers are made of; zero bytes are zero.
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
    memory: Memory<T>,
    len: usize,
}

/// Where the numbers are.
enum Memory<T> {
    Own(Block<T>),
    Shared(Arc<Block<T>>),
}

impl<T: Number> Flat<T> {
    /// A buffer of `len` zeros.
    pub fn zeros(len: usize) -> Self {
        Self::try_zeros(len).unwrap_or_else(|none| give_up::<T>(none))
    }

    fn try_zeros(len: usize) -> Result<Self, NoMemory> {
        Ok(Self { memory: Memory::Own(Block::zeros(len)?), len })
    }

    /// A view of memory that others see too; see [`crate::SharedFlat::view`].
    pub(crate) fn over(memory: Arc<Block<T>>, len: usize) -> Self {
        Self { memory: Memory::Shared(memory), len }
    }

    /// Its memory, for others to see too; a copy if they do already.
    pub(crate) fn into_memory(self) -> Arc<Block<T>> {
        match self.memory {
            Memory::Own(block) => Arc::new(block),
            Memory::Shared(_) => self.clone().into_memory(),
        }
    }

    /// How many numbers there are; looks at none of them.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// A part, to be written: claims nothing of the rest, unlike a slice of the whole buffer.
    pub fn part_mut(&mut self, range: Range<usize>) -> &mut [T] {
        assert!(range.start <= range.end && range.end <= self.len, "{range:?} of {} numbers", self.len);
        let start = self.start();
        #[expect(unsafe_code, reason = "a slice of a part that is not made from one of the whole")]
        // SAFETY: the range was checked to lie inside, and `self` is borrowed for as long as the part lives. Whoever made
        // a view of memory that others see too has promised that nobody else uses the part meanwhile.
        unsafe {
            std::slice::from_raw_parts_mut(start.add(range.start), range.len())
        }
    }

    /// A part, to be read: claims nothing of the rest, unlike a slice of the whole buffer.
    pub fn part(&self, range: Range<usize>) -> &[T] {
        assert!(range.start <= range.end && range.end <= self.len, "{range:?} of {} numbers", self.len);
        #[expect(unsafe_code, reason = "a slice of a part that is not made from one of the whole")]
        // SAFETY: as in `part_mut`.
        unsafe {
            std::slice::from_raw_parts(self.start().add(range.start), range.len())
        }
    }

    /// Parts to be written, and parts to be read; none if what is written has anything in common with another part. Claims
    /// nothing of the rest, unlike slices of the whole buffer.
    #[expect(clippy::type_complexity, reason = "as many as were asked for, and as many more")]
    pub fn parts<'a, const W: usize>(
        &'a mut self,
        written: [Range<usize>; W],
        more_written: &'a [Range<usize>],
        read: &'a [Range<usize>],
    ) -> Option<([&'a mut [T]; W], PartsMut<'a, T>, Parts<'a, T>)> {
        let all = || written.iter().chain(more_written).chain(read);
        for range in all() {
            assert!(range.start <= range.end && range.end <= self.len, "{range:?} of {} numbers", self.len);
        }
        let meet = |a: &Range<usize>, b: &Range<usize>| a.start.max(b.start) < a.end.min(b.end);
        let is_alone = |(at, one)| !all().skip(at + 1).any(|other| meet(one, other));
        if !written.iter().chain(more_written).enumerate().all(is_alone) {
            return None;
        }
        let start = self.start();
        #[expect(unsafe_code, reason = "slices of parts that are not made from one of the whole")]
        // SAFETY: all ranges lie inside, those that are written have nothing in common with any other, and `self` is
        // borrowed for as long as they live. For memory that others see too, see `part_mut`.
        let written =
            unsafe { written.map(|range| std::slice::from_raw_parts_mut(start.add(range.start), range.len())) };
        let more_written = PartsMut { start, ranges: more_written, flat: PhantomData };
        Some((written, more_written, Parts { start, ranges: read, flat: PhantomData }))
    }

    /// Lets others see this memory too, from now until it grows. They promise to read no range while it is used
    /// here to be written, or as a slice of the whole.
    pub fn share(&mut self) -> SharedFlat<T> {
        let shared = match &self.memory {
            Memory::Own(_) => SharedFlat::from(std::mem::take(self)),
            Memory::Shared(memory) => return SharedFlat::of(memory.clone(), self.len),
        };
        *self = shared.clone().into_flat();
        shared
    }

    fn start(&self) -> *mut T {
        match &self.memory {
            Memory::Own(block) => block.start(),
            Memory::Shared(block) => block.start(),
        }
    }

    /// A copy of `values`.
    pub fn from_slice(values: &[T]) -> Self {
        let mut flat = Self::zeros(values.len());
        flat.copy_from_slice(values);
        flat
    }

    /// Grows to at least `len` numbers; what it held is kept. Fails if there is not that much memory.
    pub fn grow(&mut self, len: usize) -> Result<(), NoMemory> {
        if len > self.len {
            let mut grown = Self::try_zeros(len)?;
            grown[..self.len].copy_from_slice(self);
            *self = grown;
        }
        Ok(())
    }
}

/// Parts of a buffer, to be read.
pub struct Parts<'a, T = f32> {
    start: *const T,
    ranges: &'a [Range<usize>],
    flat: PhantomData<&'a [T]>,
}

impl<'a, T> Parts<'a, T> {
    /// No parts.
    pub fn none() -> Self {
        Self { start: std::ptr::null(), ranges: &[], flat: PhantomData }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.ranges.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// One of them.
    pub fn get(&self, index: usize) -> &'a [T] {
        let Range { start, end } = self.ranges[index];
        #[expect(unsafe_code, reason = "a slice of a part that is not made from one of the whole")]
        // SAFETY: who made this has checked that the range lies inside and has nothing in common with what is written, and has
        // borrowed the buffer for as long as `'a` lasts.
        unsafe {
            std::slice::from_raw_parts(self.start.add(start), end - start)
        }
    }

    /// One after the other.
    pub fn iter(&self) -> impl Iterator<Item = &'a [T]> + '_ {
        (0..self.len()).map(|index| self.get(index))
    }
}

/// Parts of a buffer, to be written one at a time.
pub struct PartsMut<'a, T = f32> {
    start: *mut T,
    ranges: &'a [Range<usize>],
    flat: PhantomData<&'a mut [T]>,
}

impl<T> PartsMut<'_, T> {
    /// No parts.
    pub fn none() -> Self {
        Self { start: std::ptr::null_mut(), ranges: &[], flat: PhantomData }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.ranges.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// One of them.
    pub fn get(&mut self, index: usize) -> &mut [T] {
        let Range { start, end } = self.ranges[index];
        #[expect(unsafe_code, reason = "a slice of a part that is not made from one of the whole")]
        // SAFETY: as for `Parts`; no two of these parts have anything in common, and `self` is borrowed while one is used.
        unsafe {
            std::slice::from_raw_parts_mut(self.start.add(start), end - start)
        }
    }
}

impl<T> Default for Flat<T> {
    fn default() -> Self {
        Self { memory: Memory::Own(Block::empty()), len: 0 }
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

    #[expect(unsafe_code, reason = "reading memory as the numbers that it is made of")]
    fn deref(&self) -> &[T] {
        // SAFETY: the block holds `len` numbers. Nobody writes to memory that others see too while it is read here: that
        // is what whoever made such a view has promised.
        unsafe { std::slice::from_raw_parts(self.start(), self.len) }
    }
}

impl<T: Number> DerefMut for Flat<T> {
    #[expect(unsafe_code, reason = "writing memory as the numbers that it is made of")]
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as in `deref`; the exclusive borrow of `self` covers the whole buffer.
        unsafe { std::slice::from_raw_parts_mut(self.start(), self.len) }
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
    fn a_shared_buffer_shows_what_is_written_until_it_grows() {
        let mut flat = Flat::<f32>::from_slice(&[1.0, 2.0, 3.0]);
        let (shared, again) = (flat.share(), flat.share());
        flat[1] = 7.0;
        assert_eq!(flat.part(1..3), [7.0, 3.0]);
        #[expect(unsafe_code, reason = "nobody writes meanwhile")]
        // SAFETY: one thread, and `flat` is not used while this is.
        let seen = unsafe { [shared.part(0..3), again.part(0..3)].map(|seen| seen.to_vec()) };
        assert_eq!(seen, [[1.0, 7.0, 3.0], [1.0, 7.0, 3.0]]);
        flat.grow(4).expect("one more float");
        flat[0] = 9.0;
        #[expect(unsafe_code, reason = "nobody writes meanwhile")]
        // SAFETY: as above.
        let seen = unsafe { shared.part(0..1)[0] };
        assert_eq!((seen, &flat[..]), (1.0, &[9.0, 7.0, 3.0, 0.0][..]), "it has moved");
        flat.share();
        assert!(flat.grow(usize::MAX / 8).is_err());
        assert_eq!(flat[..], [9.0, 7.0, 3.0, 0.0], "what does not fit changes nothing");
    }

    #[test]
    fn parts_are_written_and_read_at_once_unless_they_meet() {
        let mut flat = Flat::<f32>::from_slice(&[0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
        let (more, read) = ([0..1, 2..2], [1..3, 2..4]);
        let ([written, _], mut more, read) = flat.parts([4..6, 3..3], &more, &read).expect("parts that do not meet");
        written.copy_from_slice(read.get(0));
        more.get(0).copy_from_slice(&read.get(1)[1..]);
        assert_eq!((more.get(1).len(), more.len(), read.len()), (0, 2, 2));
        assert_eq!(&flat[..], &[3.0, 1.0, 2.0, 3.0, 1.0, 2.0]);
        for (one, other, read) in [(0..2, 1..3, 5..6), (3..4, 0..2, 3..4), (0..2, 4..6, 1..5), (2..3, 2..3, 0..0)] {
            let what = format!("{one:?}, {other:?} and {read:?}");
            assert!(flat.parts([one.clone(), other.clone()], &[], std::slice::from_ref(&read)).is_none(), "{what}");
            assert!(flat.parts([one], &[other], &[read]).is_none(), "{what}");
        }
    }

    #[test]
    #[should_panic(expected = "7..11 of 10 numbers")]
    fn parts_beyond_the_end_are_refused() {
        Flat::<f32>::zeros(10).parts([0..1, 1..2], &[], &[7..11, 2..3]);
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
