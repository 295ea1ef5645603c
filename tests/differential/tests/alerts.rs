//! Evaluates kubernetes-mixin's alerts about kube-controller-manager (`mixin/alerts.yaml`) on the metrics of stock and of
//! Flyball: in each situation, both raise the same alerts.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use flyball_cluster_tests::{Cluster, finish, until};
use flyball_controlplane::{Options, test_rules};
use flyball_differential::{Subject, api};
use serde_json::{Value, json};

/// The labels that Prometheus adds to each series of the controllers' target.
const TARGET: &str = r#"instance="10.0.0.1:10257",job="kube-controller-manager""#;
/// The metrics that the alerts read.
const METRICS: [&str; 2] = ["kubernetes_build_info", "rest_client_requests_total"];
/// How often Prometheus' values are repeated: longer than the alerts wait, at a value each minute.
const MINUTES: u32 = 25;

/// The metrics of a subject, as two scrapes show them.
struct Metrics {
    subject: Subject,
    /// Whether Prometheus finds the target.
    is_found: bool,
    series: Vec<Series>,
}

#[derive(Clone)]
struct Series {
    /// The name with the labels.
    name: String,
    first: f64,
    /// The difference to the second scrape, and from there on for each minute.
    increase: f64,
}

/// A situation, and the alerts that it raises.
struct Situation {
    name: &'static str,
    /// The series that Prometheus has.
    series: fn(&Metrics) -> Vec<Series>,
    /// Names and labels.
    alerts: &'static [(&'static str, &'static [(&'static str, &'static str)])],
}

const ALERTS: [&str; 4] = [
    "KubeControllerManagerDown",
    "KubeControllerManagerInstanceUnreachable",
    "KubeVersionMismatch",
    "KubeClientErrors",
];
const WARNING: (&str, &str) = ("severity", "warning");
const JOB: (&str, &str) = ("job", "kube-controller-manager");
const INSTANCE: (&str, &str) = ("instance", "10.0.0.1:10257");

const SITUATIONS: [Situation; 5] = [
    Situation {
        name: "the controllers work",
        series: |metrics| metrics.beside_api_server("v1.37.2"),
        alerts: &[],
    },
    Situation {
        name: "the pod is gone",
        series: |_| vec![api_server("v1.37.2")],
        alerts: &[(
            "KubeControllerManagerDown",
            &[("severity", "critical"), JOB],
        )],
    },
    Situation {
        name: "the process doesn't answer",
        series: |metrics| vec![api_server("v1.37.2"), metrics.up(0.0)],
        alerts: &[(
            "KubeControllerManagerInstanceUnreachable",
            &[WARNING, JOB, INSTANCE],
        )],
    },
    Situation {
        name: "the API server has another minor version",
        series: |metrics| metrics.beside_api_server("v1.35.9"),
        alerts: &[("KubeVersionMismatch", &[WARNING])],
    },
    Situation {
        name: "the API server fails every other creation",
        series: Metrics::with_failures,
        alerts: &[("KubeClientErrors", &[WARNING, JOB, INSTANCE])],
    },
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "builds promtool, which takes minutes: `cargo xtask test --full` runs it"]
async fn each_situation_raises_the_alerts_of_stock() -> Result<()> {
    let cluster = Cluster::start(Options::default()).await?;
    if !cluster.plane.assets().has_kcm() {
        flyball_controlplane::skip(
            "alerts",
            "the binaries in use don't include kube-controller-manager",
        )?;
        return cluster.shutdown().await;
    }
    let compared = async {
        for subject in [Subject::Stock, Subject::Flyball] {
            let metrics = metrics(&cluster, subject).await?;
            let folder = tempfile::tempdir().context("can't create a folder for promtool")?;
            let file = folder.path().join("tests.json");
            std::fs::write(&file, metrics.tests().to_string())?;
            test_rules(&file)
                .await
                .with_context(|| format!("{subject:?} does not raise the expected alerts"))?;
        }
        Ok(())
    };
    let compared = compared.await;
    finish(cluster, [], compared).await
}

/// Runs a subject, and reads its metrics before and after it has done some work.
async fn metrics(cluster: &Cluster, subject: Subject) -> Result<Metrics> {
    let (port, serving) = cluster.serving();
    let flags = serving.each_ref().map(String::as_str);
    let name = format!("{subject:?}").to_lowercase();
    let mut process = subject.start_with(cluster, &name, "*", 200, 300, &flags)?;
    let pages = async {
        with_account(cluster, &format!("{name}-before")).await?;
        let before = cluster.https(port, "/metrics").await?;
        with_account(cluster, &format!("{name}-after")).await?;
        anyhow::Ok((before, cluster.https(port, "/metrics").await?))
    };
    let pages = pages.await;
    process.stop().await?;
    let (before, after) = pages?;
    let series = series(&before, &after);
    for metric in METRICS {
        ensure!(
            series.iter().any(|series| series.name.starts_with(metric)),
            "{subject:?} serves no {metric}: {after}"
        );
    }
    Ok(Metrics {
        subject,
        is_found: subject == Subject::Stock || is_labelled()?,
        series,
    })
}

