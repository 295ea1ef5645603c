//! Traces of a host on a real API server, which exports its own spans to the same collector.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use flyball_cluster_tests::{Cluster, Space, finish, new_image, until};
use flyball_controlplane::Options;
use flyball_fakes::collector::{CollectedSpan, FakeCollector, trees};
use serde_json::json;

const HOST: &str = "flyball";
const API_SERVER: &str = "apiserver";

#[tokio::test]
async fn one_rollout_is_one_trace_across_controllers_and_the_api_server() -> Result<()> {
    let collector = FakeCollector::start().await;
    let folder = tempfile::tempdir().context("can't create a folder")?;
    let config = folder.path().join("tracing.yaml");
    std::fs::write(&config, configuration(collector.endpoint()))?;
    let flag = format!("--tracing-config-file={}", config.display());
    let options = Options {
        apiserver_args: vec![flag.clone()],
        ..Options::default()
    };
    let cluster = Cluster::start(options).await?;
    // The API server continues the traces of privileged clients alone.
    let args = [
        "--controllers=deployment-controller,replicaset-controller,serviceaccount-controller",
        "--kube-api-qps=200",
        "--kube-api-burst=300",
        &flag,
    ];
    let kubeconfig: &Path = cluster.plane.kubeconfig_path();
    let host = cluster.spawn_host("host", kubeconfig, &args.map(str::to_owned))?;
    let result = rollouts(&cluster, &collector).await;
    finish(cluster, [host], result).await
}

/// The same file for the host and for the API server.
fn configuration(endpoint: &str) -> String {
    format!(
        "apiVersion: apiserver.config.k8s.io/v1
kind: TracingConfiguration
endpoint: {endpoint}
samplingRatePerMillion: 1000000
"
    )
}

async fn rollouts(cluster: &Cluster, collector: &FakeCollector) -> Result<()> {
    let space = Space::create(cluster.client.clone(), "rollout").await?;
    space.wait_for_account().await?;
    space.deploy(3, "web:1", json!({})).await?;
    space.settled(3, "web:1").await?;
    let first = settled_trace(collector, "added", 0).await?;
    // The API server exports its spans later than the host.
    until("all spans of the creation are exported", async || {
        let checked = check_creation(&collector.spans(), &first);
        Ok(checked.map_err(|error| format!("{error:#}")))
    })
    .await?;

    space.redeploy(new_image("web:2")).await?;
    space.settled(3, "web:2").await?;
    let second = settled_trace(collector, "modified", 3).await?;
    ensure!(first != second, "both rollouts are one trace");
    let spans = collector.spans();
    let all = traces_of_web(&spans);
    ensure!(
        all == BTreeSet::from([&*first, &*second]),
        "reconciles of the two rollouts are in {} traces:\n{}",
        all.len(),
        trees(&spans)
    );
    Ok(())
}

/// Waits until the trace that this change of the Deployment began has the creation of three pods, so many deletions of old
/// ones, and the changes of the Deployment's status. Returns the trace.
async fn settled_trace(
    collector: &FakeCollector,
    change: &str,
    deletions: usize,
) -> Result<String> {
    let is_begin = |span: &&CollectedSpan| {
        span.name == "change Deployment"
            && span.parent.is_empty()
            && attribute(span, "flyball.change") == change
            && attribute(span, "k8s.object.name") == "web"
    };
    until("the trace of the rollout is exported", async || {
        let spans = collector.spans();
        let Some(begin) = spans.iter().find(is_begin) else {
            return Ok(Err(format!("none of {} spans begins it", spans.len())));
        };
        let of_trace = of_host(&spans, &begin.trace);
        let count = |name: &str| of_trace.iter().filter(|span| span.name == name).count();
        // The status changes at least when the first and when the last pods are available.
        let is_exported = count("create Pod") >= 3
            && count("delete Pod") >= deletions
            && count("update Deployment") >= 2;
        Ok(match is_exported {
            true => Ok(begin.trace.clone()),
            false => Err(trees(&of_trace)),
        })
    })
    .await
}

