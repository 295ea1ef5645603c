//! Kinds whose plural is not the usual one, as an author meets them: each command that can reach a host or a cluster
//! takes the plural from there, and a kind that does not exist is an error. Namespaces that limit a grant.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use flyball_cluster_tests::{Cluster, finish, guest, host, host_output, until};
use serde_json::{Value, json};

const HOST: &str = "host";

/// What a command of the host's binary prints: standard output, standard error, and whether it succeeded.
fn run(args: &[&str], home: &Path) -> Result<(String, String, bool)> {
    let output = Command::new(host()?)
        .args(args)
        .env("HOME", home)
        .env_remove("XDG_RUNTIME_DIR")
        .env_remove("KUBECONFIG")
        .output()?;
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    Ok((
        text(output.stdout),
        text(output.stderr),
        output.status.success(),
    ))
}

#[tokio::test]
async fn plurals_and_kinds_are_those_of_the_cluster() -> Result<()> {
    let cluster = Cluster::for_plugins().await?;
    let plugins = cluster.folder_with("plugins", &[])?;
    let policy = cluster.plane.dir().join("policy.toml");
    let rule = |kind: &str| {
        format!(
            "[[plugins.gardener.allow]]\nkinds = [\"tree.example.org/v1/{kind}\"]\nverbs = [\"watch\"]\n"
        )
    };
    std::fs::write(&policy, rule("Leaf"))?;
    let args = Cluster::plugins_alone(&plugins, &policy);
    let process = cluster.spawn_host(HOST, cluster.plane.kubeconfig_path(), &args)?;
    let result = async {
        cluster.apply(&definition().to_string()).await?;
        let path = policy.display().to_string();
        let home = cluster.plane.dir();
        let kubeconfig = cluster.plane.kubeconfig_path().display().to_string();
        // Without a host and a cluster, the plural is a guess.
        let of_host = ["rbac", "--host", "--policy", &path];
        let (roles, warning, _) = run(&of_host, home)?;
        ensure!(roles.contains("- leafs\n"), "{roles}");
        ensure!(warning.contains("`leafs` is a guess"), "{warning}");
        // A running host knows it, and so does the cluster.
        until("the host knows the kind", async || {
            let roles = cluster.operator_command(HOST, &of_host);
            Ok(match roles {
                Ok(roles) if roles.contains("- leaves\n") => Ok(()),
                seen => Err(format!("{seen:?}")),
            })
        })
        .await?;
        let (roles, warning, _) = run(
            &[&of_host[..], &["--kubeconfig", &kubeconfig]].concat(),
            home,
        )?;
        ensure!(
            roles.contains("- leaves\n") && warning.is_empty(),
            "{roles}{warning}"
        );
        // `why` takes the spelling of kubectl, and no other.
        let none = cluster.operator_command(HOST, &["why", "leaves.tree.example.org/oak"])?;
        ensure!(none.contains("none of the last reconciles"), "{none}");
        let unknown = cluster.operator_command(HOST, &["why", "leafs.tree.example.org/oak"]);
        let unknown = unknown.expect_err("there is no such kind").to_string();
        ensure!(
            unknown.contains("did you mean `leaves.tree.example.org`?"),
            "{unknown}"
        );
        // Kinds are checked against the cluster.
        let wrong = cluster.plane.dir().join("wrong.toml");
        std::fs::write(&wrong, rule("Leav"))?;
        let wrong = wrong.display().to_string();
        let validate = |file: &str| run(&["validate", file, "--kubeconfig", &kubeconfig], home);
        let (_, problem, is_valid) = validate(&wrong)?;
        ensure!(
            !is_valid && problem.contains("did you mean `tree.example.org/v1/Leaf`?"),
            "{problem}"
        );
        let (_, problem, is_valid) = validate(&path)?;
        ensure!(is_valid, "{problem}");
        Ok(())
    }
    .await;
    finish(cluster, [process], result).await
}

/// A list with a definition whose plural is not the usual one.
fn definition() -> Value {
    json!({"items": [{
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "leaves.tree.example.org"},
        "spec": {
            "group": "tree.example.org",
            "scope": "Namespaced",
            "names": {"kind": "Leaf", "plural": "leaves", "singular": "leaf", "listKind": "LeafList"},
            "versions": [{
                "name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}
            }],
        },
    }]})
}

#[tokio::test]
async fn an_approval_may_be_limited_to_namespaces() -> Result<()> {
    let cluster = Cluster::for_plugins().await?;
    let plugins = cluster.folder_with("plugins", &[guest("greeter")?])?;
    let policy = cluster.folder_with("policy", &[])?;
    let args = Cluster::plugins_alone(&plugins, &policy);
    let process = cluster.spawn_host(HOST, cluster.plane.kubeconfig_path(), &args)?;
    let result = async {
        cluster
            .until_plugin(HOST, "greeter", "is pending", |status| {
                status["state"] == "pending"
            })
            .await?;
        let said =
            cluster.operator_command(HOST, &["approve", "greeter", "--namespace", "team-a"])?;
        ensure!(
            said.contains(
                "only in team-a (not v1/Namespace: cluster-scoped objects have no namespace)"
            ),
            "{said}"
        );
        let written = std::fs::read_to_string(policy.join("greeter.toml"))
            .context("the approval wrote no policy")?;
        ensure!(written.contains("namespaces = [\"team-a\"]"), "{written}");
        let roles = until("the policy is in force", async || {
            let roles = cluster.operator_command(HOST, &["rbac", "greeter", "-o", "json"])?;
            let roles: Value = serde_json::from_str(&roles)?;
            let items = roles["items"].as_array().cloned().unwrap_or_default();
            let is_role = |item: &&Value| item["kind"] == "Role";
            Ok(match items.iter().find(is_role) {
                Some(role) => Ok(role.clone()),
                None => Err(roles.to_string()),
            })
        })
        .await?;
        ensure!(roles["metadata"]["namespace"] == "team-a", "{roles}");
        // Everywhere, it may only read namespaces and record events.
        let everywhere = host_output(&[
            "rbac",
            "-o",
            "json",
            "--policy",
            &policy.display().to_string(),
            &guest("greeter")?.display().to_string(),
        ])?;
        let everywhere: Value = serde_json::from_str(&everywhere)?;
        let items = everywhere["items"].as_array().context("a list")?;
        let of_cluster = items.iter().find(|item| item["kind"] == "ClusterRole");
        let of_cluster = of_cluster.context("there is a ClusterRole")?.to_string();
        ensure!(!of_cluster.contains("configmaps"), "{of_cluster}");
        Ok(())
    }
    .await;
    finish(cluster, [process], result).await
}
