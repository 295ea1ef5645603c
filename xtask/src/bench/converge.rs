//! Many Deployments from nothing to all of their pods ready.

use std::time::{Duration, Instant};

use anyhow::Result;
use flyball_cluster_tests::{Cluster, guest};
use flyball_controlplane::{Options, Process};
use flyball_differential::writes::Writes;
use flyball_differential::{Subject, api};
use serde_json::{Value, json};

use super::process::{cpu, peak_mib};
use super::{Figures, QUIET, wait};

const NAMESPACE: &str = "bench";
/// The controllers that take part, and those that are always there: what they cost is part of the figures.
const CONTROLLERS: &str = "deployment-controller,job-controller,replicaset-controller,replicationcontroller-controller,\
                           root-ca-certificate-publisher-controller,serviceaccount-controller";
const NODES: usize = 20;
const PODS_PER_NODE: usize = 110;
/// Limits of requests so high that they don't bind.
const QPS: u32 = 1000;
const BURST: u32 = 2000;
/// How long the controllers get to rest.
const REST: Duration = Duration::from_secs(3);

/// Measures one subject.
pub(super) async fn measure(subject: Subject, deployments: usize, replicas: usize) -> Result<Figures> {
    let cluster = Cluster::without_nodes(Options { audit: true, ..Options::default() }).await?;
    let mut nodes = start_nodes(&cluster)?;
    let mut controllers = subject.start_with(&cluster, CONTROLLERS, QPS, BURST, QUIET)?;
    let client = &cluster.client;
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
    api::create(client, "", &namespace).await?;
    wait("there are a service account and all nodes", async || {
        let accounts = api::list(client, "ServiceAccount", NAMESPACE).await?.len();
        let nodes = api::list(client, "Node", "").await?;
        let usable = nodes.iter().filter(|node| node["spec"]["taints"].is_null()).count();
        Ok((accounts + usable, NODES + 1))
    })
    .await?;

    let start_cpu = cpu(&controllers)?;
    let begun = Instant::now();
    for number in 0..deployments {
        api::create(client, NAMESPACE, &deployment(number, replicas)).await?;
    }
    wait("all pods are ready", async || {
        let deployments = api::list(client, "Deployment", NAMESPACE).await?;
        let ready: u64 = deployments.iter().filter_map(|object| object["status"]["readyReplicas"].as_u64()).sum();
        Ok((ready as usize, deployments.len() * replicas))
    })
    .await?;
    let mut figures = Figures::default();
    figures.push("until all are ready, s", begun.elapsed().as_secs_f64());
    tokio::time::sleep(REST).await;
    figures.push("CPU under load, s", cpu(&controllers)? - start_cpu);
    figures.push("CPU at the start, s", start_cpu);
    figures.push("peak memory, MiB", peak_mib(&controllers)?);
    controllers.stop().await?;
    nodes.stop().await?;
    let writes = Writes::count(&cluster.plane.audit_events()?, NAMESPACE);
    figures.push("API writes", writes.total() as f64);
    println!("writes: {writes}");
    cluster.shutdown().await?;
    Ok(figures)
}

fn start_nodes(cluster: &Cluster) -> Result<Process> {
    let plugins = cluster.folder_with("nodes", &[guest("fake-kubelet")?])?;
    let args = [
        "--controllers=".to_owned(),
        "--trust-plugins".into(),
        format!("--plugin-dir={}", plugins.display()),
        format!("--plugin-config=fake-kubelet.nodes={NODES}"),
        format!("--plugin-config=fake-kubelet.pods-per-node={PODS_PER_NODE}"),
        format!("--kube-api-qps={QPS}"),
        format!("--kube-api-burst={BURST}"),
    ];
    cluster.spawn_host("nodes", cluster.plane.kubeconfig_path(), &args)
}

fn deployment(number: usize, replicas: usize) -> Value {
    let name = format!("web-{number}");
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": {
            "metadata": {"labels": {"app": name}},
            "spec": {"containers": [{"name": "app", "image": "app:1"}]},
        }},
    })
}
