//! A cluster is handed over from the stock kube-controller-manager to Flyball and back, through their
//! shared lease, in the middle of rollouts, Jobs and deletions.

mod lead;
mod state;
mod volumes;
mod workloads;

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, ensure};
use flyball_cluster_tests::{Cluster, finish, until};
use flyball_controlplane::Options;
use flyball_differential::{Subject, api};
use kube::Client;
use serde_json::{Value, json};

use self::lead::Lead;
use self::state::State;
use self::workloads::*;

/// The controllers of both subjects.
const CONTROLLERS: &str = "clusterrole-aggregation-controller,cronjob-controller,daemonset-controller,\
    deployment-controller,disruption-controller,ephemeral-volume-controller,garbage-collector-controller,\
    job-controller,namespace-controller,persistentvolume-protection-controller,\
    persistentvolumeclaim-protection-controller,pod-garbage-collector-controller,replicaset-controller,\
    replicationcontroller-controller,resourcequota-controller,root-ca-certificate-publisher-controller,\
    serviceaccount-controller,statefulset-controller,ttl-after-finished-controller,\
    volumeattributesclass-protection-controller";
/// A namespace that is being deleted during the takeovers.
const LEAVING: &str = "takeover-leaving";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_takeover_from_stock_and_back_changes_nothing_that_stock_would_not_change() -> Result<()>
{
    hand_over([Subject::Stock, Subject::Flyball, Subject::Stock]).await
}

/// Shows that the expectations are those of stock.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "tests stock alone: `cargo xtask test --full` runs it"]
async fn a_takeover_from_stock_to_stock_changes_nothing_else_either() -> Result<()> {
    hand_over([Subject::Stock; 3]).await
}

/// A rolling upgrade from the release before, and back. The hashes in new names differ between the releases.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "builds kube-controller-manager of the release before: `cargo xtask test --full` runs it"]
async fn an_upgrade_from_stock_of_the_release_before_and_back_restarts_nothing() -> Result<()> {
    hand_over([Subject::StockBefore, Subject::Flyball, Subject::StockBefore]).await
}

/// Shows that the expectations of an upgrade are those of stock.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "tests stock alone: `cargo xtask test --full` runs it"]
async fn an_upgrade_of_stock_and_back_restarts_nothing_either() -> Result<()> {
    hand_over([Subject::StockBefore, Subject::Stock, Subject::StockBefore]).await
}

/// Lets three subjects lead one after the other.
async fn hand_over(subjects: [Subject; 3]) -> Result<()> {
    let cluster = Cluster::start(Options {
        audit: true,
        ..Options::default()
    })
    .await?;
    if !cluster.plane.assets().has_kcm() {
        flyball_controlplane::skip(
            "takeover",
            "the binaries in use don't include kube-controller-manager",
        )?;
        return cluster.shutdown().await;
    }
    let [first, second, third] = subjects;
    let mut terms = Terms {
        cluster: &cluster,
        lead: Lead::start(&cluster, first, CONTROLLERS)?,
        canaries: 0,
    };
    let result = async {
        create(&cluster).await?;
        change_all(&cluster.client).await?;
        delete_some(&cluster.client).await?;
        let created = terms.settle(FIRST_STALL).await?;

        terms.lead.pass_to(second).await?;
        terms
            .unchanged(
                &created,
                "the second leader changed objects when it took over",
            )
            .await?;
        proceed(&cluster.client).await?;
        let proceeded = terms.settle(SECOND_STALL).await?;
        created.survive(&proceeded, |name| {
            name.starts_with("ControllerRevision/") || name.starts_with("ReplicaSet/")
        })?;

        terms.lead.pass_to(third).await?;
        terms
            .unchanged(
                &proceeded,
                "the third leader changed objects when it took over",
            )
            .await?;
        complete(&cluster.client).await?;
        let finished = terms.settle(FINISHED).await?;
        proceeded.survive(&finished, |name| name.starts_with("ControllerRevision/"))?;
        created_as_often_as_one_leader_does(&cluster)
    };
    let result = result.await;
    let stopped = terms.lead.end().await;
    finish(cluster, [], result.and(stopped)).await
}

/// The leader, and the takeovers.
struct Terms<'a> {
    cluster: &'a Cluster,
    lead: Lead<'a>,
    /// The number of canaries so far.
    canaries: usize,
}

