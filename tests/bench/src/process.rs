//! CPU time and memory of a process, from proc(5).

use anyhow::{Context, Result};
use flyball_controlplane::Process;
use procfs::ProcResult;
use procfs::process::Process as Proc;

use super::bed::REST;

/// The CPU time of a process since a point in time.
pub(super) struct CpuSpan {
    /// The CPU time of the process at that point, in seconds.
    before: f64,
}

impl CpuSpan {
    pub(super) fn begin(process: &Process) -> Result<Self> {
        Ok(Self {
            before: cpu_seconds(process)?,
        })
    }

    /// Begins once the process had time to become idle.
    pub(super) async fn begin_idle(process: &Process) -> Result<Self> {
        tokio::time::sleep(REST).await;
        Self::begin(process)
    }

    /// The CPU time in the span in seconds, once the process had time to become idle.
    pub(super) async fn end_idle(&self, process: &Process) -> Result<f64> {
        tokio::time::sleep(REST).await;
        self.used(process)
    }

    /// The CPU time in the span so far, in seconds.
    pub(super) fn used(&self, process: &Process) -> Result<f64> {
        Ok(cpu_seconds(process)? - self.before)
    }
}

/// The CPU time of a process since its start, in seconds.
pub(super) fn cpu_seconds(process: &Process) -> Result<f64> {
    let stat = look(process, |proc| proc.stat())?;
    Ok((stat.utime + stat.stime) as f64 / procfs::ticks_per_second() as f64)
}

/// The peak resident memory of a process.
pub(super) fn peak_mib(process: &Process) -> Result<f64> {
    let status = look(process, |proc| proc.status())?;
    mib(process, status.vmhwm)
}

/// The current resident memory of a process.
pub(super) fn resident_mib(process: &Process) -> Result<f64> {
    let status = look(process, |proc| proc.status())?;
    mib(process, status.vmrss)
}

/// The current anonymous memory of a process. Pages of files are not counted, because the system can drop them.
pub(super) fn anonymous_kib(process: &Process) -> Result<f64> {
    let status = look(process, |proc| proc.status())?;
    let kib = status
        .rssanon
        .with_context(|| format!("{} has ended, so it has no memory", process.name()))?;
    Ok(kib as f64)
}

fn mib(process: &Process, kib: Option<u64>) -> Result<f64> {
    let kib = kib.with_context(|| format!("{} has ended, so it has no memory", process.name()))?;
    Ok(kib as f64 / 1024.0)
}

fn look<T>(process: &Process, read: impl Fn(&Proc) -> ProcResult<T>) -> Result<T> {
    let pid = i32::try_from(process.pid()).context("the process id is too large")?;
    Proc::new(pid)
        .and_then(|proc| read(&proc))
        .with_context(|| {
            format!(
                "can't read the usage of {} from /proc/{pid}",
                process.name()
            )
        })
}
