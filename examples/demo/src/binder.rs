//! Binds pods to nodes where there is no kube-scheduler, as with the binaries of envtest. It ignores resources: a pod
//! goes to the node with the fewest pods, or to the node that its node affinity names, as for pods of DaemonSets.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result};
use flyball_controlplane::api;
use http::Request;
use kube::Client;
use serde_json::{Value, json};

/// How often pods without a node are listed.
const POLL: Duration = Duration::from_millis(100);

/// Binds pods until it is dropped.
pub(super) async fn run(client: &Client) -> Result<()> {
    loop {
        let pods = api::list(client, "Pod", "").await?;
        let mut free = free_nodes(client, &pods).await?;
        let waiting = pods.iter().filter(|pod| {
            pod["spec"]["nodeName"].is_null() && pod["metadata"]["deletionTimestamp"].is_null()
        });
        for pod in waiting {
            let node = match required_node(pod) {
                Some(name) => Some(name.to_owned()),
                None => free
                    .iter()
                    .min_by_key(|(_, count)| **count)
                    .map(|(name, _)| name.clone()),
            };
            if let Some(node) = node {
                bind(client, pod, &node).await?;
                *free.entry(node).or_default() += 1;
            }
        }
        tokio::time::sleep(POLL).await;
    }
}

/// Returns the nodes without taints, each with the number of its pods.
async fn free_nodes(client: &Client, pods: &[Value]) -> Result<BTreeMap<String, usize>> {
    let nodes = api::list(client, "Node", "").await?;
    let untainted = nodes.iter().filter(|node| node["spec"]["taints"].is_null());
    let names = untainted.filter_map(|node| node["metadata"]["name"].as_str());
    let count = |name: &str| {
        pods.iter()
            .filter(|pod| pod["spec"]["nodeName"] == name)
            .count()
    };
    Ok(names.map(|name| (name.to_owned(), count(name))).collect())
}

/// Returns the name of the only node that a pod's required affinity allows.
fn required_node(pod: &Value) -> Option<&str> {
    let affinity = &pod["spec"]["affinity"]["nodeAffinity"];
    let terms = &affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"];
    terms[0]["matchFields"][0]["values"][0].as_str()
}

async fn bind(client: &Client, pod: &Value, node: &str) -> Result<()> {
    let text = |field: &str| pod["metadata"][field].as_str().unwrap_or_default();
    let (namespace, name) = (text("namespace"), text("name"));
    let binding = json!({
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": name},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    });
    let path = format!("/api/v1/namespaces/{namespace}/pods/{name}/binding");
    let request = Request::post(path)
        .header("Content-Type", "application/json")
        .body(serde_json::to_vec(&binding)?)?;
    match client.request::<Value>(request).await {
        Ok(_) => Ok(()),
        // The pod was deleted meanwhile, or the previous request bound it.
        Err(kube::Error::Api(status)) if [404, 409].contains(&status.code) => Ok(()),
        Err(error) => {
            Err(error).with_context(|| format!("can't bind {namespace}/{name} to {node}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_of_a_daemon_set_names_its_node() {
        let terms = json!([{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-1"]}]}]);
        let required =
            json!({"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}});
        let pod = json!({"spec": {"affinity": {"nodeAffinity": required}}});
        assert_eq!(required_node(&pod), Some("node-1"));
        assert_eq!(required_node(&json!({"spec": {}})), None);
    }
}
