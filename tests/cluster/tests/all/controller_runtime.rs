//! Reconcilers that are written for controller-runtime, unedited, as plugins.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use flyball_cluster_tests::{Cluster, Space, finish, guest, log_of, until, until_within};
use flyball_controlplane::{Process, skip};
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::batch::v1::Job;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, ListParams, PostParams};
use serde_json::json;

/// The time that a host may take to compile such a plugin, which is large, on a busy machine.
const COMPILING: Duration = Duration::from_secs(300);

/// The plugin of JobSet's controllers.
const JOB_SET: &str = "controllerruntime-jobset";
/// The plugin that logs the requests of its controller.
const REQUESTS: &str = "controllerruntime-requests";

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

/// The steps of controller-runtime's own integration test of controllers, except for the last two, which list a type
/// that only the test defines, and watch a further kind while the controller runs.
#[tokio::test]
#[ignore = "builds and compiles a large plugin, which takes a minute"]
async fn a_controller_for_controller_runtime_gets_the_requests_that_its_own_test_expects()
-> Result<()> {
    let Ok(component) = guest(REQUESTS) else {
        return skip(
            "a_controller_for_controller_runtime_gets_the_requests_that_its_own_test_expects",
            "Go is missing",
        );
    };
    let cluster = Cluster::for_plugins().await?;
    let result = gets_requests(&cluster, component).await;
    finish(cluster, [], result).await
}

async fn gets_requests(cluster: &Cluster, component: PathBuf) -> Result<()> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../guests/controllerruntime");
    let policy = folder.join("policy.toml");
    let mut host = start(cluster, REQUESTS, &policy, component).await?;
    let log = host.log_path().to_owned();
    let requests = async |count: usize, of: &str| {
        until(&format!("{count} requests after {of}"), async || {
            let log = std::fs::read_to_string(&log)?;
            let seen = log.matches("reconciled true/deployment-name").count();
            Ok(if seen == count {
                Ok(())
            } else {
                Err(format!("there were {seen}"))
            })
        })
        .await
    };
    // The namespace of the controller's predicate. Objects in another one cause no request.
    let (space, other) = (
        Space::create(cluster.client.clone(), "true").await?,
        Space::create(cluster.client.clone(), "false").await?,
    );
    let labels = json!({"foo": "bar"});
    let spec = json!({
        "selector": {"matchLabels": labels},
        "template": {
            "metadata": {"labels": labels},
            "spec": {"containers": [{"name": "nginx", "image": "nginx"}]},
        },
    });
    let deployment = json!({"metadata": {"name": "deployment-name"}, "spec": spec});
    other
        .create_object::<Deployment>(deployment.clone())
        .await?;
    let created = space.create_object::<Deployment>(deployment).await?;
    requests(1, "the creation").await?;
    let labelled = json!({"metadata": {"labels": labels}});
    space
        .change::<Deployment>("deployment-name", labelled.clone())
        .await?;
    requests(2, "the update").await?;
    let owner = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "name": "deployment-name",
        "uid": created.metadata.uid, "controller": true, "blockOwnerDeletion": true,
    });
    let owned = json!({"metadata": {"name": "rs-name", "ownerReferences": [owner]}, "spec": spec});
    space.create_object::<ReplicaSet>(owned).await?;
    requests(3, "the creation of an owned object").await?;
    space.change::<ReplicaSet>("rs-name", labelled).await?;
    requests(4, "the update of an owned object").await?;
    space.delete::<ReplicaSet>("rs-name").await?;
    requests(5, "the deletion of an owned object").await?;
    space.delete::<Deployment>("deployment-name").await?;
    requests(6, "the deletion").await?;
    let log = log_of(&host)?;
    ensure!(
        log.matches("reconciled ").count() == 6,
        "there were other requests"
    );
    let status = host.stop().await?;
    ensure!(status.success(), "the host ended with {status}");
    Ok(())
}

#[tokio::test]
#[ignore = "builds and compiles JobSet, which takes some minutes"]
async fn job_set_creates_jobs_and_completes() -> Result<()> {
    let Ok(component) = guest(JOB_SET) else {
        return skip("job_set_creates_jobs_and_completes", "Go is missing");
    };
    let cluster = Cluster::for_plugins().await?;
    let result = job_set_completes(&cluster, component).await;
    finish(cluster, [], result).await
}

