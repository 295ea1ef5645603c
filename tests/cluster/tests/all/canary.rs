//! Canaries on a real API server: one that takes over, one that goes back, and one whose leader is killed.

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use flyball_cluster_tests::{Cluster, Space, finish, greeted, guest, stamped, until};
use flyball_controlplane::Process;
use flyball_fakes::guest::probe;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Event};
use kube::api::{Api, ListParams, PostParams};
use serde_json::{Value, json};

const HOST: &str = "host";
const GREETER: &str = "greeter";
const PROBE: &str = "probe";
const NAMESPACE: &str = "canaries";

/// The canary of a plugin, when it is as wanted.
async fn canary_until(
    cluster: &Cluster,
    host: &str,
    plugin: &str,
    is_met: impl Fn(&Value) -> bool,
) -> Result<Value> {
    until("the canary is as wanted", async || {
        let shown = cluster.operator_command(host, &["canary", plugin, "-o", "json"]);
        let shown = shown.unwrap_or_else(|error| json!(error.to_string()).to_string());
        let status: Value = serde_json::from_str(&shown)?;
        Ok(if is_met(&status) {
            Ok(status)
        } else {
            Err(shown)
        })
    })
    .await
}

fn written(cluster: &Cluster, name: &str, wasm: &[u8]) -> Result<PathBuf> {
    let path = cluster.plane.dir().join(name);
    std::fs::write(&path, wasm).with_context(|| format!("can't write {}", path.display()))?;
    Ok(path)
}

/// A plugin that watches ConfigMaps.
fn probe_of(version: &str, traps: bool) -> Vec<u8> {
    let description = format!(
        r#"{{"format":1,"name":"{PROBE}","version":"{version}","queues":[{{"name":"main"}}],"watches":[{{"kind":"v1/ConfigMap","namespace":"{NAMESPACE}","fields":["metadata.labels"],"map":[{{"to":"itself"}}]}}]}}"#
    );
    probe(&description, traps)
}

/// Creates a namespace with ConfigMaps, and the roles of the probe. Returns its folder and its policy.
async fn with_probe(cluster: &Cluster, canary: &str) -> Result<(PathBuf, PathBuf)> {
    let space = Space::create(cluster.client.clone(), NAMESPACE).await?;
    let maps: Api<ConfigMap> = space.api();
    for number in 0..30 {
        let map = json!({"metadata": {"name": format!("a-{number}")}});
        let map: ConfigMap = serde_json::from_value(map)?;
        maps.create(&PostParams::default(), &map).await?;
    }
    let first = written(cluster, "probe.wasm", &probe_of("1", false))?;
    let plugins = cluster.folder_with("plugins", std::slice::from_ref(&first))?;
    let policy = format!(
        "[plugins.probe]\nservice-account = \"{NAMESPACE}/probe\"\n[[plugins.probe.allow]]\nkinds = [\"v1/ConfigMap\"]\n\
         verbs = [\"watch\"]\nnamespaces = [\"{NAMESPACE}\"]\n{canary}"
    );
    let policy = written(cluster, "policy.toml", policy.as_bytes())?;
    cluster.apply_roles(&policy, &first).await?;
    Ok((plugins, policy))
}

#[tokio::test]
async fn a_canary_of_the_greeter_takes_all_keys_and_the_place_of_the_file() -> Result<()> {
    let cluster = Cluster::for_plugins().await?;
    let plugins = cluster.folder_with("plugins", &[guest(GREETER)?])?;
    let args = [
        "--controllers=".to_owned(),
        format!("--plugin-dir={}", plugins.display()),
        "--trust-plugins".to_owned(),
    ];
    let host = cluster.spawn_host(HOST, cluster.plane.kubeconfig_path(), &args)?;
    let result = async {
        let runs = |status: &Value| status["state"] == "running";
        cluster.until_plugin(HOST, GREETER, "runs", runs).await?;
        greeted(&cluster.client, "first").await?;
        let wasm = std::fs::read(guest(GREETER)?)?;
        let candidate = written(&cluster, "new.wasm", &stamped(&wasm, "2"))?;
        let candidate = candidate.display().to_string();
        let start = [
            "canary",
            GREETER,
            &candidate,
            "--keys=50%,90%",
            "--interval=1s",
            "--calls=1",
            "--p99=1000",
            "--writes=1000",
        ];
        let told = cluster.operator_command(HOST, &start)?;
        ensure!(told.contains("50% of the keys"), "{told}");
        greeted(&cluster.client, "second").await?;
        let promoted = |status: &Value| status["state"] == "promoted";
        let status = canary_until(&cluster, HOST, GREETER, promoted).await?;
        let digest = status["candidate"]["digest"]
            .as_str()
            .context("no digest")?;
        let runs = |status: &Value| status["digest"] == digest && status["state"] == "running";
        cluster
            .until_plugin(HOST, GREETER, "is promoted", runs)
            .await?;
        greeted(&cluster.client, "third").await?;
        let why = cluster.operator_command(HOST, &["why", "Namespace", "third"])?;
        ensure!(why.contains(&digest[..12]), "{why}");
        Ok(())
    };
    let result = result.await;
    finish(cluster, [host], result).await
}

