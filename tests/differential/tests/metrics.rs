//! Compares the metrics of stock and of Flyball on one cluster, one after the other: the families, their types, the
//! names of their labels and their buckets. `docs/metrics.md` has each difference with its reason.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context, Result, ensure};
use flyball_cluster_tests::{Cluster, finish, until};
use flyball_controlplane::Options;
use flyball_differential::metrics::labels;
use flyball_differential::{Subject, api};
use serde_json::{Value, json};

/// A family of metrics.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Family {
    kind: String,
    labels: BTreeSet<String>,
    buckets: BTreeSet<String>,
}

type Families = BTreeMap<String, Family>;

/// A row of the table in the docs.
#[derive(Debug)]
struct Row {
    /// A family, or the beginning of several with `*`.
    metric: String,
    /// The difference, in words.
    difference: String,
    /// Whether the difference shows only in some runs, because a series exists only after something has happened.
    is_occasional: bool,
}

impl Row {
    fn covers(&self, metric: &str, difference: &str) -> bool {
        let is_of_it = match self.metric.strip_suffix('*') {
            Some(start) => metric.starts_with(start),
            None => metric == self.metric,
        };
        is_of_it && difference == self.difference
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_docs_have_each_difference_of_metrics_from_stock() -> Result<()> {
    let cluster = Cluster::start(Options::default()).await?;
    if !cluster.plane.assets().has_kcm() {
        flyball_controlplane::skip(
            "metrics",
            "the binaries in use don't include kube-controller-manager",
        )?;
        return cluster.shutdown().await;
    }
    let compared = async {
        let stock = families(&work(&cluster, Subject::Stock).await?);
        let ours = families(&work(&cluster, Subject::Flyball).await?);
        check(&differences(&stock, &ours), &rows()?)
    };
    let compared = compared.await;
    finish(cluster, [], compared).await
}

/// Lets a subject do some of each work, and returns its page of metrics.
async fn work(cluster: &Cluster, subject: Subject) -> Result<String> {
    let (port, serving) = cluster.serving();
    let flags = serving.each_ref().map(String::as_str);
    let name = format!("{subject:?}").to_lowercase();
    let mut process = subject.start_with(cluster, &name, "*", 200, 300, &flags)?;
    let page = async {
        play(cluster, &name).await?;
        cluster.https(port, "/metrics").await
    };
    let page = page.await;
    process.stop().await?;
    page
}

/// Creates objects of many controllers in a namespace, and deletes some.
async fn play(cluster: &Cluster, namespace: &str) -> Result<()> {
    let client = &cluster.client;
    let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
    api::create(client, "", &object).await?;
    until("the service account exists", async || {
        let account = api::get(client, "ServiceAccount", namespace, "default").await?;
        Ok(account.map(drop).ok_or_else(|| "none".into()))
    })
    .await?;
    let spec = json!({"containers": [{"name": "app", "image": "app:1"}]});
    let template = json!({"metadata": {"labels": {"app": "web"}}, "spec": spec});
    let selector = json!({"matchLabels": {"app": "web"}});
    let workload = |kind: &str, more: Value| {
        let mut spec = json!({"selector": selector, "template": template});
        flyball_cluster_tests::merge(&mut spec, more);
        json!({"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": kind.to_lowercase()}, "spec": spec})
    };
    let mut once = spec.clone();
    once["restartPolicy"] = "Never".into();
    let objects = [
        json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "quota"}, "spec": {"hard": {"pods": "50"}}}),
        workload("Deployment", json!({"replicas": 2})),
        workload("StatefulSet", json!({"replicas": 1, "serviceName": "web"})),
        workload("DaemonSet", json!({})),
        json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "job"}, "spec": {
            "ttlSecondsAfterFinished": 0, "template": {"spec": once, "metadata": {"annotations": {"fake-kubelet.flyball.dev/exit-after": "0s"}}},
        }}),
        json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "budget"},
            "spec": {"minAvailable": 1, "selector": selector}}),
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"},
            "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]}}),
    ];
    for object in &objects {
        api::create(client, namespace, object).await?;
    }
    until("the Deployment is available", async || {
        let found = api::get(client, "Deployment", namespace, "deployment").await?;
        let available = found.unwrap_or_default()["status"]["availableReplicas"].clone();
        Ok(if available == 2 {
            Ok(())
        } else {
            Err(available.to_string())
        })
    })
    .await?;
    let foreground = json!({"propagationPolicy": "Foreground"});
    api::delete_with(client, "Deployment", namespace, "deployment", &foreground).await?;
    until("the Deployment and the Job are gone", async || {
        let deployment = api::get(client, "Deployment", namespace, "deployment").await?;
        let job = api::get(client, "Job", namespace, "job").await?;
        Ok(match (deployment, job) {
            (None, None) => Ok(()),
            (deployment, job) => Err(format!("{deployment:?} {job:?}")),
        })
    })
    .await
}

