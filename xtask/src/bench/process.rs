//! CPU time and memory of a process, from proc(5).

use anyhow::{Context, Result};
use flyball_controlplane::Process;
use procfs::ProcResult;
use procfs::process::Process as Proc;

/// A span of time in which a process's CPU time is counted.
pub(super) struct CpuSpan {
    /// Seconds of CPU time that the process had used when the span began.
    before: f64,
}

impl CpuSpan {
    /// Begins a span now.
    pub(super) fn begin(process: &Process) -> Result<Self> {
        Ok(Self {
            before: cpu_seconds(process)?,
        })
    }

    /// Seconds of CPU time that the process has used in the span so far.
    pub(super) fn used(&self, process: &Process) -> Result<f64> {
        Ok(cpu_seconds(process)? - self.before)
    }
}

/// The seconds of CPU time that a process has used since it started.
pub(super) fn cpu_seconds(process: &Process) -> Result<f64> {
    let stat = look(process, |proc| proc.stat())?;
    Ok((stat.utime + stat.stime) as f64 / procfs::ticks_per_second() as f64)
}

/// The most memory that a process has had resident.
pub(super) fn peak_mib(process: &Process) -> Result<f64> {
    let status = look(process, |proc| proc.status())?;
    mib(process, status.vmhwm)
}

/// The memory that a process has resident now.
pub(super) fn resident_mib(process: &Process) -> Result<f64> {
    let status = look(process, |proc| proc.status())?;
    mib(process, status.vmrss)
}

fn mib(process: &Process, kib: Option<u64>) -> Result<f64> {
    let kib = kib.with_context(|| format!("{} has ended: it has no memory", process.name()))?;
    Ok(kib as f64 / 1024.0)
}

fn look<T>(process: &Process, what: impl Fn(&Proc) -> ProcResult<T>) -> Result<T> {
    let pid = i32::try_from(process.pid()).context("a process id is no larger")?;
    Proc::new(pid)
        .and_then(|proc| what(&proc))
        .with_context(|| format!("can't read what {} uses from /proc/{pid}", process.name()))
}
