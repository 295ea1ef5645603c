//! Volumes that an external provisioner creates, volumes that move from nodes that were shut down, and controllers that
//! start on a cluster with many volumes. A host in a separate process plays the CSI driver under both subjects.

use std::time::Instant;

use anyhow::{Context, Result};
use flyball_cluster_tests::{Cluster, guest};
use flyball_controlplane::{Options, Process, Snapshot};
use flyball_differential::writes::Writes;
use flyball_differential::{Subject, api};
use kube::Client;
use serde_json::{Value, json};

use super::bed::{
    Bed, FEW, NAMESPACE, Nodes, REST, chosen_controllers, controllers, create_all,
    create_namespace, plane, plugins, send_all, template,
};
use super::process::{cpu_seconds, peak_mib};
use super::report::Figures;
use super::sync::Full;
use super::wait::wait;

const BINDER: &str = "persistentvolume-binder-controller";
const ATTACHER: &str = "persistentvolume-attach-detach-controller";
/// The driver that the fake CSI plugin plays.
const DRIVER: &str = "fake-csi.flyball.dev";
/// The StorageClass of that driver.
const CLASS: &str = "fake";
/// Volumes that are attached to a node. Clouds allow a few dozen.
pub(super) const PER_NODE: usize = 10;
/// The namespace of the claims that are not bound yet when the controllers start.
const WAITING: &str = "waiting";
/// The number of these claims.
const WAITING_CLAIMS: usize = 100;

/// Measures from the creation of claims until all are bound to volumes that the CSI driver has provisioned.
pub(super) async fn provision(subject: Subject, count: usize) -> Result<Figures> {
    let mut bed = Bed::on(subject, Nodes::NONE).await?;
    let client = bed.client().clone();
    let mut driver = start_driver(&bed.cluster)?;
    let class = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": CLASS},
        "provisioner": DRIVER,
    });
    create_all(&client, "", [class].into_iter()).await?;
    // The first claim shows that the driver and the controllers have started.
    create_all(&client, NAMESPACE, [claim("first", CLASS)].into_iter()).await?;
    wait_until_bound(&client, NAMESPACE, 1).await?;
    bed.begin().await?;
    let (mut figures, begun) = (Figures::default(), Instant::now());
    let claims = (0..count).map(|number| claim(&name_of(number), CLASS));
    create_all(&client, NAMESPACE, claims).await?;
    wait_until_bound(&client, NAMESPACE, count + 1).await?;
    figures.push("time, s", begun.elapsed().as_secs_f64());
    bed.end(&mut figures).await?;
    driver.stop().await?;
    Ok(figures)
}

/// Measures from the creation of pods until their volumes are attached, and then from the death of half of the nodes,
/// whose pods are replaced on the other ones, until all volumes are attached there.
pub(super) async fn move_all(subject: Subject, count: usize) -> Result<Figures> {
    // With all controllers, nodes without kubelets would be tainted, and their pods deleted.
    let names = [FEW, ATTACHER].join(",");
    let mut bed = Bed::of(subject, Nodes::NONE, &names, false).await?;
    let client = bed.client().clone();
    let mut driver = start_driver(&bed.cluster)?;
    let nodes = count / PER_NODE;
    create_all(&client, "", (0..nodes).map(node)).await?;
    create_bound_pairs(&client, count).await?;
    bed.begin().await?;
    let (mut figures, begun) = (Figures::default(), Instant::now());
    let pods = (0..count).map(|number| pod(number, "first", number % nodes));
    create_all(&client, NAMESPACE, pods).await?;
    wait_until_attached(&client, 0, count).await?;
    figures.push("attachment: time, s", begun.elapsed().as_secs_f64());
    // The kubelets of nodes that die can't unmount their volumes any more.
    let used = (0..nodes).map(|node| report_use(&client, node, nodes, count));
    send_all(used).await?;
    let begun = Instant::now();
    let dead = nodes / 2;
    send_all((0..dead).map(|node| shut_down(&client, node))).await?;
    let moved = (0..count).filter(|number| number % nodes < dead);
    send_all(moved.map(|number| replace_pod(&client, number, dead + number % nodes))).await?;
    wait_until_attached(&client, dead, count).await?;
    figures.push("move: time, s", begun.elapsed().as_secs_f64());
    bed.end(&mut figures).await?;
    driver.stop().await?;
    Ok(figures)
}

