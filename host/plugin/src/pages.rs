//! Gives back the memory of a part of the binary that is read only once. This is one of the three unsafe modules of the
//! crate, with `deserialize.rs` and `priority.rs`.
#![allow(unsafe_code, reason = "the standard library has no function for this")]

/// Lets the system reclaim the memory of bytes that are mapped from the binary's file, until they are next read. The
/// bytes do not change.
pub(crate) fn page_out(bytes: &'static [u8]) {
    #[cfg(target_os = "linux")]
    {
        use rustix::mm::{Advice, madvise};
        let size = rustix::param::page_size();
        let (start, end) = (
            bytes.as_ptr().addr().next_multiple_of(size),
            (bytes.as_ptr().addr() + bytes.len()) / size * size,
        );
        if start < end {
            let first = bytes.as_ptr().wrapping_add(start - bytes.as_ptr().addr());
            // SAFETY: This advice does not change the content of a page, and static bytes stay mapped while the process
            // lives.
            let advised =
                unsafe { madvise(first.cast_mut().cast(), end - start, Advice::LinuxPageOut) };
            // A failure, such as for a binary that another user owns, only costs memory.
            if let Err(error) = advised {
                tracing::debug!(%error, "can't page out a part of the binary");
            }
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = bytes;
}
