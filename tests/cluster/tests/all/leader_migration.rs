//! Leader migration: a second lease decides who runs the controllers that move from one controller manager to another.

use anyhow::{Context, Result, ensure};
use flyball_cluster_tests::{Cluster, Space, finish, log_of, until};
use flyball_controlplane::Options;
use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::{Api, ListParams, Patch, PatchParams, PostParams};
use serde_json::json;

const CONFIGURATION: &str = "apiVersion: controllermanager.config.k8s.io/v1
kind: LeaderMigrationConfiguration
leaderName: migration
controllerLeaders:
- {name: serviceaccount-controller, component: '*'}
- {name: replicaset-controller, component: cloud-controller-manager}
";

#[tokio::test]
async fn migrated_controllers_run_only_under_the_second_lease() -> Result<()> {
    let cluster = Cluster::start(Options::default()).await?;
    let leases = Api::<Lease>::namespaced(cluster.client.clone(), "kube-system");
    // Another process holds the second lease, for longer than the test waits.
    let taken = serde_json::from_value(json!({
        "metadata": {"name": "migration"},
        "spec": {"holderIdentity": "another", "leaseDurationSeconds": 3600, "renewTime": "2026-01-01T00:00:00.000000Z"},
    }))?;
    leases.create(&PostParams::default(), &taken).await?;
    let file = cluster.plane.dir().join("migration.yaml");
    std::fs::write(&file, CONFIGURATION)?;
    let args = [
        "--controllers=deployment-controller,replicaset-controller,serviceaccount-controller",
        "--leader-elect=true",
        "--leader-elect-retry-period=500ms",
        "--enable-leader-migration",
        "--use-service-account-credentials=true",
    ];
    let mut args = args.map(str::to_owned).to_vec();
    args.push(format!("--leader-migration-config={}", file.display()));
    let host = cluster.spawn_host("migrating", cluster.plane.kcm_kubeconfig_path(), &args)?;
    let result = async {
        until("the host waits for the second lease", async || {
            let log = log_of(&host)?;
            Ok(match log.contains("another holds the lease") {
                true => Ok(()),
                false => Err(log),
            })
        })
        .await?;
        let space = Space::create(cluster.client.clone(), "migrating").await?;
        space.deploy(1, "web:1", json!({})).await?;
        let sets = space.api::<ReplicaSet>();
        until("the Deployment has a ReplicaSet", async || {
            let found = sets.list(&ListParams::default()).await?.items;
            Ok(found.into_iter().next().ok_or_else(|| "none".into()))
        })
        .await?;
        let account = space.api::<ServiceAccount>().get_opt("default").await?;
        ensure!(account.is_none(), "the controller acts without its lease");
        let log = log_of(&host)?;
        ensure!(
            log.contains("--leader-migration-config gives it to another component"),
            "replicaset-controller runs: {log}"
        );

        let free = Patch::Merge(json!({"spec": {"holderIdentity": ""}}));
        leases
            .patch("migration", &PatchParams::default(), &free)
            .await?;
        space.wait_for_account().await?;
        let holder = async |name: &str| -> Result<String> {
            let spec = leases.get(name).await?.spec.unwrap_or_default();
            spec.holder_identity.context("nobody holds the lease")
        };
        let (main, second) = (
            holder("kube-controller-manager").await?,
            holder("migration").await?,
        );
        ensure!(main == second, "{main} and {second} hold the leases");
        Ok(())
    };
    let result = result.await;
    finish(cluster, Some(host), result).await
}
