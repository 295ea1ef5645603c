//! The time from a pod's deletion to the request that creates its replacement, in an idle cluster
//! and while other pods change continually. Pods of a ReplicaSet are deleted one by one. The times
//! are those of the API server's audit log, for both subjects.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use flyball_differential::{Subject, api};
use jiff::Timestamp;
use kube::Client;
use serde_json::Value;

use super::bed::{Bed, NAMESPACE, create_all, owner, pod_names, time};
use super::churn::{Change, Churn};
use super::report::Figures;
use super::wait;

/// The ReplicaSet whose pods are deleted and the one whose pods change, with their numbers of pods.
const QUIET: (&str, usize) = ("quiet", 20);
const BUSY: (&str, usize) = ("busy", 100);
/// Changes per second.
const CHANGES: u32 = 100;
/// Deletions per turn.
const TURN: usize = 25;
/// How often to check whether a pod was replaced, and for how long at most.
const PAUSE: Duration = Duration::from_millis(50);
const PATIENCE: Duration = Duration::from_secs(30);

/// Measures `deletions` deletions under each subject, first idle and then under changes. Each
/// subject has a separate control plane. The subjects take turns of some seconds, so that changes of
/// the machine's speed affect all of them.
pub(super) async fn measure(subjects: &[Subject], deletions: usize) -> Result<Vec<Figures>> {
    let mut beds = Vec::new();
    for &subject in subjects {
        beds.push(
            prepare(subject)
                .await
                .with_context(|| format!("under {subject:?}"))?,
        );
    }
    let idle = Timestamp::now();
    in_turn(&beds, deletions, async |bed, deletions| {
        delete(bed.client(), deletions).await
    })
    .await?;
    let busy = Timestamp::now();
    in_turn(&beds, deletions, async |bed, deletions| {
        let pods = names_of_set(bed.client(), BUSY.0).await?;
        let churn = Churn::of_pods(bed.client(), pods, CHANGES, Change::Message);
        delete(bed.client(), deletions).await?;
        churn.stop().await
    })
    .await?;
    let mut figures = Vec::new();
    for mut bed in beds {
        figures.push(of_audit(&bed.stop().await?, idle, busy)?);
    }
    Ok(figures)
}

/// Starts a control plane and creates all pods.
async fn prepare(subject: Subject) -> Result<Bed> {
    let mut bed = Bed::start(subject, 0).await?;
    create_all(
        bed.client(),
        NAMESPACE,
        [QUIET, BUSY]
            .into_iter()
            .map(|(name, pods)| owner("ReplicaSet", name, pods)),
    )
    .await?;
    wait("all pods exist", async || {
        Ok((
            api::list(bed.client(), "Pod", NAMESPACE).await?.len(),
            QUIET.1 + BUSY.1,
        ))
    })
    .await?;
    bed.begin().await?;
    Ok(bed)
}

/// Does `deletions` deletions on each bed, a few on each in turn.
async fn in_turn(
    beds: &[Bed],
    deletions: usize,
    delete_some: impl AsyncFn(&Bed, usize) -> Result<()>,
) -> Result<()> {
    let mut left = deletions;
    while left > 0 {
        let turn = left.min(TURN);
        for bed in beds {
            delete_some(bed, turn).await?;
        }
        left -= turn;
    }
    Ok(())
}

/// The figures of an audit log. `idle` and `busy` are the times at which these phases began.
fn of_audit(audit: &[Value], idle: Timestamp, busy: Timestamp) -> Result<Figures> {
    let (idle, busy): (Vec<_>, Vec<_>) = latencies(audit, idle)?
        .into_iter()
        .partition(|(at, _)| *at < busy);
    let mut figures = Figures::default();
    let parts = [
        [
            ("idle: p50, ms", 0.5),
            ("idle: p99, ms", 0.99),
            ("idle: p99.9, ms", 0.999),
        ],
        [
            ("under changes: p50, ms", 0.5),
            ("under changes: p99, ms", 0.99),
            ("under changes: p99.9, ms", 0.999),
        ],
    ];
    for (parts, times) in parts.into_iter().zip([idle, busy]) {
        figures.push_percentiles(parts, times.into_iter().map(|(_, time)| time).collect())?;
    }
    Ok(figures)
}

/// The names of a set's pods.
async fn names_of_set(client: &Client, set: &str) -> Result<Vec<String>> {
    pod_names(client, |pod| pod["metadata"]["labels"]["app"] == set).await
}

/// Deletes pods of the quiet set. Waits for the replacement of each pod before the next deletion.
async fn delete(client: &Client, deletions: usize) -> Result<()> {
    let mut pods = names_of_set(client, QUIET.0).await?;
    for _ in 0..deletions {
        let deleted = pods.pop().context("the set has no pods")?;
        api::delete(client, "Pod", NAMESPACE, &deleted).await?;
        let start = Instant::now();
        while pods.len() < QUIET.1 {
            ensure!(
                start.elapsed() < PATIENCE,
                "{deleted} was not replaced within {} s",
                PATIENCE.as_secs()
            );
            tokio::time::sleep(PAUSE).await;
            pods = names_of_set(client, QUIET.0).await?;
            pods.retain(|name| *name != deleted);
        }
    }
    Ok(())
}

/// The time of each deletion request since `started`, and the milliseconds until the request for the
/// replacement, which may precede the deletion's response. Each deletion waits for the previous
/// replacement, so deletions and creations pair up in order.
fn latencies(audit: &[Value], started: Timestamp) -> Result<Vec<(Timestamp, f64)>> {
    let of = |verb: &str| -> Result<Vec<Timestamp>> {
        let is_it = |event: &&Value| {
            let object = &event["objectRef"];
            event["stage"] == "ResponseComplete"
                && event["verb"] == verb
                && (object["resource"] == "pods" && object["namespace"] == NAMESPACE)
        };
        let mut times: Vec<Timestamp> = audit
            .iter()
            .filter(is_it)
            .map(|event| time(event, "requestReceivedTimestamp"))
            .collect::<Result<_>>()?;
        times.retain(|time| *time >= started);
        times.sort();
        Ok(times)
    };
    let pairs = of("delete")?.into_iter().zip(of("create")?);
    Ok(pairs
        .map(|(deleted, created)| {
            (
                deleted,
                deleted.duration_until(created).as_secs_f64() * 1000.0,
            )
        })
        .collect())
}