/// Measures the start of the controllers on a cluster with many bound volumes, until the claims that wait are bound.
pub(super) async fn start(subject: Subject, full: &mut Full, count: usize) -> Result<Figures> {
    let cluster = full.filled("volumes", count, fill).await?;
    let (mut figures, begun) = (Figures::default(), Instant::now());
    let mut controllers = controllers(subject, &cluster, chosen_controllers())?;
    wait_until_bound(&cluster.client, WAITING, WAITING_CLAIMS).await?;
    figures.push("time, s", begun.elapsed().as_secs_f64());
    tokio::time::sleep(REST).await;
    figures.push("CPU, s", cpu_seconds(&controllers)?);
    figures.push("peak memory, MiB", peak_mib(&controllers)?);
    controllers.stop().await?;
    let mut writes = Writes::default();
    cluster
        .plane
        .each_audit_event(|event| writes.note_outside(&event, "kube-system"))?;
    figures.push("API writes", writes.total() as f64);
    cluster.shutdown().await?;
    Ok(figures)
}

/// Creates pairs of volumes and claims, lets a controller bind them, and returns a snapshot of etcd. Some more claims
/// are not bound.
async fn fill(count: usize) -> Result<Snapshot> {
    let cluster = plane(Options {
        scheduler: false,
        ..Options::default()
    })
    .await?;
    let client = &cluster.client;
    create_namespace(client, NAMESPACE).await?;
    create_namespace(client, WAITING).await?;
    create_pairs(client, NAMESPACE, count).await?;
    let mut binder = controllers(Subject::Flyball, &cluster, BINDER)?;
    wait_until_bound(client, NAMESPACE, count).await?;
    binder.stop().await?;
    create_pairs(client, WAITING, WAITING_CLAIMS).await?;
    cluster.plane.into_snapshot().await
}

/// Creates volumes and claims that name each other.
async fn create_pairs(client: &Client, namespace: &str, count: usize) -> Result<()> {
    let disk = |number: usize| format!("{namespace}-{number}");
    let volumes = (0..count).map(|number| {
        let reference = json!({"namespace": namespace, "name": name_of(number)});
        volume(&disk(number), &reference)
    });
    create_all(client, "", volumes).await?;
    let claims = (0..count).map(|number| {
        let mut claim = claim(&name_of(number), "");
        claim["spec"]["volumeName"] = disk(number).into();
        claim
    });
    create_all(client, namespace, claims).await
}

/// Creates volumes and claims that are bound, although no controller binds them.
async fn create_bound_pairs(client: &Client, count: usize) -> Result<()> {
    let claims = (0..count).map(|number| {
        let mut claim = claim(&name_of(number), "");
        claim["spec"]["volumeName"] = name_of(number).into();
        claim
    });
    create_all(client, NAMESPACE, claims).await?;
    let claims = api::list(client, "PersistentVolumeClaim", NAMESPACE).await?;
    let volumes = claims.iter().map(|claim| {
        let metadata = &claim["metadata"];
        let reference = json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": NAMESPACE,
            "name": metadata["name"], "uid": metadata["uid"],
        });
        volume(metadata["name"].as_str().unwrap_or_default(), &reference)
    });
    create_all(client, "", volumes).await?;
    send_all((0..count).map(|number| set_bound(client, number))).await
}

async fn set_bound(client: &Client, number: usize) -> Result<()> {
    let (kind, name) = ("PersistentVolumeClaim", name_of(number));
    let status =
        json!({"phase": "Bound", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}});
    let bound = json!({"status": status});
    api::patch_on(client, kind, NAMESPACE, &name, "status", &bound).await
}

fn name_of(number: usize) -> String {
    format!("data-{number}")
}

fn node_name(number: usize) -> String {
    format!("node-{number}")
}

/// A claim of this class.
fn claim(name: &str, class: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name},
        "spec": {"storageClassName": class, "accessModes": ["ReadWriteOnce"],
                 "resources": {"requests": {"storage": "1Gi"}}},
    })
}