/// Checks the spans of the creation of the Deployment.
fn check_creation(spans: &[CollectedSpan], trace: &str) -> Result<()> {
    let of_trace = of_host(spans, trace);
    let tree = trees(&of_trace);
    let reconciled = |plugin: &str| {
        of_trace
            .iter()
            .any(|span| span.name == "reconcile" && attribute(span, "flyball.plugin") == plugin)
    };
    for plugin in ["deployment-controller", "replicaset-controller"] {
        ensure!(reconciled(plugin), "no reconcile of {plugin} in\n{tree}");
    }
    for name in [
        "queue",
        "lister.list",
        "writer.run",
        "create ReplicaSet",
        "change ReplicaSet",
        "change Pod",
        "POST",
        "PUT",
    ] {
        let is_there = of_trace.iter().any(|span| span.name == name);
        ensure!(is_there, "no span {name} in\n{tree}");
    }
    // From the change to the request, and from the write to what it causes in the other controller.
    let creation = [
        "create ReplicaSet",
        "writer.run",
        "reconcile",
        "change Deployment",
    ];
    let caused = [&["reconcile", "change ReplicaSet"], &creation[..]].concat();
    for (name, ancestors) in [
        ("POST", &creation[..]),
        ("queue", &creation[3..]),
        ("lister.list", &creation[2..]),
        ("create Pod", &[&["writer.run"], &caused[..]].concat()),
        ("queue", &caused[1..]),
    ] {
        let spans = of_trace.iter().filter(|span| span.name == name);
        let mut places = spans.map(|span| names_above(&of_trace, span));
        ensure!(
            places.any(|place| place == ancestors),
            "no span {name} is below {ancestors:?} in\n{tree}"
        );
    }
    // The API server continues the requests.
    let requests: BTreeSet<&str> = of_trace
        .iter()
        .filter(|span| span.attributes.contains_key("http.request.method"))
        .map(|span| &*span.id)
        .collect();
    let continued = spans.iter().filter(|span| {
        span.service == API_SERVER && span.trace == trace && requests.contains(&*span.parent)
    });
    let continued: Vec<_> = continued.collect();
    ensure!(
        !continued.is_empty(),
        "the API server continues none of the requests in\n{tree}"
    );
    let audits = |span: &CollectedSpan| attribute(span, "audit-id").to_owned();
    let of_requests: BTreeSet<String> = of_trace.iter().map(&audits).collect();
    ensure!(
        continued
            .iter()
            .all(|span| of_requests.contains(&audits(span))),
        "the requests and the API server's spans have other audit IDs"
    );
    Ok(())
}

/// The traces of the reconciles of the Deployment `web` and of its ReplicaSets.
fn traces_of_web(spans: &[CollectedSpan]) -> BTreeSet<&str> {
    let reconciles = spans.iter().filter(|span| {
        span.service == HOST
            && span.name == "reconcile"
            && attribute(span, "flyball.key").starts_with("rollout/web")
    });
    reconciles.map(|span| &*span.trace).collect()
}

fn of_host(spans: &[CollectedSpan], trace: &str) -> Vec<CollectedSpan> {
    let of_trace = spans.iter();
    let of_trace = of_trace.filter(|span| span.service == HOST && span.trace == trace);
    of_trace.cloned().collect()
}

/// The names of the spans above one, from its parent to the first of the trace.
fn names_above<'a>(spans: &'a [CollectedSpan], span: &CollectedSpan) -> Vec<&'a str> {
    let above = |span: &CollectedSpan| spans.iter().find(|other| other.id == span.parent);
    let above = std::iter::successors(above(span), |span| above(span));
    above.map(|span| &*span.name).collect()
}

fn attribute<'a>(span: &'a CollectedSpan, name: &str) -> &'a str {
    span.attributes.get(name).map_or("", String::as_str)
}
