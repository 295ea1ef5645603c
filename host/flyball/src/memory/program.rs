//! Gives the pages of the program itself back to the system.
//!
//! The start reads far more of the program than later work does: the code that builds the engine, that parses flags and
//! policies, and the built-in controllers that are not on. Linux keeps such pages in the process until memory is short.
//! They are clean, so a page that is needed after all comes back from the page cache.

use std::ops::Range;

/// Unmaps the pages of the program that are never written: its code and constants. Does nothing while a debugger is
/// attached, because its breakpoints are private copies of such pages.
pub(super) fn give_back() {
    if traced() {
        return;
    }
    for segment in read_only_segments() {
        discard(segment);
    }
}

/// Whether a debugger is attached; true if the system does not tell.
fn traced() -> bool {
    std::fs::read_to_string("/proc/self/status").map_or(true, |status| {
        status
            .lines()
            .find_map(|line| line.strip_prefix("TracerPid:"))
            .is_none_or(|tracer| tracer.trim() != "0")
    })
}

/// The address ranges of whole pages of the program's read-only segments.
#[expect(unsafe_code, reason = "a function of the C library")]
fn read_only_segments() -> Vec<Range<usize>> {
    let mut segments = Vec::new();
    // SAFETY: the callback gets the vector that the call is given, which outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(add_segments), (&raw mut segments).cast()) };
    segments
}

/// Adds the read-only segments of the program to a `Vec<Range<usize>>` and ends the iteration: the first object is the
/// program.
#[expect(unsafe_code, reason = "a callback of the C library")]
unsafe extern "C" fn add_segments(
    object: *mut libc::dl_phdr_info,
    _size: libc::size_t,
    segments: *mut libc::c_void,
) -> libc::c_int {
    // SAFETY: the C library passes a valid object, and `read_only_segments` a vector of this type.
    let (object, segments) = unsafe { (&*object, &mut *segments.cast::<Vec<Range<usize>>>()) };
    // SAFETY: the object has this many headers.
    let headers =
        unsafe { std::slice::from_raw_parts(object.dlpi_phdr, usize::from(object.dlpi_phnum)) };
    let page = rustix::param::page_size();
    for header in headers {
        if header.p_type != libc::PT_LOAD || header.p_flags & libc::PF_W != 0 {
            continue;
        }
        let start = object.dlpi_addr as usize + header.p_vaddr as usize;
        let end = start + header.p_filesz as usize;
        // The first and the last page can be shared with a segment that is written.
        let whole = start.next_multiple_of(page)..end / page * page;
        if !whole.is_empty() {
            segments.push(whole);
        }
    }
    1
}

/// Unmaps pages of a read-only segment.
#[expect(unsafe_code, reason = "a system call about the address space")]
fn discard(pages: Range<usize>) {
    let start = std::ptr::with_exposed_provenance_mut(pages.start);
    // SAFETY: the pages map the program's file and are never written, so that they are read from the file again.
    let discarded = unsafe { libc::madvise(start, pages.len(), libc::MADV_DONTNEED) };
    if discarded != 0 {
        let error = std::io::Error::last_os_error();
        tracing::debug!(%error, "can't give pages of the program back to the system");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Constants that fill whole pages.
    static CONSTANTS: [u64; 512 << 10] = {
        let mut constants = [0; 512 << 10];
        let mut i = 0;
        while i < constants.len() {
            constants[i] = i as u64 + 1;
            i += 1;
        }
        constants
    };

    fn sum() -> u64 {
        std::hint::black_box(&CONSTANTS).iter().sum()
    }

    #[test]
    fn pages_of_the_program_are_unmapped_and_come_back_unchanged() -> anyhow::Result<()> {
        if traced() {
            return flyball_controlplane::skip(
                "memory::program::pages_of_the_program_are_unmapped_and_come_back_unchanged",
                "a debugger is attached",
            );
        }
        let before = sum();
        let mapped = super::super::resident().expect("the system tells");
        give_back();
        let unmapped = super::super::resident().expect("the system tells");
        assert_eq!(sum(), before, "constants are as before");
        // Other tests allocate in the same process.
        assert!(
            unmapped + (2 << 20) < mapped,
            "{mapped} bytes before, {unmapped} after"
        );
        Ok(())
    }
}
