//! Plugins that are added, changed and removed while the host runs.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use flyball_cluster_tests::{
    Cluster, Space, finish, greeted, guest, log_of, merged, new_image, replace, stamped, until,
};
use flyball_controlplane::{Options, Process};
use serde_json::{Value, json};

/// The plugin name of the greeter in Rust.
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
        .is_some_and(|text| text.contains(reason))
}

#[tokio::test]
async fn a_new_plugin_waits_for_its_grants_and_then_runs() -> Result<()> {
    let cluster = Cluster::for_plugins().await?;
    let plugins = cluster.folder_with("plugins", &[])?;
    let host = start(&cluster, &plugins)?;
    let result = async {
        until("the host is up", async || {
            Ok(cluster
                .operator_command(HOST, &["status"])
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
            "the status does not name a permission: {status}"
        );
        cluster.operator_command(HOST, &["approve", GREETER])?;
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
            .apply(&cluster.operator_command(HOST, &["rbac", GREETER, "-o", "json"])?)
            .await?;
        cluster
            .until_plugin(HOST, GREETER, "runs", |status| status["state"] == "running")
            .await?;
        greeted(&cluster.client, "greeted").await?;
        let why: Vec<Value> = serde_json::from_str(
            &cluster.operator_command(HOST, &["why", "greeted/greeting", "-o", "json"])?,
        )?;
        let wrote: Vec<&str> = why
            .iter()
            .filter_map(|done| done["wrote"][0].as_str())
            .collect();
        ensure!(
            wrote.contains(&"create ConfigMap greeted/greeting"),
            "the plugin wrote {wrote:?}: {why:?}"
        );
        ensure!(
            cluster
                .operator_command(HOST, &["logs", GREETER])?
                .contains("starting"),
            "the plugin's log does not have its start"
        );
        ensure!(
            cluster
                .operator_command(HOST, &["why", "nobody"])?
                .contains("none"),
            "`why` returned reconciles of an unknown object"
        );
        let unknown = cluster
            .operator_command(HOST, &["approve", "nobody"])
            .expect_err("the plugin does not exist")
            .to_string();
        ensure!(
            unknown.contains("there is no plugin `nobody`"),
            "the error is: {unknown}"
        );
        Ok(())
    };
    let result = result.await;
    finish(cluster, [host], result).await
}

#[tokio::test]
async fn the_right_version_runs_after_each_kind_of_change_of_the_files() -> Result<()> {
    let cluster = Cluster::for_plugins().await?;
    let plugins = cluster.folder_with("plugins", &[guest("greeter")?])?;
    let args = [
        "--controllers=".to_owned(),
        format!("--plugin-dir={}", plugins.display()),
        "--trust-plugins".to_owned(),
    ];
    let start = || cluster.spawn_host(HOST, cluster.plane.kubeconfig_path(), &args);
    let mut host = start()?;
    let result = change_files(&cluster, &plugins, &mut host, &start).await;
    finish(cluster, [host], result).await
}

async fn change_files(
    cluster: &Cluster,
    plugins: &Path,
    host: &mut Process,
    start: &dyn Fn() -> Result<Process>,
) -> Result<()> {
    let (file, wasm) = (plugins.join("greeter.wasm"), fs::read(guest("greeter")?)?);
    let until_plugin = async |what: &str, is_met: &dyn Fn(&Value) -> bool| {
        cluster.until_plugin(HOST, GREETER, what, is_met).await
    };
    let first = digest(&until_plugin("runs", &|status| status["state"] == "running").await?);

    // The file is replaced by a rename.
    replace(&file, &stamped(&wasm, "2"))?;
    let second = digest(&until_plugin("is replaced", &|status| runs_other(status, &first)).await?);

    // While a file is partly written, the previous version keeps running.
    let third = stamped(&wasm, "3");
    fs::write(&file, &third[..third.len() / 2])?;
    until_plugin("can't be loaded", &|status| {
        runs(&second)(status) && is_held_up(status, "can't load")
    })
    .await?;
    fs::write(&file, &third)?;
    let third = digest(&until_plugin("is complete", &|status| runs_other(status, &second)).await?);

    // The file is not WebAssembly, or is a component of another world.
    for (broken, reason) in [
        (b"no wasm".to_vec(), "not WebAssembly"),
        (component_of_another_world(), "does not export"),
    ] {
        replace(&file, &broken)?;
        until_plugin("is refused", &|status| {
            runs(&third)(status) && is_held_up(status, reason)
        })
        .await?;
    }

    // A rollback survives a restart of the host. A second rollback changes nothing.
    replace(&file, &stamped(&wasm, "4"))?;
    let fourth = digest(&until_plugin("is replaced", &|status| runs_other(status, &third)).await?);
    cluster.operator_command(HOST, &["rollback", GREETER])?;
    until_plugin("is rolled back", &|status| {
        runs(&third)(status) && status["rolledBack"] == true
    })
    .await?;
    ensure!(
        host.stop().await?.success(),
        "the host exited with an error"
    );
    *host = start()?;
    until_plugin("is still rolled back", &|status| {
        runs(&third)(status) && status["rolledBack"] == true
    })
    .await?;
    let said = cluster.operator_command(HOST, &["rollback", GREETER])?;
    ensure!(said.contains("already"), "{said}");
    until_plugin("is still rolled back after a second rollback", &|status| {
        runs(&third)(status) && status["rolledBack"] == true
    })
    .await?;
    cluster.operator_command(HOST, &["rollback", GREETER, "--forward"])?;
    until_plugin("runs its file again", &runs(&fourth)).await?;
    cluster.operator_command(HOST, &["rollback", GREETER, "--to", &third[..12]])?;
    until_plugin("is rolled back to a digest", &runs(&third)).await?;
    cluster.operator_command(HOST, &["rollback", GREETER, "--forward"])?;
    until_plugin("runs its file once more", &runs(&fourth)).await?;

    // The last change of a burst takes effect.
    for number in 0..100 {
        replace(&file, &stamped(&wasm, &format!("burst {number}")))?;
    }
    let last = stamped(&wasm, "after the burst");
    replace(&file, &last)?;
    let last = sha256(&last);
    until_plugin("runs the last version of the burst", &runs(&last)).await?;

    // The folder is deleted, and created again with another file.
    let away = plugins.with_extension("away");
    fs::rename(plugins, &away)?;
    fs::create_dir(plugins)?;
    replace(&file, &wasm)?;
    until_plugin("runs the file of the new folder", &runs(&first)).await?;

    // The files of a mounted ConfigMap change together, by the rename of a symbolic link.
    fs::remove_file(&file)?;
    removed(cluster).await?;
    for version in ["..1", "..2"] {
        fs::create_dir(plugins.join(version))?;
        fs::write(
            plugins.join(version).join("greeter.wasm"),
            stamped(&wasm, version),
        )?;
    }
    symlink("..1", plugins.join("..data"))?;
    symlink("..data/greeter.wasm", &file)?;
    until_plugin(
        "runs the mounted file",
        &runs(&sha256(&stamped(&wasm, "..1"))),
    )
    .await?;
    symlink("..2", plugins.join("..new"))?;
    fs::rename(plugins.join("..new"), plugins.join("..data"))?;
    until_plugin(
        "runs the updated mounted file",
        &runs(&sha256(&stamped(&wasm, "..2"))),
    )
    .await?;

    // If two files hold the same plugin, the running one keeps running, and the other is reported.
    fs::write(plugins.join("another.wasm"), stamped(&wasm, "another"))?;
    let log = || log_of(host);
    until("the other file is reported", async || {
        Ok(if log()?.contains("another.wasm") {
            Ok(())
        } else {
            Err(log()?)
        })
    })
    .await?;
    ensure!(
        runs(&sha256(&stamped(&wasm, "..2")))(&until_plugin("runs", &|_| true).await?),
        "the other file replaced the running one"
    );
    fs::remove_file(&file)?;
    until_plugin(
        "runs the other file",
        &runs(&sha256(&stamped(&wasm, "another"))),
    )
    .await?;
    greeted(&cluster.client, "greeted-at-the-end").await
}

fn runs_other(status: &Value, before: &str) -> bool {
    status["state"] == "running" && status["digest"] != before && status["reason"].is_null()
}

fn component_of_another_world() -> Vec<u8> {
    // Only the header: a component without exports.
    b"\0asm\x0d\0\x01\0".to_vec()
}

fn sha256(bytes: &[u8]) -> String {
    use sha2::Digest;
    sha2::Sha256::digest(bytes)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

async fn removed(cluster: &Cluster) -> Result<()> {
    until("the plugin is removed", async || {
        Ok(cluster
            .plugin(HOST, GREETER)?
            .map_or(Ok(()), |status| Err(status.to_string())))
    })
    .await
}

/// The number of Deployments that are rolled out.
const DEPLOYMENTS: usize = 50;
/// How often their controller is replaced during the rollouts.
const RELOADS: usize = 20;

#[tokio::test]
async fn no_change_is_lost_while_a_controller_is_replaced_under_load() -> Result<()> {
    let cluster = Cluster::start(Options::default()).await?;
    let plugins = cluster.folder_with("plugins", &[guest("deployment-controller")?])?;
    let policy = cluster.plane.dir().join("policy.toml");
    let builtin = include_str!("../../../../guests/controllers/deployment/policy.toml");
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
        replace_under_load(&cluster, &plugins.join("deployment-controller.wasm")).await?;
        check_log(&log_of(&host)?)
    };
    let result = result.await;
    finish(cluster, [host], result).await
}

async fn replace_under_load(cluster: &Cluster, file: &PathBuf) -> Result<()> {
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
            .redeploy(merged(new_image("web:2"), json!({"paused": false})))
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

/// Checks in the log that each version took over, that no reconcile failed because of a reload, that
/// no key was processed twice concurrently, and that no reflector listed again.
fn check_log(log: &str) -> Result<()> {
    let lines: Vec<Value> = log
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect();
    let says =
        |line: &Value, what: &str| line["msg"].as_str().is_some_and(|text| text.contains(what));
    let took_over = lines.iter().filter(|line| says(line, "takes over")).count();
    ensure!(took_over >= RELOADS, "{took_over} versions took over");
    let mut work: BTreeMap<&str, Vec<(f64, f64)>> = BTreeMap::new();
    let mut reconciled = 0;
    for line in lines
        .iter()
        .filter(|line| line["plugin"] == "deployment-controller")
    {
        let Some(took_ms) = line["took_ms"].as_f64() else {
            continue;
        };
        // Two controllers that write the same object sometimes conflict and retry. Reloads don't cause
        // this.
        let is_conflict = says(line, "Conflict") || says(line, "has been modified");
        ensure!(
            line["level"] == "DEBUG" || is_conflict,
            "a reconcile failed: {line}"
        );
        let end = line["ts"].as_f64().context("a line has no time")? / 1e3;
        let key = line["key"].as_str().context("a reconcile has no key")?;
        work.entry(key)
            .or_default()
            .push((end - took_ms / 1e3, end));
        reconciled += 1;
    }
    ensure!(
        reconciled > 2 * DEPLOYMENTS,
        "the log has only {reconciled} reconciles"
    );
    for (key, mut spans) in work {
        spans.sort_by(|one, other| one.0.total_cmp(&other.0));
        for pair in spans.windows(2) {
            // Different threads take the timestamps, after the work is done.
            ensure!(
                pair[1].0 > pair[0].1 - 0.02,
                "{key} was processed twice concurrently: {pair:?}"
            );
        }
    }
    let mut lists: BTreeMap<&str, usize> = BTreeMap::new();
    for line in lines.iter().filter(|line| says(line, "listed")) {
        *lists
            .entry(line["kind"].as_str().unwrap_or_default())
            .or_default() += 1;
    }
    ensure!(!lists.is_empty(), "the log contains no list");
    ensure!(
        lists.values().all(|count| *count == 1),
        "reflectors listed again: {lists:?}"
    );
    Ok(())
}
