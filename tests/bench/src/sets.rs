//! StatefulSets, a DaemonSet on many nodes, CronJobs that are all due at once, and budgets whose pods change.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use flyball_differential::{Subject, api};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::bed::{Bed, NAMESPACE, Nodes, create_all, owner, pod_names, template};
use super::churn::{Change, Churn};
use super::report::Figures;
use super::wait::wait;

/// The least time in seconds between the creation of the CronJobs and the minute in which they are due.
const LEAD: i64 = 20;
/// Replicas of the Deployment of a budget.
const REPLICAS: usize = 5;
/// Changes of pods per second.
const CHANGES: u32 = 100;

/// Measures from the creation of `sets` StatefulSets until all their pods are ready.
pub(super) async fn stateful(
    subject: Subject,
    sets: usize,
    replicas: usize,
    policy: &str,
) -> Result<Figures> {
    let nodes = Nodes::for_pods(sets * replicas);
    let bed = Bed::on(subject, nodes).await?;
    let objects = (0..sets).map(|number| {
        let mut object = owner("StatefulSet", &format!("web-{number}"), replicas);
        object["spec"]["podManagementPolicy"] = policy.into();
        object
    });
    let (mut figures, begun) = (Figures::default(), Instant::now());
    create_all(bed.client(), NAMESPACE, objects).await?;
    wait("all pods are ready", async || {
        let sets = api::list(bed.client(), "StatefulSet", NAMESPACE).await?;
        let ready = sets
            .iter()
            .map(|set| set["status"]["readyReplicas"].as_u64().unwrap_or(0));
        Ok((ready.sum::<u64>() as usize, nodes.pods))
    })
    .await?;
    figures.push("time, s", begun.elapsed().as_secs_f64());
    bed.end(&mut figures).await?;
    Ok(figures)
}

/// Measures a DaemonSet from its creation until its pods are ready on all nodes, and a rollout of it that may replace a
/// tenth of the pods at a time.
pub(super) async fn daemons(subject: Subject, nodes: usize) -> Result<Figures> {
    let nodes = Nodes {
        count: nodes,
        pods: nodes,
        settings: &[],
    };
    let bed = Bed::on(subject, nodes).await?;
    let labels = json!({"app": "daemons"});
    let daemons = json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "daemons"},
        "spec": {"selector": {"matchLabels": labels}, "template": template(&labels, "app:1", &json!({})),
                 "updateStrategy": {"rollingUpdate": {"maxUnavailable": "10%"}}},
    });
    let (mut figures, begun) = (Figures::default(), Instant::now());
    create_all(bed.client(), NAMESPACE, [daemons].into_iter()).await?;
    wait_for_daemons(&bed, nodes.count).await?;
    figures.push("creation: time, s", begun.elapsed().as_secs_f64());
    let begun = Instant::now();
    let change = json!({"spec": {"template": {"spec": {"containers": [{"name": "app", "image": "app:2"}]}}}});
    api::patch(bed.client(), "DaemonSet", NAMESPACE, "daemons", &change).await?;
    wait_for_daemons(&bed, nodes.count).await?;
    figures.push("rollout: time, s", begun.elapsed().as_secs_f64());
    bed.end(&mut figures).await?;
    Ok(figures)
}

/// Waits until the current pods of the DaemonSet are available on all nodes.
async fn wait_for_daemons(bed: &Bed, nodes: usize) -> Result<()> {
    wait("the pods run on all nodes", async || {
        let set = api::get(bed.client(), "DaemonSet", NAMESPACE, "daemons").await?;
        let set = set.context("the DaemonSet was deleted")?;
        let status = &set["status"];
        let is_observed = status["observedGeneration"] == set["metadata"]["generation"];
        let least = ["updatedNumberScheduled", "numberAvailable"]
            .map(|field| status[field].as_u64().unwrap_or(0))
            .into_iter()
            .min();
        let count = least.filter(|_| is_observed).unwrap_or(0);
        Ok((count as usize, nodes))
    })
    .await
}

