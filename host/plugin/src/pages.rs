//! Releases the memory of code that does not run. The pages are read from the cache's file again when they next run,
//! mostly from the page cache. So an idle plugin costs address space and little memory.
//!
//! This is one of the three unsafe modules of the crate, with `precompiled.rs` and `priority.rs`. A released page
//! returns with the content of the file, so it must not have been changed in memory. The engine maps the file privately
//! and does not relocate code, but it does not guarantee that. So the mapping is compared with the file once, and is
//! never released if they differ.
#![allow(unsafe_code, reason = "the engine has no function for this: see above")]

use std::fs::File;
use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

use wasmtime::component::Component;

/// The result of comparing the mapping with the file.
const UNKNOWN: u8 = 0;
const SAME: u8 = 1;
const DIFFERENT: u8 = 2;
/// Bytes that are compared at once.
const CHUNK: usize = 64 * 1024;

/// The mapped code of one component.
pub(crate) struct Pages {
    /// Keeps the code mapped.
    code: Component,
    /// The file that is mapped.
    file: File,
    /// [`UNKNOWN`], [`SAME`] or [`DIFFERENT`].
    comparison: AtomicU8,
}

impl Pages {
    /// `code` must have been mapped from `file`.
    pub(crate) fn new(code: Component, file: File) -> Arc<Self> {
        Arc::new(Self {
            code,
            file,
            comparison: AtomicU8::new(UNKNOWN),
        })
    }

    /// Releases the pages if the file has the same content. Returns whether it did. The first call blocks while it
    /// reads the file. Code that runs meanwhile is not affected.
    pub(crate) fn release(&self) -> bool {
        if self.comparison.load(Relaxed) == UNKNOWN {
            let same = self.matches_file().unwrap_or(false);
            self.comparison
                .store(if same { SAME } else { DIFFERENT }, Relaxed);
        }
        self.comparison.load(Relaxed) == SAME && self.discard()
    }

    fn matches_file(&self) -> std::io::Result<bool> {
        let image = self.image();
        if self.file.metadata()?.len() < image.len() as u64 {
            return Ok(false);
        }
        let mut buffer = vec![0; CHUNK];
        let mut file = PositionedReader {
            file: &self.file,
            position: 0,
        };
        for chunk in image.chunks(CHUNK) {
            let buffer = &mut buffer[..chunk.len()];
            file.read_exact(buffer)?;
            if buffer != chunk {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn image(&self) -> &[u8] {
        let range = self.code.image_range();
        // SAFETY: The engine keeps this range mapped and readable while the component lives, and `self` owns a clone of
        // the component. Nothing writes to the range after the engine has published it.
        unsafe { std::slice::from_raw_parts(range.start, range.end.addr() - range.start.addr()) }
    }

    #[cfg(target_os = "linux")]
    fn discard(&self) -> bool {
        use rustix::mm::{Advice, madvise};
        let image = self.image();
        // SAFETY: The range is a private mapping of the file from its start (see `Component::deserialize_file`). Its
        // content was compared with the file, which is never modified (see `cache.rs`), and the mapping has not been
        // writable since.
        unsafe {
            madvise(
                image.as_ptr().cast_mut().cast(),
                image.len(),
                Advice::LinuxDontNeed,
            )
        }
        .is_ok()
    }

    #[cfg(not(target_os = "linux"))]
    fn discard(&self) -> bool {
        false
    }
}

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

/// Reads a file without moving its shared cursor.
struct PositionedReader<'a> {
    file: &'a File,
    position: u64,
}

impl Read for PositionedReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let read = std::os::unix::fs::FileExt::read_at(self.file, buffer, self.position)?;
        self.position += read as u64;
        Ok(read)
    }
}
