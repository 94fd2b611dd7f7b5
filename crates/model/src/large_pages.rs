//! Large pages for buffers that are not small.
//!
//! A step walks over megabytes of parameters and of what goes with them, and a message touches them here and there. On small pages
//! each of those has to be found in a table that is itself too large for a core to remember.

use std::ptr::NonNull;

/// Bytes of a large page.
pub(crate) const SIZE: usize = 2 << 20;

/// Buffers that fill less than half a page are left alone.
const LEAST_BYTES: usize = SIZE / 2;

/// The bytes of large pages that hold as many; none if they are not worth one.
pub(crate) fn whole(bytes: usize) -> Option<usize> {
    (cfg!(target_os = "linux") && bytes >= LEAST_BYTES).then(|| bytes.checked_next_multiple_of(SIZE)).flatten()
}

/// Asks for large pages for room that nobody has written to yet. Whether there are any is up to the system.
///
/// # Safety
///
/// As many bytes from `start` on belong to the caller.
#[expect(unsafe_code, reason = "advice to the system, which no safe function gives")]
pub(crate) unsafe fn ask_for(start: NonNull<u8>, bytes: usize) {
    #[cfg(all(target_os = "linux", not(miri)))]
    // SAFETY: memory of the caller, and advice changes no content. A refusal leaves the pages as they are.
    unsafe {
        libc::madvise(start.as_ptr().cast(), bytes, libc::MADV_HUGEPAGE);
    }
    #[cfg(not(all(target_os = "linux", not(miri))))]
    let _ = (start, bytes);
}