/// Measures CronJobs that are due in the same minute: from its begin until all their Jobs, whose pods end at once, are
/// complete.
pub(super) async fn cron_jobs(subject: Subject, count: usize) -> Result<Figures> {
    let nodes = Nodes::for_pods(count);
    let bed = Bed::on(subject, nodes).await?;
    let now = Timestamp::now().as_second();
    let minute = (now + LEAD).div_euclid(60) + 1;
    let schedule = format!("{} * * * *", minute.rem_euclid(60));
    let jobs = (0..count).map(|number| cron_job(number, &schedule));
    create_all(bed.client(), NAMESPACE, jobs).await?;
    let until_due = Timestamp::from_second(minute * 60)?.duration_since(Timestamp::now());
    tokio::time::sleep(until_due.unsigned_abs()).await;
    let (mut figures, begun) = (Figures::default(), Instant::now());
    wait("all CronJobs have run", async || {
        let all = api::list(bed.client(), "CronJob", NAMESPACE).await?;
        let run = all
            .iter()
            .filter(|one| !one["status"]["lastSuccessfulTime"].is_null());
        Ok((run.count(), count))
    })
    .await?;
    figures.push("time, s", begun.elapsed().as_secs_f64());
    bed.end(&mut figures).await?;
    Ok(figures)
}

fn cron_job(number: usize, schedule: &str) -> Value {
    let annotations = json!({"fake-kubelet.flyball.dev/exit-after": "0s"});
    let mut template = template(&json!({"work": number.to_string()}), "work:1", &annotations);
    template["spec"]["restartPolicy"] = "Never".into();
    json!({
        "apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": format!("work-{number}")},
        "spec": {"schedule": schedule, "jobTemplate": {"spec": {"template": template}}},
    })
}

/// Measures budgets while their pods become ready and not ready for this time. No kubelet runs, so that the pods have
/// the statuses that the workload writes.
pub(super) async fn budgets(subject: Subject, count: usize, time: Duration) -> Result<Figures> {
    let mut bed = Bed::on(subject, Nodes::NONE).await?;
    let client = bed.client().clone();
    let names: Vec<String> = (0..count).map(|number| format!("web-{number}")).collect();
    let owners = names.iter().map(|name| owner("Deployment", name, REPLICAS));
    create_all(&client, NAMESPACE, owners).await?;
    let budgets = names.iter().map(|name| {
        json!({
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": name},
            "spec": {"minAvailable": "40%", "selector": {"matchLabels": {"app": name}}},
        })
    });
    create_all(&client, NAMESPACE, budgets).await?;
    wait("the budgets count all pods", async || {
        let budgets = api::list(&client, "PodDisruptionBudget", NAMESPACE).await?;
        let counted = budgets
            .iter()
            .map(|budget| budget["status"]["expectedPods"].as_u64().unwrap_or(0));
        Ok((counted.sum::<u64>() as usize, count * REPLICAS))
    })
    .await?;
    let pods = pod_names(&client, |_| true).await?;
    bed.begin().await?;
    let churn = Churn::of_pods(&client, pods, CHANGES, Change::Readiness);
    tokio::time::sleep(time).await;
    churn.stop().await?;
    let (mut figures, begun) = (Figures::default(), Instant::now());
    wait("the budgets count the ready pods", async || {
        let pods = api::list(&client, "Pod", NAMESPACE).await?;
        let ready = pods.iter().filter(|pod| is_ready(pod)).count();
        let budgets = api::list(&client, "PodDisruptionBudget", NAMESPACE).await?;
        let healthy = budgets
            .iter()
            .map(|budget| budget["status"]["currentHealthy"].as_u64().unwrap_or(0));
        let is_equal = healthy.sum::<u64>() as usize == ready;
        Ok((usize::from(is_equal), 1))
    })
    .await?;
    figures.push("time to catch up, s", begun.elapsed().as_secs_f64());
    bed.end(&mut figures).await?;
    Ok(figures)
}

fn is_ready(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array();
    conditions.is_some_and(|all| {
        all.iter()
            .any(|one| one["type"] == "Ready" && one["status"] == "True")
    })
}
