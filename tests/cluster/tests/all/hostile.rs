//! A plugin that misbehaves, in a real host beside one that behaves well: what the host refuses,
//! and what it reports.

use anyhow::{Context, Result, ensure};
use flyball_cluster_tests::{Cluster, Space, finish, greeted, guest, log_of, printed, until};
use flyball_controlplane::Options;
use k8s_openapi::api::core::v1::{ConfigMap, Event};
use kube::ResourceExt;
use kube::api::{Api, ListParams};
use serde_json::json;

/// The policy: reads of ConfigMaps in all namespaces, writes in one, and small limits.
const POLICY: &str = r#"
[plugins.faulty]
concurrency = 4
[[plugins.faulty.allow]]
kinds = ["v1/ConfigMap"]
verbs = ["watch"]
[[plugins.faulty.allow]]
kinds = ["v1/ConfigMap"]
verbs = ["get", "create"]
namespaces = ["default"]
[plugins.faulty.limits]
cpu = "200ms"
wall = "2s"
memory = "16Mi"
memo = "64Ki"
queued-keys = 500
log-lines-per-second = 10
log-lines-burst = 100
events-per-second = 1
events-burst = 20
writes-per-second = 50
writes-burst = 50
"#;

/// What the guest does in a namespace of that name, and what the host's log then says about it.
const TOLD: [(&str, &str); 14] = [
    ("forged", "0 of 15 forged names were taken"),
    (
        "other-namespace",
        "Denied: the policy does not let this plugin create v1/ConfigMap in the namespace kube-system",
    ),
    (
        "ungranted",
        "sign-jwt: Denied; verify-jwt: Denied; raw: Denied; kinds: Denied; secrets: Denied; \
         live-secrets: Denied",
    ),
    ("http", "a says nothing: ErrorCode::HttpRequestDenied"),
    ("enqueue", "Full: the queue holds 500 keys"),
    ("memo", "Full: "),
    ("json", "BadRequest: "),
    ("utf-8", "invalid utf-8"),
    ("panic", "it does not know what to do with panic"),
    ("spin", "it used "),
    ("grow", "ran out of memory: it wanted "),
    (
        "handles",
        "holds more than its limit of 1024 cursors and batches",
    ),
    ("events", "it used "),
    ("writes", "it took "),
];
/// What succeeds, but is cut to the plugin's limits.
const DROPPED: [&str; 3] = ["some-logs", "some-events", "labels"];
/// The limits that these reach.
const HIT: [&str; 8] = [
    "cpu",
    "wall",
    "memory",
    "memo",
    "queued-keys",
    "log-lines-per-second",
    "events-per-second",
    "writes-per-second",
];

#[tokio::test]
async fn a_plugin_that_misbehaves_is_held_to_its_limits_and_told_and_the_one_beside_it_works()
-> Result<()> {
    let cluster = Cluster::without_nodes(Options {
        scheduler: false,
        ..Options::default()
    })
    .await?;
    let plugins = cluster.folder_with("plugins", &[guest("faulty")?, guest("greeter")?])?;
    let policy = cluster.plane.dir().join("policy.toml");
    let greeter = printed(&["policy", &guest("greeter")?.display().to_string()])?;
    std::fs::write(&policy, format!("{greeter}{POLICY}")).context("can't write the policy")?;
    for name in ["greeter", "faulty"] {
        let file = guest(name)?.display().to_string();
        let roles = printed(&[
            "rbac",
            "-o",
            "json",
            "--policy",
            &policy.display().to_string(),
            &file,
        ])?;
        cluster.apply(&roles).await?;
    }
    let (port, serving) = cluster.serving();
    let mut args = serving.to_vec();
    args.extend(Cluster::plugins_alone(&plugins, &policy));
    let host = cluster.spawn_host("host", cluster.plane.kubeconfig_path(), &args)?;
    let result = async {
        for (fault, expected) in TOLD {
            commit(&cluster, fault).await?;
            let told = until(&format!("{fault} is told"), async || {
                let log = log_of(&host)?;
                let is_it =
                    |line: &&str| line.contains(&format!("{fault}/a")) && line.contains(expected);
                let line = log.lines().find(is_it).map(str::to_owned);
                Ok(line.ok_or_else(|| {
                    log.lines()
                        .filter(|line| line.contains(&format!("{fault}/a")))
                        .collect::<Vec<_>>()
                        .join("\n")
                }))
            })
            .await?;
            ensure!(
                told.contains("faulty"),
                "the message does not name the plugin: {told}"
            );
        }
        for fault in DROPPED {
            commit(&cluster, fault).await?;
        }
        greeted(&cluster.client, "greeted").await?;
        let series = until(
            "each limit was hit, and counted, and there are series of its metric",
            async || {
                let page = cluster.https(port, "/metrics").await?;
                let missed = HIT.iter().filter(|limit| {
                    let line = format!(
                        "flyball_plugin_limit_hits_total{{limit=\"{limit}\",plugin=\"faulty\"}} "
                    );
                    !page
                        .lines()
                        .any(|found| found.strip_prefix(&line).is_some_and(|count| count != "0"))
                });
                let missed: Vec<_> = missed.collect();
                let series = page
                    .lines()
                    .filter(|line| line.starts_with("faulty_total{"))
                    .count();
                let is_all = missed.is_empty() && series > 0;
                Ok(if is_all {
                    Ok(series)
                } else {
                    Err(format!("never hit: {missed:?}; {series} series"))
                })
            },
        )
        .await?;
        ensure!(
            series <= 1000,
            "the plugin has {series} series of its metric"
        );
        nothing_was_made(&cluster).await
    };
    let result = result.await;
    finish(cluster, [host], result).await
}

/// Has the guest do what a namespace's name says.
async fn commit(cluster: &Cluster, fault: &str) -> Result<()> {
    let space = Space::create(cluster.client.clone(), fault).await?;
    space
        .create_object::<ConfigMap>(json!({"metadata": {"name": "a"}}))
        .await
        .map(drop)
}

/// Checks that only what the plugin may create was created, and no flood of it.
async fn nothing_was_made(cluster: &Cluster) -> Result<()> {
    let maps = Api::<ConfigMap>::all(cluster.client.clone())
        .list(&ListParams::default())
        .await?;
    for map in &maps.items {
        let (namespace, name) = (map.namespace().unwrap_or_default(), map.name_any());
        let is_servers = namespace == "kube-system" && name != "mine";
        let is_due = name == "a"
            || namespace == "greeted"
            || namespace == "default" && name.starts_with("flood-");
        ensure!(is_servers || is_due, "{namespace}/{name} was made");
    }
    let events = Api::<Event>::all(cluster.client.clone())
        .list(&ListParams::default())
        .await?;
    let of_it = events
        .items
        .iter()
        .filter(|event| event.reason.as_deref() == Some("Fault"))
        .count();
    ensure!(of_it <= 100, "{of_it} events were recorded");
    Ok(())
}