/// A volume of the driver for the claim of this reference.
fn volume(name: &str, claim: &Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name},
        "spec": {"claimRef": claim, "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"},
                 "persistentVolumeReclaimPolicy": "Retain", "storageClassName": "",
                 "csi": {"driver": DRIVER, "volumeHandle": name}},
    })
}

/// A node whose kubelet leaves it to the controller to attach volumes.
fn node(number: usize) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": node_name(number),
                     "annotations": {"volumes.kubernetes.io/controller-managed-attach-detach": "true"}},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    })
}

/// A pod that uses the claim with this number on a node.
fn pod(number: usize, suffix: &str, node: usize) -> Value {
    let mut pod = template(&json!({}), "app:1", &json!({}));
    pod["apiVersion"] = "v1".into();
    pod["kind"] = "Pod".into();
    pod["metadata"]["name"] = format!("{}-{suffix}", name_of(number)).into();
    pod["spec"]["nodeName"] = node_name(node).into();
    pod["spec"]["volumes"] =
        json!([{"name": "data", "persistentVolumeClaim": {"claimName": name_of(number)}}]);
    pod
}

/// Plays the kubelet: reports the volumes that a node uses.
async fn report_use(client: &Client, node: usize, nodes: usize, count: usize) -> Result<()> {
    let used = (0..count).filter(|number| number % nodes == node);
    let used: Vec<String> = used
        .map(|number| format!("kubernetes.io/csi/{DRIVER}^{}", name_of(number)))
        .collect();
    let status = json!({"status": {"volumesInUse": used}});
    api::patch_on(client, "Node", "", &node_name(node), "status", &status).await
}

/// Marks a node as one that was shut down.
async fn shut_down(client: &Client, node: usize) -> Result<()> {
    let name = node_name(node);
    let status = json!({"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}});
    api::patch_on(client, "Node", "", &name, "status", &status).await?;
    let taint = json!({"key": "node.kubernetes.io/out-of-service", "effect": "NoExecute"});
    let taints = json!({"spec": {"taints": [taint]}});
    api::patch(client, "Node", "", &name, &taints).await
}

/// Deletes the pod of a claim, and creates one on another node.
async fn replace_pod(client: &Client, number: usize, node: usize) -> Result<()> {
    let name = format!("{}-first", name_of(number));
    let at_once = json!({"gracePeriodSeconds": 0});
    api::delete_with(client, "Pod", NAMESPACE, &name, &at_once).await?;
    api::create(client, NAMESPACE, &pod(number, "second", node))
        .await
        .map(drop)
}

/// Waits until this number of claims in a namespace is bound.
async fn wait_until_bound(client: &Client, namespace: &str, count: usize) -> Result<()> {
    wait("the claims are bound", async || {
        let claims = api::list(client, "PersistentVolumeClaim", namespace).await?;
        let bound = claims
            .iter()
            .filter(|claim| claim["status"]["phase"] == "Bound");
        Ok((bound.count(), count))
    })
    .await
}

/// Waits until this number of volumes is attached to the nodes from this number on, and no volume to another node.
async fn wait_until_attached(client: &Client, first_node: usize, count: usize) -> Result<()> {
    wait("the volumes are attached", async || {
        let (mut reported, mut others) = (0, 0);
        for node in api::list(client, "Node", "").await? {
            let name = node["metadata"]["name"].as_str().unwrap_or_default();
            let number = name.trim_start_matches("node-").parse::<usize>();
            let number = number.context("the name of a node has no number")?;
            let attached = node["status"]["volumesAttached"].as_array();
            let attached = attached.map_or(0, Vec::len);
            match number < first_node {
                true => others += attached,
                false => reported += attached,
            }
        }
        let attachments = api::list(client, "VolumeAttachment", "").await?.len();
        let surplus = others + attachments.abs_diff(count);
        Ok((reported.saturating_sub(surplus), count))
    })
    .await
}

/// Starts the fake CSI driver in a host of its own.
fn start_driver(cluster: &Cluster) -> Result<Process> {
    let folder = cluster.folder_with("csi", &[guest("fake-csi")?])?;
    plugins(cluster, "csi", &folder, &[])
}
