//! Plugins that are added, changed and removed while the host runs.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use flyball_cluster_tests::{
    Cluster, Space, both, finish, greeted, guest, log_of, new_image, replace, stamped, until,
};
use flyball_controlplane::{Options, Process};
use serde_json::{Value, json};

/// The name of the greeter in Rust in `flyball status`.
const GREETER: &str = "greeter";
const HOST: &str = "host";

fn start(cluster: &Cluster, plugins: &Path) -> Result<Process> {
    let args = [
        "--controllers=".to_owned(),
        format!("--plugin-dir={}", plugins.display()),
    ];
    cluster.spawn_host(HOST, cluster.plane.kubeconfig_path(), &args)
}

fn runs(digest: &str) -> impl Fn(&Value) -> bool {
    move |status: &Value| status["state"] == "running" && status["digest"] == digest
}

fn digest(status: &Value) -> String {
    status["digest"].as_str().unwrap_or_default().to_owned()
}

fn is_held_up(status: &Value, reason: &str) -> bool {
    status["reason"]
        .as_str()
        .is_some_and(|told| told.contains(reason))
}

#[tokio::test]
async fn a_file_that_is_dropped_waits_for_its_grants_and_then_runs() -> Result<()> {
    let cluster = Cluster::without_nodes(Options {
        scheduler: false,
        ..Options::default()
    })
    .await?;
    let plugins = cluster.folder_with("plugins", &[])?;
    let host = start(&cluster, &plugins)?;
    let result = async {
        until("the host is up", async || {
            Ok(cluster
                .ask(HOST, &["status"])
                .map_err(|error| error.to_string()))
        })
        .await?;
        fs::copy(guest("greeter")?, plugins.join("greeter.wasm"))?;
        let pending = |reason: &'static str| {
            move |status: &Value| status["state"] == "pending" && is_held_up(status, reason)
        };
        let status = cluster
            .until_plugin(
                HOST,
                GREETER,
                "is pending",
                pending("flyball approve greeter"),
            )
            .await?;
        ensure!(
            is_held_up(&status, "watch v1/Namespace"),
            "it does not say what it asks for: {status}"
        );
        cluster.ask(HOST, &["approve", GREETER])?;
        let may_not = "may not list";
        cluster
            .until_plugin(
                HOST,
                GREETER,
                "waits for its account's rights",
                pending(may_not),
            )
            .await?;
        cluster
            .apply(&cluster.ask(HOST, &["rbac", GREETER, "-o", "json"])?)
            .await?;
        cluster
            .until_plugin(HOST, GREETER, "runs", |status| status["state"] == "running")
            .await?;
        greeted(&cluster.client, "greeted").await?;
        let why: Vec<Value> =
            serde_json::from_str(&cluster.ask(HOST, &["why", "greeted/greeting", "-o", "json"])?)?;
        let wrote: Vec<&str> = why
            .iter()
            .filter_map(|done| done["wrote"][0].as_str())
            .collect();
        ensure!(
            wrote.contains(&"create ConfigMap greeted/greeting"),
            "it wrote {wrote:?}: {why:?}"
        );
        ensure!(
            cluster.ask(HOST, &["logs", GREETER])?.contains("starting"),
            "its log does not say that it started"
        );
        ensure!(
            cluster.ask(HOST, &["why", "nobody"])?.contains("none"),
            "something was about nobody"
        );
        let unknown = cluster
            .ask(HOST, &["approve", "nobody"])
            .expect_err("there is no such plugin")
            .to_string();
        ensure!(
            unknown.contains("there is no plugin `nobody`"),
            "it says: {unknown}"
        );
        Ok(())
    };
    let result = result.await;
    finish(cluster, [host], result).await
}

#[tokio::test]
async fn each_way_in_which_files_change_ends_in_the_right_plugins() -> Result<()> {
    let cluster = Cluster::without_nodes(Options {
        scheduler: false,
        ..Options::default()
    })
    .await?;
    let plugins = cluster.folder_with("plugins", &[guest("greeter")?])?;
    let args = [
        "--controllers=".to_owned(),
        format!("--plugin-dir={}", plugins.display()),
        "--trust-plugins".to_owned(),
    ];
    let start = || cluster.spawn_host(HOST, cluster.plane.kubeconfig_path(), &args);
    let mut host = start()?;
    let result = files_change(&cluster, &plugins, &mut host, &start).await;
    finish(cluster, [host], result).await
}

