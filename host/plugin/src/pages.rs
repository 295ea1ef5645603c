//! Gives the pages of code that nobody runs back to the system: they are read from the cache's file again when they are next
//! run, mostly without touching the disk. So a plugin that does nothing costs addresses, and little memory.
//!
//! This is the second unsafe step of the crate, beside `precompiled.rs`: pages that are given back come again as they are in
//! the file, so nothing may have been changed in memory. The engine maps the file privately and relocates nothing; what it
//! has mapped is compared with the file once, and makes no promise where they differ.
#![allow(unsafe_code, reason = "the engine has no call for it: see above")]

use std::fs::File;
use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

use wasmtime::component::Component;

/// What has not been compared yet, is as in the file, is not.
const UNKNOWN: u8 = 0;
const SAME: u8 = 1;
const DIFFERENT: u8 = 2;
/// How much is compared at once.
const CHUNK: usize = 64 * 1024;

/// The mapped code of one component.
pub(crate) struct Pages {
    /// Keeps the mapping.
    code: Component,
    /// What is mapped.
    file: File,
    compared: AtomicU8,
}

impl Pages {
    /// Of code that was mapped from this file.
    pub(crate) fn new(code: Component, file: File) -> Arc<Self> {
        Arc::new(Self {
            code,
            file,
            compared: AtomicU8::new(UNKNOWN),
        })
    }

    /// Gives the pages back, if it is certain that they come again as they are. Blocks for as long as it takes to read them,
    /// the first time. Code that runs meanwhile goes on.
    pub(crate) fn release(&self) -> bool {
        if self.compared.load(Relaxed) == UNKNOWN {
            let same = self.is_as_in_file().unwrap_or(false);
            self.compared
                .store(if same { SAME } else { DIFFERENT }, Relaxed);
        }
        self.compared.load(Relaxed) == SAME && self.give_back()
    }

    /// Whether what is mapped is what the file holds.
    fn is_as_in_file(&self) -> std::io::Result<bool> {
        let image = self.image();
        if self.file.metadata()?.len() < image.len() as u64 {
            return Ok(false);
        }
        let mut buffer = vec![0; CHUNK];
        let mut file = Positioned {
            file: &self.file,
            at: 0,
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
        // SAFETY: the engine keeps this range mapped and readable while the component lives, which this holds, and nobody
        // writes to it once it is published.
        unsafe { std::slice::from_raw_parts(range.start, range.end.addr() - range.start.addr()) }
    }

    #[cfg(target_os = "linux")]
    fn give_back(&self) -> bool {
        use rustix::mm::{Advice, madvise};
        let image = self.image();
        // SAFETY: the range is a private mapping of a file that begins at its start, see `Component::deserialize_file`; it
        // was found to hold what the file holds, which nobody changes (see `cache.rs`), and it is not writable since.
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
    fn give_back(&self) -> bool {
        false
    }
}

/// Lets the system take the pages of what is in memory as it is in the binary's file, until they are next read. Whatever these
/// bytes are, they stay what they are.
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
            // SAFETY: this advice changes no content of any page, and these pages are mapped for as long as the process lives.
            let advised =
                unsafe { madvise(first.cast_mut().cast(), end - start, Advice::LinuxPageOut) };
            // Nothing is lost but memory where the system does not do so, such as for a binary that another user owns.
            if let Err(error) = advised {
                tracing::debug!(%error, "the system keeps what was read of the binary");
            }
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = bytes;
}

/// A file that is read without moving the place that its other users share.
struct Positioned<'a> {
    file: &'a File,
    at: u64,
}

impl Read for Positioned<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let read = std::os::unix::fs::FileExt::read_at(self.file, buffer, self.at)?;
        self.at += read as u64;
        Ok(read)
    }
}
