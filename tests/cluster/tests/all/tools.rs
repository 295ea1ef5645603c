//! A plugin works on a real API server with only the policy and the roles that the binary prints for
//! it.

use std::collections::BTreeSet;

use anyhow::{Result, ensure};
use flyball_cluster_tests::{Cluster, finish, greeted, guest, host_output, until};
use flyball_controlplane::Options;
use serde_json::Value;

#[tokio::test]
async fn a_plugin_works_with_the_printed_policy_and_roles() -> Result<()> {
    let cluster = Cluster::for_plugins().await?;
    let result = run_as_printed(&cluster).await;
    finish(cluster, [], result).await
}

async fn run_as_printed(cluster: &Cluster) -> Result<()> {
    let greeter = guest("greeter")?.display().to_string();
    let plugins = cluster.folder_with("plugins", &[guest("greeter")?])?;
    let policy = cluster.plane.dir().join("policy.toml");
    std::fs::write(&policy, host_output(&["policy", &greeter])?)?;
    let applied = cluster.apply_roles(&policy, &guest("greeter")?).await?;
    assert_eq!(
        applied,
        [
            "Namespace",
            "ServiceAccount",
            "ClusterRole",
            "ClusterRoleBinding"
        ]
    );
    let args = Cluster::plugins_alone(&plugins, &policy);
    let mut host = cluster.spawn_host("host", cluster.plane.kubeconfig_path(), &args)?;
    greeted(&cluster.client, "greeted").await?;
    let status = host.stop().await?;
    ensure!(status.success(), "the host ended with {status}");
    Ok(())
}

/// The user that `flyball rbac --host` binds the roles to.
const HOST_USER: &str = "system:serviceaccount:flyball-system:flyball";
/// Rights that the host needs only when an event repeats, when an account is missing, or when the server can't stream
/// lists.
const SELDOM: [&str; 4] = [
    "create serviceaccounts",
    "list configmaps",
    "list namespaces",
    "patch events",
];

#[tokio::test]
async fn a_host_needs_and_uses_the_roles_that_are_printed_for_it() -> Result<()> {
    let cluster = Cluster::without_nodes(Options {
        scheduler: false,
        audit: true,
        ..Options::default()
    })
    .await?;
    let greeter = guest("greeter")?.display().to_string();
    let plugins = cluster.folder_with("plugins", &[guest("greeter")?])?;
    let policy = cluster.plane.dir().join("policy.toml");
    std::fs::write(&policy, host_output(&["policy", &greeter])?)?;
    let path = policy.display().to_string();
    let of_plugin = host_output(&["rbac", "-o", "json", "--policy", &path, &greeter])?;
    let of_host = host_output(&["rbac", "-o", "json", "--policy", &path, "--host"])?;
    cluster.apply(&of_plugin).await?;
    cluster.apply(&of_host).await?;
    let kubeconfig = cluster.plane.kubeconfig_for("flyball", HOST_USER, None)?;
    let port = cluster.plane.spare_port();
    let mut args = Cluster::plugins_alone(&plugins, &policy).to_vec();
    args.push("--leader-elect=true".into());
    args.push(format!("--secure-port={port}"));
    for flag in ["authentication-kubeconfig", "authorization-kubeconfig"] {
        args.push(format!("--{flag}={}", kubeconfig.display()));
    }
    let mut host = cluster.spawn_host("host", &kubeconfig, &args)?;
    let result = async {
        greeted(&cluster.client, "greeted").await?;
        is_reviewed(&cluster, port).await?;
        let status = host.stop().await?;
        ensure!(status.success(), "the host ended with {status}");
        let sent = cluster.plane.audit_events()?;
        let of_host_user = |event: &&Value| event["user"]["username"] == HOST_USER;
        let sent: Vec<&Value> = sent.iter().filter(of_host_user).collect();
        let refused = sent
            .iter()
            .find(|event| event["responseStatus"]["code"] == 403);
        ensure!(refused.is_none(), "the host lacks a right: {refused:?}");
        let used: BTreeSet<String> = sent.iter().filter_map(|event| right(event)).collect();
        let granted = granted(&of_host)?;
        let seldom = SELDOM.map(str::to_owned).into();
        ensure!(granted.is_superset(&seldom), "{granted:?}");
        let needed = granted
            .difference(&seldom)
            .cloned()
            .collect::<BTreeSet<_>>();
        let unused: Vec<&String> = needed.difference(&used).collect();
        ensure!(
            unused.is_empty(),
            "the host does not use {unused:?}, only {used:?}"
        );
        Ok(())
    };
    let result = result.await;
    finish(cluster, [host], result).await
}

/// Lets the host review a token and the access of its user, who may not read metrics.
async fn is_reviewed(cluster: &Cluster, port: u16) -> Result<()> {
    let client = cluster.client_as("flyball-system", "greeter", port).await?;
    until(
        "the host refuses the plugin's account its metrics",
        async || {
            let request = hyper::Request::get("/metrics").body(Vec::new())?;
            let answer = client.request_text(request).await;
            let answer = answer.unwrap_or_else(|error| error.to_string());
            Ok(
                match answer.contains("system:serviceaccount:flyball-system:greeter") {
                    true => Ok(()),
                    false => Err(answer),
                },
            )
        },
    )
    .await
}

/// The verb and the resource of a request.
fn right(event: &Value) -> Option<String> {
    let of = |field: &str| event["objectRef"][field].as_str();
    let (verb, resource) = (event["verb"].as_str()?, of("resource")?);
    Some(match of("subresource") {
        Some(subresource) => format!("{verb} {resource}/{subresource}"),
        None => format!("{verb} {resource}"),
    })
}

/// The verbs and resources of all rules in a list of roles.
fn granted(roles: &str) -> Result<BTreeSet<String>> {
    let roles: Value = serde_json::from_str(roles)?;
    let items = roles["items"].as_array().into_iter().flatten();
    let rules = items.flat_map(|item| item["rules"].as_array().into_iter().flatten());
    let mut rights = BTreeSet::new();
    for rule in rules {
        let words = |field: &str| {
            let words = rule[field].as_array().into_iter().flatten();
            words
                .filter_map(Value::as_str)
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        for verb in words("verbs") {
            rights.extend(
                words("resources")
                    .iter()
                    .map(|resource| format!("{verb} {resource}")),
            );
        }
    }
    ensure!(rights.len() > 10, "there are too few rights: {rights:?}");
    Ok(rights)
}
