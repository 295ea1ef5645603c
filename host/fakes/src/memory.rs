//! The memory of a test's process.

use std::env;
use std::process::Command;

use procfs::process::Process;

/// The name of the test for which this process was started.
const ALONE: &str = "FLYBALL_TEST_ALONE";

/// Returns the resident memory of this process in bytes.
///
/// # Panics
/// `/proc` can't be read.
pub fn resident() -> usize {
    let memory = Process::myself().and_then(|own| own.statm());
    let pages = memory.expect("the kernel shows the memory").resident;
    usize::try_from(pages * procfs::page_size()).unwrap_or(usize::MAX)
}

/// Returns the most resident memory that a process has had, in bytes, or none if the process has ended.
pub fn peak(pid: u32) -> Option<usize> {
    let status = Process::new(i32::try_from(pid).ok()?).ok()?.status().ok()?;
    let kib = usize::try_from(status.vmhwm?).ok()?;
    Some(kib << 10)
}

/// Forgets the [`peak`] of this process, so that it is measured from here on.
///
/// # Panics
/// The kernel does not allow it.
pub fn forget_peak() {
    std::fs::write("/proc/self/clear_refs", "5").expect("the kernel resets the peak");
}

/// Returns true in a process that runs nothing but this test. Otherwise, runs the test in one: here, other tests take
/// and free memory at the same time. `test` is the path of the test in its crate.
///
/// # Panics
/// The test failed, or its binary has none of this path.
pub fn is_alone(test: &str) -> bool {
    if env::var_os(ALONE).is_some_and(|alone| alone == test) {
        return true;
    }
    let binary = env::current_exe().expect("the path of this binary is known");
    let run = Command::new(binary)
        .args(["--exact", test])
        .env(ALONE, test)
        .output();
    let output = run.expect("the binary starts");
    let printed = String::from_utf8_lossy(&output.stdout);
    let passed = output.status.success() && printed.contains("1 passed");
    assert!(passed, "{test} fails alone: {printed}");
    false
}
