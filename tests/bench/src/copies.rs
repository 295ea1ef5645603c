//! What an event, a create and an update cost a plugin: a relay, and the same controller in Go on client-go.

use anyhow::Result;
use flyball_cluster_tests::Cluster;
use flyball_controlplane::Process;
use flyball_differential::api;
use serde_json::{Value, json};

use super::bed::{NAMESPACE, create_all, create_namespace, send_all};
use super::operators;
use super::process::CpuSpan;
use super::relays::{Relays, name, ring};
use super::report::Figures;
use super::wait::wait;

/// The number of namespaces: from the first, values are copied to the second.
const RING: usize = 2;
/// The name of the controller in Go.
const CLIENT_GO: &str = "client-go";

/// Measures `count` of each, under either controller.
pub(super) async fn measure(count: usize) -> Result<Figures> {
    let copier = operators::build("./copier")?;
    let mut figures = Figures::default();

    let relays = Relays::start(RING).await?;
    relays.put(0, 0)?;
    relays.until_running(1).await?;
    measure_one(
        "Flyball",
        &relays.cluster,
        &relays.host,
        count,
        &mut figures,
    )
    .await?;
    relays.end().await?;

    let cluster = ring(RING).await?;
    let (from, to) = (name(0, RING), name(1, RING));
    let mut operator = operators::start(&cluster, CLIENT_GO, &copier, &[&from, &to]).await?;
    measure_one(CLIENT_GO, &cluster, &operator, count, &mut figures).await?;
    operator.stop().await?;
    cluster.shutdown().await?;
    Ok(figures)
}

/// Adds the microseconds of CPU for an event that concerns nobody, and for the copies of a new and of a changed value.
/// Each copy is two events, a reconcile and a request; the relay also gets the object that it updates, as its cache
/// holds only a part of it.
async fn measure_one(
    subject: &str,
    cluster: &Cluster,
    process: &Process,
    count: usize,
    figures: &mut Figures,
) -> Result<()> {
    let client = &cluster.client;
    let (from, to) = (name(0, RING), name(1, RING));
    let maps = || (0..count).map(map);
    let mut push = |what: &str, seconds: f64| {
        figures.push(
            format!("{what}, µs: {subject}"),
            seconds * 1e6 / count as f64,
        );
    };
    create_namespace(client, NAMESPACE).await?;

    let span = CpuSpan::begin_idle(process).await?;
    create_all(client, NAMESPACE, maps()).await?;
    push(
        "an event that concerns nobody",
        span.end_idle(process).await?,
    );

    let span = CpuSpan::begin_idle(process).await?;
    create_all(client, &from, maps()).await?;
    until_copied(cluster, &to, "1", count).await?;
    push("a create", span.end_idle(process).await?);

    let span = CpuSpan::begin_idle(process).await?;
    let changes = (0..count).map(|number| {
        let (from, change) = (&from, json!({"data": {"value": "2"}}));
        async move { api::patch(client, "ConfigMap", from, &object(number), &change).await }
    });
    send_all(changes).await?;
    until_copied(cluster, &to, "2", count).await?;
    push("an update", span.end_idle(process).await?);
    Ok(())
}

async fn until_copied(cluster: &Cluster, to: &str, value: &str, count: usize) -> Result<()> {
    wait("all values are copied", async || {
        let all = api::list(&cluster.client, "ConfigMap", to).await?;
        let copied = all.iter().filter(|one| one["data"]["value"] == value);
        Ok((copied.count(), count))
    })
    .await
}

fn object(number: usize) -> String {
    format!("value-{number}")
}

/// The ConfigMap with the first value of an object.
fn map(number: usize) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": object(number)}, "data": {"value": "1"}})
}
