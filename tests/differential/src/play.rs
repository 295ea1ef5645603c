//! Plays a scenario in its namespaces, step by step.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail};
use flyball_cluster_tests::{Cluster, merge, until};
use jiff::{SignedDuration, Timestamp};
use kube::Client;
use serde_json::{Value, json};

use crate::scenario::{Name, Scenario, Step, Which};
use crate::{api, rest};

/// The kinds whose status has an observed generation.
const OBSERVED: [&str; 5] = [
    "DaemonSet",
    "Deployment",
    "ReplicaSet",
    "ReplicationController",
    "StatefulSet",
];
/// The placeholder of an object's UID: the text before and after the object's kind and name.
const UID: (&str, &str) = ("{uid ", "}");
/// The placeholder of a time: the text before and after how far it is in the future, such as `5s`.
const IN: (&str, &str) = ("{in ", "}");
/// Any value except null in a `wait`.
const ANY: &str = "*";

/// Creates the namespaces of a scenario, and plays the steps before the controllers' start.
pub(crate) async fn prepare(cluster: &Cluster, scenario: &Scenario) -> Result<()> {
    for namespace in scenario.all_namespaces() {
        let object =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
        api::create(&cluster.client, "", &object).await?;
    }
    play_steps(cluster, scenario, &scenario.before).await
}

/// Plays a scenario whose namespaces exist, and returns its final state.
pub(crate) async fn play(cluster: &Cluster, scenario: &Scenario) -> Result<rest::Rest> {
    // Pods are refused until the service account exists.
    for namespace in scenario.all_namespaces() {
        let account = Which {
            kind: "ServiceAccount".into(),
            namespace: None,
            name: Name::Is("default".into()),
        };
        wait(cluster, &namespace, &account, &BTreeMap::new()).await?;
    }
    play_steps(cluster, scenario, &scenario.steps).await?;
    rest::settle(cluster, scenario).await
}

async fn play_steps(cluster: &Cluster, scenario: &Scenario, steps: &[Step]) -> Result<()> {
    let namespace = scenario.namespace();
    for (number, step) in steps.iter().enumerate() {
        let played = play_step(cluster, scenario, step).await;
        played
            .with_context(|| format!("step {} of the scenario {namespace} failed", number + 1))?;
    }
    Ok(())
}

