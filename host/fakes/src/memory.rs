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
