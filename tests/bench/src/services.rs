//! Services whose pods are created and then replaced by a rollout.

use std::collections::BTreeSet;
use std::time::Instant;

use anyhow::Result;
use flyball_differential::{Subject, api};
use serde_json::{Value, json};

use super::bed::{Bed, NAMESPACE, Nodes, create_all, pod_names};
use super::converge::Shape;
use super::report::Figures;
use super::wait::wait;

/// The most addresses of an Endpoints object.
const MAX_ADDRESSES: usize = 1000;

/// Measures a Service for each owner of pods, from the creation of the owners until the slices hold all pods, and
/// through a rollout.
pub(super) async fn measure(subject: Subject, shape: Shape) -> Result<Figures> {
    // A rollout creates a quarter more pods than it keeps.
    let nodes = Nodes::for_pods(shape.pods() * 5 / 4);
    let bed = Bed::on(subject, nodes).await?;
    create_all(bed.client(), NAMESPACE, (0..shape.owners).map(service)).await?;
    let (mut figures, begun) = (Figures::default(), Instant::now());
    shape.create(&bed).await?;
    wait_for_endpoints(&bed, shape).await?;
    figures.push("creation: time, s", begun.elapsed().as_secs_f64());
    let begun = Instant::now();
    shape.roll(&bed).await?;
    wait_for_endpoints(&bed, shape).await?;
    figures.push("rollout: time, s", begun.elapsed().as_secs_f64());
    bed.end(&mut figures).await?;
    Ok(figures)
}

/// The Service of the pods of an owner.
fn service(number: usize) -> Value {
    let name = format!("web-{number}");
    json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
        "spec": {"selector": {"app": name}, "ports": [{"port": 80, "targetPort": 8080}]},
    })
}

/// Waits until the ready endpoints are exactly the pods, and the Endpoints objects hold as many addresses as they can.
async fn wait_for_endpoints(bed: &Bed, shape: Shape) -> Result<()> {
    let client = bed.client();
    let addresses = shape.owners * shape.replicas.min(MAX_ADDRESSES);
    wait("the endpoints are the pods", async || {
        let slices = api::list(client, "EndpointSlice", NAMESPACE).await?;
        let published: BTreeSet<&str> = slices.iter().flat_map(ready_pods).collect();
        // The list of pods is costly, so that only the right number of endpoints is compared with it.
        if published.len() != shape.pods() {
            return Ok((0, 1));
        }
        let pods = pod_names(client, |pod| pod["metadata"]["deletionTimestamp"].is_null()).await?;
        let all = api::list(client, "Endpoints", NAMESPACE).await?;
        let is_same = pods.len() == published.len()
            && pods.iter().all(|pod| published.contains(pod.as_str()))
            && all.iter().map(ready_addresses).sum::<usize>() == addresses;
        Ok((usize::from(is_same), 1))
    })
    .await
}

/// The names of the pods of a slice's ready endpoints.
fn ready_pods(slice: &Value) -> impl Iterator<Item = &str> {
    let endpoints = slice["endpoints"].as_array().into_iter().flatten();
    endpoints
        .filter(|endpoint| endpoint["conditions"]["ready"] == true)
        .filter_map(|endpoint| endpoint["targetRef"]["name"].as_str())
}

fn ready_addresses(endpoints: &Value) -> usize {
    let subsets = endpoints["subsets"].as_array().into_iter().flatten();
    subsets
        .filter_map(|subset| subset["addresses"].as_array())
        .map(Vec::len)
        .sum()
}
