//! The garbage collector on an API server with a kind whose objects can't be converted, and the
//! collector's graph, which the host serves over HTTPS.

use anyhow::{Context, Result, ensure};
use flyball_cluster_tests::{Cluster, Space, finish, log_of, until};
use flyball_controlplane::Options;
use futures::{StreamExt, TryStreamExt};
use hyper::Request;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, DeleteParams, ListParams, PostParams, PropagationPolicy};
use kube::{Client, ResourceExt};
use serde_json::{Value, json};

#[tokio::test]
async fn a_kind_that_cannot_be_converted_only_delays_the_collector_and_the_graph_is_served()
-> Result<()> {
    let cluster = Cluster::without_nodes(Options::default()).await?;
    let space = Space::create(cluster.client.clone(), "garbage").await?;
    break_a_kind(&cluster.client).await?;
    let (port, serving) = cluster.serving();
    let mut args = serving.to_vec();
    args.push("--controllers=garbage-collector-controller".into());
    args.push("--use-service-account-credentials=true".into());
    let host = cluster.spawn_host("collector", cluster.plane.kcm_kubeconfig_path(), &args)?;
    let result = async {
        let owner = create(&space, "owner", None).await?;
        create(&space, "child", Some(&owner)).await?;
        until("the owner is in the graph", async || {
            let graph = graph(&cluster, port, &format!("?uid={}", uid(&owner)?)).await?;
            let edge = format!(r#" -> "{}";"#, uid(&owner)?);
            Ok(
                if graph.contains(&edge) && graph.contains(r#"name="child""#) {
                    Ok(())
                } else {
                    Err(graph)
                },
            )
        })
        .await?;
        let maps: Api<ConfigMap> = space.api();
        maps.delete("owner", &DeleteParams::background()).await?;
        until("the child is deleted", async || {
            Ok(maps
                .get_opt("child")
                .await?
                .map_or(Ok(()), |_| Err("the child exists".into())))
        })
        .await?;
        ensure!(
            log_of(&host)?.contains("example.com/v2/Broken"),
            "the log does not name the missing kind"
        );
        Ok(())
    };
    let result = result.await;
    finish(cluster, [host], result).await
}

/// More dependents than the collector orphans in one reconcile, and than a batch of writes may have.
#[tokio::test]
async fn an_owner_orphans_thousands_of_dependents() -> Result<()> {
    const DEPENDENTS: usize = 5100;
    let cluster = Cluster::without_nodes(Options::default()).await?;
    let space = Space::create(cluster.client.clone(), "garbage").await?;
    let owner = create(&space, "owner", None).await?;
    let names = (0..DEPENDENTS).map(|number| format!("child-{number}"));
    let creations = names.map(|name| {
        let (space, owner) = (&space, &owner);
        async move { create(space, &name, Some(owner)).await.map(drop) }
    });
    let created = futures::stream::iter(creations).buffer_unordered(32);
    created.try_collect::<()>().await?;
    let args = [
        "--controllers=garbage-collector-controller".to_owned(),
        "--use-service-account-credentials=true".into(),
        "--kube-api-qps=5000".into(),
        "--kube-api-burst=5000".into(),
    ];
    let host = cluster.spawn_host("collector", cluster.plane.kcm_kubeconfig_path(), &args)?;
    let result = async {
        let maps: Api<ConfigMap> = space.api();
        let orphan = DeleteParams {
            propagation_policy: Some(PropagationPolicy::Orphan),
            ..DeleteParams::default()
        };
        maps.delete("owner", &orphan).await?;
        until("the owner is deleted", async || {
            let owner = maps.get_opt("owner").await?;
            Ok(owner.map_or(Ok(()), |_| Err("the owner exists".into())))
        })
        .await?;
        let left = maps.list(&ListParams::default()).await?.items;
        let children = left
            .iter()
            .filter(|map| map.name_any().starts_with("child-"));
        let is_free = |map: &&ConfigMap| map.owner_references().is_empty();
        let free = children.clone().filter(is_free).count();
        ensure!(
            (children.count(), free) == (DEPENDENTS, DEPENDENTS),
            "{free} of {DEPENDENTS} dependents have no owner"
        );
        Ok(())
    };
    let result = result.await;
    finish(cluster, [host], result).await
}

/// Creates a CustomResourceDefinition with two versions and an object in the stored version. The
/// webhook that would convert it to the other, preferred version doesn't exist.
async fn break_a_kind(client: &Client) -> Result<()> {
    let version = |name: &str, stored: bool| {
        let schema = json!({"openAPIV3Schema": {"type": "object"}});
        json!({"name": name, "served": true, "storage": stored, "schema": schema})
    };
    let mut definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "brokens.example.com"},
        "spec": {
            "group": "example.com", "scope": "Cluster", "versions": [version("v1", true)],
            "names": {"kind": "Broken", "listKind": "BrokenList", "plural": "brokens", "singular": "broken"},
        },
    });
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    definitions
        .create(
            &PostParams::default(),
            &serde_json::from_value(definition.clone())?,
        )
        .await?;
    let object =
        json!({"apiVersion": "example.com/v1", "kind": "Broken", "metadata": {"name": "one"}});
    until("an object of the kind is created", async || {
        let request = Request::post("/apis/example.com/v1/brokens")
            .header("content-type", "application/json");
        let created = client
            .request::<Value>(request.body(object.to_string().into_bytes())?)
            .await;
        Ok(created.map(drop).map_err(|error| error.to_string()))
    })
    .await?;
    let created = definitions.get("brokens.example.com").await?;
    definition["metadata"]["resourceVersion"] = created.resource_version().into();
    definition["spec"]["versions"] = json!([version("v1", true), version("v2", false)]);
    definition["spec"]["conversion"] = json!({"strategy": "Webhook", "webhook": {
        "conversionReviewVersions": ["v1"], "clientConfig": {"url": "https://127.0.0.1:1/"},
    }});
    definitions
        .replace(
            "brokens.example.com",
            &PostParams::default(),
            &serde_json::from_value(definition)?,
        )
        .await
        .context("can't serve a second version")?;
    // A list can't show this: the server would wait for its watch cache, which it can't fill.
    until("the second version is served", async || {
        let served = client
            .request_text(Request::get("/apis/example.com/v2").body(Vec::new())?)
            .await;
        Ok(served.map(drop).map_err(|error| error.to_string()))
    })
    .await
}

/// Creates a ConfigMap with this owner.
async fn create(space: &Space, name: &str, owner: Option<&ConfigMap>) -> Result<ConfigMap> {
    let owners: Vec<Value> = match owner {
        Some(owner) => {
            vec![
                json!({"apiVersion": "v1", "kind": "ConfigMap", "name": owner.name_any(), "uid": uid(owner)?}),
            ]
        }
        None => Vec::new(),
    };
    space
        .create_object(json!({"metadata": {"name": name, "ownerReferences": owners}}))
        .await
}

fn uid(object: &ConfigMap) -> Result<String> {
    object.uid().context("an object has no UID")
}

/// The collector's graph, or an error text before the controller has started.
async fn graph(cluster: &Cluster, port: u16, query: &str) -> Result<String> {
    cluster
        .https(
            port,
            &format!("/debug/controllers/garbage-collector-controller/graph{query}"),
        )
        .await
}
