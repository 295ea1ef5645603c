//! Reconcilers that are written for controller-runtime, unedited, as plugins.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use flyball_cluster_tests::{Cluster, Space, finish, guest, until, until_within};
use flyball_controlplane::skip;
use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::batch::v1::Job;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, ListParams, PostParams};
use serde_json::{Value, json};

/// How long a host may take to compile such a plugin, which is large, on a busy machine.
const COMPILING: Duration = Duration::from_secs(300);

fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../examples")
        .join(name)
}

#[tokio::test]
async fn a_reconciler_for_controller_runtime_labels_replica_sets() -> Result<()> {
    let name = "controllerruntime-builtins";
    let Ok(component) = guest(name) else {
        return skip(
            "a_reconciler_for_controller_runtime_labels_replica_sets",
            "Go is missing",
        );
    };
    let cluster = Cluster::for_plugins().await?;
    let result = labels_replica_sets(&cluster, name, component).await;
    finish(cluster, [], result).await
}

async fn labels_replica_sets(cluster: &Cluster, name: &str, component: PathBuf) -> Result<()> {
    let policy = example(name).join("policy.toml");
    cluster.apply_roles(&policy, &component).await?;
    let plugins = cluster.folder_with("builtins-plugins", &[component])?;
    let args = Cluster::plugins_alone(&plugins, &policy);
    let space = Space::create(cluster.client.clone(), "builtins").await?;
    let labels = json!({"app": "web"});
    let set = json!({
        "metadata": {"name": "web", "annotations": {"note": "kept"}},
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "web", "image": "web"}]},
            },
        },
    });
    space.create_object::<ReplicaSet>(set).await?;
    let mut host = cluster.spawn_host(name, cluster.plane.kubeconfig_path(), &args)?;
    let sets = space.api::<ReplicaSet>();
    let labelled = async || {
        let set = sets.get("web").await?;
        let labels = set.metadata.labels.clone().unwrap_or_default();
        Ok(
            if labels.get("hello").is_some_and(|value| value == "world") {
                Ok(set)
            } else {
                Err(format!("the labels are {labels:?}"))
            },
        )
    };
    let set = until_within(COMPILING, "the ReplicaSet is labelled", labelled).await?;
    let annotations = set.metadata.annotations.unwrap_or_default();
    ensure!(
        annotations.get("note").is_some_and(|note| note == "kept"),
        "the update lost the annotations: {annotations:?}"
    );
    let spoilt = json!({"metadata": {"labels": {"hello": null}}});
    space.change::<ReplicaSet>("web", spoilt).await?;
    until("the label is restored", labelled).await?;
    let status = host.stop().await?;
    ensure!(status.success(), "the host ended with {status}");
    Ok(())
}

#[tokio::test]
#[ignore = "builds and compiles JobSet, which takes some minutes"]
async fn job_set_creates_jobs_and_completes() -> Result<()> {
    let name = "controllerruntime-jobset";
    let Ok(component) = guest(name) else {
        return skip("job_set_creates_jobs_and_completes", "Go is missing");
    };
    let cluster = Cluster::for_plugins().await?;
    let result = job_set_completes(&cluster, name, component).await;
    finish(cluster, [], result).await
}

/// The definition of the custom resource, from JobSet's Go module.
fn definition(name: &str) -> Result<Value> {
    let output = Command::new("go")
        .args(["list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/jobset"])
        .current_dir(example(name))
        .output()
        .context("can't run `go`")?;
    let folder = String::from_utf8(output.stdout)?;
    let path =
        Path::new(folder.trim()).join("config/components/crd/bases/jobset.x-k8s.io_jobsets.yaml");
    let text =
        std::fs::read_to_string(&path).with_context(|| format!("can't read {}", path.display()))?;
    Ok(serde_saphyr::from_str(&text)?)
}

async fn job_set_completes(cluster: &Cluster, name: &str, component: PathBuf) -> Result<()> {
    cluster
        .apply(&json!({"items": [definition(name)?]}).to_string())
        .await?;
    let policy = example(name).join("policy.toml");
    cluster.apply_roles(&policy, &component).await?;
    let plugins = cluster.folder_with("jobset-plugins", &[component])?;
    let args = Cluster::plugins_alone(&plugins, &policy);
    let mut host = cluster.spawn_host(name, cluster.plane.kubeconfig_path(), &args)?;
    let space = Space::create(cluster.client.clone(), "job-sets").await?;
    let kind = GroupVersionKind::gvk("jobset.x-k8s.io", "v1alpha2", "JobSet");
    let sets: Api<DynamicObject> = Api::namespaced_with(
        space.client.clone(),
        &space.name,
        &ApiResource::from_gvk(&kind),
    );
    // It states what JobSet's webhook would default.
    let job = json!({"spec": {
        "parallelism": 1, "completions": 1, "backoffLimit": 0, "completionMode": "Indexed",
        "template": {"spec": {
            "restartPolicy": "Never",
            "containers": [{"name": "work", "image": "work"}],
        }},
    }});
    let set: DynamicObject = serde_json::from_value(json!({
        "apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet",
        "metadata": {"name": "training"},
        "spec": {
            "network": {"enableDNSHostnames": true, "publishNotReadyAddresses": true},
            "successPolicy": {"operator": "All", "targetReplicatedJobs": []},
            "replicatedJobs": [{"name": "workers", "replicas": 3, "template": job}],
        },
    }))?;
    until("a JobSet is created", async || {
        let created = sets.create(&PostParams::default(), &set).await;
        Ok(created.map(drop).map_err(|error| error.to_string()))
    })
    .await?;

    let jobs = space.api::<Job>();
    let found = until_within(COMPILING, "the JobSet has three Jobs", async || {
        let found = jobs.list(&ListParams::default()).await?.items;
        Ok(if found.len() == 3 {
            Ok(found)
        } else {
            Err(format!("there are {} Jobs", found.len()))
        })
    })
    .await?;
    let uid = sets.get("training").await?.metadata.uid;
    // No controller of Jobs runs: the test completes them.
    for job in found {
        let name = job.metadata.name.context("a Job has no name")?;
        let owners = job.metadata.owner_references.unwrap_or_default();
        ensure!(
            owners.len() == 1 && Some(&owners[0].uid) == uid.as_ref(),
            "the owners of {name} are {owners:?}"
        );
        complete(&jobs, &name).await?;
    }
    until("the JobSet is completed", async || {
        let set = sets.get("training").await?;
        let conditions = set.data["status"]["conditions"].as_array();
        let is_completed = conditions.is_some_and(|all| {
            all.iter()
                .any(|one| one["type"] == "Completed" && one["status"] == "True")
        });
        Ok(if is_completed {
            Ok(())
        } else {
            Err(set.data["status"].to_string())
        })
    })
    .await?;
    let status = host.stop().await?;
    ensure!(status.success(), "the host ended with {status}");
    Ok(())
}

/// Writes the status of a Job whose pods have succeeded.
async fn complete(jobs: &Api<Job>, name: &str) -> Result<()> {
    let mut job = jobs.get(name).await?;
    let now = "2026-01-01T00:00:00Z";
    let condition = |kind: &str| json!({"type": kind, "status": "True", "lastTransitionTime": now});
    job.status = serde_json::from_value(json!({
        "succeeded": 1, "startTime": now, "completionTime": now, "uncountedTerminatedPods": {},
        "completedIndexes": "0",
        "conditions": [condition("SuccessCriteriaMet"), condition("Complete")],
    }))?;
    jobs.replace_status(name, &PostParams::default(), &job)
        .await
        .with_context(|| format!("can't complete Job {name}"))?;
    Ok(())
}