async fn files_change(
    cluster: &Cluster,
    plugins: &Path,
    host: &mut Process,
    start: &dyn Fn() -> Result<Process>,
) -> Result<()> {
    let (file, wasm) = (plugins.join("greeter.wasm"), fs::read(guest("greeter")?)?);
    let until_plugin = async |what: &str, looks_so: &dyn Fn(&Value) -> bool| {
        cluster.until_plugin(HOST, GREETER, what, looks_so).await
    };
    let first = digest(&until_plugin("runs", &|status| status["state"] == "running").await?);

    // Replaced by a rename.
    replace(&file, &stamped(&wasm, "2"))?;
    let second = digest(&until_plugin("is replaced", &|status| runs_other(status, &first)).await?);

    // A half-written copy leaves the version before running, until the copy is complete.
    let third = stamped(&wasm, "3");
    fs::write(&file, &third[..third.len() / 2])?;
    until_plugin("can't be loaded", &|status| {
        runs(&second)(status) && is_held_up(status, "can't load")
    })
    .await?;
    fs::write(&file, &third)?;
    let third = digest(&until_plugin("is whole", &|status| runs_other(status, &second)).await?);

    // One that traps in `describe`, and one of another world.
    for (broken, reason) in [
        (b"no wasm".to_vec(), "not WebAssembly"),
        (wat_of_another_world(), "does not export"),
    ] {
        replace(&file, &broken)?;
        until_plugin("is refused", &|status| {
            runs(&third)(status) && is_held_up(status, reason)
        })
        .await?;
    }

    // Back to the version before, restarts included, until the file changes.
    replace(&file, &stamped(&wasm, "4"))?;
    let fourth = digest(&until_plugin("is replaced", &|status| runs_other(status, &third)).await?);
    cluster.ask(HOST, &["rollback", GREETER])?;
    until_plugin("goes back", &|status| {
        runs(&third)(status) && status["rolledBack"] == true
    })
    .await?;
    ensure!(host.stop().await?.success(), "the host did not end well");
    *host = start()?;
    until_plugin("stays back", &|status| {
        runs(&third)(status) && status["rolledBack"] == true
    })
    .await?;
    cluster.ask(HOST, &["rollback", GREETER])?;
    until_plugin("goes on with its file", &runs(&fourth)).await?;

    // A burst of changes, of which the last counts.
    for number in 0..100 {
        replace(&file, &stamped(&wasm, &format!("burst {number}")))?;
    }
    let last = stamped(&wasm, "after the burst");
    replace(&file, &last)?;
    let last = sha256(&last);
    until_plugin("is the last of a burst", &runs(&last)).await?;

    // The folder is deleted, and created again with another file.
    let away = plugins.with_extension("away");
    fs::rename(plugins, &away)?;
    fs::create_dir(plugins)?;
    replace(&file, &wasm)?;
    until_plugin("is that of the new folder", &runs(&first)).await?;

    // A mounted ConfigMap changes all of its files by one rename of a link.
    fs::remove_file(&file)?;
    gone(cluster).await?;
    for version in ["..1", "..2"] {
        fs::create_dir(plugins.join(version))?;
        fs::write(
            plugins.join(version).join("greeter.wasm"),
            stamped(&wasm, version),
        )?;
    }
    symlink("..1", plugins.join("..data"))?;
    symlink("..data/greeter.wasm", &file)?;
    until_plugin("is the mounted one", &runs(&sha256(&stamped(&wasm, "..1")))).await?;
    symlink("..2", plugins.join("..new"))?;
    fs::rename(plugins.join("..new"), plugins.join("..data"))?;
    until_plugin("is the swapped one", &runs(&sha256(&stamped(&wasm, "..2")))).await?;

    // Two files of one name: the running one keeps running, and the other is reported.
    fs::write(plugins.join("another.wasm"), stamped(&wasm, "another"))?;
    let log = || log_of(host);
    until("the other is loaded", async || {
        Ok(if log()?.contains("another.wasm") {
            Ok(())
        } else {
            Err(log()?)
        })
    })
    .await?;
    ensure!(
        runs(&sha256(&stamped(&wasm, "..2")))(&until_plugin("runs", &|_| true).await?),
        "the other took its place"
    );
    fs::remove_file(&file)?;
    until_plugin("is the other", &runs(&sha256(&stamped(&wasm, "another")))).await?;
    greeted(&cluster.client, "greeted-at-the-end").await
}

fn runs_other(status: &Value, before: &str) -> bool {
    status["state"] == "running" && status["digest"] != before && status["reason"].is_null()
}

fn wat_of_another_world() -> Vec<u8> {
    // A component without exports: its header alone.
    b"\0asm\x0d\0\x01\0".to_vec()
}

