//! Plugins as an operator runs them: under a policy, each with a separate service account and RBAC
//! roles.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use flyball_cluster_tests::{
    Cluster, Space, annotate, finish, greeted, guest, log_of, until, until_within,
};
use flyball_controlplane::{Options, skip};
use k8s_openapi::api::core::v1::{ConfigMap, Event, ServiceAccount};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use kube::api::{Api, ListParams, PostParams};
use serde_json::json;

/// The file and the name of each greeter. The second is the first one, built by a stock toolchain.
const GREETERS: [(&str, &str); 2] = [("greeter", "greeter"), ("greeter-wasm32-wasip2", "greeter")];

#[tokio::test]
async fn greeters_in_each_language_work_with_separate_accounts() -> Result<()> {
    let cluster = Cluster::for_plugins().await?;
    let result = each_greets(&cluster).await;
    finish(cluster, [], result).await
}

/// Runs the greeters one after another, since they manage the same ConfigMaps.
async fn each_greets(cluster: &Cluster) -> Result<()> {
    let space = Space::create(cluster.client.clone(), "flyball").await?;
    for (file, name) in GREETERS {
        if file.ends_with("wasip2") && guest(file).is_err() {
            skip(
                &format!("greeters_in_each_language_work_with_separate_accounts ({file})"),
                "rustup can't add the target wasm32-wasip2",
            )?;
            continue;
        }
        grant(&space, file)
            .await
            .with_context(|| format!("can't create the account of {file}"))?;
        let plugins = cluster.folder_with(&format!("{file}-plugins"), &[guest(file)?])?;
        let policy = cluster.plane.dir().join(format!("{file}.toml"));
        std::fs::write(&policy, policy_of(name, file))
            .with_context(|| format!("can't write {}", policy.display()))?;
        let args = Cluster::plugins_alone(&plugins, &policy);
        let mut host = cluster.spawn_host(file, cluster.plane.kubeconfig_path(), &args)?;
        greeted(&cluster.client, &format!("of-{file}"))
            .await
            .with_context(|| format!("{file} fails"))?;
        let status = host.stop().await?;
        ensure!(status.success(), "the host with {file} ended with {status}");
    }
    Ok(())
}

#[tokio::test]
async fn a_plugin_without_a_policy_does_not_run_and_the_log_has_its_permissions() -> Result<()> {
    let cluster = Cluster::for_plugins().await?;
    // A granted controller runs beside it, so that the host has something to run.
    let plugins = cluster.folder_with("plugins", &[guest("greeter")?])?;
    let args = [
        "--controllers=serviceaccount-controller,greeter".to_owned(),
        format!("--plugin-dir={}", plugins.display()),
    ];
    let host = cluster.spawn_host("host", cluster.plane.kubeconfig_path(), &args)?;
    let refused = async || {
        let space = Space::create(cluster.client.clone(), "ungreeted").await?;
        let greeting =
            json!({"metadata": {"annotations": {"greeter.flyball.dev/greeting": "hello"}}});
        annotate(&cluster.client, &space.name, greeting).await?;
        // By then the host has seen the namespace: a built-in controller has reconciled it.
        space.wait_for_account().await?;
        let line = until("the log has the plugin's permissions", async || {
            let log = log_of(&host)?;
            let line = log
                .lines()
                .find(|line| line.contains("flyball approve greeter"));
            Ok(line.map(str::to_owned).ok_or(log))
        })
        .await?;
        for wanted in [
            "v1/Namespace",
            "v1/ConfigMap",
            "get",
            "create",
            "update",
            "delete",
        ] {
            ensure!(
                line.contains(wanted),
                "the log does not name {wanted}: {line}"
            );
        }
        ensure!(
            space
                .api::<ConfigMap>()
                .get_opt("greeting")
                .await?
                .is_none(),
            "a plugin ran without a policy"
        );
        Ok(())
    };
    let result = refused().await;
    finish(cluster, [host], result).await
}

