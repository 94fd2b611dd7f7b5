use std::alloc::{Layout, alloc, alloc_zeroed, dealloc, handle_alloc_error};
use std::ptr::NonNull;

use crate::flat::Number;
use crate::large_pages;

/// Memory for numbers, all zero at first, from a cache line's boundary on.
///
/// It only knows where the numbers are: who reads and writes which of them when is up to whoever holds it.
pub(crate) struct Block<T> {
    start: NonNull<T>,
    /// What it was allocated as; without a byte, nothing was.
    layout: Layout,
}

/// There is not as much memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "expected memory for {numbers} more numbers, found less: use smaller batches, fewer workers or a smaller network"
)]
pub struct NoMemory {
    /// That were to be kept.
    pub numbers: usize,
}

const CACHE_LINE: usize = 64;

#[expect(unsafe_code, reason = "plain numbers")]
// SAFETY: a block owns its memory, and gives out nothing but the place of it.
unsafe impl<T: Send> Send for Block<T> {}

#[expect(unsafe_code, reason = "plain numbers")]
// SAFETY: as for `Send`; who uses the place from several threads has promised to keep writers and readers apart.
unsafe impl<T: Sync> Sync for Block<T> {}

impl<T: Number> Block<T> {
    /// As many zeros, on large pages if they are many.
    pub(crate) fn zeros(numbers: usize) -> Result<Self, NoMemory> {
        let bytes = numbers.checked_mul(size_of::<T>()).ok_or(NoMemory { numbers })?;
        let large = large_pages::whole(bytes);
        let (size, align) = large.map_or((bytes, CACHE_LINE), |whole| (whole, large_pages::SIZE));
        // Whole lines, so that nobody else writes to any of them.
        let layout = Layout::from_size_align(size, align).map_err(|_| NoMemory { numbers })?.pad_to_align();
        if size == 0 {
            return Ok(Self::empty());
        }
        #[expect(unsafe_code, reason = "memory that begins on a boundary of choice")]
        // SAFETY: the layout has a size; what is written lies inside, and zero bytes are a number that is zero.
        unsafe {
            if large.is_none() {
                let start = NonNull::new(alloc_zeroed(layout)).ok_or(NoMemory { numbers })?;
                return Ok(Self { start: start.cast(), layout });
            }
            let start = NonNull::new(alloc(layout)).ok_or(NoMemory { numbers })?;
            // Before anything is written: pages are found then.
            large_pages::ask_for(start, layout.size());
            start.write_bytes(0, bytes);
            Ok(Self { start: start.cast(), layout })
        }
    }
}

impl<T> Block<T> {
    /// Nothing.
    pub(crate) const fn empty() -> Self {
        let nowhere = std::ptr::without_provenance_mut(CACHE_LINE);
        Self { start: NonNull::new(nowhere).expect("a line's length"), layout: Layout::new::<()>() }
    }

    /// Where the first number is.
    pub(crate) fn start(&self) -> *mut T {
        self.start.as_ptr()
    }
}

impl<T> Drop for Block<T> {
    fn drop(&mut self) {
        if self.layout.size() > 0 {
            #[expect(unsafe_code, reason = "what was allocated by hand is given back by hand")]
            // SAFETY: allocated with this layout, and nobody holds it any more.
            unsafe {
                dealloc(self.start.as_ptr().cast(), self.layout);
            }
        }
    }
}

/// Ends the program as any other allocation does that finds no memory.
pub(crate) fn give_up<T>(NoMemory { numbers }: NoMemory) -> ! {
    match Layout::array::<T>(numbers) {
        Ok(layout) => handle_alloc_error(layout),
        Err(_) => panic!("capacity overflow"),
    }
}

#[cfg(test)]
mod tests {
    use super::{Block, NoMemory};
    use crate::large_pages;

    #[test]
    fn zeros_begin_on_a_cache_line_and_many_of_them_on_a_large_page() {
        // Miri takes minutes for what is large.
        let sizes = [0, 1, 17, 1000, (1 << 18) - 1, 1 << 18, (5 << 18) + 3];
        for numbers in sizes.into_iter().take(if cfg!(miri) { 4 } else { sizes.len() }) {
            let block = Block::<f32>::zeros(numbers).expect("a few megabytes");
            let is_large = numbers >= 1 << 18 && cfg!(target_os = "linux");
            let boundary = if is_large { large_pages::SIZE } else { 64 };
            assert_eq!(block.start() as usize % boundary, 0, "{numbers}");
            #[expect(unsafe_code, reason = "what lies in the block")]
            // SAFETY: as many numbers as were asked for, and nobody else has them.
            let zeros = unsafe { std::slice::from_raw_parts_mut(block.start(), numbers) };
            assert!(zeros.iter().all(|zero| *zero == 0.0), "{numbers}");
            // Memory that comes back is zero again.
            zeros.fill(1.0);
        }
    }

    #[test]
    fn more_than_there_is_is_refused() {
        for numbers in [usize::MAX, usize::MAX / 4, usize::MAX / 8] {
            assert_eq!(Block::<f32>::zeros(numbers).err(), Some(NoMemory { numbers }));
        }
    }
}
