//! What the people on call have: the Grafana board and Prometheus' alerts in `deploy/monitoring`, which read metrics that a
//! host serves, and the bundle for a bug report.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use flyball_cluster_tests::{Cluster, Space, finish, guest};
use flyball_controlplane::{Options, test_rules};
use flyball_fakes::collector::FakeCollector;
use serde_json::{Value, json};

/// The beginnings of the names of metrics.
const PREFIXES: [&str; 6] = [
    "flyball_",
    "informer_",
    "leader_election_",
    "process_",
    "rest_client_",
    "workqueue_",
];
/// The metrics of a host that calls a cloud, which the host of the test doesn't.
const OF_CLOUDS: [&str; 1] = ["flyball_cloud_calls_total"];
/// A value of the configuration of a plugin that nobody else may see.
const SECRET: &str = "open-sesame";

fn monitoring() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/monitoring")
}

fn read(name: &str) -> Result<String> {
    let path = monitoring().join(name);
    std::fs::read_to_string(&path).with_context(|| format!("can't read {}", path.display()))
}

/// The expressions of the board, with values of its variables.
fn of_board() -> Result<Vec<String>> {
    let board: Value = serde_json::from_str(&read("board.json")?)?;
    let panels = board["panels"].as_array().context("the board has panels")?;
    let targets = panels
        .iter()
        .filter_map(|panel| panel["targets"].as_array());
    let expressions = targets.flatten().filter_map(|target| {
        let expression = target["expr"].as_str()?;
        let expression = expression.replace("$__rate_interval", "5m");
        Some(expression.replace("$job", ".*").replace("$plugin", ".*"))
    });
    Ok(expressions.collect())
}

/// The expressions of the alerts by their names.
fn of_alerts() -> Result<BTreeMap<String, String>> {
    let rules: Value = serde_saphyr::from_str(&read("alerts.yaml")?)?;
    let groups = rules["groups"].as_array().context("the file has groups")?;
    let rules = groups.iter().filter_map(|group| group["rules"].as_array());
    let named = rules.flatten().filter_map(|rule| {
        let name = rule["alert"].as_str()?.to_owned();
        Some((name, rule["expr"].as_str()?.to_owned()))
    });
    Ok(named.collect())
}

/// The metrics that an expression reads. Those of histograms are without their suffixes.
fn metrics_in(expression: &str) -> BTreeSet<&str> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let words = expression.split(|c| !is_part(c));
    let names = words.filter(|word| PREFIXES.iter().any(|prefix| word.starts_with(prefix)));
    names.map(without_suffix).collect()
}

/// The name of the histogram that a series belongs to, or of another metric.
fn without_suffix(series: &str) -> &str {
    let suffixes = ["_bucket", "_sum", "_count"].into_iter();
    let mut names = suffixes.filter_map(|suffix| series.strip_suffix(suffix));
    names.next().unwrap_or(series)
}

#[test]
fn the_metrics_of_an_expression_are_found() {
    let expression = "histogram_quantile(0.99, sum by (name, le) (rate(workqueue_work_duration_seconds_bucket{job=~\"a\"}[5m]) \
                      * on (job) group by (job) (flyball_plugin_info{state=\"x\"})))";
    let found = metrics_in(expression);
    let expected = ["flyball_plugin_info", "workqueue_work_duration_seconds"];
    assert_eq!(found, BTreeSet::from(expected));
}

#[tokio::test]
async fn the_board_and_the_alerts_read_what_a_host_serves_and_its_bundle_has_no_secret()
-> Result<()> {
    let collector = FakeCollector::start().await;
    let cluster = Cluster::start(Options::default()).await?;
    let config = cluster.plane.dir().join("tracing.yaml");
    let endpoint = collector.endpoint();
    let text = format!(
        "apiVersion: apiserver.config.k8s.io/v1\nkind: TracingConfiguration\nendpoint: {endpoint}\nsamplingRatePerMillion: 1000000\n"
    );
    std::fs::write(&config, text)?;
    // It waits for a grant.
    let plugins = cluster.folder_with("pending", &[guest("greeter")?])?;
    let (port, serving) = cluster.serving();
    let mut args = vec![
        "--controllers=deployment-controller,replicaset-controller,serviceaccount-controller"
            .to_owned(),
        "--leader-elect=true".to_owned(),
        format!("--tracing-config-file={}", config.display()),
        format!("--plugin-dir={}", plugins.display()),
        format!("--plugin-config=deployment-controller.password={SECRET}"),
    ];
    args.extend(serving);
    let host = cluster.spawn_host("host", cluster.plane.kcm_kubeconfig_path(), &args)?;
    let checked = async {
        let space = Space::create(cluster.client.clone(), "monitoring").await?;
        space.wait_for_account().await?;
        space.deploy(1, "web:1", json!({})).await?;
        space.settled(1, "web:1").await?;
        collector.until(|spans| !spans.is_empty()).await;
        check_metrics(&cluster.https(port, "/metrics").await?)?;
        check_bundle(&cluster)
    };
    let checked = checked.await;
    finish(cluster, [host], checked).await
}

