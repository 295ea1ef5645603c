//! How large each workload is.

use std::time::Duration;

use super::converge::Shape;
use super::volumes::PER_NODE;
use super::workloads::{IDLE_PLUGINS, MARGINAL};

/// The number of StatefulSets.
pub(super) const SETS: usize = 50;
/// The number of times that the value goes around the ring.
pub(super) const RING_ROUNDS: usize = 20;

/// How much is measured.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Size {
    /// Small and once, to check that the workload works.
    Quick,
    /// The size whose figures docs/performance.md shows.
    Whole,
}

/// The objects of a workload in which pods come up.
pub(super) fn shape(name: &str, size: Size) -> Shape {
    let shape = |kind, owners, replicas| Shape {
        kind,
        owners,
        replicas,
    };
    match (name, size) {
        ("converge-wide", Size::Whole) => shape("Deployment", 500, 4),
        ("converge-wide", Size::Quick) => shape("Deployment", 50, 2),
        ("converge-deep", Size::Whole) => shape("ReplicaSet", 1, 5000),
        ("converge-deep", Size::Quick) => shape("ReplicaSet", 1, 200),
        ("rollout", Size::Whole) => shape("Deployment", 100, 20),
        ("rollout" | "services", Size::Quick) => shape("Deployment", 5, 10),
        ("services", Size::Whole) => shape("Deployment", 200, 10),
        ("endpoints-5000", Size::Whole) => shape("Deployment", 1, 5000),
        ("endpoints-5000", Size::Quick) => shape("Deployment", 1, 200),
        (_, Size::Whole) => shape("Deployment", 20, 100),
        (_, Size::Quick) => shape("Deployment", 5, 20),
    }
}

/// How long a steady state is measured.
pub(super) fn time(size: Size) -> Duration {
    Duration::from_secs(if size == Size::Quick { 5 } else { 60 })
}

/// The number of a workload's main objects: completions of each Job, pods of each StatefulSet, deletions, pods, nodes,
/// certificates, autoscalers, volumes, dependents of each owner, old ReplicaSets, plugins or reloads.
pub(super) fn count(name: &str, size: Size) -> usize {
    match (name, size) {
        ("jobs", Size::Whole) => 40,
        ("jobs", Size::Quick) => 2,
        ("latency", Size::Whole) => 300,
        ("latency", Size::Quick) => 20,
        ("sync-50000", Size::Whole) => 50_000,
        ("sets-parallel", Size::Whole) => 40,
        ("sets-ordered", Size::Whole) => 10,
        ("sets-parallel" | "sets-ordered", Size::Quick) => 2,
        ("cronjobs", Size::Whole) => 500,
        ("cronjobs", Size::Quick) => 10,
        ("budgets" | "autoscalers", Size::Whole) => 200,
        ("budgets" | "autoscalers", Size::Quick) => 10,
        ("heartbeats-5000", Size::Whole) => 5000,
        ("volumes-moved", Size::Whole) => 2000,
        ("volumes-moved", Size::Quick) => 40,
        ("volumes-10000", Size::Whole) => 10_000,
        ("job-10000", Size::Whole) => 10_000,
        ("job-100000", Size::Whole) => 100_000,
        ("replicaset-20000" | "owner-20000", Size::Whole) => 20_000,
        ("owner-200000", Size::Whole) => 200_000,
        ("deployment-2000", Size::Whole) => 2000,
        ("ring" | IDLE_PLUGINS, Size::Whole) => 100,
        (IDLE_PLUGINS, Size::Quick) => 2,
        ("ring", Size::Quick) => 5,
        ("reload", Size::Whole) => 50,
        ("reload", Size::Quick) => 3,
        ("sync" | "steady", Size::Whole) => 10_000,
        ("growth" | "requests" | "copies", Size::Whole) => 5000,
        ("sync" | "steady" | "sync-50000", Size::Quick) => 500,
        (_, Size::Whole) => 1000,
        (_, Size::Quick) => 50,
    }
}

pub(super) fn describe(name: &str, size: Size) -> String {
    let (shape, count) = (shape(name, size), count(name, size));
    let Shape {
        kind,
        owners,
        replicas,
    } = shape;
    match name {
        "jobs" => format!("50 Jobs with {count} completions each"),
        "rollout" => format!("{owners} {kind}s with {replicas} pods each get another image"),
        "latency" => {
            "pods deleted one by one, with pauses of 0 to 500 ms, and under 100 changes a second"
                .into()
        }
        "sync" | "sync-50000" => format!("started against {count} pods of 10 kB"),
        "steady" => format!(
            "{count} pods of 10 kB, 100 changes a second for {} s",
            time(size).as_secs()
        ),
        "growth" => {
            format!(
                "pods become ready, 100 a second for {} s, among {count} and {}",
                time(size).as_secs(),
                10 * count
            )
        }
        "sets-parallel" => format!("{SETS} StatefulSets with {count} parallel pods each"),
        "sets-ordered" => format!("{SETS} StatefulSets with {count} ordered pods each"),
        "daemons" => format!("a DaemonSet on {count} nodes is created and rolled out"),
        "cronjobs" => format!("{count} CronJobs are due in the same minute"),
        "budgets" => format!(
            "pods become ready, 100 a second for {} s, among those of {count} budgets",
            time(size).as_secs()
        ),
        "services" | "endpoints-5000" => {
            format!("{owners} Services of {replicas} pods each are created, and get other pods")
        }
        "heartbeats" | "heartbeats-5000" => {
            format!(
                "{count} nodes have heartbeats for {} s",
                time(size).as_secs()
            )
        }
        "certificates" => format!("{count} certificates are requested"),
        "autoscalers" => format!(
            "{count} autoscalers scale Deployments, and sync for {} s more",
            time(size).as_secs()
        ),
        "volumes-provisioned" => {
            format!("{count} claims are bound to volumes of an external provisioner")
        }
        "volumes-moved" => format!(
            "{count} volumes are attached to {} nodes, and half of the nodes are shut down",
            count / PER_NODE
        ),
        "volumes-10000" => format!("started against {count} bound volumes"),
        "load-balancers" => format!(
            "{} Services of type LoadBalancer over {count} nodes of the sample cloud, some of which are replaced",
            count / 2
        ),
        "cascade" => format!("20 owners with {count} dependents each, deleted"),
        "job-10000" | "job-100000" => format!("an Indexed Job with {count} completions"),
        "replicaset-20000" => {
            format!("a ReplicaSet of {count} pods is created and scaled to a half")
        }
        "owner-20000" | "owner-200000" => {
            format!("an owner with {count} dependents, deleted in the foreground")
        }
        "deployment-2000" => {
            format!("a Deployment with {count} old ReplicaSets is rolled out, and deletes them")
        }
        "empty" => "nothing happens, and all controllers are enabled".into(),
        "built-ins" => "nothing happens, with two built-in controllers and with all".into(),
        MARGINAL => format!(
            "{owners} {kind}s with {replicas} pods each, without one controller after another"
        ),
        "standby" => "a standby takes over".into(),
        "requests" => format!("{count} creates, events and updates of one controller"),
        "copies" => format!(
            "{count} values are created and changed, and each is copied; beside a controller in Go on client-go"
        ),
        "ring" => format!("a value goes around {count} plugins {RING_ROUNDS} times"),
        "reload" => format!("a plugin is replaced {count} times while its keys change"),
        IDLE_PLUGINS => format!(
            "hosts with {count} different plugins each, and an operator in Go, {} s after the last of them has started",
            time(size).as_secs()
        ),
        _ => format!("{owners} {kind}s with {replicas} pods each"),
    }
}
