//! What workloads run on: a control plane, fake nodes in a process of their own, and the controllers that are measured.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use flyball_cluster_tests::{Cluster, guest};
use flyball_controlplane::{Options, Process};
use flyball_differential::writes::Writes;
use flyball_differential::{Subject, api};
use futures::{StreamExt, TryStreamExt};
use jiff::Timestamp;
use kube::Client;
use serde_json::{Value, json};

use super::process::{cpu, peak_mib};
use super::report::Figures;
use super::wait;

/// The namespace in which all happens.
pub(super) const NAMESPACE: &str = "bench";
/// Both log as they do by default, which tests change.
pub(super) const QUIET: &[&str] = &["--v=0"];
/// The controllers that take part, and those that are always there: what they cost is part of the figures.
const CONTROLLERS: &str = "deployment-controller,job-controller,replicaset-controller,replicationcontroller-controller,\
                           root-ca-certificate-publisher-controller,serviceaccount-controller";
const PODS_PER_NODE: usize = 110;
/// Limits of requests so high that they don't bind: of the controllers, the scheduler and the fake nodes.
pub(super) const QPS: u32 = 5000;
pub(super) const BURST: u32 = 10000;
/// How many objects are made at once.
const AT_ONCE: usize = 64;
/// How long the controllers get to rest, before and after what is measured.
pub(super) const REST: Duration = Duration::from_secs(3);

/// A control plane with controllers.
pub(super) struct Bed {
    pub(super) cluster: Cluster,
    pub(super) controllers: Process,
    nodes: Option<Process>,
    /// What the controllers had used when what is measured began.
    used: f64,
}

impl Bed {
    /// Starts a subject, with room for so many pods on fake nodes; without a scheduler and nodes, if that is none.
    pub(super) async fn start(subject: Subject, pods: usize) -> Result<Self> {
        let cluster = plane(Options {
            scheduler: pods > 0,
            ..Options::default()
        })
        .await?;
        // A tenth more than are needed, since a rollout has more.
        let count = (pods * 11 / 10).div_ceil(PODS_PER_NODE);
        let nodes = if pods > 0 {
            Some(start_nodes(&cluster, count)?)
        } else {
            None
        };
        let controllers = controllers(subject, &cluster)?;
        let client = &cluster.client;
        make_namespace(client).await?;
        wait("there are a service account and all nodes", async || {
            let accounts = api::list(client, "ServiceAccount", NAMESPACE).await?.len();
            let nodes = api::list(client, "Node", "").await?;
            let usable = nodes
                .iter()
                .filter(|node| node["spec"]["taints"].is_null())
                .count();
            Ok((accounts + usable, count + 1))
        })
        .await?;
        let mut bed = Self {
            cluster,
            controllers,
            nodes,
            used: 0.0,
        };
        bed.begin().await?;
        Ok(bed)
    }

    pub(super) fn client(&self) -> &Client {
        &self.cluster.client
    }

    /// Lets the controllers rest. From now on what they use counts.
    pub(super) async fn begin(&mut self) -> Result<()> {
        tokio::time::sleep(REST).await;
        self.used = cpu(&self.controllers)?;
        Ok(())
    }

    /// What the controllers have used since it began, after they have come to rest.
    pub(super) async fn cpu(&self) -> Result<f64> {
        tokio::time::sleep(REST).await;
        Ok(cpu(&self.controllers)? - self.used)
    }

    /// Adds what the controllers used, at most and in all, ends everything, and adds how many writes they made.
    pub(super) async fn end(mut self, figures: &mut Figures) -> Result<()> {
        figures.push("CPU, s", self.cpu().await?);
        figures.push("peak memory, MiB", peak_mib(&self.controllers)?);
        let audit = self.stop().await?;
        figures.push(
            "API writes",
            Writes::count(&audit, NAMESPACE).total() as f64,
        );
        Ok(())
    }

    /// Ends everything, and answers what the API server was asked.
    pub(super) async fn stop(&mut self) -> Result<Vec<Value>> {
        self.controllers.stop().await?;
        if let Some(nodes) = &mut self.nodes {
            nodes.stop().await?;
        }
        self.cluster.plane.audit_events()
    }
}

/// A control plane that keeps an audit log; whose scheduler, if it has one, no limit of requests binds.
pub(super) async fn plane(options: Options) -> Result<Cluster> {
    let limits = vec![
        format!("--kube-api-qps={QPS}"),
        format!("--kube-api-burst={BURST}"),
    ];
    Cluster::without_nodes(Options {
        audit: true,
        scheduler_args: limits,
        ..options
    })
    .await
}

/// Starts a subject.
pub(super) fn controllers(subject: Subject, cluster: &Cluster) -> Result<Process> {
    subject.start_with(cluster, "controllers", CONTROLLERS, QPS, BURST, QUIET)
}

pub(super) async fn make_namespace(client: &Client) -> Result<()> {
    let namespace =
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
    api::create(client, "", &namespace).await.map(drop)
}

/// Makes objects in a namespace, many at once.
pub(super) async fn create_all(
    client: &Client,
    namespace: &str,
    objects: impl Iterator<Item = Value>,
) -> Result<()> {
    let making = objects
        .map(|object| async move { api::create(client, namespace, &object).await.map(drop) });
    futures::stream::iter(making)
        .buffer_unordered(AT_ONCE)
        .try_collect()
        .await
}

fn start_nodes(cluster: &Cluster, count: usize) -> Result<Process> {
    let plugins = cluster.folder_with("nodes", &[guest("fake-kubelet")?])?;
    let nodes = format!("--plugin-config=fake-kubelet.nodes={count}");
    let pods = format!("--plugin-config=fake-kubelet.pods-per-node={PODS_PER_NODE}");
    self::plugins(cluster, "nodes", &plugins, &[&nodes, &pods])
}

/// Starts a host of this name that runs the plugins of a folder and no built-in.
pub(super) fn plugins(
    cluster: &Cluster,
    name: &str,
    folder: &Path,
    flags: &[&str],
) -> Result<Process> {
    let mut args = vec![
        "--controllers=".to_owned(),
        "--trust-plugins".into(),
        format!("--plugin-dir={}", folder.display()),
        format!("--kube-api-qps={QPS}"),
        format!("--kube-api-burst={BURST}"),
    ];
    args.extend(flags.iter().map(|&flag| flag.to_owned()));
    cluster.spawn_host(name, cluster.plane.kubeconfig_path(), &args)
}

/// An object of this kind and name that asks for so many pods.
pub(super) fn owner(kind: &str, name: &str, replicas: usize) -> Value {
    let labels = json!({"app": name});
    json!({
        "apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name},
        "spec": {"replicas": replicas, "selector": {"matchLabels": labels},
                 "template": template(&labels, "app:1", &json!({}))},
    })
}

/// What an event of the audit log says of when this was.
pub(super) fn time(event: &Value, field: &str) -> Result<Timestamp> {
    event[field]
        .as_str()
        .context("an event of the audit log has no time")?
        .parse()
        .context("no time")
}

/// What pods are made from: with these labels, this image and these annotations.
pub(super) fn template(labels: &Value, image: &str, annotations: &Value) -> Value {
    json!({
        "metadata": {"labels": labels, "annotations": annotations},
        "spec": {"containers": [{"name": "app", "image": image}]},
    })
}
