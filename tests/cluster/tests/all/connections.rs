//! The host's connections to the API server: the watches of all kinds share a few.

use std::collections::HashSet;

use anyhow::{Context, Result, ensure};
use flyball_cluster_tests::{Cluster, finish, until};
use flyball_controlplane::{Options, Process};
use futures::future::try_join_all;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, PostParams};
use procfs::net::TcpState;
use procfs::process::{FDTarget, Process as Proc};
use serde_json::json;

/// The number of CustomResourceDefinitions. With the kinds of Kubernetes, their watches need two connections.
const KINDS: usize = 120;
/// The group of their kinds.
const GROUP: &str = "crowd.example.com";
/// The maximum number of connections: two for watches, one for the host's requests, one for those of service accounts,
/// and as many again during the start.
const CONNECTIONS: usize = 8;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_watches_of_many_kinds_share_a_few_connections() -> Result<()> {
    let cluster = Cluster::without_nodes(Options {
        scheduler: false,
        ..Options::default()
    })
    .await?;
    let definitions: Api<CustomResourceDefinition> = Api::all(cluster.client.clone());
    let created = (0..KINDS).map(|number| {
        let definitions = definitions.clone();
        async move {
            let definition = serde_json::from_value(definition(number))?;
            let parameters = PostParams::default();
            anyhow::Ok(definitions.create(&parameters, &definition).await?)
        }
    });
    try_join_all(created)
        .await
        .context("can't create the kinds")?;
    let (port, serving) = cluster.serving();
    let mut flags = vec![
        "--controllers=*".to_owned(),
        "--use-service-account-credentials=true".to_owned(),
    ];
    flags.extend(serving);
    let host = cluster.spawn_host("controllers", cluster.plane.kcm_kubeconfig_path(), &flags)?;
    let result = async {
        until("the garbage collector watches all kinds", async || {
            let page = cluster.https(port, "/metrics").await?;
            let synced = page.lines().filter(|line| {
                line.starts_with("informer_store_resource_version{")
                    && line.contains(GROUP)
                    && !line.ends_with(" 0")
            });
            let synced = synced.count();
            Ok(match synced == KINDS {
                true => Ok(()),
                false => Err(format!("{synced} of {KINDS}")),
            })
        })
        .await?;
        let url = cluster.plane.url();
        let server = url.rsplit(':').next().and_then(|port| port.parse().ok());
        let open = connections(&host, server.context("the API server's URL has no port")?)?;
        ensure!(
            (2..=CONNECTIONS).contains(&open),
            "{open} connections to the API server"
        );
        Ok(())
    };
    let result = result.await;
    finish(cluster, [host], result).await
}

fn definition(number: usize) -> serde_json::Value {
    let (plural, kind) = (format!("things{number}"), format!("Thing{number}"));
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{GROUP}")},
        "spec": {
            "group": GROUP, "scope": "Namespaced",
            "names": {"kind": kind, "listKind": format!("{kind}List"), "plural": plural, "singular": kind.to_lowercase()},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}],
        },
    })
}

/// The number of established connections of a process to a port.
fn connections(process: &Process, port: u16) -> Result<usize> {
    let process = Proc::new(process.pid().try_into()?)?;
    let sockets: HashSet<u64> = process
        .fd()?
        .filter_map(|fd| match fd.ok()?.target {
            FDTarget::Socket(inode) => Some(inode),
            _ => None,
        })
        .collect();
    let all = process.tcp()?.into_iter().chain(process.tcp6()?);
    let to_port = all.filter(|entry| {
        entry.remote_address.port() == port
            && entry.state == TcpState::Established
            && sockets.contains(&entry.inode)
    });
    Ok(to_port.count())
}
