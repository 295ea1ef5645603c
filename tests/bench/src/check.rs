//! The quick run: checks that the workloads work. It measures nothing, so several of them run at a time.

use std::sync::Mutex;

use anyhow::{Result, anyhow};
use xtask::run::say;

use super::churn::TooSlow;
use super::compare::compare;
use super::report::Report;
use super::sizes::Size;
use super::sync::Full;
use super::workloads::OnCluster;

/// The number of workloads at a time. Most of them wait most of the time.
const AT_ONCE: usize = 3;

/// Runs workloads small and once. Returns the first error after all have ended.
pub(super) fn run(workloads: Vec<OnCluster>) -> Result<Report> {
    let order: Vec<&str> = workloads.iter().map(|workload| workload.name).collect();
    let left = Mutex::new(workloads.into_iter());
    let next = || left.lock().ok()?.next();
    let run_some = || -> Result<Report> {
        let (mut full, mut report) = (Full::default(), Report::default());
        while let Some(workload) = next() {
            match compare(workload, Size::Quick, false, &mut full, &mut report) {
                // The workloads run beside each other, and possibly beside other programs.
                Err(error) if error.is::<TooSlow>() => {
                    say(&format!("{}: not measured: {error:#}", workload.name));
                }
                compared => compared?,
            }
        }
        Ok(report)
    };
    let reports: Vec<Result<Report>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..AT_ONCE).map(|_| scope.spawn(run_some)).collect();
        threads
            .into_iter()
            .map(|thread| {
                thread
                    .join()
                    .unwrap_or_else(|_| Err(anyhow!("a workload panicked: see above")))
            })
            .collect()
    });
    let mut all = Report::default();
    for report in reports {
        all = report?.join(all, &order);
    }
    Ok(all)
}