impl Terms<'_> {
    /// Waits for these numbers, and until nothing changes while the leader does other work. Returns the
    /// state.
    async fn settle(&mut self, numbers: &[Numbers]) -> Result<State> {
        reach(&self.cluster.client, NAMESPACE, numbers).await?;
        self.canary().await?;
        recount_quotas(&self.cluster.client, self.canaries).await?;
        let mut before = State::read(&self.cluster.client).await?;
        loop {
            self.canary().await?;
            let after = State::read(&self.cluster.client).await?;
            if after == before {
                return Ok(after);
            }
            ensure!(
                self.canaries < 20,
                "the cluster does not settle: {:?}",
                before.changes(&after)
            );
            before = after;
        }
    }

    /// Fails if an object differs from this state once the leader has begun to work.
    async fn unchanged(&mut self, state: &State, when: &str) -> Result<()> {
        self.canary().await?;
        state.unchanged(&State::read(&self.cluster.client).await?, when)
    }

    /// Waits until each controller of the leader has handled a new object. It has handled those that
    /// existed when it began to lead before.
    async fn canary(&mut self) -> Result<()> {
        let client = &self.cluster.client;
        self.canaries += 1;
        let namespace = format!("canary-{}", self.canaries);
        create_namespace(client, &namespace).await?;
        let objects = [
            workload("Deployment", "web", 1),
            workload("StatefulSet", "set", 1),
            workload("DaemonSet", "daemons", 1),
            workload("ReplicationController", "controller", 1),
            job("job", 1, 1, "NonIndexed", &json!({})),
            budget("budget", "web", json!({"minAvailable": 0})),
            quota("quota", json!({"count/jobs.batch": "5"})),
        ];
        for object in objects {
            api::create(client, &namespace, &object).await?;
        }
        let expected: &[Numbers] = &[
            (("Deployment", "web"), &[("availableReplicas", 1)]),
            (("StatefulSet", "set"), &[("availableReplicas", 1)]),
            (("DaemonSet", "daemons"), &[("numberAvailable", 3)]),
            (
                ("ReplicationController", "controller"),
                &[("availableReplicas", 1)],
            ),
            (("Job", "job"), &[("ready", 1)]),
            (
                ("PodDisruptionBudget", "budget"),
                &[("disruptionsAllowed", 1)],
            ),
        ];
        reach(client, &namespace, expected).await?;
        until("the quota counts", async || {
            let quota = api::get(client, "ResourceQuota", &namespace, "quota")
                .await?
                .unwrap_or_default();
            let used = quota["status"]["used"]["count/jobs.batch"].clone();
            Ok(if used == "1" {
                Ok(())
            } else {
                Err(used.to_string())
            })
        })
        .await
    }
}

async fn create_namespace(client: &Client, name: &str) -> Result<()> {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    api::create(client, "", &namespace).await?;
    until("the service account exists", async || {
        let account = api::get(client, "ServiceAccount", name, "default").await?;
        Ok(account.map(drop).ok_or_else(|| "none".into()))
    })
    .await
}

/// Changes the limits of the quotas, so that the leader counts what they limit, and waits for its counts.
///
/// A count can be behind: the leader counted before it had seen an object that admission had counted. The
/// next leader would correct it.
async fn recount_quotas(client: &Client, services: usize) -> Result<()> {
    let services = services.to_string();
    let change = json!({"spec": {"hard": {"services": services}}});
    for name in QUOTAS {
        api::patch(client, "ResourceQuota", NAMESPACE, name, &change).await?;
        until("the quota is counted again", async || {
            let quota = api::get(client, "ResourceQuota", NAMESPACE, name)
                .await?
                .unwrap_or_default();
            let seen = &quota["status"]["hard"]["services"];
            Ok(if *seen == *services {
                Ok(())
            } else {
                Err(quota["status"].to_string())
            })
        })
        .await?;
    }
    Ok(())
}

/// Creates all objects, and waits until their pods run.
async fn create(cluster: &Cluster) -> Result<()> {
    let client = &cluster.client;
    create_namespace(client, NAMESPACE).await?;
    create_namespace(client, LEAVING).await?;
    for object in objects() {
        api::create(client, NAMESPACE, &object).await?;
    }
    run_once(cluster, "cron").await?;
    reach(client, NAMESPACE, CREATED).await?;
    until("the Job of the CronJob runs", async || {
        let cron = api::get(client, "CronJob", NAMESPACE, "cron")
            .await?
            .unwrap_or_default();
        let active = cron["status"]["active"].as_array().map_or(0, Vec::len);
        Ok(if active == 1 {
            Ok(())
        } else {
            Err(cron["status"].to_string())
        })
    })
    .await
}

