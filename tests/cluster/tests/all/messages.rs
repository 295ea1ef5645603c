//! The host's messages about problems: an object that does not fit, a policy that it refuses, and an unreachable API
//! server.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use flyball_cluster_tests::{Cluster, Space, finish, greeted, guest, host_output, log_of, until};
use k8s_openapi::api::core::v1::{ConfigMap, Event};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, ApiResource, DynamicObject, ListParams, PostParams};
use kube::core::GroupVersionKind;
use kube::{Client, ResourceExt};
use serde_json::{Value, json};

const HOST: &str = "host";

#[tokio::test]
async fn an_object_that_does_not_fit_has_one_event_and_an_error_that_names_the_field() -> Result<()>
{
    let cluster = Cluster::for_plugins().await?;
    let plugins = cluster.folder_with("plugins", &[guest("widgets")?])?;
    define_widgets(&cluster.client).await?;
    let host = cluster.spawn_host(HOST, cluster.plane.kubeconfig_path(), &trusting(&plugins))?;
    let result = async {
        let space = Space::create(cluster.client.clone(), "widgets").await?;
        let whole = create_widget(
            &space,
            "whole",
            json!({"size": 1, "parts": [{"name": "a"}, {}, {"name": "b"}]}),
        )
        .await?;
        until("the parts are written", async || {
            let map = space.api::<ConfigMap>().get_opt(&whole.name_any()).await?;
            let parts = map.and_then(|map| map.data?.get("parts").cloned());
            Ok(match parts.as_deref() {
                Some("a b") => Ok(()),
                other => Err(format!("{other:?}")),
            })
        })
        .await?;
        let odd = create_widget(&space, "odd", json!({"size": "large"})).await?;
        let problem = "spec.size: invalid type: string \"large\", expected i32";
        let error = format!("example.com/v1/Widget widgets/odd is malformed: {problem}");
        let fails = |status: &Value| {
            let message = status["lastError"]["message"].as_str();
            message.is_some_and(|message| message.ends_with(&error))
                && status["errors"].as_u64() > Some(3)
        };
        cluster
            .until_plugin(HOST, "widgets-0", "has failed some times", fails)
            .await?;
        let event = until("an event is about the object", async || {
            let events = space
                .api::<Event>()
                .list(&ListParams::default())
                .await?
                .items;
            let mut about = events
                .into_iter()
                .filter(|event| event.reason.as_deref() == Some("MalformedObject"));
            Ok(about
                .next()
                .ok_or_else(|| "none".to_owned())
                .and_then(|first| match about.next() {
                    None => Ok(first),
                    Some(second) => Err(format!("two events: {first:?} and {second:?}")),
                }))
        })
        .await?;
        ensure!(event.involved_object.uid == odd.uid(), "{event:?}");
        ensure!(
            event.involved_object.kind.as_deref() == Some("Widget"),
            "{event:?}"
        );
        let expected = format!("widgets-0 can't read this object: {problem}");
        ensure!(event.message == Some(expected), "{event:?}");
        ensure!(
            event.count == Some(1) && event.type_.as_deref() == Some("Warning"),
            "{event:?}"
        );
        Ok(())
    };
    let result = result.await;
    finish(cluster, [host], result).await
}

#[tokio::test]
async fn a_policy_that_is_refused_stands_in_status_until_it_is_corrected() -> Result<()> {
    let cluster = Cluster::for_plugins().await?;
    let plugins = cluster.folder_with("plugins", &[guest("greeter")?])?;
    let policy = cluster.plane.dir().join("policy.toml");
    let greeter = guest("greeter")?.display().to_string();
    let good = host_output(&["policy", &greeter])?;
    let roles = host_output(&["rbac", "-o", "json", &greeter])?;
    cluster.apply(&roles).await?;
    std::fs::write(&policy, &good)?;
    let args = Cluster::plugins_alone(&plugins, &policy);
    let host = cluster.spawn_host(HOST, cluster.plane.kubeconfig_path(), &args)?;
    let result = async {
        let runs = |status: &Value| status["state"] == "running";
        cluster.until_plugin(HOST, "greeter", "runs", runs).await?;
        let refused = policy.display().to_string();
        for (from, to, problem) in [
            (
                "\"watch\"",
                "\"wach\"",
                "`wach` is not a verb: did you mean `watch`?",
            ),
            ("v1/ConfigMap", "ConfigMap", "did you mean `v1/ConfigMap`?"),
            (
                "[[plugins.greeter.allow]]",
                "[[plugins.greeter.alow]]",
                "unknown field `alow`: did you mean `allow`?",
            ),
        ] {
            ensure!(good.contains(from), "{good}");
            std::fs::write(&policy, good.replacen(from, to, 1))?;
            let says = |status: &Value| {
                let reason = status["reason"].as_str().unwrap_or_default();
                status["state"] == "failed"
                    && reason.contains(problem)
                    && reason.ends_with("the policy before stays in force")
            };
            cluster.until_plugin(HOST, &refused, problem, says).await?;
        }
        greeted(&cluster.client, "greeted-meanwhile").await?;
        std::fs::write(&policy, &good)?;
        until("the policy is accepted", async || {
            Ok(match cluster.plugin(HOST, &refused)? {
                None => Ok(()),
                Some(status) => Err(status.to_string()),
            })
        })
        .await
    };
    let result = result.await;
    finish(cluster, [host], result).await
}

/// The writes of each plugin that fail before the log is read.
const FAILURES: u64 = 10;