async fn play_step(cluster: &Cluster, scenario: &Scenario, step: &Step) -> Result<()> {
    let (client, namespace) = (&cluster.client, &*scenario.namespace());
    match step {
        Step::Create(object) => {
            create(client, namespace, &filled(client, namespace, object).await?).await
        }
        Step::CreateAs(user, groups, object) => {
            let object = filled(client, namespace, object).await?;
            // The API server learns of a new permission a little later.
            until(
                &format!("{user} may create it"),
                async || match api::create_as(client, user, groups, namespace, &object).await {
                    Err(error) if api::is_forbidden(&error) => Ok(Err(format!("{error:#}"))),
                    created => created.map(Ok),
                },
            )
            .await
        }
        Step::Ensure(object) => match api::create(client, namespace, object).await {
            Err(error) if !api::is_already_there(&error) => Err(error),
            _ => Ok(()),
        },
        Step::Patch(which, patch) => {
            let patch = filled(client, namespace, patch).await?;
            let found = find(client, namespace, which).await?;
            api::patch(client, &which.kind, &found.namespace, &found.name, &patch).await
        }
        Step::PatchStatus(which, patch) => {
            patch_on(client, namespace, which, "status", patch).await
        }
        Step::PatchSubresource(which, subresource, patch) => {
            patch_on(client, namespace, which, subresource, patch).await
        }
        Step::ApplyStatus(which, manager, status) => {
            apply_status(client, namespace, which, manager, status).await
        }
        Step::Overwrite(which, patch) => overwrite(cluster, namespace, which, patch).await,
        Step::Backdate(which, time) => {
            let patch = json!({"metadata": {"creationTimestamp": time}});
            overwrite(cluster, namespace, which, &patch).await?;
            let expected =
                BTreeMap::from([("metadata.creationTimestamp".to_owned(), time.clone().into())]);
            wait(cluster, namespace, which, &expected).await
        }
        Step::Delete(which) => {
            let found = find(client, namespace, which).await?;
            api::delete(client, &which.kind, &found.namespace, &found.name).await?;
            cluster
                .until(&format!("{which} is deleted"), async || {
                    let object =
                        api::get(client, &which.kind, &found.namespace, &found.name).await?;
                    Ok(absent(
                        object.filter(|object| object["metadata"]["uid"] == found.uid),
                    ))
                })
                .await
        }
        Step::DeleteWith(which, options) => {
            let found = find(client, namespace, which).await?;
            api::delete_with(client, &which.kind, &found.namespace, &found.name, options).await
        }
        Step::Refused(object) => {
            let what = format!("a {} is refused", api::kind_of(object)?);
            let is_refusal = |error: &anyhow::Error| {
                api::is_forbidden(error)
                    || api::is_denied_by_policy(error)
                    || api::lacks_webhook(error)
            };
            until(&what, async || {
                match api::try_to_create(client, namespace, object).await {
                    Err(error) if is_refusal(&error) => Ok(Ok(())),
                    tried => tried.map(|()| Err("it would be created".to_owned())),
                }
            })
            .await
        }
        Step::Published(kind) => {
            until(&format!("the schema of {kind} is published"), async || {
                Ok(match api::publishes_schema(client, kind).await? {
                    true => Ok(()),
                    false => Err("its group version has no schema of it".to_owned()),
                })
            })
            .await
        }
        Step::Gone(which) => {
            cluster
                .until(&format!("{which} is deleted"), async || {
                    let objects = list(client, namespace, which).await?;
                    Ok(absent(choose(&objects, which).cloned()))
                })
                .await
        }
        Step::Pause => rest::pause(cluster, scenario).await,
        Step::Wait(which, expected) => wait(cluster, namespace, which, expected).await,
        Step::Cloud(method, path, body) => cluster.cloud()?.ask(method, path, body).map(drop),
        Step::CloudWait(path, expected) => {
            cluster
                .until(
                    &format!("the cloud has {expected:?} at {path}"),
                    async || {
                        let found = cluster.cloud()?.ask("GET", path, &Value::Null)?;
                        Ok(difference(&found, expected).map_or(Ok(()), Err))
                    },
                )
                .await
        }
        Step::Count(kind, expected) => {
            cluster
                .until(
                    &format!("{expected} objects of the kind {kind} exist"),
                    async || {
                        let count = api::list(client, kind, namespace).await?.len();
                        Ok(if count == *expected {
                            Ok(())
                        } else {
                            Err(count.to_string())
                        })
                    },
                )
                .await
        }
    }
}

/// Creates an object. Retries while the kind is not served, since it may just have been defined.
async fn create(client: &Client, namespace: &str, object: &Value) -> Result<()> {
    until(
        &format!("a {} can be created", api::kind_of(object)?),
        async || match api::create(client, namespace, object).await {
            Err(error) if api::is_not_found(&error) => Ok(Err(format!("{error:#}"))),
            created => created.map(|_| Ok(())),
        },
    )
    .await
}

/// Changes a subresource by a merge patch.
async fn patch_on(
    client: &Client,
    namespace: &str,
    which: &Which,
    subresource: &str,
    patch: &Value,
) -> Result<()> {
    let patch = filled(client, namespace, patch).await?;
    let Found {
        namespace, name, ..
    } = find(client, namespace, which).await?;
    api::patch_on(client, &which.kind, &namespace, &name, subresource, &patch).await
}

/// Applies the status of an object.
async fn apply_status(
    client: &Client,
    namespace: &str,
    which: &Which,
    manager: &str,
    status: &Value,
) -> Result<()> {
    let status = filled(client, namespace, status).await?;
    let found = find(client, namespace, which).await?;
    let applied = json!({
        "apiVersion": api::api_version(&which.kind)?, "kind": which.kind,
        "metadata": {"name": found.name, "namespace": found.namespace}, "status": status,
    });
    let Found {
        namespace, name, ..
    } = found;
    api::apply_status(client, &which.kind, &namespace, &name, manager, &applied).await
}

