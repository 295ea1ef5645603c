//! CustomResourceDefinitions: what `flyball crd` prints of Rust types is what the API server stores, and what it drops from a
//! write is in the host's log.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use flyball_cluster_tests::{
    Cluster, Example, Space, finish, host, last_lines, log_of, target_of_projects, until,
};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::Api;
use serde_json::{Value, json};

use crate::greeters::Greetings;

/// The fields that the API server adds to a definition.
const DEFAULTS: [&str; 2] = ["/spec/conversion", "/status"];

#[tokio::test]
async fn the_definition_of_rust_types_is_stored_as_it_is_printed() -> Result<()> {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let output = Command::new(host()?)
        .args(["crd", "-o", "json"])
        .arg(examples.join("greeter-rust"))
        .env("CARGO_TARGET_DIR", target_of_projects())
        .output()?;
    ensure!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let list = String::from_utf8(output.stdout)?;
    let printed: Value = serde_json::from_str::<Value>(&list)?["items"][0].take();
    let file = std::fs::read_to_string(examples.join("greeter.crd.yaml"))?;
    assert_eq!(
        serde_saphyr::from_str::<Value>(&file)?,
        printed,
        "examples/greeter.crd.yaml is not what `flyball crd examples/greeter-rust` prints"
    );
    let cluster = Cluster::for_plugins().await?;
    let result = is_stored(&cluster, &list, printed).await;
    finish(cluster, [], result).await
}

async fn is_stored(cluster: &Cluster, list: &str, printed: Value) -> Result<()> {
    cluster.apply(list).await?;
    let api = Api::<CustomResourceDefinition>::all(cluster.client.clone());
    let name = printed["metadata"]["name"]
        .as_str()
        .context("the definition has no name")?;
    let stored = until("the kind is served", async || {
        let stored = serde_json::to_value(api.get(name).await?)?;
        let conditions = stored["status"]["conditions"].as_array();
        let has = |condition_type: &str| {
            conditions.is_some_and(|all| {
                all.iter().any(|condition| {
                    condition["type"] == condition_type && condition["status"] == "True"
                })
            })
        };
        // A schema that is not structural has a condition.
        let is_served = has("Established") && !has("NonStructuralSchema");
        Ok(if is_served {
            Ok(stored)
        } else {
            Err(stored["status"].to_string())
        })
    })
    .await?;
    let mut reduced = stored.clone();
    reduced["metadata"] = json!({"name": name});
    for path in DEFAULTS {
        let (parent, field) = path.rsplit_once('/').context("a path has a slash")?;
        let parent = reduced.pointer_mut(parent).and_then(Value::as_object_mut);
        let removed = parent.and_then(|parent| parent.remove(field));
        ensure!(
            removed.is_some(),
            "the API server adds no {path}: {stored:#}"
        );
    }
    assert_eq!(reduced, printed);
    Ok(())
}

#[tokio::test]
async fn the_servers_warning_about_a_field_that_it_dropped_is_in_the_hosts_log() -> Result<()> {
    let cluster = Cluster::for_plugins().await?;
    let result = is_warned(&cluster).await;
    finish(cluster, [], result).await
}

/// Runs the greeter with a definition that lacks a field of its status.
async fn is_warned(cluster: &Cluster) -> Result<()> {
    let file = Example::folders().join("greeter.crd.yaml");
    let definition = std::fs::read_to_string(file)?.replace("observedGeneration:", "observed:");
    let folder = tempfile::tempdir()?;
    let changed = folder.path().join("crd.yaml");
    std::fs::write(&changed, definition)?;
    cluster.define(&changed).await?;
    let test = "the_servers_warning_about_a_field_that_it_dropped_is_in_the_hosts_log";
    let greeter = Example::built(&["greeter-rust"], test)?;
    if greeter.is_empty() {
        return Ok(());
    }
    cluster.grant(&greeter).await?;
    let host = cluster.spawn_examples("warned", &greeter, &[])?;
    let space = Space::create(cluster.client.clone(), "warned").await?;
    Greetings::of(space).create("hello", "Hello").await?;
    let warning = "the API server warns: unknown field \"status.observedGeneration\"";
    until("the warning is in the log", async || {
        // The log escapes quotes.
        let log = log_of(&host)?.replace('\\', "");
        let is_there = log.contains(warning);
        Ok(if is_there {
            Ok(())
        } else {
            Err(last_lines(&log))
        })
    })
    .await
}
