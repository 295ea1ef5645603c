//! Single objects that are much larger than usual: a Job with many completions, a ReplicaSet with many pods, an owner
//! with many dependents, and a Deployment with many old ReplicaSets.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use flyball_cluster_tests::Cluster;
use flyball_controlplane::Options;
use flyball_differential::writes::Writes;
use flyball_differential::{Subject, api};
use serde_json::{Value, json};

use super::bed::{Bed, NAMESPACE, create_all, create_namespace, owner, template};
use super::cascade;
use super::jobs::is_complete;
use super::process::{CpuSpan, cpu_seconds, peak_mib, resident_mib};
use super::report::Figures;
use super::wait::{wait, wait_for};

/// How many pods of the Job run at a time.
const PARALLELISM: usize = 1000;
/// The pods of the Deployment.
const REPLICAS: usize = 10;
/// How often the Deployment gets another image.
const ROLLOUTS: usize = 5;
/// How many of its old ReplicaSets the Deployment keeps in the end.
const KEPT: usize = 10;

/// The time that a workload may take for this number of objects: a twentieth of a second for each, and some minutes.
fn patience(objects: usize) -> Duration {
    Duration::from_secs(300 + objects as u64 / 20)
}

/// Measures an Indexed Job of this many completions. Its pods exit at once.
pub(super) async fn job(subject: Subject, completions: usize) -> Result<Figures> {
    let parallelism = completions.min(PARALLELISM);
    // Pods that have ended stay, but need no node.
    let bed = Bed::start(subject, 2 * parallelism).await?;
    let annotations = json!({"fake-kubelet.flyball.dev/exit-after": "0s"});
    let mut template = template(&json!({"work": "large"}), "work:1", &annotations);
    template["spec"]["restartPolicy"] = "Never".into();
    let job = json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "large"},
        "spec": {"completionMode": "Indexed", "completions": completions, "parallelism": parallelism, "template": template},
    });
    let (mut figures, begun) = (Figures::default(), Instant::now());
    api::create(bed.client(), NAMESPACE, &job).await?;
    wait_for(patience(completions), "the Job is complete", async || {
        let job = api::get(bed.client(), "Job", NAMESPACE, "large").await?;
        let job = job.context("the Job was deleted")?;
        let succeeded = job["status"]["succeeded"].as_u64().unwrap_or(0) as usize;
        let seen = if is_complete(&job) {
            completions
        } else {
            succeeded.min(completions - 1)
        };
        Ok((seen, completions))
    })
    .await?;
    figures.push("time, s", begun.elapsed().as_secs_f64());
    bed.end(&mut figures).await?;
    Ok(figures)
}

/// Measures a ReplicaSet that is created with this many pods and then scaled to half of them.
pub(super) async fn replica_set(subject: Subject, replicas: usize) -> Result<Figures> {
    let bed = Bed::start(subject, replicas).await?;
    let (mut figures, begun) = (Figures::default(), Instant::now());
    let set = owner("ReplicaSet", "large", replicas);
    api::create(bed.client(), NAMESPACE, &set).await?;
    wait_for_pods(&bed, replicas, "readyReplicas").await?;
    figures.push("creation: time, s", begun.elapsed().as_secs_f64());
    let (half, begun) = (replicas / 2, Instant::now());
    let change = json!({"spec": {"replicas": half}});
    api::patch(bed.client(), "ReplicaSet", NAMESPACE, "large", &change).await?;
    wait_for_pods(&bed, half, "replicas").await?;
    figures.push("scale-down: time, s", begun.elapsed().as_secs_f64());
    bed.end(&mut figures).await?;
    Ok(figures)
}

/// Waits until the status of the ReplicaSet has exactly this number.
async fn wait_for_pods(bed: &Bed, count: usize, field: &str) -> Result<()> {
    wait_for(patience(count), "the ReplicaSet has its pods", async || {
        let set = api::get(bed.client(), "ReplicaSet", NAMESPACE, "large").await?;
        let set = set.context("the ReplicaSet was deleted")?;
        let seen = set["status"][field].as_u64().unwrap_or(0) as usize;
        // A surplus is missing as well.
        Ok((count.saturating_sub(seen.abs_diff(count)), count))
    })
    .await
}