/// Changes an object in etcd: the fields of the patch replace its own.
async fn overwrite(cluster: &Cluster, namespace: &str, which: &Which, patch: &Value) -> Result<()> {
    let (objects, found) = (
        list(&cluster.client, namespace, which).await?,
        find(&cluster.client, namespace, which).await?,
    );
    let Some(mut object) = choose(&objects, which).cloned() else {
        bail!("{which} does not exist")
    };
    // The items of a list have no kind.
    object["apiVersion"] = api::api_version(&which.kind)?.into();
    object["kind"] = which.kind.clone().into();
    merge(&mut object, patch.clone());
    let plural = api::plural(&which.kind)?;
    let folder = match &*plural {
        "endpoints" => "services/endpoints",
        other => other,
    };
    let slash = if found.namespace.is_empty() { "" } else { "/" };
    let key = format!(
        "/registry/{folder}/{}{slash}{}",
        found.namespace, found.name
    );
    cluster.plane.put_into_etcd(&key, &object).await
}

async fn wait(
    cluster: &Cluster,
    namespace: &str,
    which: &Which,
    expected: &BTreeMap<String, Value>,
) -> Result<()> {
    cluster
        .until(&format!("{which} has {expected:?}"), async || {
            let objects = list(&cluster.client, namespace, which).await?;
            let Some(object) = choose(&objects, which) else {
                return Ok(Err("it does not exist".to_owned()));
            };
            let (generation, seen) = (
                &object["metadata"]["generation"],
                &object["status"]["observedGeneration"],
            );
            if OBSERVED.contains(&which.kind.as_str()) && generation != seen {
                return Ok(Err(format!(
                    "its generation is {generation}, but {seen} was observed"
                )));
            }
            Ok(match difference(object, expected) {
                None => Ok(()),
                Some(difference) => {
                    Err(format!("{difference}; its status is {}", object["status"]))
                }
            })
        })
        .await
}

/// The first value that an object does not have as expected.
fn difference(object: &Value, expected: &BTreeMap<String, Value>) -> Option<String> {
    let is = |path: &str, value: &Value| {
        if value == ANY {
            !at(object, path).is_null()
        } else {
            at(object, path) == value
        }
    };
    let (path, _) = expected.iter().find(|(path, value)| !is(path, value))?;
    Some(format!("{path} is {}", at(object, path)))
}

/// The coordinates of an object.
struct Found {
    namespace: String,
    name: String,
    uid: String,
}

async fn find(client: &Client, namespace: &str, which: &Which) -> Result<Found> {
    let objects = list(client, namespace, which).await?;
    let object = choose(&objects, which).with_context(|| format!("{which} does not exist"))?;
    let text = |field: &str| {
        object["metadata"][field]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    Ok(Found {
        namespace: text("namespace"),
        name: text("name"),
        uid: text("uid"),
    })
}

async fn list(client: &Client, namespace: &str, which: &Which) -> Result<Vec<Value>> {
    api::list(
        client,
        &which.kind,
        which.namespace.as_deref().unwrap_or(namespace),
    )
    .await
}

fn choose<'a>(objects: &'a [Value], which: &Which) -> Option<&'a Value> {
    match &which.name {
        Name::Is(name) => objects
            .iter()
            .find(|object| object["metadata"]["name"] == name.as_str()),
        Name::Index(index) => objects.get(*index),
        Name::Of(other) => objects.iter().find(|object| {
            let others = [
                &object["spec"]["nodeName"],
                &object["involvedObject"]["name"],
                &object["reason"],
            ];
            others.contains(&&json!(other))
        }),
    }
}

fn absent(object: Option<Value>) -> Result<(), String> {
    object.map_or(Ok(()), |object| {
        Err(format!("it exists: {}", object["metadata"]))
    })
}

