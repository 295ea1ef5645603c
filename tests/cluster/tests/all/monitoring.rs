//! What the people on call have: the Grafana board and Prometheus' alerts in `deploy/monitoring`, which read metrics that a
//! host serves, and the bundle for a bug report.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use flyball_cluster_tests::{Cluster, Space, finish, guest, host_output};
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

/// The expressions of the board's panels, with values of its variables.
fn of_board() -> Result<Vec<String>> {
    let board: Value = serde_json::from_str(&read("board.json")?)?;
    let mut expressions = Vec::new();
    add_expressions(&board, &mut expressions);
    Ok(expressions)
}

/// Adds the expressions of all panels in a part of the board. A row that is folded has its panels in it.
fn add_expressions(part: &Value, expressions: &mut Vec<String>) {
    let panels = part["panels"].as_array().into_iter().flatten();
    for panel in panels {
        let targets = panel["targets"].as_array().into_iter().flatten();
        let found = targets.filter_map(|target| target["expr"].as_str());
        expressions.extend(found.map(with_values));
        add_expressions(panel, expressions);
    }
}

/// The queries of the board's variables: which values of a label a user can choose.
fn of_variables() -> Result<Vec<String>> {
    let board: Value = serde_json::from_str(&read("board.json")?)?;
    let variables = board["templating"]["list"].as_array();
    let variables = variables.context("the board has variables")?;
    let queries = variables
        .iter()
        .filter_map(|variable| variable["query"]["query"].as_str());
    Ok(queries.map(with_values).collect())
}

/// An expression with values in the place of the board's variables.
fn with_values(expression: &str) -> String {
    let expression = expression.replace("$__rate_interval", "5m");
    expression.replace("$job", ".*").replace("$plugin", ".*")
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

/// The labels that an expression selects or groups by, or that a variable lists.
fn labels_in(expression: &str) -> BTreeSet<&str> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let is_name = |word: &&str| !word.is_empty() && word.chars().all(is_part);
    let mut labels = BTreeSet::new();
    let selectors = expression.split('{').skip(1);
    for selector in selectors.filter_map(|rest| Some(rest.split_once('}')?.0)) {
        // Values are between quotes.
        let outside = selector.split('"').step_by(2);
        let names = outside.map(|text| text.trim_matches([',', ' ', '=', '~', '!']));
        labels.extend(names.filter(is_name));
    }
    for words in ["by (", "on (", "group_left (", "label_values("] {
        let lists = expression.split(words).skip(1);
        let lists = lists.filter_map(|rest| Some(rest.rsplit_once(')')?.0));
        for list in lists {
            let list = match words {
                "label_values(" => list.rsplit(',').next().unwrap_or_default(),
                _ => list.split(')').next().unwrap_or_default(),
            };
            labels.extend(list.split(',').map(str::trim).filter(is_name));
        }
    }
    labels
}

