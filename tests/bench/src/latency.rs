//! The time from a pod's deletion to the request that creates its replacement: with pauses of different lengths after
//! each replacement, from a drain to an idle cluster, and while other pods change continually. Pods of a ReplicaSet are
//! deleted one by one. The times are those of the API server's audit log, for both subjects.

use std::pin::Pin;
use std::time::Duration;

use anyhow::{Context, Result};
use flyball_differential::writes::Writes;
use flyball_differential::{Subject, api};
use futures::{Stream, TryStreamExt};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, ListParams, WatchEvent, WatchParams};
use kube::{Client, ResourceExt};
use serde_json::Value;

use super::bed::{Bed, NAMESPACE, create_all, owner, time};
use super::churn::{Change, Churn};
use super::report::Figures;
use super::wait::wait;

/// The ReplicaSet whose pods are deleted and the one whose pods change, with their numbers of pods.
const QUIET: (&str, usize) = ("quiet", 20);
const BUSY: (&str, usize) = ("busy", 100);
/// Changes per second.
const CHANGES: u32 = 100;
/// Deletions per turn.
const TURN: usize = 25;
/// How long to wait for a replacement.
const PATIENCE: Duration = Duration::from_secs(30);

/// A series of deletions.
struct Phase {
    /// The pause between a replacement and the next deletion.
    gap: Duration,
    /// The reciprocal of the part of all deletions that this phase has.
    part: usize,
    /// Whether other pods change meanwhile.
    busy: bool,
    /// The figures, with the percentiles that they are.
    figures: [(&'static str, f64); 3],
}

const PHASES: [Phase; 5] = [
    Phase {
        gap: Duration::ZERO,
        part: 1,
        busy: false,
        figures: [
            ("no pause: p50, ms", 0.5),
            ("no pause: p90, ms", 0.9),
            ("no pause: p99, ms", 0.99),
        ],
    },
    Phase {
        gap: Duration::from_millis(5),
        part: 1,
        busy: false,
        figures: [
            ("pauses of 5 ms: p50, ms", 0.5),
            ("pauses of 5 ms: p90, ms", 0.9),
            ("pauses of 5 ms: p99, ms", 0.99),
        ],
    },
    Phase {
        gap: Duration::from_millis(50),
        part: 1,
        busy: false,
        figures: [
            ("pauses of 50 ms: p50, ms", 0.5),
            ("pauses of 50 ms: p90, ms", 0.9),
            ("pauses of 50 ms: p99, ms", 0.99),
        ],
    },
    Phase {
        gap: Duration::from_millis(500),
        part: 5,
        busy: false,
        figures: [
            ("pauses of 500 ms: p50, ms", 0.5),
            ("pauses of 500 ms: p90, ms", 0.9),
            ("pauses of 500 ms: p99, ms", 0.99),
        ],
    },
    Phase {
        gap: Duration::from_millis(50),
        part: 1,
        busy: true,
        figures: [
            ("under changes: p50, ms", 0.5),
            ("under changes: p90, ms", 0.9),
            ("under changes: p99, ms", 0.99),
        ],
    },
];

/// Measures `deletions` deletions of each phase under each subject. Each subject has a separate control plane. The
/// subjects take turns of some seconds, so that changes of the machine's speed affect all of them.
pub(super) async fn measure(subjects: &[Subject], deletions: usize) -> Result<Vec<Figures>> {
    let mut beds = Vec::new();
    for &subject in subjects {
        beds.push(
            prepare(subject)
                .await
                .with_context(|| format!("under {subject:?}"))?,
        );
    }
    let mut begun = Vec::new();
    for phase in &PHASES {
        begun.push(Timestamp::now());
        in_turn(&beds, deletions / phase.part, phase).await?;
    }
    let mut figures = Vec::new();
    for mut bed in beds {
        figures.push(of_audit(&bed.stop().await?, &begun)?);
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
async fn in_turn(beds: &[Bed], deletions: usize, phase: &Phase) -> Result<()> {
    let mut left = deletions;
    while left > 0 {
        let turn = left.min(TURN);
        for bed in beds {
            let client = bed.client();
            if phase.busy {
                let pods = Pods::of(client, BUSY.0).await?.names;
                let churn = Churn::of_pods(client, pods, CHANGES, Change::Message);
                delete(client, turn, phase.gap).await?;
                churn.stop().await?;
            } else {
                delete(client, turn, phase.gap).await?;
            }
        }
        left -= turn;
    }
    Ok(())
}

/// Deletes pods of the quiet set. Waits for the replacement of each pod, and then for `gap`.
async fn delete(client: &Client, deletions: usize, gap: Duration) -> Result<()> {
    let mut pods = Pods::of(client, QUIET.0).await?;
    for _ in 0..deletions {
        let deleted = pods.names.pop().context("the set has no pods")?;
        api::delete(client, "Pod", NAMESPACE, &deleted).await?;
        tokio::time::timeout(PATIENCE, pods.until(QUIET.1))
            .await
            .with_context(|| {
                format!("{deleted} was not replaced within {} s", PATIENCE.as_secs())
            })??;
        tokio::time::sleep(gap).await;
    }
    Ok(())
}

/// The pods of a ReplicaSet, kept up to date by a watch.
struct Pods {
    /// The names of the pods that exist, without those that were deleted here.
    names: Vec<String>,
    events: Pin<Box<dyn Stream<Item = kube::Result<WatchEvent<Pod>>> + Send>>,
}

impl Pods {
    async fn of(client: &Client, set: &str) -> Result<Self> {
        let api: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
        let selector = format!("app={set}");
        let list = api.list(&ListParams::default().labels(&selector)).await?;
        let version = list.metadata.resource_version.unwrap_or_default();
        let events = api
            .watch(&WatchParams::default().labels(&selector), &version)
            .await?;
        Ok(Self {
            names: list.items.iter().map(ResourceExt::name_any).collect(),
            events: Box::pin(events),
        })
    }

    /// Waits until this number of pods exists.
    async fn until(&mut self, number: usize) -> Result<()> {
        while self.names.len() < number {
            let event = self.events.try_next().await?;
            match event.context("the watch of pods ended")? {
                WatchEvent::Added(pod) => self.names.push(pod.name_any()),
                WatchEvent::Error(status) => return Err(kube::Error::Api(status).into()),
                _ => (),
            }
        }
        Ok(())
    }
}

/// The figures of an audit log. `begun` has the time at which each phase began.
fn of_audit(audit: &[Value], begun: &[Timestamp]) -> Result<Figures> {
    let latencies = latencies(audit, begun[0])?;
    let mut figures = Figures::default();
    for (number, phase) in PHASES.iter().enumerate() {
        let from = begun[number];
        let to = begun.get(number + 1);
        let times = latencies
            .iter()
            .filter(|(at, _)| *at >= from && to.is_none_or(|to| at < to))
            .map(|(_, time)| *time);
        figures.push_percentiles(phase.figures, times.collect())?;
    }
    figures.push("API writes", Writes::count(audit, NAMESPACE).total() as f64);
    Ok(figures)
}

/// The time of each deletion request since `started`, and the milliseconds until the request for the replacement, which
/// may precede the deletion's response. Each deletion waits for the previous replacement, so deletions and creations
/// pair up in order.
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