/// Replaces the placeholders of UIDs and times in an object.
async fn filled(client: &Client, namespace: &str, object: &Value) -> Result<Value> {
    let mut text = object.to_string();
    while let Some((before, which, after)) = placeholder(&text, UID)? {
        let which = Which::try_from(which.to_owned()).map_err(anyhow::Error::msg)?;
        let uid = find(client, namespace, &which).await?.uid;
        text = format!("{before}{uid}{after}");
    }
    while let Some((before, span, after)) = placeholder(&text, IN)? {
        let span: SignedDuration = span
            .parse()
            .with_context(|| format!("{span} is not a duration"))?;
        let time = (Timestamp::now() + span).strftime("%Y-%m-%dT%H:%M:%SZ");
        text = format!("{before}{time}{after}");
    }
    Ok(serde_json::from_str(&text)?)
}

/// The text before, in and after the first placeholder.
fn placeholder<'a>(text: &'a str, of: (&str, &str)) -> Result<Option<(&'a str, &'a str, &'a str)>> {
    let Some((before, rest)) = text.split_once(of.0) else {
        return Ok(None);
    };
    let (inner, after) = rest
        .split_once(of.1)
        .with_context(|| format!("the placeholder `{}` is not closed in: {rest}", of.0))?;
    Ok(Some((before, inner, after)))
}

/// The value at a path such as `status.conditions[Progressing].reason`. The brackets have the `type`
/// or the index of a list item, or the name of a field with dots.
fn at<'a>(object: &'a Value, path: &str) -> &'a Value {
    let mut value = object;
    for part in parts(path) {
        value = match (value, part) {
            (Value::Array(items), Part::Bracketed(text)) => match text.parse::<usize>() {
                Ok(number) => items.get(number).unwrap_or(&Value::Null),
                Err(_) => items
                    .iter()
                    .find(|item| item["type"] == text)
                    .unwrap_or(&Value::Null),
            },
            (value, Part::Bracketed(name) | Part::Plain(name)) => &value[name],
        }
    }
    value
}

enum Part<'a> {
    Plain(&'a str),
    Bracketed(&'a str),
}

fn parts(path: &str) -> Vec<Part<'_>> {
    let mut parts = Vec::new();
    for (number, piece) in path.split(['[', ']']).enumerate() {
        if number % 2 == 1 {
            parts.push(Part::Bracketed(piece));
        } else {
            parts.extend(
                piece
                    .split('.')
                    .filter(|name| !name.is_empty())
                    .map(Part::Plain),
            );
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_finds_a_list_item_by_its_type_or_index() {
        let object = json!({"status": {"conditions": [{"type": "A", "reason": "x"}, {"type": "B", "reason": "y"}]}});
        assert_eq!(at(&object, "status.conditions[B].reason"), "y");
        assert_eq!(at(&object, "status.conditions[0].reason"), "x");
        assert_eq!(at(&object, "status.conditions[C].reason"), &Value::Null);
        assert_eq!(at(&object, "status.conditions[2]"), &Value::Null);
    }

    #[test]
    fn an_object_is_chosen_by_its_name_its_index_or_the_object_that_it_names() {
        let pod = |name: &str, node: &str| json!({"metadata": {"name": name}, "spec": {"nodeName": node}});
        let pods = [pod("a", "node-1"), pod("b", "node-0")];
        let chosen = |which: &str| {
            let which = Which::try_from(which.to_owned()).unwrap();
            choose(&pods, &which).map(|pod| pod["metadata"]["name"].clone())
        };
        for (which, name) in [("Pod/a", "a"), ("Pod/#1", "b"), ("Pod/@node-0", "b")] {
            assert_eq!(chosen(which), Some(name.into()), "{which}");
        }
        for which in ["Pod/c", "Pod/#2", "Pod/@node-2"] {
            assert_eq!(chosen(which), None, "{which}");
        }
        let about = |name: &str, reason: &str| json!({"metadata": {"name": name}, "involvedObject": {"name": name}, "reason": reason});
        let events = [about("x", "Started"), about("y", "Failed")];
        for which in ["Event/@y", "Event/@Failed"] {
            let which = Which::try_from(which.to_owned()).unwrap();
            assert_eq!(choose(&events, &which), Some(&events[1]));
        }
    }

    #[test]
    fn a_path_finds_a_field_whose_name_has_dots() {
        let object = json!({"data": {"ca.crt": "x"}});
        assert_eq!(at(&object, "data[ca.crt]"), "x");
        assert_eq!(at(&object, "data[ca.key]"), &Value::Null);
    }
}
