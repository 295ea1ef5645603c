//! What a process has used, by proc(5).

use std::fs;

use anyhow::{Context, Result};
use flyball_controlplane::Process;

/// The seconds of CPU time that a process has used: `utime` and `stime`, which count in hundredths.
pub(super) fn cpu(process: &Process) -> Result<f64> {
    let text = proc_file(process, "stat")?;
    // The second field is a name in parentheses, which may hold spaces.
    let fields = text
        .rsplit_once(')')
        .map_or("", |(_, fields)| fields)
        .split_whitespace();
    let ticks: Vec<f64> = fields
        .skip(11)
        .take(2)
        .filter_map(|field| field.parse().ok())
        .collect();
    Ok(ticks.iter().sum::<f64>() / 100.0)
}

/// The most memory that a process has had resident.
pub(super) fn peak_mib(process: &Process) -> Result<f64> {
    memory(process, "VmHWM:")
}

/// The memory that a process has resident now.
pub(super) fn resident_mib(process: &Process) -> Result<f64> {
    memory(process, "VmRSS:")
}

fn memory(process: &Process, name: &str) -> Result<f64> {
    let text = proc_file(process, "status")?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(name))
        .with_context(|| format!("there is no {name}"))?;
    let kib: f64 = line
        .trim()
        .trim_end_matches("kB")
        .trim()
        .parse()
        .with_context(|| format!("{name} is no number"))?;
    Ok(kib / 1024.0)
}

fn proc_file(process: &Process, name: &str) -> Result<String> {
    let path = format!("/proc/{}/{name}", process.pid());
    fs::read_to_string(&path)
        .with_context(|| format!("can't read {path}: {} has ended", process.name()))
}