#[tokio::test]
async fn an_api_server_that_is_away_has_one_line_for_all_plugins() -> Result<()> {
    let mut cluster = Cluster::for_plugins().await?;
    let plugins = cluster.folder_with("plugins", &[guest("widgets")?])?;
    let second = std::fs::read(guest("widgets")?)?;
    std::fs::write(plugins.join("second.wasm"), renamed(&second)?)?;
    define_widgets(&cluster.client).await?;
    let mut args = trusting(&plugins).to_vec();
    // At a greater verbosity, each line is written.
    args.push("-v=2".to_owned());
    let host = cluster.spawn_host(HOST, cluster.plane.kubeconfig_path(), &args)?;
    let result = async {
        let space = Space::create(cluster.client.clone(), "widgets").await?;
        create_widget(&space, "busy", json!({"size": 1})).await?;
        let works = |status: &Value| status["reconciles"].as_u64() > Some(3);
        for name in ["widgets-0", "widgets-1"] {
            cluster.until_plugin(HOST, name, "works", works).await?;
        }
        cluster.plane.stop_apiserver().await?;
        let fails = |status: &Value| status["errors"].as_u64() >= Some(FAILURES);
        for name in ["widgets-0", "widgets-1"] {
            cluster
                .until_plugin(HOST, name, "fails some times", fails)
                .await?;
        }
        let log = log_of(&host)?;
        let lines = |text: &str| log.lines().filter(|line| line.contains(text)).count();
        ensure!(lines("can't reach the API server") == 1, "{log}");
        let failed: Vec<&str> = log
            .lines()
            .filter(|line| line.contains("\"failed: could not POST"))
            // A request that was under way when the server ended.
            .filter(|line| !line.contains("connection closed before message completed"))
            .collect();
        ensure!(failed.is_empty(), "{failed:?}");
        cluster.plane.start_apiserver().await?;
        until("the log says that the server is back", async || {
            let log = log_of(&host)?;
            Ok(match log.contains("the API server is reachable again") {
                true => Ok(()),
                false => Err(log),
            })
        })
        .await
    };
    let result = result.await;
    finish(cluster, [host], result).await
}

#[tokio::test]
async fn lines_that_are_repeated_are_counted() -> Result<()> {
    let cluster = Cluster::for_plugins().await?;
    let plugins = cluster.folder_with("plugins", &[guest("widgets")?])?;
    define_widgets(&cluster.client).await?;
    let mut args = trusting(&plugins).to_vec();
    args.push("-v=2".to_owned());
    let host = cluster.spawn_host(HOST, cluster.plane.kubeconfig_path(), &args)?;
    let result = async {
        let space = Space::create(cluster.client.clone(), "widgets").await?;
        for number in 0..5 {
            create_widget(&space, &format!("other-{number}"), json!({"size": 0})).await?;
        }
        create_widget(&space, "odd", json!({"size": "large"})).await?;
        until("the repetitions are counted", async || {
            let log = log_of(&host)?;
            let failed: Vec<&str> = log
                .lines()
                .filter(|line| line.contains("odd is malformed"))
                .collect();
            Ok(match failed.as_slice() {
                [first, second]
                    if !first.contains(" repeated=") && second.contains(" repeated=\"") =>
                {
                    Ok(())
                }
                [_, _, ..] => anyhow::bail!("each repetition has a line: {failed:#?}"),
                _ => Err(log),
            })
        })
        .await
    };
    let result = result.await;
    finish(cluster, [host], result).await
}

/// The flags with which a host trusts the plugins of a folder.
fn trusting(plugins: &Path) -> [String; 3] {
    [
        "--controllers=".to_owned(),
        "--trust-plugins".to_owned(),
        format!("--plugin-dir={}", plugins.display()),
    ]
}

/// The component with the name `widgets-1`.
fn renamed(wasm: &[u8]) -> Result<Vec<u8>> {
    let (name, other) = (b"widgets-0", b"widgets-1");
    let places: Vec<usize> = (0..wasm.len())
        .filter(|at| wasm[*at..].starts_with(name))
        .collect();
    let [at] = places[..] else {
        anyhow::bail!("the name is in the component {} times", places.len());
    };
    let mut renamed = wasm.to_vec();
    renamed[at..at + name.len()].copy_from_slice(other);
    Ok(renamed)
}

/// Creates the kind Widget, without a schema of its fields, and waits until it is served.
async fn define_widgets(client: &Client) -> Result<()> {
    let definition: CustomResourceDefinition = serde_json::from_value(json!({
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"kind": "Widget", "plural": "widgets"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
            }],
        },
    }))?;
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    definitions
        .create(&PostParams::default(), &definition)
        .await?;
    let widgets: Api<DynamicObject> = Api::all_with(client.clone(), &widget());
    until("widgets are served", async || {
        Ok(widgets
            .list(&ListParams::default())
            .await
            .map(drop)
            .map_err(|error| error.to_string()))
    })
    .await
}

fn widget() -> ApiResource {
    ApiResource::from_gvk(&GroupVersionKind::gvk("example.com", "v1", "Widget"))
}

async fn create_widget(space: &Space, name: &str, spec: Value) -> Result<DynamicObject> {
    let widgets: Api<DynamicObject> =
        Api::namespaced_with(space.client.clone(), &space.name, &widget());
    let mut object = DynamicObject::new(name, &widget());
    object.data = json!({"spec": spec});
    let created = widgets.create(&PostParams::default(), &object).await;
    created.with_context(|| format!("can't create the widget {name}"))
}
