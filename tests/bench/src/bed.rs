//! The test bed of a workload: a control plane, fake nodes in a separate process, and the controllers that are
//! measured.

use std::path::Path;
use std::sync::OnceLock;
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

use super::process::{CpuSpan, peak_mib};
use super::report::Figures;
use super::wait::wait;

/// The namespace of everything that a workload creates.
pub(super) const NAMESPACE: &str = "bench";
/// The namespace of the controllers' service accounts.
const SYSTEM: &str = "kube-system";
/// Both subjects log at their default level; tests log more.
pub(super) const QUIET: &[&str] = &["--v=0"];
/// The controllers of workloads on clusters that others would tidy up: pods that exist from the start are on nodes that
/// do not. Their cost is part of the figures, needed or not.
pub(super) const FEW: &str = "deployment-controller,job-controller,replicaset-controller,replicationcontroller-controller,\
                           root-ca-certificate-publisher-controller,serviceaccount-controller";
const PODS_PER_NODE: usize = 110;
/// Rate limits of requests, for the controllers, the scheduler and the fake nodes. They are too high to have an effect.
pub(super) const QPS: u32 = 5000;
pub(super) const BURST: u32 = 10000;
/// How many objects are created concurrently.
const CONCURRENCY: usize = 64;
/// How long to wait for the controllers to become idle, before and after a measurement.
pub(super) const REST: Duration = Duration::from_secs(3);

/// The controllers of most workloads.
static CHOSEN: OnceLock<String> = OnceLock::new();

/// Lets most workloads run with the controllers that a flag `--controllers` of a controller manager would name.
///
/// # Panics
/// They were chosen before.
pub(super) fn choose_controllers(names: String) {
    CHOSEN.set(names).expect("controllers are chosen once");
}

/// The controllers of most workloads.
///
/// # Panics
/// None were chosen.
pub(super) fn chosen_controllers() -> &'static str {
    CHOSEN.get().expect("controllers are chosen at the start")
}

/// The fake nodes, and the number of pods that a workload creates on them.
#[derive(Clone, Copy)]
pub(super) struct Nodes {
    pub(super) count: usize,
    pub(super) pods: usize,
    /// Settings of the fake kubelet besides these numbers.
    pub(super) settings: &'static [&'static str],
}

impl Nodes {
    /// No nodes, and no scheduler.
    pub(super) const NONE: Self = Self {
        count: 0,
        pods: 0,
        settings: &[],
    };

    /// Enough nodes for this number of pods, and for a tenth more, since a rollout creates more than it keeps.
    pub(super) fn for_pods(pods: usize) -> Self {
        Self {
            count: (pods * 11 / 10).div_ceil(PODS_PER_NODE),
            pods,
            settings: &[],
        }
    }
}

/// A control plane with controllers.
pub(super) struct Bed {
    pub(super) cluster: Cluster,
    pub(super) controllers: Process,
    nodes: Option<Process>,
    /// The CPU time of the controllers since the measurement began.
    span: CpuSpan,
}

impl Bed {
    /// Starts a subject with the chosen controllers on a control plane with fake nodes for `pods` pods. Without pods,
    /// there are no nodes and no scheduler.
    pub(super) async fn start(subject: Subject, pods: usize) -> Result<Self> {
        Self::on(subject, Nodes::for_pods(pods)).await
    }

    /// Starts a subject with the chosen controllers. The scheduler runs if there are pods for it.
    pub(super) async fn on(subject: Subject, nodes: Nodes) -> Result<Self> {
        Self::of(subject, nodes, chosen_controllers(), false).await
    }

    /// Starts a subject with the controllers that a flag `--controllers` names, whichever were chosen. If it `serves`,
    /// its metrics can be read: see [`metrics`](Self::metrics).
    pub(super) async fn of(
        subject: Subject,
        nodes: Nodes,
        names: &str,
        serves: bool,
    ) -> Result<Self> {
        let cluster = plane(Options {
            scheduler: nodes.pods > 0,
            ..Options::default()
        })
        .await?;
        let count = nodes.count;
        let nodes = if count > 0 {
            Some(start_nodes(&cluster, nodes)?)
        } else {
            None
        };
        let (_, serving) = cluster.serving();
        let serving = serving.iter().map(String::as_str).filter(|_| serves);
        let flags: Vec<&str> = QUIET.iter().copied().chain(serving).collect();
        let controllers = subject.start_with(&cluster, "controllers", names, QPS, BURST, &flags)?;
        let client = &cluster.client;
        create_namespace(client, NAMESPACE).await?;
        wait("the service account and all nodes exist", async || {
            let accounts = api::list(client, "ServiceAccount", NAMESPACE).await?.len();
            let nodes = api::list(client, "Node", "").await?;
            let usable = nodes
                .iter()
                .filter(|node| node["spec"]["taints"].is_null())
                .count();
            Ok((accounts + usable, count + 1))
        })
        .await?;
        tokio::time::sleep(REST).await;
        Ok(Self {
            span: CpuSpan::begin(&controllers)?,
            cluster,
            controllers,
            nodes,
        })
    }

    /// The controllers' metrics, in the text format of Prometheus.
    pub(super) async fn metrics(&self) -> Result<String> {
        let (port, _) = self.cluster.serving();
        self.cluster.https(port, "/metrics").await
    }

    pub(super) fn client(&self) -> &Client {
        &self.cluster.client
    }