/// Checks that the page has each metric that the board and the alerts read.
fn check_metrics(page: &str) -> Result<()> {
    let types = page.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    let served: BTreeSet<&str> = types
        .filter_map(|line| Some(line.split_once(' ')?.0))
        .collect();
    let (board, alerts) = (of_board()?, of_alerts()?);
    ensure!(board.len() > 20 && alerts.len() > 10);
    let read = board.iter().chain(alerts.values());
    let read: BTreeSet<&str> = read.flat_map(|expression| metrics_in(expression)).collect();
    let missing: Vec<_> = read
        .iter()
        .filter(|name| !served.contains(*name) && !OF_CLOUDS.contains(*name))
        .collect();
    ensure!(
        missing.is_empty(),
        "the host serves no {missing:?}, which the board or an alert reads:\n{page}"
    );
    Ok(())
}

/// Writes the bundle of the host, and checks what is in it.
fn check_bundle(cluster: &Cluster) -> Result<()> {
    let recording = cluster.plane.dir().join("calls.fbrec");
    std::fs::write(&recording, "recorded")?;
    let path = cluster.plane.dir().join("bundle.tar.gz");
    let [output, recording] = [&path, &recording].map(|path| path.display().to_string());
    let args = ["debug", "bundle", "-o", &output, "--recording", &recording];
    cluster.operator_command("host", &args)?;
    let file = std::fs::File::open(&path)?;
    let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(file));
    let mut files = BTreeMap::new();
    for entry in archive.entries()? {
        let mut entry = entry?;
        let path = entry.path()?.display().to_string();
        let (_, name) = path.split_once('/').context("one folder has all files")?;
        let (name, mut text) = (name.to_owned(), String::new());
        entry.read_to_string(&mut text)?;
        ensure!(!text.contains(SECRET), "{name} has a value of a plugin");
        files.insert(name, text);
    }
    let names: Vec<_> = files.keys().collect();
    for name in [
        "README",
        "about.json",
        "metrics.txt",
        "plugins/deployment-controller.json",
        "reconciles.json",
        "recordings/calls.fbrec",
        "status.json",
    ] {
        ensure!(files.contains_key(name), "{name} is not in {names:?}");
    }
    let errors = names.iter().filter(|name| name.contains("error"));
    ensure!(errors.count() == 0, "parts are missing: {names:?}");
    let about: Value = serde_json::from_str(&files["about.json"])?;
    ensure!(about["flags"]["plugin-config"] == "CLASSIFIED", "{about}");
    let recent: Vec<Value> = serde_json::from_str(&files["reconciles.json"])?;
    ensure!(
        recent
            .iter()
            .any(|one| one["key"] == "monitoring/web" && one["trace"].is_string()),
        "no reconcile of the Deployment with its trace: {recent:?}"
    );
    Ok(())
}

#[tokio::test]
#[ignore = "builds promtool, which takes minutes: `cargo xtask test --full` runs it"]
async fn the_alerts_are_raised_in_trouble_alone_and_the_expressions_of_the_board_are_valid()
-> Result<()> {
    let folder = tempfile::tempdir().context("can't create a folder for promtool")?;
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).map(|()| path)
    };
    let rules = of_board()?.into_iter().enumerate();
    let rules = rules.map(
        |(number, expression)| json!({"record": format!("board:{number}"), "expr": expression}),
    );
    let board = json!({"groups": [{"name": "board", "rules": rules.collect::<Vec<_>>()}]});
    write("board.yaml", &board.to_string())?;
    write("alerts.yaml", &read("alerts.yaml")?)?;
    let tests = include_str!("monitoring/alerts.test.yaml");
    for alert in of_alerts()?.into_keys() {
        ensure!(
            tests.matches(&alert).count() >= 2,
            "{alert} is not tested in trouble and without"
        );
    }
    test_rules(&write("alerts.test.yaml", tests)?).await
}