#[tokio::test]
async fn a_request_that_the_policy_does_not_grant_is_reported_and_not_sent() -> Result<()> {
    let options = Options {
        scheduler: false,
        audit: true,
        ..Options::default()
    };
    let cluster = Cluster::without_nodes(options).await?;
    let plugins = cluster.folder_with("plugins", &[guest("greeter")?])?;
    let space = Space::create(cluster.client.clone(), "flyball").await?;
    grant(&space, "greeter").await?;
    let policy = cluster.plane.dir().join("policy.toml");
    let trimmed = policy_of("greeter", "greeter").replace("\"create\", ", "");
    std::fs::write(&policy, trimmed).context("can't write the policy")?;
    let (port, serving) = cluster.serving();
    let mut args = serving.to_vec();
    args.extend(Cluster::plugins_alone(&plugins, &policy));
    let host = cluster.spawn_host("host", cluster.plane.kubeconfig_path(), &args)?;
    let result = async {
        let denied = Space::create(cluster.client.clone(), "ungreeted").await?;
        let greeting =
            json!({"metadata": {"annotations": {"greeter.flyball.dev/greeting": "hello"}}});
        annotate(&cluster.client, &denied.name, greeting).await?;
        until("an event reports it", async || {
            let events = space.api::<Event>().list(&ListParams::default()).await?;
            let denied = events
                .items
                .iter()
                .find(|event| event.reason.as_deref() == Some("PluginDenied"));
            let message = denied
                .and_then(|event| event.message.clone())
                .unwrap_or_default();
            let is_it = message.contains("create v1/ConfigMap in the namespace ungreeted")
                && message.contains("greeter");
            Ok(if is_it { Ok(()) } else { Err(message) })
        })
        .await?;
        let failed = |status: &serde_json::Value| {
            status["lastError"]["message"]
                .as_str()
                .is_some_and(|error| error.contains("does not let this plugin create v1/ConfigMap"))
        };
        cluster
            .until_plugin(
                "host",
                "greeter",
                "has the denial as its last error",
                failed,
            )
            .await?;
        let metrics = cluster.https(port, "/metrics").await?;
        for series in [
            "flyball_plugin_denied_total{plugin=\"greeter\"} ",
            "flyball_plugin_reconciles_total{plugin=\"greeter\",result=\"error\"} ",
            "flyball_plugin_api_writes_total{plugin=\"greeter\",result=\"not_sent\",verb=\"create\"} ",
        ] {
            let counted = metrics.lines().find_map(|line| line.strip_prefix(series));
            ensure!(
                counted.is_some_and(|count| count.parse().is_ok_and(|count: f64| count >= 1.0)),
                "{series}: {counted:?}"
            );
        }
        let version = env!("CARGO_PKG_VERSION");
        let running = format!("plugin=\"greeter\",state=\"running\",version=\"{version}\"}} 1");
        let is_info = |line: &str| {
            line.starts_with("flyball_plugin_info{digest=") && line.ends_with(&running)
        };
        ensure!(metrics.lines().any(is_info), "no state: {metrics}");
        let is_denied_request = |event: &serde_json::Value| {
            event["verb"] == "create"
                && event["objectRef"]["resource"] == "configmaps"
                && event["user"]["username"] == "system:serviceaccount:flyball:greeter"
        };
        ensure!(
            !cluster.plane.audit_events()?.iter().any(is_denied_request),
            "the host sent a request that the policy denies"
        );
        Ok(())
    };
    let result = result.await;
    finish(cluster, [host], result).await
}

/// How long a plugin may run after its account has lost a right. The host reviews rights each minute.
const REVIEWED_WITHIN: Duration = Duration::from_secs(120);

#[tokio::test]
async fn a_plugin_stops_while_its_account_lacks_the_right_to_read() -> Result<()> {
    let cluster = Cluster::for_plugins().await?;
    let plugins = cluster.folder_with("plugins", &[guest("greeter")?])?;
    let space = Space::create(cluster.client.clone(), "flyball").await?;
    grant(&space, "greeter").await?;
    let policy = cluster.plane.dir().join("policy.toml");
    std::fs::write(&policy, policy_of("greeter", "greeter")).context("can't write the policy")?;
    let args = Cluster::plugins_alone(&plugins, &policy);
    let host = cluster.spawn_host("host", cluster.plane.kubeconfig_path(), &args)?;
    let result = async {
        greeted(&cluster.client, "before").await?;
        let roles: Api<ClusterRole> = Api::all(cluster.client.clone());
        let mut role = roles.get("greeter").await?;
        let rules = role.rules.replace(Vec::new());
        roles
            .replace("greeter", &PostParams::default(), &role)
            .await?;
        until_within(REVIEWED_WITHIN, "the greeter stops", async || {
            let status = cluster.plugin("host", "greeter")?.unwrap_or_default();
            let why = status["reason"].as_str().unwrap_or_default();
            let is_reported = why.contains("its service account flyball/greeter may not list ");
            Ok(if status["state"] != "running" && is_reported {
                Ok(())
            } else {
                Err(status.to_string())
            })
        })
        .await?;
        let mut role = roles.get("greeter").await?;
        role.rules = rules;
        roles
            .replace("greeter", &PostParams::default(), &role)
            .await?;
        cluster
            .until_plugin("host", "greeter", "runs again", |status| {
                status["state"] == "running"
            })
            .await?;
        greeted(&cluster.client, "after").await
    };
    let result = result.await;
    finish(cluster, [host], result).await
}

fn policy_of(name: &str, account: &str) -> String {
    format!(
        r#"[plugins.{name}]
service-account = "flyball/{account}"
[[plugins.{name}.allow]]
kinds = ["v1/Namespace", "v1/ConfigMap"]
verbs = ["watch"]
[[plugins.{name}.allow]]
kinds = ["v1/ConfigMap"]
verbs = ["get", "create", "update", "delete"]
"#
    )
}

/// Creates the service account, with RBAC rights equal to the grants of the policy.
async fn grant(space: &Space, account: &str) -> Result<()> {
    space
        .create_object::<ServiceAccount>(json!({"metadata": {"name": account}}))
        .await?;
    let role: ClusterRole = serde_json::from_value(json!({
        "metadata": {"name": account},
        "rules": [
            {"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get", "list", "watch"]},
            {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch", "create", "update", "delete"]},
        ],
    }))?;
    let binding: ClusterRoleBinding = serde_json::from_value(json!({
        "metadata": {"name": account},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": account},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": space.name}],
    }))?;
    Api::all(space.client.clone())
        .create(&PostParams::default(), &role)
        .await?;
    Api::all(space.client.clone())
        .create(&PostParams::default(), &binding)
        .await?;
    Ok(())
}