    /// Waits for the controllers to become idle, then starts to count their CPU time.
    pub(super) async fn begin(&mut self) -> Result<()> {
        tokio::time::sleep(REST).await;
        self.span = CpuSpan::begin(&self.controllers)?;
        Ok(())
    }

    /// Waits for the controllers to become idle, and returns their CPU time since [`begin`](Self::begin) in seconds.
    pub(super) async fn cpu(&self) -> Result<f64> {
        tokio::time::sleep(REST).await;
        self.span.used(&self.controllers)
    }

    /// Adds the controllers' CPU time and peak memory, stops everything, and adds the number of their writes, without
    /// those of their own accounts and tokens.
    pub(super) async fn end(self, figures: &mut Figures) -> Result<()> {
        figures.push("CPU, s", self.cpu().await?);
        self.end_without_cpu(figures).await
    }

    /// Like [`end`](Self::end), for a workload that has added the CPU time itself.
    pub(super) async fn end_without_cpu(mut self, figures: &mut Figures) -> Result<()> {
        figures.push("peak memory, MiB", peak_mib(&self.controllers)?);
        self.stop_processes().await?;
        let mut writes = Writes::default();
        let note = |event| writes.note_outside(&event, SYSTEM);
        self.cluster.plane.each_audit_event(note)?;
        figures.push("API writes", writes.total() as f64);
        Ok(())
    }

    /// Stops everything, and returns the API server's audit log.
    pub(super) async fn stop(&mut self) -> Result<Vec<Value>> {
        self.stop_processes().await?;
        self.cluster.plane.audit_events()
    }

    async fn stop_processes(&mut self) -> Result<()> {
        self.controllers.stop().await?;
        if let Some(nodes) = &mut self.nodes {
            nodes.stop().await?;
        }
        Ok(())
    }
}

/// Starts a control plane with an audit log. Its scheduler has no effective rate limit.
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

/// Starts a subject with these controllers.
pub(super) fn controllers(subject: Subject, cluster: &Cluster, names: &str) -> Result<Process> {
    subject.start_with(cluster, "controllers", names, QPS, BURST, QUIET)
}

pub(super) async fn create_namespace(client: &Client, name: &str) -> Result<()> {
    create_namespaces(client, [name.to_owned()].into_iter()).await
}

/// Creates namespaces, many concurrently.
pub(super) async fn create_namespaces(
    client: &Client,
    names: impl Iterator<Item = String>,
) -> Result<()> {
    let namespaces = names
        .map(|name| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}));
    create_all(client, "", namespaces).await
}

/// The names of the pods in [`NAMESPACE`] that are wanted.
pub(super) async fn pod_names(
    client: &Client,
    is_wanted: impl Fn(&Value) -> bool,
) -> Result<Vec<String>> {
    let pods = api::list(client, "Pod", NAMESPACE).await?;
    let names = pods
        .iter()
        .filter(|pod| is_wanted(pod))
        .filter_map(|pod| pod["metadata"]["name"].as_str());
    Ok(names.map(str::to_owned).collect())
}

/// Creates objects in a namespace, many concurrently.
pub(super) async fn create_all(
    client: &Client,
    namespace: &str,
    objects: impl Iterator<Item = Value>,
) -> Result<()> {
    let creations = objects
        .map(|object| async move { api::create(client, namespace, &object).await.map(drop) });
    send_all(creations).await
}

/// Sends requests, many concurrently.
pub(super) async fn send_all(
    requests: impl Iterator<Item = impl Future<Output = Result<()>>>,
) -> Result<()> {
    futures::stream::iter(requests)
        .buffer_unordered(CONCURRENCY)
        .try_collect()
        .await
}

fn start_nodes(cluster: &Cluster, nodes: Nodes) -> Result<Process> {
    let plugins = cluster.folder_with("nodes", &[guest("fake-kubelet")?])?;
    let numbers = [
        format!("nodes={}", nodes.count),
        format!("pods-per-node={PODS_PER_NODE}"),
    ];
    let settings = nodes.settings.iter().copied();
    let flags: Vec<String> = numbers
        .iter()
        .map(String::as_str)
        .chain(settings)
        .map(|setting| format!("--plugin-config=fake-kubelet.{setting}"))
        .collect();
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    self::plugins(cluster, "nodes", &plugins, &flags)
}

/// Starts a host of this name that runs the plugins of a folder and no built-in controller.
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

/// A ReplicaSet or Deployment with this number of replicas.
pub(super) fn owner(kind: &str, name: &str, replicas: usize) -> Value {
    let labels = json!({"app": name});
    json!({
        "apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name},
        "spec": {"replicas": replicas, "selector": {"matchLabels": labels},
                 "template": template(&labels, "app:1", &json!({}))},
    })
}

/// The time in a field of an audit event.
pub(super) fn time(event: &Value, field: &str) -> Result<Timestamp> {
    event[field]
        .as_str()
        .with_context(|| format!("an audit event has no {field}"))?
        .parse()
        .with_context(|| format!("{field} of an audit event is not a time"))
}

/// A pod template with these labels, this image and these annotations.
pub(super) fn template(labels: &Value, image: &str, annotations: &Value) -> Value {
    json!({
        "metadata": {"labels": labels, "annotations": annotations},
        "spec": {"containers": [{"name": "app", "image": image}]},
    })
}
