//! Measures one workload on control planes, under Flyball and under stock.

use anyhow::{Context, Result};
use flyball_differential::Subject;
use xtask::run::say;

use super::report::{Figures, Report, Rounds};
use super::sizes::{RING_ROUNDS, SETS, Size, count, describe, shape, time};
use super::sync::Full;
use super::workloads::{IDLE_PLUGINS, ON_CLUSTERS, OnCluster};
use super::{
    autoscalers, cascade, certificates, converge, copies, empty, heartbeats, idle_plugins, jobs,
    large, latency, load_balancers, reload, requests, ring, services, sets, standby, sync, volumes,
};

/// The number of times that a workload is measured. Each figure is the median.
const ROUNDS: usize = 3;

/// Measures a workload under Flyball and under stock, in turn. The last round measures stock twice, as a control. With
/// `alone`, measures it once under Flyball.
pub(super) fn compare(
    workload: OnCluster,
    size: Size,
    alone: bool,
    full: &mut Full,
    report: &mut Report,
) -> Result<()> {
    let name = workload.name;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .worker_threads(1)
        .build()?;
    let has_kcm = flyball_controlplane::find_or_build()?.has_kcm();
    if !has_kcm {
        println!(
            "Measured without a comparison: the binaries in use don't include kube-controller-manager."
        );
    }
    // A quick run measures only one workload under stock.
    let is_left_out = alone
        || !workload.has_stock
        || (size == Size::Quick && workload.name != ON_CLUSTERS[0].name);
    let has_stock = has_kcm && !is_left_out;
    let is_once = size == Size::Quick || alone || workload.is_once;
    let (rounds, what) = (if is_once { 1 } else { ROUNDS }, describe(name, size));
    say(&format!("{name}: {what}, {rounds} times"));
    let mut measured = Rounds::default();
    for number in 0..rounds {
        // The control shows by how much two runs of the same subject differ. A workload that is measured once has no
        // control.
        let is_controlled = number > 0 && number == rounds - 1;
        let stock = usize::from(has_stock) * (1 + usize::from(is_controlled));
        let subjects = &[Subject::Flyball, Subject::Stock, Subject::Stock][..=stock];
        let figures = runtime.block_on(round(name, size, subjects, full))?;
        measured
            .iter_mut()
            .zip(figures)
            .for_each(|(measured, figures)| measured.push(figures));
    }
    report.add(name, &what, &measured);
    Ok(())
}

/// Measures a workload under each subject, one after the other. `latency` alternates between the subjects.
async fn round(
    name: &str,
    size: Size,
    subjects: &[Subject],
    full: &mut Full,
) -> Result<Vec<Figures>> {
    if name == "latency" {
        return latency::measure(subjects, count(name, size)).await;
    }
    let mut figures = Vec::new();
    for &subject in subjects {
        let measured = workload(name, size, subject, full).await;
        figures.push(measured.with_context(|| format!("under {subject:?}"))?);
    }
    Ok(figures)
}

async fn workload(name: &str, size: Size, subject: Subject, full: &mut Full) -> Result<Figures> {
    let (shape, count) = (shape(name, size), count(name, size));
    match name {
        "jobs" => jobs::measure(subject, 50, count).await,
        "rollout" => converge::roll(subject, shape).await,
        "sync" | "sync-50000" => sync::start(subject, full, count).await,
        "steady" => sync::steady(subject, full, count, time(size)).await,
        "growth" => sync::growth(full, count, time(size)).await,
        "cascade" => cascade::measure(subject, count).await,
        "job-10000" | "job-100000" => large::job(subject, count).await,
        "replicaset-20000" => large::replica_set(subject, count).await,
        "owner-20000" | "owner-200000" => large::owner_of_many(subject, count).await,
        "deployment-2000" => large::deployment(subject, count).await,
        "sets-parallel" => sets::stateful(subject, SETS, count, "Parallel").await,
        "sets-ordered" => sets::stateful(subject, SETS, count, "OrderedReady").await,
        "daemons" => sets::daemons(subject, count).await,
        "cronjobs" => sets::cron_jobs(subject, count).await,
        "budgets" => sets::budgets(subject, count, time(size)).await,
        "services" | "endpoints-5000" => services::measure(subject, shape).await,
        "heartbeats" | "heartbeats-5000" => heartbeats::measure(subject, count, time(size)).await,
        "certificates" => certificates::measure(subject, count).await,
        "autoscalers" => autoscalers::measure(subject, count, time(size)).await,
        "volumes-provisioned" => volumes::provision(subject, count).await,
        "volumes-moved" => volumes::move_all(subject, count).await,
        "volumes-10000" => volumes::start(subject, full, count).await,
        "load-balancers" => load_balancers::measure(subject, count).await,
        "empty" => empty::measure(subject, time(size)).await,
        "built-ins" => empty::each_built_in(time(size)).await,
        "standby" => standby::measure(subject).await,
        "requests" => requests::measure(subject, count).await,
        "copies" => copies::measure(count).await,
        "ring" => ring::measure(count, RING_ROUNDS).await,
        "reload" => reload::measure(count).await,
        IDLE_PLUGINS => idle_plugins::measure(count, time(size)).await,
        _ => converge::up(subject, shape).await,
    }
}