/// Creates a namespace, and waits until the controllers have given it a service account.
async fn with_account(cluster: &Cluster, namespace: &str) -> Result<()> {
    let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
    api::create(&cluster.client, "", &object).await?;
    until("the service account exists", async || {
        let account = api::get(&cluster.client, "ServiceAccount", namespace, "default").await?;
        Ok(account.map(drop).ok_or_else(|| "none".into()))
    })
    .await
}

/// Whether the static pod has the label by which kube-prometheus-stack selects the target.
fn is_labelled() -> Result<bool> {
    let path = manifest_dir().join("../../deploy/kubeadm/flyball.yaml");
    let text =
        std::fs::read_to_string(&path).with_context(|| format!("can't read {}", path.display()))?;
    Ok(text.contains("\n    component: kube-controller-manager\n"))
}

fn manifest_dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).to_owned()
}

/// The series of [`METRICS`] on the second page, with the target's labels.
fn series(before: &str, after: &str) -> Vec<Series> {
    let read = |page: &str| -> Vec<(String, f64)> {
        let lines = page.lines().filter(|line| {
            let name = line.split_once('{').map(|(name, _)| name);
            name.is_some_and(|name| METRICS.contains(&name))
        });
        lines
            .filter_map(|line| {
                let (name, value) = line.rsplit_once(' ')?;
                let name = name.replacen('{', &format!("{{{TARGET},"), 1);
                Some((name, value.parse().ok()?))
            })
            .collect()
    };
    let earlier = read(before);
    let found = read(after).into_iter().map(|(name, value)| {
        let first = earlier.iter().find(|(other, _)| *other == name);
        let first = first.map_or(0.0, |(_, first)| *first);
        Series {
            name,
            first,
            increase: value - first,
        }
    });
    found.collect()
}

/// The version of an API server, as its target shows it.
fn api_server(version: &str) -> Series {
    Series {
        name: format!(r#"kubernetes_build_info{{git_version="{version}",job="apiserver"}}"#),
        first: 1.0,
        increase: 0.0,
    }
}

impl Metrics {
    fn up(&self, value: f64) -> Series {
        Series {
            name: format!("up{{{TARGET}}}"),
            first: value,
            increase: 0.0,
        }
    }

    /// All series, and those of an API server of this version. A target that is not found has none.
    fn beside_api_server(&self, version: &str) -> Vec<Series> {
        let mut all = vec![api_server(version)];
        if self.is_found {
            all.push(self.up(1.0));
            all.extend(self.series.iter().cloned());
        }
        all
    }

    /// All series, and for each creation another one that failed.
    fn with_failures(&self) -> Vec<Series> {
        let mut all = self.beside_api_server("v1.37.2");
        let mut failed: Vec<Series> = all
            .iter()
            .filter(|series| series.name.contains(r#"code="201""#))
            .cloned()
            .collect();
        for series in &mut failed {
            series.name = series.name.replace(r#"code="201""#, r#"code="503""#);
        }
        all.retain(|series| failed.iter().all(|failed| failed.name != series.name));
        all.append(&mut failed);
        all
    }

    /// A file for `promtool test rules`.
    fn tests(&self) -> Value {
        let tests = SITUATIONS.iter().map(|situation| {
            let input = (situation.series)(self).into_iter().map(|series| {
                let (first, increase) = (series.first, series.increase);
                json!({"series": series.name, "values": format!("{first}+{increase}x{MINUTES}")})
            });
            let expected = ALERTS.map(|alert| {
                let raised = situation.alerts.iter().filter(|(name, _)| *name == alert);
                let raised = raised.map(|(_, labels)| {
                    let labels: serde_json::Map<String, Value> = labels
                        .iter()
                        .map(|(name, value)| ((*name).to_owned(), (*value).into()))
                        .collect();
                    json!({"exp_labels": labels})
                });
                json!({
                    "alertname": alert,
                    "eval_time": "20m",
                    "exp_alerts": raised.collect::<Vec<_>>(),
                })
            });
            json!({
                "name": format!("{:?}: {}", self.subject, situation.name),
                "interval": "1m",
                "input_series": input.collect::<Vec<_>>(),
                "alert_rule_test": expected,
            })
        });
        json!({
            "rule_files": [manifest_dir().join("mixin/alerts.yaml")],
            "evaluation_interval": "1m",
            "tests": tests.collect::<Vec<_>>(),
        })
    }
}

#[test]
fn a_series_has_the_labels_of_its_target_and_its_increase() {
    let read = |value| {
        format!(
            "# TYPE rest_client_requests_total counter\nrest_client_requests_total{{code=\"200\"}} {value}\nother{{}} 3\n"
        )
    };
    let series = series(&read(2), &read(7));
    assert_eq!(series.len(), 1);
    assert_eq!(
        series[0].name,
        format!("rest_client_requests_total{{{TARGET},code=\"200\"}}")
    );
    assert_eq!((series[0].first, series[0].increase), (2.0, 5.0));
}