fn sha256(bytes: &[u8]) -> String {
    use sha2::Digest;
    sha2::Sha256::digest(bytes)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

async fn gone(cluster: &Cluster) -> Result<()> {
    until("the plugin is gone", async || {
        Ok(cluster
            .plugin(HOST, GREETER)?
            .map_or(Ok(()), |status| Err(status.to_string())))
    })
    .await
}

/// The Deployments that are rolled, and how often their controller is replaced meanwhile.
const DEPLOYMENTS: usize = 50;
const RELOADS: usize = 20;

#[tokio::test]
async fn a_controller_is_replaced_under_load_and_nothing_is_lost() -> Result<()> {
    let cluster = Cluster::start(Options::default()).await?;
    let plugins = cluster.folder_with("plugins", &[guest("deployment")?])?;
    let policy = cluster.plane.dir().join("policy.toml");
    let builtin = include_str!("../../../../host/flyball/policies/deployment-controller.toml");
    let header = "[plugins.deployment-controller]\n";
    fs::write(
        &policy,
        builtin.replacen(header, &format!("{header}replaces-builtin = true\n"), 1),
    )?;
    let args = [
        "--controllers=deployment-controller,replicaset-controller,serviceaccount-controller"
            .to_owned(),
        "--use-service-account-credentials=true".to_owned(),
        "--kube-api-qps=200".to_owned(),
        "--kube-api-burst=300".to_owned(),
        "--logging-format=json".to_owned(),
        format!("--plugin-dir={}", plugins.display()),
        format!("--policy={}", policy.display()),
    ];
    let host = cluster.spawn_host(HOST, cluster.plane.kcm_kubeconfig_path(), &args)?;
    let result = async {
        replaced_under_load(&cluster, &plugins.join("deployment.wasm")).await?;
        judge(&log_of(&host)?)
    };
    let result = result.await;
    finish(cluster, [host], result).await
}

async fn replaced_under_load(cluster: &Cluster, file: &PathBuf) -> Result<()> {
    const NAME: &str = "deployment-controller";
    let wasm = fs::read(file)?;
    cluster
        .until_plugin(HOST, NAME, "runs from its file", |status| {
            status["origin"] != "built-in"
        })
        .await?;
    let mut spaces = Vec::new();
    for number in 0..DEPLOYMENTS {
        let space = Space::create(cluster.client.clone(), &format!("rolling-{number}")).await?;
        space.deploy(2, "web:1", json!({})).await?;
        spaces.push(space);
    }
    for space in &spaces {
        space
            .redeploy(both(new_image("web:2"), json!({"paused": false})))
            .await?;
    }
    for number in 0..RELOADS {
        let build = stamped(&wasm, &format!("build {number}"));
        replace(file, &build)?;
        cluster
            .until_plugin(HOST, NAME, "is replaced", runs(&sha256(&build)))
            .await?;
    }
    for space in &spaces {
        space.settled(2, "web:2").await?;
    }
    Ok(())
}

/// Checks by the log that each version took over, that no reconcile failed because of it, that no
/// key was processed twice at once, and that no reflector listed again.
fn judge(log: &str) -> Result<()> {
    let lines: Vec<Value> = log
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect();
    let says = |line: &Value, what: &str| {
        line["message"]
            .as_str()
            .is_some_and(|text| text.contains(what))
    };
    let took_over = lines.iter().filter(|line| says(line, "takes over")).count();
    ensure!(took_over >= RELOADS, "{took_over} versions took over");
    let mut work: BTreeMap<&str, Vec<(f64, f64)>> = BTreeMap::new();
    let mut reconciled = 0;
    for line in lines
        .iter()
        .filter(|line| line["controller"] == "deployment-controller")
    {
        let Some(took_ms) = line["took_ms"].as_f64() else {
            continue;
        };
        // Two controllers that write one object conflict now and then: they retry, and it is not
        // the reload's fault.
        let is_conflict = says(line, "Conflict") || says(line, "has been modified");
        ensure!(
            line["level"] == "DEBUG" || is_conflict,
            "a reconcile failed: {line}"
        );
        let end = seconds(line["timestamp"].as_str().context("a line has no time")?)?;
        let key = line["key"].as_str().context("a reconcile has no key")?;
        work.entry(key)
            .or_default()
            .push((end - took_ms / 1e3, end));
        reconciled += 1;
    }
    ensure!(
        reconciled > 2 * DEPLOYMENTS,
        "only {reconciled} reconciles are in the log"
    );
    for (key, mut spans) in work {
        spans.sort_by(|one, other| one.0.total_cmp(&other.0));
        for pair in spans.windows(2) {
            // The log's clock is read after the work, by different threads.
            ensure!(
                pair[1].0 > pair[0].1 - 0.02,
                "{key} was worked on twice at once: {pair:?}"
            );
        }
    }
    let mut lists: BTreeMap<&str, usize> = BTreeMap::new();
    for line in lines.iter().filter(|line| says(line, "listed")) {
        *lists
            .entry(line["resource"].as_str().unwrap_or_default())
            .or_default() += 1;
    }
    ensure!(!lists.is_empty(), "the log contains no list");
    ensure!(
        lists.values().all(|count| *count == 1),
        "reflectors listed anew: {lists:?}"
    );
    Ok(())
}

/// The second of the day of a time in RFC 3339.
fn seconds(time: &str) -> Result<f64> {
    let clock = time
        .split(['T', 'Z'])
        .nth(1)
        .context("the timestamp has no time of day")?;
    let parts: Vec<f64> = clock
        .split(':')
        .map(|part| part.parse().unwrap_or(f64::NAN))
        .collect();
    ensure!(parts.len() == 3, "{time} is no time");
    Ok(parts[0] * 3600.0 + parts[1] * 60.0 + parts[2])
}