/// The labels of each metric that a page has series of. Those of histograms are without their suffixes.
fn labels_on(page: &str) -> BTreeMap<&str, BTreeSet<&str>> {
    let mut metrics: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let series = page.lines().filter(|line| !line.starts_with('#'));
    for line in series {
        let end = line.find(['{', ' ']).unwrap_or(line.len());
        let labels = metrics.entry(without_suffix(&line[..end])).or_default();
        labels.extend(labels_in(line));
    }
    metrics
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

#[test]
fn the_labels_of_an_expression_are_found() {
    let expression = "sum by (name, le) (a{job=~\"x|y\", state!=\"a, b=c\"} * on (instance) group_left () group by (job) (b))";
    let expected = ["instance", "job", "le", "name", "state"];
    assert_eq!(labels_in(expression), BTreeSet::from(expected));
    let variable = "label_values(flyball_plugin_info{job=~\".*\"}, plugin)";
    assert_eq!(labels_in(variable), BTreeSet::from(["job", "plugin"]));
    let page = "# TYPE a histogram\na_bucket{name=\"n\",le=\"1\"} 2\na_sum{name=\"n\"} 3\nb 1\n";
    let found = labels_on(page);
    assert_eq!(found["a"], BTreeSet::from(["le", "name"]));
    assert!(found["b"].is_empty());
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
        "--use-service-account-credentials=true".to_owned(),
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
    let (board, variables, alerts) = (of_board()?, of_variables()?, of_alerts()?);
    ensure!(board.len() > 20 && variables.len() > 1 && alerts.len() > 10);
    let all = || board.iter().chain(&variables).chain(alerts.values());
    let read = all().flat_map(|expression| metrics_in(expression));
    let read: BTreeSet<&str> = read.collect();
    let missing: Vec<_> = read
        .iter()
        .filter(|name| !served.contains(*name) && !OF_CLOUDS.contains(*name))
        .collect();
    ensure!(
        missing.is_empty(),
        "the host serves no {missing:?}, which the board or an alert reads:\n{page}"
    );
    let labels = labels_on(page);
    all().try_for_each(|expression| check_labels(expression, &labels))
}

/// Checks that the metrics of an expression have its labels. A metric without series yet has any, and Prometheus itself
/// adds two.
fn check_labels(expression: &str, labels: &BTreeMap<&str, BTreeSet<&str>>) -> Result<()> {
    let mut known = BTreeSet::from(["instance", "job"]);
    for metric in metrics_in(expression) {
        match labels.get(metric) {
            Some(labels) => known.extend(labels),
            None => return Ok(()),
        }
    }
    let asked = labels_in(expression);
    let unknown: Vec<_> = asked.difference(&known).collect();
    ensure!(
        unknown.is_empty(),
        "no metric of `{expression}` has the labels {unknown:?}, only {known:?}"
    );
    Ok(())
}

/// Records what the host keeps of a controller. Returns the file.
fn recorded(cluster: &Cluster, name: &str, more: &[&str]) -> Result<String> {
    let path = cluster.plane.dir().join(name).display().to_string();
    let args = [&["record", "deployment-controller", "-o", &path], more].concat();
    cluster.operator_command("host", &args)?;
    Ok(path)
}

/// Writes the bundle of the host, and checks what is in it.
fn check_bundle(cluster: &Cluster) -> Result<()> {
    let recording = recorded(cluster, "calls.fbrec", &[])?;
    let with_secrets = recorded(cluster, "secrets.fbrec", &["--with-secrets"])?;
    let path = cluster.plane.dir().join("bundle.tar.gz");
    let output = path.display().to_string();
    let bundle = [
        "debug",
        "bundle",
        "-o",
        &output,
        "--recordings",
        "--recording",
    ];
    let refused = cluster.operator_command("host", &[&bundle[..], &[&with_secrets]].concat());
    let refused = format!(
        "{:#}",
        refused.err().context("it takes the data of Secrets")?
    );
    ensure!(
        refused.contains("--with-secrets") && !path.exists(),
        "{refused}"
    );
    cluster.operator_command("host", &[&bundle[..], &[&recording]].concat())?;

    let files = files_of(&path)?;
    let secrets = secrets_of(cluster.plane.kcm_kubeconfig_path())?;
    for (name, text) in &files {
        // A recorded call has the values that the plugin is configured with, because it can't be repeated without them.
        let hidden = (!name.starts_with("recordings/")).then_some(SECRET);
        for secret in secrets.iter().map(String::as_str).chain(hidden) {
            ensure!(!text.contains(secret), "{name} has the secret {secret}");
        }
    }
    // Elsewhere, with neither the host nor the cluster.
    let elsewhere = tempfile::tempdir()?;
    let copy = elsewhere.path().join("copy.fbrec");
    std::fs::write(&copy, &files["recordings/calls.fbrec"])?;
    let replayed = host_output(&["replay", &copy.display().to_string()])?;
    ensure!(replayed.contains("all repeated"), "{replayed}");
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

/// The files of a bundle, by their names in its folder.
fn files_of(bundle: &Path) -> Result<BTreeMap<String, String>> {
    let file = std::fs::File::open(bundle)?;
    let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(file));
    let mut files = BTreeMap::new();
    for entry in archive.entries()? {
        let mut entry = entry?;
        let path = entry.path()?.display().to_string();
        let (_, name) = path.split_once('/').context("one folder has all files")?;
        let (name, mut text) = (name.to_owned(), String::new());
        entry.read_to_string(&mut text)?;
        files.insert(name, text);
    }
    Ok(files)
}

/// The lines of the private key that a kubeconfig names.
fn secrets_of(kubeconfig: &Path) -> Result<Vec<String>> {
    let text = std::fs::read_to_string(kubeconfig)?;
    let config: Value = serde_saphyr::from_str(&text)?;
    let key = config["users"][0]["user"]["client-key"].as_str();
    let key = std::fs::read_to_string(key.context("its user has no key")?)?;
    let is_key = |line: &&str| !line.starts_with("-----") && line.len() > 20;
    let lines = key.lines().filter(is_key);
    let lines: Vec<String> = lines.map(str::to_owned).collect();
    ensure!(!lines.is_empty(), "the key is empty");
    Ok(lines)
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
