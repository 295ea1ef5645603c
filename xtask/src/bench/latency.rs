//! A pod of a ReplicaSet is deleted, again and again: how soon its replacement is asked for, while nothing else happens and
//! while other pods change all the time. By the API server's audit log, the same for both.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use flyball_differential::{Subject, api};
use jiff::Timestamp;
use kube::Client;
use serde_json::Value;

use super::bed::{Bed, NAMESPACE, create_all, owner, time};
use super::churn::{Change, Churn};
use super::report::Figures;
use super::wait;

/// The set of which pods are deleted, and the one whose pods change.
const QUIET: (&str, usize) = ("quiet", 20);
const BUSY: (&str, usize) = ("busy", 100);
/// Changes in a second.
const CHANGES: u32 = 100;
/// Deletions in a turn.
const TURN: usize = 25;
/// How long all is left alone after a deletion, and how long its pod may be missing.
const PAUSE: Duration = Duration::from_millis(50);
const PATIENCE: Duration = Duration::from_secs(30);

/// Measures so many deletions under each of these, first idle and then under changes. Each has a control plane of its own, and
/// they take turns of some seconds, so that none meets a slower machine than the others.
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
        let pods = names(bed.client(), BUSY.0).await?;
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

/// A control plane with all pods.
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
    wait("there are all pods", async || {
        Ok((
            api::list(bed.client(), "Pod", NAMESPACE).await?.len(),
            QUIET.1 + BUSY.1,
        ))
    })
    .await?;
    bed.begin().await?;
    Ok(bed)
}

/// Makes so many deletions on each, a few on one after the other.
async fn in_turn(
    beds: &[Bed],
    deletions: usize,
    make: impl AsyncFn(&Bed, usize) -> Result<()>,
) -> Result<()> {
    let mut left = deletions;
    while left > 0 {
        let turn = left.min(TURN);
        for bed in beds {
            make(bed, turn).await?;
        }
        left -= turn;
    }
    Ok(())
}

/// The figures by what an API server was asked since it was idle, and busy from then on.
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
async fn names(client: &Client, set: &str) -> Result<Vec<String>> {
    let pods = api::list(client, "Pod", NAMESPACE).await?;
    let own = pods
        .iter()
        .filter(|pod| pod["metadata"]["labels"]["app"] == set);
    Ok(own
        .filter_map(|pod| pod["metadata"]["name"].as_str().map(str::to_owned))
        .collect())
}

/// Deletes pods of the quiet set, each once the one before it was replaced.
async fn delete(client: &Client, deletions: usize) -> Result<()> {
    let mut pods = names(client, QUIET.0).await?;
    for _ in 0..deletions {
        let doomed = pods.pop().context("the set has no pods")?;
        api::delete(client, "Pod", NAMESPACE, &doomed).await?;
        let asked = Instant::now();
        while pods.len() < QUIET.1 {
            ensure!(
                asked.elapsed() < PATIENCE,
                "{doomed} was not replaced within {} s",
                PATIENCE.as_secs()
            );
            tokio::time::sleep(PAUSE).await;
            pods = names(client, QUIET.0).await?;
            pods.retain(|name| *name != doomed);
        }
    }
    Ok(())
}

/// When each deletion since `started` was asked for, and the milliseconds from then until its replacement was. (It may be so
/// before the deletion is answered.) One follows the other, so that they pair in their order.
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
        .map(|(deleted, made)| (deleted, deleted.duration_until(made).as_secs_f64() * 1000.0))
        .collect())
}
