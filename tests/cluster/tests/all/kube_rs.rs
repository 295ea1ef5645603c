//! A reconciler that is written for kube-rs, as a plugin.

use anyhow::{Context, Result, ensure};
use flyball_cluster_tests::{Cluster, Example, Space, finish, until};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{
    Api, ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams,
};
use serde_json::{Value, json};

const NAME: &str = "configmapgen-controller";

#[tokio::test]
async fn a_reconciler_for_kube_keeps_config_maps() -> Result<()> {
    let examples = Example::built(&[NAME], "a_reconciler_for_kube_keeps_config_maps")?;
    let cluster = Cluster::for_plugins().await?;
    let result = config_maps_are_kept(&cluster, &examples).await;
    finish(cluster, [], result).await
}

fn manifest(example: &Example, file: &str) -> Result<Value> {
    let path = example.folder().join("manifests").join(file);
    let text =
        std::fs::read_to_string(&path).with_context(|| format!("can't read {}", path.display()))?;
    serde_saphyr::from_str(&text).with_context(|| format!("{} is malformed", path.display()))
}

async fn config_maps_are_kept(cluster: &Cluster, examples: &[Example]) -> Result<()> {
    let [example] = examples else {
        return Ok(());
    };
    let definitions = json!({"items": [manifest(example, "crd.yaml")?]});
    cluster.apply(&definitions.to_string()).await?;
    cluster.grant(examples).await?;
    let mut host = cluster.spawn_examples("kube-rs", examples, &[])?;
    let space = Space::create(cluster.client.clone(), "generators").await?;
    let kind = GroupVersionKind::gvk("nullable.se", "v1", "ConfigMapGenerator");
    let generators: Api<DynamicObject> = Api::namespaced_with(
        space.client.clone(),
        &space.name,
        &ApiResource::from_gvk(&kind),
    );
    let generator: DynamicObject = serde_json::from_value(manifest(example, "generator.yaml")?)?;
    let name = "samplecmg";
    // The API server takes a moment to serve the kind.
    let uid = until("the generator is created", async || {
        let created = generators.create(&PostParams::default(), &generator).await;
        Ok(created
            .map(|created| created.metadata.uid)
            .map_err(|error| error.to_string()))
    })
    .await?;

    until_content(&space, name, "Hello from a controller").await?;
    let map = space.api::<ConfigMap>().get(name).await?;
    let owners = map.metadata.owner_references.unwrap_or_default();
    ensure!(
        owners.len() == 1 && Some(&owners[0].uid) == uid.as_ref(),
        "the owners are {owners:?}"
    );
    let change = Patch::Merge(json!({"spec": {"content": "Grüezi 👋"}}));
    generators
        .patch(name, &PatchParams::default(), &change)
        .await?;
    until_content(&space, name, "Grüezi 👋").await?;
    space.delete::<ConfigMap>(name).await?;
    until_content(&space, name, "Grüezi 👋").await?;

    // Another manager takes over the field: the reconciler fails until the field is free again.
    let spoilt = json!({"data": {"content": "spoilt"}});
    space.change::<ConfigMap>(name, spoilt).await?;
    let failed = |status: &Value| {
        let error = status["lastError"]["message"].as_str().unwrap_or_default();
        error.contains("Failed to create ConfigMap") && error.contains("conflict")
    };
    cluster
        .until_plugin("kube-rs", NAME, "reports the conflict", failed)
        .await?;
    space.delete::<ConfigMap>(name).await?;
    until_content(&space, name, "Grüezi 👋").await?;
    let status = host.stop().await?;
    ensure!(status.success(), "the host ended with {status}");
    Ok(())
}

async fn until_content(space: &Space, name: &str, content: &str) -> Result<()> {
    until(&format!("{name} has the content {content}"), async || {
        let map = space.api::<ConfigMap>().get_opt(name).await?;
        let data = map.and_then(|map| map.data).unwrap_or_default();
        Ok(match data.get("content") {
            Some(found) if found == content => Ok(()),
            found => Err(format!("{found:?}")),
        })
    })
    .await
}
