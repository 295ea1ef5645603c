//! What an event, a create and an update cost a built-in controller: the one that publishes a ConfigMap in each
//! namespace.

use anyhow::Result;
use flyball_controlplane::Options;
use flyball_differential::{Subject, api};
use serde_json::{Value, json};

use super::bed::{controllers, create_namespaces, plane, send_all};
use super::process::CpuSpan;
use super::report::Figures;
use super::wait::wait;

const PUBLISHER: &str = "root-ca-certificate-publisher-controller";
/// The name of the ConfigMaps that it publishes, and the key of their data.
const PUBLISHED: &str = "kube-root-ca.crt";
const KEY: &str = "ca.crt";

/// Measures `count` of each: a create, with the event of the namespace that needs it and its own; an event of a namespace,
/// with a reconcile that changes nothing; and an update, with the event of the change that it reverts and its own.
pub(super) async fn measure(subject: Subject, count: usize) -> Result<Figures> {
    let cluster = plane(Options {
        scheduler: false,
        ..Options::default()
    })
    .await?;
    let client = &cluster.client;
    let mut process = controllers(subject, &cluster, PUBLISHER)?;
    let until_published = async |namespaces: usize| {
        wait("each namespace has its ConfigMap", async || {
            let all = api::list(client, "ConfigMap", "").await?;
            let published = all.iter().filter(|map| is_published(map));
            Ok((published.count(), namespaces))
        })
        .await
    };
    let others = api::list(client, "Namespace", "").await?.len();
    until_published(others).await?;
    let mut figures = Figures::default();
    let mut push = |what: &str, seconds: f64| {
        figures.push(what, seconds * 1e6 / count as f64);
    };

    let span = CpuSpan::begin_idle(&process).await?;
    create_namespaces(client, (0..count).map(name)).await?;
    until_published(count + others).await?;
    push("CPU of a create, µs", span.end_idle(&process).await?);

    let span = CpuSpan::begin_idle(&process).await?;
    let labels = (0..count).map(|number| async move {
        let change = json!({"metadata": {"labels": {"changed": "yes"}}});
        api::patch(client, "Namespace", "", &name(number), &change).await
    });
    send_all(labels).await?;
    push("CPU of an event, µs", span.end_idle(&process).await?);

    let span = CpuSpan::begin_idle(&process).await?;
    let changes = (0..count).map(|number| async move {
        let change = json!({"data": {KEY: null}});
        api::patch(client, "ConfigMap", &name(number), PUBLISHED, &change).await
    });
    send_all(changes).await?;
    until_published(count + others).await?;
    push("CPU of an update, µs", span.end_idle(&process).await?);
    process.stop().await?;
    cluster.shutdown().await?;
    Ok(figures)
}

fn name(number: usize) -> String {
    format!("namespace-{number}")
}

fn is_published(map: &Value) -> bool {
    map["metadata"]["name"] == PUBLISHED && map["data"][KEY].is_string()
}