#[tokio::test]
#[ignore = "builds and compiles JobSet, and runs its suite, which takes some minutes"]
async fn job_sets_own_suite_passes() -> Result<()> {
    let Ok(component) = guest(JOB_SET) else {
        return skip("job_sets_own_suite_passes", "Go is missing");
    };
    let cluster = Cluster::for_plugins().await?;
    let result = suite_passes(&cluster, component).await;
    finish(cluster, [], result).await
}

/// Specs of JobSet's suite that enable one of its feature gates in the suite's process. The controllers are in another
/// process, with the default gates.
const OF_FEATURE_GATES: &str = "feature gate is enabled|RestartJob feature gate|\
     RestartJob failure policy|RestartJobAndIgnoreMaxRestarts failure policy";

/// Runs the specs of JobSet's controllers, unedited, against a host with these controllers.
async fn suite_passes(cluster: &Cluster, component: PathBuf) -> Result<()> {
    let mut host = start_job_set(cluster, component).await?;
    let ours = Path::new(env!("CARGO_MANIFEST_DIR")).join("jobset");
    let suite = cluster.folder_with(
        "suite",
        &[
            ours.join("go.mod"),
            ours.join("go.sum"),
            ours.join("suite_test.go"),
            job_set_module(&ours)?.join("test/integration/controller/jobset_controller_test.go"),
        ],
    )?;
    let output = Command::new("go")
        .current_dir(suite)
        .env("KUBECONFIG", cluster.plane.kubeconfig_path())
        .args(["test", "-count=1", "-timeout=60m", "-v", "."])
        .args([
            "-args",
            "-ginkgo.no-color",
            "-ginkgo.skip",
            OF_FEATURE_GATES,
        ])
        .output()
        .context("can't run `go test`")?;
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.success() && text.contains("| 0 Failed | 0 Pending | 5 Skipped"),
        "JobSet's suite fails with {}:\n{text}{errors}",
        output.status
    );
    let status = host.stop().await?;
    ensure!(status.success(), "the host ended with {status}");
    Ok(())
}

/// JobSet's Go module, of the version that the Go module in this folder requires.
fn job_set_module(folder: &Path) -> Result<PathBuf> {
    let output = Command::new("go")
        .args(["list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/jobset"])
        .current_dir(folder)
        .output()
        .context("can't run `go`")?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "can't find JobSet: {errors}");
    Ok(String::from_utf8(output.stdout)?.trim().into())
}

/// Starts a host with JobSet's controllers.
async fn start_job_set(cluster: &Cluster, component: PathBuf) -> Result<Process> {
    let definition = "config/components/crd/bases/jobset.x-k8s.io_jobsets.yaml";
    let definition = job_set_module(&example(JOB_SET))?.join(definition);
    cluster.define(&definition).await?;
    let policy = example(JOB_SET).join("policy.toml");
    start(cluster, JOB_SET, &policy, component).await
}

/// Starts a host of the plugin's name, and waits until it runs the plugin.
async fn start(
    cluster: &Cluster,
    name: &str,
    policy: &Path,
    component: PathBuf,
) -> Result<Process> {
    cluster.apply_roles(policy, &component).await?;
    let plugins = cluster.folder_with("plugins", &[component])?;
    let args = Cluster::plugins_alone(&plugins, policy);
    let host = cluster.spawn_host(name, cluster.plane.kubeconfig_path(), &args)?;
    until_within(COMPILING, "the host runs the plugin", async || {
        // The command fails until the host has created its socket.
        let seen = cluster.plugin(name, name);
        Ok(match &seen {
            Ok(Some(status)) if status["state"] == "running" => Ok(()),
            _ => Err(format!("{seen:?}")),
        })
    })
    .await?;
    Ok(host)
}

async fn job_set_completes(cluster: &Cluster, component: PathBuf) -> Result<()> {
    let mut host = start_job_set(cluster, component).await?;
    let space = Space::create(cluster.client.clone(), "job-sets").await?;
    let kind = GroupVersionKind::gvk("jobset.x-k8s.io", "v1alpha2", "JobSet");
    let sets: Api<DynamicObject> = Api::namespaced_with(
        space.client.clone(),
        &space.name,
        &ApiResource::from_gvk(&kind),
    );
    // The manifest states the values that JobSet's webhook would default.
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
    let found = until("the JobSet has three Jobs", async || {
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
