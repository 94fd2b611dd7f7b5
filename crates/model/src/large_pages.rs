//! Large pages for large buffers.
//!
//! A message touches parameters here and there. In a large buffer each of them is on a page of its own, and finding the page
//! takes longer than the rest: 64 million parameters took 64 million elements a second, with large pages 101 million.

use std::mem::MaybeUninit;

/// Smaller buffers gain nothing that shows.
#[cfg(target_os = "linux")]
const LEAST_BYTES: usize = 64 << 20;

/// Asks for large pages for room that nobody has written to yet. Whether there are any is up to the system.
#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "advice to the system, which no safe function gives")]
pub(crate) fn ask_for<T>(room: &mut [MaybeUninit<T>]) {
    const LARGE: usize = 2 << 20;
    let bytes = size_of_val(room);
    if bytes < LEAST_BYTES {
        return;
    }
    let start = room.as_mut_ptr().cast::<u8>();
    let before = start.align_offset(LARGE);
    let whole = (bytes - before.min(bytes)) / LARGE * LARGE;
    // SAFETY: the range lies within the room, and advice changes no content. A refusal leaves the pages as they are.
    unsafe { libc::madvise(start.wrapping_add(before).cast(), whole, libc::MADV_HUGEPAGE) };
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn ask_for<T>(_: &mut [MaybeUninit<T>]) {}