/// Reads a page in Prometheus' text format.
fn families(page: &str) -> Families {
    let mut all = Families::new();
    let mut current = String::new();
    for line in page.lines() {
        if let Some((name, kind)) = line
            .strip_prefix("# TYPE ")
            .and_then(|rest| rest.split_once(' '))
        {
            name.clone_into(&mut current);
            all.entry(current.clone()).or_default().kind = kind.to_owned();
        } else if let Some(family) = all.get_mut(&current).filter(|_| !line.starts_with('#')) {
            for (label, value) in labels(line) {
                if label == "le" {
                    family.buckets.insert(value.to_owned());
                } else {
                    family.labels.insert(label.to_owned());
                }
            }
        }
    }
    all
}

/// The differences: metric, and what differs.
fn differences(stock: &Families, ours: &Families) -> BTreeSet<(String, String)> {
    let mut found = BTreeSet::new();
    let names: BTreeSet<&String> = stock.keys().chain(ours.keys()).collect();
    for name in names {
        let difference = match (stock.get(name), ours.get(name)) {
            (Some(_), None) => "absent",
            (None, Some(_)) => "additional",
            (Some(stock), Some(ours)) if stock.kind != ours.kind => "type",
            (Some(stock), Some(ours)) if stock.labels != ours.labels => "labels",
            (Some(stock), Some(ours)) if stock.buckets != ours.buckets => "buckets",
            _ => continue,
        };
        found.insert((name.clone(), difference.to_owned()));
    }
    found
}

/// Reads the table of differences in the docs.
fn rows() -> Result<Vec<Row>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/metrics.md");
    let text =
        std::fs::read_to_string(&path).with_context(|| format!("can't read {}", path.display()))?;
    let rows = text.lines().filter_map(|line| {
        let cells: Vec<&str> = line.strip_prefix("| `")?.split(" | ").collect();
        let [metric, difference, _] = cells.as_slice() else {
            return None;
        };
        Some(Row {
            metric: metric.trim_end_matches('`').to_owned(),
            difference: difference.trim_end_matches(", at times").to_owned(),
            is_occasional: difference.ends_with(", at times"),
        })
    });
    Ok(rows.collect())
}

/// Fails if the docs lack a difference, or have one that does not exist.
fn check(differences: &BTreeSet<(String, String)>, rows: &[Row]) -> Result<()> {
    let unexplained: Vec<String> = differences
        .iter()
        .filter(|(metric, what)| !rows.iter().any(|row| row.covers(metric, what)))
        .map(|(metric, what)| format!("{metric}: {what}"))
        .collect();
    let outdated: Vec<&String> = rows
        .iter()
        .filter(|row| !row.is_occasional)
        .filter(|row| {
            !differences
                .iter()
                .any(|(metric, what)| row.covers(metric, what))
        })
        .map(|row| &row.metric)
        .collect();
    ensure!(
        unexplained.is_empty() && outdated.is_empty(),
        "docs/metrics.md lacks these differences:\n{}\nand has these, which do not exist: {outdated:?}",
        unexplained.join("\n")
    );
    Ok(())
}

#[test]
fn families_have_types_labels_and_buckets() {
    let page = "# HELP a_seconds b\n# TYPE a_seconds histogram\n\
                a_seconds_bucket{name=\"x,\\\"y=\",le=\"0.5\"} 1\na_seconds_count{name=\"z\"} 1\n\
                # TYPE b gauge\nb 1\n";
    let all = families(page);
    let labels = &all["a_seconds"].labels;
    assert_eq!(labels, &BTreeSet::from(["name".to_owned()]));
    assert_eq!(all["a_seconds"].buckets, ["0.5".to_owned()].into());
    assert_eq!(
        (&*all["a_seconds"].kind, &*all["b"].kind),
        ("histogram", "gauge")
    );
}