/// Resumes a CronJob that was created before its last scheduled time, so that one run is due.
async fn run_once(cluster: &Cluster, name: &str) -> Result<()> {
    let client = &cluster.client;
    let mut cron = api::get(client, "CronJob", NAMESPACE, name)
        .await?
        .context("the CronJob exists")?;
    cron["metadata"]["creationTimestamp"] = "2020-06-01T00:00:00Z".into();
    cron["spec"]["suspend"] = false.into();
    let key = format!("/registry/cronjobs/{NAMESPACE}/{name}");
    cluster.plane.put_into_etcd(&key, &cron).await
}

/// Changes templates, ends pods, and waits until no rollout proceeds.
async fn change_all(client: &Client) -> Result<()> {
    for (kind, name) in CHANGED {
        api::patch(client, kind, NAMESPACE, name, &change(false)).await?;
    }
    for (kind, name) in ROLLOUTS {
        api::patch(client, kind, NAMESPACE, name, &change(true)).await?;
    }
    let pause = flyball_cluster_tests::merged(change(false), json!({"spec": {"paused": true}}));
    api::patch(client, "Deployment", NAMESPACE, "paused", &pause).await?;
    end_pods(client, "failing", 1).await
}

/// Deletes objects that remain, because something holds them.
async fn delete_some(client: &Client) -> Result<()> {
    let hold = json!({"metadata": {"finalizers": [HOLD]}});
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "map", "finalizers": [HOLD]}});
    api::create(client, LEAVING, &map).await?;
    api::delete(client, "Namespace", "", LEAVING).await?;
    for (kind, name) in ["losing", "losing-set"].map(|app| ("Pod", app)) {
        let pod = pods_of(client, name)
            .await?
            .into_iter()
            .next()
            .context("the workload has pods")?;
        api::patch(client, kind, NAMESPACE, &pod, &hold).await?;
        api::delete(client, kind, NAMESPACE, &pod).await?;
    }
    api::delete(client, "PersistentVolumeClaim", NAMESPACE, "used").await?;
    let foreground = json!({"propagationPolicy": "Foreground"});
    api::delete_with(client, "Deployment", NAMESPACE, "leaving", &foreground).await?;
    until("the pods of the Deployment are being deleted", async || {
        let pods = api::list(client, "Pod", NAMESPACE).await?;
        let left = pods
            .iter()
            .filter(|pod| pod["metadata"]["labels"]["app"] == "leaving");
        let deleted = left
            .filter(|pod| !pod["metadata"]["deletionTimestamp"].is_null())
            .count();
        Ok(if deleted == 2 {
            Ok(())
        } else {
            Err(deleted.to_string())
        })
    })
    .await
}

/// Releases the pods that wait, ends those of some Jobs, and lets go of the pods that are held.
async fn proceed(client: &Client) -> Result<()> {
    release_pods(client).await?;
    end_pods(client, "work", 0).await?;
    end_pods(client, "indexed", 0).await?;
    let free = json!({"metadata": {"finalizers": null}});
    for pod in api::list(client, "Pod", NAMESPACE).await? {
        let name = pod["metadata"]["name"].as_str().unwrap_or_default();
        let is_held = pod["metadata"]["finalizers"][0] == HOLD;
        if is_held && pod["metadata"]["labels"]["app"] != "leaving" {
            api::patch(client, "Pod", NAMESPACE, name, &free).await?;
        }
    }
    Ok(())
}

/// Lets everything end.
async fn complete(client: &Client) -> Result<()> {
    let free = json!({"metadata": {"finalizers": null}});
    for app in ["work", "failing"] {
        end_pods(client, app, 0).await?;
    }
    for pod in pods_of(client, "leaving").await? {
        api::patch(client, "Pod", NAMESPACE, &pod, &free).await?;
    }
    api::patch(client, "ConfigMap", LEAVING, "map", &free).await?;
    api::delete(client, "Pod", NAMESPACE, "user").await?;
    until("all is rolled out and deleted", async || {
        release_pods(client).await?;
        let kept = [
            api::get(client, "Deployment", NAMESPACE, "leaving").await?,
            api::get(client, "PersistentVolumeClaim", NAMESPACE, "used").await?,
            api::get(client, "Namespace", "", LEAVING).await?,
        ];
        if let Some(object) = kept.into_iter().flatten().next() {
            return Ok(Err(format!("{} exists", object["metadata"])));
        }
        difference(client, NAMESPACE, FINISHED)
            .await
            .map(|found| found.map_or(Ok(()), Err))
    })
    .await
}

