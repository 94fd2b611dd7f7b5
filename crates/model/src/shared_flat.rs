use std::ops::Range;
use std::sync::Arc;

use crate::Flat;
use crate::block::Block;
use crate::flat::Number;

/// Memory of a [`Flat`] that several threads use in turns: each has a view of it, or works on parts of it.
///
/// What keeps their turns apart is theirs to bring, such as a barrier.
pub struct SharedFlat<T = f32> {
    memory: Arc<Block<T>>,
    len: usize,
}

/// The same memory.
impl<T> Clone for SharedFlat<T> {
    fn clone(&self) -> Self {
        Self { memory: self.memory.clone(), len: self.len }
    }
}

impl<T: Number> From<Flat<T>> for SharedFlat<T> {
    fn from(flat: Flat<T>) -> Self {
        let len = flat.len();
        Self { memory: flat.into_memory(), len }
    }
}

impl<T: Number> SharedFlat<T> {
    /// The memory of a buffer that others see already.
    pub(crate) fn of(memory: Arc<Block<T>>, len: usize) -> Self {
        Self { memory, len }
    }

    pub(crate) fn into_flat(self) -> Flat<T> {
        Flat::over(self.memory, self.len)
    }

    /// A buffer over the same memory.
    ///
    /// # Safety
    ///
    /// As long as the view lives: while anybody writes a range, through whatever view or part, nobody else may read or
    /// write any of it; who reads or writes while others write the rest must take [`Flat::part`], [`Flat::part_mut`] or
    /// [`Flat::parts`].
    #[expect(unsafe_code, reason = "the promise is the caller's")]
    pub unsafe fn view(&self) -> Flat<T> {
        Flat::over(self.memory.clone(), self.len)
    }

    /// How many numbers there are; looks at none of them.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// A part, to be read.
    ///
    /// # Safety
    ///
    /// Nobody may write any of it while it lives.
    #[expect(unsafe_code, reason = "the promise is the caller's")]
    pub unsafe fn part(&self, range: Range<usize>) -> &[T] {
        self.expect_inside(&range);
        // SAFETY: inside, and nobody writes it.
        unsafe { std::slice::from_raw_parts(self.memory.start().add(range.start), range.len()) }
    }

    /// A part, to be written.
    ///
    /// # Safety
    ///
    /// Nobody else may read or write any of it while it lives.
    #[expect(unsafe_code, reason = "the promise is the caller's")]
    #[expect(clippy::mut_from_ref, reason = "who may write what is the caller's promise, not the borrow's")]
    pub unsafe fn part_mut(&self, range: Range<usize>) -> &mut [T] {
        self.expect_inside(&range);
        // SAFETY: inside, and nobody else uses it.
        unsafe { std::slice::from_raw_parts_mut(self.memory.start().add(range.start), range.len()) }
    }

    fn expect_inside(&self, range: &Range<usize>) {
        assert!(range.start <= range.end && range.end <= self.len, "{range:?} of {} numbers", self.len);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use super::{Flat, SharedFlat};

    #[test]
    #[expect(unsafe_code, reason = "a barrier keeps the turns apart")]
    fn what_one_writes_in_its_turn_the_others_read_in_theirs() {
        // Miri takes minutes for more.
        const ROUNDS: usize = if cfg!(miri) { 5 } else { 100 };
        let shared = SharedFlat::from(Flat::<f32>::zeros(100));
        let barrier = Barrier::new(4);
        std::thread::scope(|scope| {
            for me in 0..4 {
                // SAFETY: each writes a quarter of its own between two barriers, and reads all after the second.
                let mut view = unsafe { shared.view() };
                let (shared, barrier) = (&shared, &barrier);
                scope.spawn(move || {
                    for round in 0..ROUNDS {
                        barrier.wait();
                        view.part_mut(25 * me..25 * me + 25).fill((round * 4 + me) as f32);
                        barrier.wait();
                        assert!((0..100).all(|at| view[at] == (round * 4 + at / 25) as f32));
                        // SAFETY: nobody writes before the next barrier.
                        assert_eq!(unsafe { shared.part(74..76) }, [(round * 4 + 2) as f32, (round * 4 + 3) as f32]);
                    }
                });
            }
        });
        // SAFETY: all threads are gone.
        let whole = unsafe { shared.view() };
        let copy = whole.clone();
        // SAFETY: as above, and `whole` is not looked at.
        unsafe { shared.part_mut(0..1).fill(-1.0) };
        assert_eq!((whole[0], copy[0]), (-1.0, (4 * (ROUNDS - 1)) as f32), "a copy has memory of its own");
    }

    #[test]
    #[should_panic(expected = "7..11 of 10 numbers")]
    fn a_part_beyond_the_end_is_refused() {
        Flat::<f32>::zeros(10).part_mut(7..11);
    }
}
