//! The memory of this process.

use std::fs;

/// The resident memory of this process (see proc(5)).
pub(crate) fn resident_mib() -> f64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .unwrap();
    let kib: f64 = line.trim().trim_end_matches("kB").trim().parse().unwrap();
    kib / 1024.0
}