#[tokio::test]
async fn a_canary_that_traps_goes_back_with_an_event() -> Result<()> {
    let cluster = Cluster::for_plugins().await?;
    let (plugins, policy) = with_probe(&cluster, "").await?;
    let args = Cluster::plugins_alone(&plugins, &policy);
    let host = cluster.spawn_host(HOST, cluster.plane.kubeconfig_path(), &args)?;
    let result = async {
        let runs = |status: &Value| status["state"] == "running";
        cluster.until_plugin(HOST, PROBE, "runs", runs).await?;
        let candidate = written(&cluster, "new.wasm", &probe_of("2", true))?;
        let candidate = candidate.display().to_string();
        cluster.operator_command(
            HOST,
            &["canary", PROBE, &candidate, "--namespaces", NAMESPACE],
        )?;
        let went_back = |status: &Value| status["state"] == "went-back";
        let status = canary_until(&cluster, HOST, PROBE, went_back).await?;
        let reason = status["reason"].as_str().unwrap_or_default();
        ensure!(reason.contains("trapped"), "{status}");
        let events: Api<Event> = Api::namespaced(cluster.client.clone(), NAMESPACE);
        until("an event says so", async || {
            let events = events.list(&ListParams::default()).await?.items;
            let said = events.iter().any(|event| {
                event.reason.as_deref() == Some("CanaryWentBack")
                    && event.type_.as_deref() == Some("Warning")
                    && event
                        .message
                        .as_deref()
                        .is_some_and(|message| message.contains("trapped"))
            });
            Ok(if said {
                Ok(())
            } else {
                Err(format!("{events:?}"))
            })
        })
        .await?;
        let status = cluster.until_plugin(HOST, PROBE, "runs", runs).await?;
        ensure!(status["version"] == "1", "{status}");
        Ok(())
    };
    let result = result.await;
    finish(cluster, [host], result).await
}

#[tokio::test]
async fn a_replica_goes_on_with_the_step_of_a_leader_that_was_killed() -> Result<()> {
    let cluster = Cluster::for_plugins().await?;
    let canary = "[plugins.probe.canary]\nfile = \"new.wasm\"\nsteps = [\"40%\", \"80%\"]\ninterval = \"1h\"\ncalls = 1\n";
    written(&cluster, "new.wasm", &probe_of("2", false))?;
    let (plugins, policy) = with_probe(&cluster, canary).await?;
    let mut args = Cluster::plugins_alone(&plugins, &policy).to_vec();
    args.extend(
        [
            "--leader-elect=true",
            "--leader-elect-lease-duration=4s",
            "--leader-elect-renew-deadline=3s",
            "--leader-elect-retry-period=500ms",
        ]
        .map(str::to_owned),
    );
    let spawn = |name: &str| cluster.spawn_host(name, cluster.plane.kubeconfig_path(), &args);
    let mut first: Process = spawn("first")?;
    let mut second = None;
    let result = async {
        let works = |status: &Value| {
            let calls = status["candidateDid"]["calls"].as_u64().unwrap_or(0);
            status["state"] == "running" && calls > 0 && status["elapsedMs"].as_u64() > Some(6000)
        };
        let before = canary_until(&cluster, "first", PROBE, works).await?;
        let keys = keys_of(&cluster, "first", &before)?;
        second = Some(spawn("second")?);
        let standby = |status: &Value| status["state"] == "standby";
        cluster
            .until_plugin("second", PROBE, "is a standby", standby)
            .await?;
        let leases: Api<Lease> = Api::namespaced(cluster.client.clone(), "kube-system");
        let lease = leases.get("flyball").await?;
        let annotations = lease.metadata.annotations.unwrap_or_default();
        ensure!(
            annotations.contains_key("flyball.dev/canaries"),
            "{annotations:?}"
        );
        let Err(refused) = cluster.operator_command("second", &["canary", PROBE, "--abort"]) else {
            anyhow::bail!("a standby has ended a canary");
        };
        ensure!(refused.to_string().contains("is a standby"), "{refused}");
        first.kill()?;
        let leads = |status: &Value| status["state"] == "running";
        cluster
            .until_plugin("second", PROBE, "leads", leads)
            .await?;
        let went_on = |status: &Value| {
            works(status) && status["elapsedMs"].as_u64() >= before["elapsedMs"].as_u64()
        };
        let after = canary_until(&cluster, "second", PROBE, went_on).await?;
        ensure!(
            after["step"] == 1 && after["since"] == before["since"],
            "{after}"
        );
        let now = keys_of(&cluster, "second", &after)?;
        ensure!(now.is_subset(&keys), "{now:?}, and before {keys:?}");
        Ok(())
    };
    let result = result.await;
    drop(first);
    finish(cluster, second, result).await
}

/// The keys that the candidate has reconciled.
fn keys_of(
    cluster: &Cluster,
    host: &str,
    status: &Value,
) -> Result<std::collections::BTreeSet<String>> {
    let mut keys = std::collections::BTreeSet::new();
    for number in 0..30 {
        let object = format!("configmap/{NAMESPACE}/a-{number}");
        let why = cluster.operator_command(host, &["why", &object, "-o", "json"])?;
        let why: Value = serde_json::from_str(&why)?;
        let mut all = why.as_array().context("a list")?.iter();
        if all.any(|done| done["digest"] == status["candidate"]["digest"]) {
            keys.insert(object);
        }
    }
    Ok(keys)
}
