//! API servers that lack a kind, and hosts that emulate an earlier release of Kubernetes.

use anyhow::Result;
use flyball_cluster_tests::{Cluster, finish, until};
use flyball_controlplane::{Options, api};
use serde_json::Value;

#[tokio::test]
async fn a_controller_whose_kind_is_not_served_waits_and_the_others_run() -> Result<()> {
    let cluster = start("storagemigration.k8s.io/v1=false").await?;
    let (port, serving) = cluster.serving();
    let mut args = serving.to_vec();
    args.push("--controllers=serviceaccount-controller,storage-version-migrator-controller".into());
    let host = cluster.spawn_host("lacking", cluster.plane.kcm_kubeconfig_path(), &args)?;
    let result = async {
        let waits = |status: &Value| status["state"] == "waiting-for-kind";
        let status = cluster
            .until_plugin(
                "lacking",
                "storage-version-migrator-controller",
                "waits",
                waits,
            )
            .await?;
        let reason = status["reason"].as_str().unwrap_or_default();
        let expected =
            "waits until the server serves storagemigration.k8s.io/v1/StorageVersionMigration";
        anyhow::ensure!(reason.contains(expected), "{status}");
        let runs = |status: &Value| status["state"] == "running";
        cluster
            .until_plugin("lacking", "serviceaccount-controller", "runs", runs)
            .await?;
        until("the host is ready", async || {
            let page = cluster.https(port, "/readyz").await?;
            Ok(if page == "ok" { Ok(()) } else { Err(page) })
        })
        .await
    };
    let result = result.await;
    finish(cluster, [host], result).await
}

#[tokio::test]
async fn a_host_that_emulates_1_36_writes_the_kinds_of_1_36() -> Result<()> {
    let cluster = start("certificates.k8s.io/v1beta1=true").await?;
    let args = [
        "--controllers=kube-apiserver-serving-clustertrustbundle-publisher-controller",
        "--use-service-account-credentials=true",
        "--emulated-version=1.36",
        "--feature-gates=ClusterTrustBundle=true",
    ];
    let mut args = args.map(str::to_owned).to_vec();
    args.push(format!(
        "--root-ca-file={}",
        cluster.plane.root_ca_file().display()
    ));
    let host = cluster.spawn_host("emulating", cluster.plane.kcm_kubeconfig_path(), &args)?;
    let result = async {
        let bundle = until("the bundle of the API server is published", async || {
            let found = api::list(&cluster.client, "ClusterTrustBundle", "").await?;
            Ok(found.into_iter().next().ok_or_else(|| "none".into()))
        })
        .await?;
        let written = &bundle["metadata"]["managedFields"][0]["apiVersion"];
        anyhow::ensure!(*written == "certificates.k8s.io/v1beta1", "{bundle}");
        Ok(())
    };
    let result = result.await;
    finish(cluster, [host], result).await
}

/// Starts a control plane that serves these versions of APIs.
async fn start(runtime_config: &str) -> Result<Cluster> {
    Cluster::without_nodes(Options {
        scheduler: false,
        apiserver_args: vec![format!("--runtime-config={runtime_config}")],
        ..Options::default()
    })
    .await
}
