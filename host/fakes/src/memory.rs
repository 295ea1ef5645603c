//! The memory of a test's process.

use procfs::process::Process;

/// Returns the resident memory of this process in bytes.
///
/// # Panics
/// `/proc` can't be read.
pub fn resident() -> usize {
    let memory = Process::myself().and_then(|own| own.statm());
    let pages = memory.expect("the kernel shows the memory").resident;
    usize::try_from(pages * procfs::page_size()).unwrap_or(usize::MAX)
}
