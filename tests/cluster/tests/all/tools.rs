//! A plugin works on a real API server with only the policy and the roles that the binary prints for
//! it. A plugin can also be an OCI package that the policy names.

use anyhow::{Result, ensure};
use flyball_cluster_tests::{Cluster, finish, greeted, guest, host_output};
use flyball_controlplane::{Options, Registry};

#[tokio::test]
async fn a_plugin_works_with_the_printed_policy_and_roles() -> Result<()> {
    let cluster = Cluster::without_nodes(Options {
        scheduler: false,
        ..Options::default()
    })
    .await?;
    let result = run_as_printed(&cluster).await;
    finish(cluster, [], result).await
}

async fn run_as_printed(cluster: &Cluster) -> Result<()> {
    let greeter = guest("greeter")?.display().to_string();
    let plugins = cluster.folder_with("plugins", &[guest("greeter")?])?;
    let policy = cluster.plane.dir().join("policy.toml");
    std::fs::write(&policy, host_output(&["policy", &greeter])?)?;
    let roles = host_output(&[
        "rbac",
        "-o",
        "json",
        "--policy",
        &policy.display().to_string(),
        &greeter,
    ])?;
    let applied = cluster.apply(&roles).await?;
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

/// A public key whose private key was discarded.
const KEY: &str = "\
-----BEGIN PUBLIC KEY-----
MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEFiXzFncsxhiv0mpfCzaRfXRS5LRj
idhIRw1df/CRaZTiBeNTQO9poeJAFeWFT/hZRttZWADLK6n50NubeAuyww==
-----END PUBLIC KEY-----
";

#[tokio::test]
async fn a_plugin_can_be_a_package_that_the_policy_names() -> Result<()> {
    let cluster = Cluster::without_nodes(Options {
        scheduler: false,
        ..Options::default()
    })
    .await?;
    let registry = Registry::start().await?;
    let greeter = guest("greeter")?.display().to_string();
    let package = host_output(&[
        "push",
        &greeter,
        &format!("oci://{}/team/greeter:1.0", registry.address()),
    ])?;
    let policy = cluster.plane.dir().join("policy.toml");
    let grants = host_output(&["policy", &greeter])?;
    let sourced = |more: &str| {
        let header = "[plugins.greeter]\n";
        grants.replacen(
            header,
            &format!("{header}source = \"{}\"\n{more}", package.trim()),
            1,
        )
    };
    std::fs::write(cluster.plane.dir().join("key.pem"), KEY)?;
    std::fs::write(&policy, sourced("signed-by = \"key.pem\"\n"))?;
    cluster
        .apply(&host_output(&["rbac", "-o", "json", &greeter])?)
        .await?;
    let args = [
        "--controllers=".to_owned(),
        format!("--policy={}", policy.display()),
    ];
    let host = cluster.spawn_host("host", cluster.plane.kubeconfig_path(), &args)?;
    let result = async {
        let unsigned = |status: &serde_json::Value| {
            status["state"] == "failed"
                && status["reason"]
                    .as_str()
                    .is_some_and(|reason| reason.contains("sign"))
        };
        cluster
            .until_plugin("host", "greeter", "is not signed", unsigned)
            .await?;
        std::fs::write(&policy, sourced(""))?;
        let status = cluster
            .until_plugin("host", "greeter", "runs", |status| {
                status["state"] == "running"
            })
            .await?;
        ensure!(
            status["origin"] == package.trim(),
            "the plugin has another origin: {status}"
        );
        greeted(&cluster.client, "greeted").await
    };
    let result = result.await;
    finish(cluster, [host], result).await
}