/// Measures the deletion in the foreground of an owner with this many dependents.
pub(super) async fn owner_of_many(subject: Subject, dependents: usize) -> Result<Figures> {
    let cluster = Cluster::without_nodes(Options {
        audit: true,
        ..Options::default()
    })
    .await?;
    let client = &cluster.client;
    create_namespace(client, cascade::NAMESPACE).await?;
    let created = api::create(client, cascade::NAMESPACE, &cascade::map("large", None)).await?;
    let uid = created["metadata"]["uid"].as_str();
    let uid = uid.context("an object has no UID")?;
    let dependent = |number| cascade::map(&format!("large-{number}"), Some(("large", uid)));
    create_all(client, cascade::NAMESPACE, (0..dependents).map(dependent)).await?;

    let mut figures = Figures::default();
    let mut collector = cascade::start_collector(subject, &cluster).await?;
    figures.push("CPU at the start, s", cpu_seconds(&collector)?);
    figures.push("memory with all in view, MiB", resident_mib(&collector)?);
    let (span, begun) = (CpuSpan::begin(&collector)?, Instant::now());
    let options = json!({"propagationPolicy": "Foreground"});
    api::delete_with(client, "ConfigMap", cascade::NAMESPACE, "large", &options).await?;
    let all = dependents + 1;
    wait_for(patience(all), "all objects are deleted", async || {
        Ok((all - cascade::left(&cluster, "large").await?.min(all), all))
    })
    .await?;
    figures.push("time, s", begun.elapsed().as_secs_f64());
    figures.push("CPU, s", span.used(&collector)?);
    figures.push("peak memory, MiB", peak_mib(&collector)?);
    collector.stop().await?;
    let mut writes = Writes::default();
    let note = |event| writes.note_outside(&event, "kube-system");
    cluster.plane.each_audit_event(note)?;
    figures.push("API writes", writes.total() as f64);
    cluster.shutdown().await?;
    Ok(figures)
}

/// Measures rollouts of a Deployment with this many old ReplicaSets, and their deletion when it keeps only a few.
pub(super) async fn deployment(subject: Subject, old: usize) -> Result<Figures> {
    let mut bed = Bed::start(subject, 2 * REPLICAS).await?;
    let client = bed.client().clone();
    let mut web = owner("Deployment", "large", REPLICAS);
    web["spec"]["revisionHistoryLimit"] = (old + 2 * ROLLOUTS).into();
    let created = api::create(&client, NAMESPACE, &web).await?;
    create_all(
        &client,
        NAMESPACE,
        (0..old).map(|number| old_set(&created, number)),
    )
    .await?;
    wait("the old ReplicaSets are observed", async || {
        let sets = api::list(&client, "ReplicaSet", NAMESPACE).await?;
        let is_observed = |set: &&Value| !set["status"]["observedGeneration"].is_null();
        Ok((sets.iter().filter(is_observed).count(), old + 1))
    })
    .await?;
    wait_for_rollout(&bed).await?;
    bed.begin().await?;
    let (mut figures, begun) = (Figures::default(), Instant::now());
    for number in 0..ROLLOUTS {
        let containers = json!([{"name": "app", "image": format!("app:new-{number}")}]);
        let change = json!({"spec": {"template": {"spec": {"containers": containers}}}});
        api::patch(&client, "Deployment", NAMESPACE, "large", &change).await?;
        wait_for_rollout(&bed).await?;
    }
    figures.push("rollouts: time, s", begun.elapsed().as_secs_f64());
    let (all, begun) = (old + 1 + ROLLOUTS, Instant::now());
    let change = json!({"spec": {"revisionHistoryLimit": KEPT}});
    api::patch(&client, "Deployment", NAMESPACE, "large", &change).await?;
    wait("the surplus ReplicaSets are deleted", async || {
        let left = api::list(&client, "ReplicaSet", NAMESPACE).await?.len();
        Ok((all.saturating_sub(left), all - KEPT - 1))
    })
    .await?;
    figures.push("clean-up: time, s", begun.elapsed().as_secs_f64());
    bed.end(&mut figures).await?;
    Ok(figures)
}

/// An old ReplicaSet of a Deployment, whose template has another image.
fn old_set(deployment: &Value, number: usize) -> Value {
    let (name, spec) = (&deployment["metadata"]["name"], &deployment["spec"]);
    let (mut selector, mut template) = (spec["selector"].clone(), spec["template"].clone());
    let hash = format!("old{number}");
    selector["matchLabels"]["pod-template-hash"] = hash.as_str().into();
    template["metadata"]["labels"]["pod-template-hash"] = hash.as_str().into();
    template["spec"]["containers"][0]["image"] = format!("app:{hash}").into();
    let owner = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "name": name, "uid": deployment["metadata"]["uid"],
        "controller": true, "blockOwnerDeletion": true,
    });
    let annotations = json!({"deployment.kubernetes.io/revision": (number + 1).to_string()});
    json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet",
        "metadata": {"name": format!("large-{hash}"), "labels": template["metadata"]["labels"],
                     "annotations": annotations, "ownerReferences": [owner]},
        "spec": {"replicas": 0, "selector": selector, "template": template},
    })
}

/// Waits until all pods of the Deployment are new and available.
async fn wait_for_rollout(bed: &Bed) -> Result<()> {
    wait("the Deployment is rolled out", async || {
        let web = api::get(bed.client(), "Deployment", NAMESPACE, "large").await?;
        let web = web.context("the Deployment was deleted")?;
        let status = &web["status"];
        let counts = ["replicas", "updatedReplicas", "availableReplicas"];
        let is_done = status["observedGeneration"] == web["metadata"]["generation"]
            && counts.iter().all(|count| status[count] == REPLICAS);
        Ok((usize::from(is_done), 1))
    })
    .await
}