/// The names of the pods of a workload.
async fn pods_of(client: &Client, app: &str) -> Result<Vec<String>> {
    let pods = api::list(client, "Pod", NAMESPACE).await?;
    let own = pods
        .iter()
        .filter(|pod| pod["metadata"]["labels"]["app"] == app);
    Ok(own
        .filter_map(|pod| pod["metadata"]["name"].as_str())
        .map(str::to_owned)
        .collect())
}

async fn release_pods(client: &Client) -> Result<()> {
    for pod in api::list(client, "Pod", NAMESPACE)
        .await?
        .into_iter()
        .filter(is_held)
    {
        let name = pod["metadata"]["name"].as_str().unwrap_or_default();
        api::patch(client, "Pod", NAMESPACE, name, &release()).await?;
    }
    Ok(())
}

/// Ends the current pods of a Job.
async fn end_pods(client: &Client, app: &str, code: u8) -> Result<()> {
    for pod in pods_of(client, app).await? {
        api::patch(client, "Pod", NAMESPACE, &pod, &exit(code)).await?;
    }
    Ok(())
}

/// Waits until all objects have these numbers.
async fn reach(client: &Client, namespace: &str, numbers: &[Numbers]) -> Result<()> {
    until(
        &format!("the objects in {namespace} have their numbers"),
        async || {
            difference(client, namespace, numbers)
                .await
                .map(|found| found.map_or(Ok(()), Err))
        },
    )
    .await
}

/// The first object that does not have its numbers, or whose controller has not seen its last change.
async fn difference(
    client: &Client,
    namespace: &str,
    numbers: &[Numbers],
) -> Result<Option<String>> {
    for ((kind, name), fields) in numbers {
        let object = api::get(client, kind, namespace, name)
            .await?
            .unwrap_or_default();
        let (status, generation) = (&object["status"], &object["metadata"]["generation"]);
        let is_seen = *kind == "Job" || status["observedGeneration"] == *generation;
        let is = |(field, number): &(&str, u64)| status[field].as_u64().unwrap_or(0) == *number;
        if object.is_null() || !is_seen || !fields.iter().all(is) {
            return Ok(Some(format!(
                "{kind}/{name} has {status}, and not {fields:?}"
            )));
        }
    }
    Ok(None)
}

/// Compares the numbers of objects that the controllers created and deleted. Another request to delete
/// an object that is being deleted does not count: stock sends some, since its cache is behind.
fn created_as_often_as_one_leader_does(cluster: &Cluster) -> Result<()> {
    let mut audit = cluster.plane.audit_events()?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    audit.sort_by_cached_key(|event| text(&event["requestReceivedTimestamp"]));
    let mut writes: BTreeMap<String, usize> = BTreeMap::new();
    let mut being_deleted = BTreeSet::new();
    for event in audit {
        let (object, user) = (&event["objectRef"], text(&event["user"]["username"]));
        let is_done = event["stage"] == "ResponseComplete"
            && event["responseStatus"]["code"]
                .as_u64()
                .is_some_and(|code| code < 300);
        if let Some((_, account)) = user.rsplit_once("kube-system:")
            && is_done
            && object["namespace"] == NAMESPACE
            && object["subresource"].is_null()
        {
            let (verb, resource) = (text(&event["verb"]), text(&object["resource"]));
            let one = (resource.clone(), text(&object["name"]));
            // A pod of a StatefulSet has the name of the one before.
            if verb == "create" {
                being_deleted.remove(&one);
            }
            if verb != "delete" || being_deleted.insert(one) {
                let what = format!("{account} {verb} {resource}");
                *writes.entry(what).or_default() += 1;
            }
        }
    }
    let different: Vec<String> = WRITES
        .iter()
        .map(|(what, number)| (what, *number, writes.get(*what).copied().unwrap_or(0)))
        .filter(|(_, expected, seen)| expected != seen)
        .map(|(what, expected, seen)| format!("{seen} × {what} instead of {expected}"))
        .collect();
    ensure!(different.is_empty(), "{}", different.join("; "));
    Ok(())
}
