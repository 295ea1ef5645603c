//! A plugin that misbehaves runs beside one that works correctly. The host must refuse and report
//! each fault.

use anyhow::{Context, Result, ensure};
use flyball_cluster_tests::{Cluster, Space, finish, greeted, guest, host_output, log_of, until};
use flyball_controlplane::Process;
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

/// The faults that are reported: the guest commits each in a namespace of this name, and the host's
/// log then has this text.
const REPORTED: [(&str, &str); 14] = [
    // It comes first: only its first attempt has this text, and later the limit of log lines may drop that.
    ("memo", "Full: "),
    ("forged", "0 of 15 forged names were accepted"),
    (
        "other-namespace",
        "Denied: the policy does not let this plugin create v1/ConfigMap in the namespace kube-system",
    ),
    (
        "ungranted",
        "sign-jwt: Denied; verify-jwt: Denied; certificate-authority: Denied; \
         sign-certificate: Denied; raw: Denied; kinds: Denied; secrets: Denied; \
         live-secrets: Denied",
    ),
    ("http", "no response from a: ErrorCode::HttpRequestDenied"),
    ("enqueue", "Full: the plugin's queues hold 500 keys"),
    ("json", "BadRequest: "),
    ("utf-8", "invalid utf-8"),
    ("panic", "panic in reconcile of panic"),
    ("spin", "it used "),
    ("grow", "ran out of memory: it requested "),
    (
        "handles",
        "holds more than its limit of 1024 cursors and batches",
    ),
    ("events", "it used "),
    ("writes", "it took "),
];
/// The faults whose calls succeed, but whose excess output is dropped.
const DROPPED: [&str; 3] = ["some-logs", "some-events", "labels"];
/// The limits that the faults reach.
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
async fn the_faults_of_a_plugin_are_limited_and_reported_and_another_plugin_works() -> Result<()> {
    let cluster = Cluster::for_plugins().await?;
    let plugins = cluster.folder_with("plugins", &[guest("faulty")?, guest("greeter")?])?;
    let policy = cluster.plane.dir().join("policy.toml");
    let greeter = host_output(&["policy", &guest("greeter")?.display().to_string()])?;
    std::fs::write(&policy, format!("{greeter}{POLICY}")).context("can't write the policy")?;
    for name in ["greeter", "faulty"] {
        cluster.apply_roles(&policy, &guest(name)?).await?;
    }
    let (port, serving) = cluster.serving();
    let mut args = serving.to_vec();
    args.extend(Cluster::plugins_alone(&plugins, &policy));
    let host = cluster.spawn_host("host", cluster.plane.kubeconfig_path(), &args)?;
    let result = async {
        for (fault, expected) in REPORTED {
            commit(&cluster, fault).await?;
            let reported = until(&format!("{fault} is reported"), async || {
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
                reported.contains("faulty"),
                "the message does not name the plugin: {reported}"
            );
        }
        check_fields(&host).await?;
        for fault in DROPPED {
            commit(&cluster, fault).await?;
        }
        greeted(&cluster.client, "greeted").await?;
        let series = until(
            "the metrics count a hit of each limit and have the plugin's series",
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
                    .filter(|line| line.starts_with("plugin_faulty__faulty_total{"))
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
        check_created_objects(&cluster).await
    };
    let result = result.await;
    finish(cluster, [host], result).await
}

/// Checks that a line that the guest logged in a reconcile says once which reconcile it was.
async fn check_fields(host: &Process) -> Result<()> {
    const FIELDS: [&str; 4] = [
        " plugin=\"faulty\"",
        " queue=\"faulty\"",
        " key=\"panic/a\"",
        " attempt=",
    ];
    let line = until("the guest logs its panic", async || {
        let log = log_of(host)?;
        let is_it = |line: &&str| line.contains(" flyball::guest: ") && line.contains(FIELDS[2]);
        Ok(log
            .lines()
            .find(is_it)
            .map(str::to_owned)
            .ok_or(log.clone()))
    })
    .await?;
    for field in FIELDS {
        ensure!(line.matches(field).count() == 1, "{field} in {line}");
    }
    Ok(())
}

/// Makes the guest commit a fault, by a ConfigMap in a namespace with the fault's name.
async fn commit(cluster: &Cluster, fault: &str) -> Result<()> {
    let space = Space::create(cluster.client.clone(), fault).await?;
    space
        .create_object::<ConfigMap>(json!({"metadata": {"name": "a"}}))
        .await
        .map(drop)
}

/// Checks that no objects were created beyond the plugin's grants and no more than 100 events.
async fn check_created_objects(cluster: &Cluster) -> Result<()> {
    let maps = Api::<ConfigMap>::all(cluster.client.clone())
        .list(&ListParams::default())
        .await?;
    for map in &maps.items {
        let (namespace, name) = (map.namespace().unwrap_or_default(), map.name_any());
        let is_servers = namespace == "kube-system" && name != "mine";
        let is_expected = name == "a"
            || namespace == "greeted"
            || namespace == "default" && name.starts_with("flood-");
        ensure!(is_servers || is_expected, "{namespace}/{name} was created");
    }
    let events = Api::<Event>::all(cluster.client.clone())
        .list(&ListParams::default())
        .await?;
    let faults = events
        .items
        .iter()
        .filter(|event| event.reason.as_deref() == Some("Fault"))
        .count();
    ensure!(faults <= 100, "{faults} events were recorded");
    Ok(())
}
