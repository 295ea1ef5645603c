//! Plays a scenario in its namespace, and waits until nothing moves any more.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use flyball_cluster_tests::{Cluster, PATIENCE, until};
use kube::Client;
use serde_json::{Value, json};

use crate::api;
use crate::scenario::{Name, Scenario, Step, Which};

/// How long nothing may have changed before a scenario counts as ended: longer than any retry that is still due.
const QUIET: Duration = Duration::from_secs(4);
/// How often what is there is looked at meanwhile.
const LOOK: Duration = Duration::from_millis(500);
/// The kinds that are compared.
const COMPARED: [&str; 7] =
    ["Deployment", "ReplicaSet", "ReplicationController", "Job", "Pod", "ConfigMap", "ServiceAccount"];
/// The kinds whose status says which generation it is about.
const OBSERVED: [&str; 3] = ["Deployment", "ReplicaSet", "ReplicationController"];

/// Plays a scenario; answers the objects and the events that are there in the end.
pub(crate) async fn play(cluster: &Cluster, scenario: &Scenario) -> Result<(Vec<Value>, Vec<Value>)> {
    let namespace = scenario.namespace();
    let (client, namespace) = (&cluster.client, namespace.as_str());
    api::create(client, "", &json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})).await?;
    // Until there is one, pods are refused.
    let account = Which { kind: "ServiceAccount".into(), name: Name::Is("default".into()) };
    wait(client, namespace, &account, &BTreeMap::new()).await?;
    for (number, step) in scenario.steps.iter().enumerate() {
        let played = take(client, namespace, step).await;
        played.with_context(|| format!("step {} of the scenario {namespace} failed", number + 1))?;
    }
    settle(client, namespace).await
}

async fn take(client: &Client, namespace: &str, step: &Step) -> Result<()> {
    match step {
        Step::Create(object) => api::create(client, namespace, object).await,
        Step::Patch(which, patch) => {
            let name = find(client, namespace, which).await?.0;
            api::patch(client, &which.kind, namespace, &name, patch).await
        }
        Step::Delete(which) => {
            let (name, uid) = find(client, namespace, which).await?;
            api::delete(client, &which.kind, namespace, &name).await?;
            until(&format!("{} {name} is gone", which.kind), async || {
                let objects = api::list(client, &which.kind, namespace).await?;
                let there = objects.iter().any(|object| object["metadata"]["uid"] == uid);
                Ok(if there { Err("it is there".to_owned()) } else { Ok(()) })
            })
            .await
        }
        Step::Wait(which, expected) => wait(client, namespace, which, expected).await,
        Step::Count(kind, expected) => {
            until(&format!("there are {expected} objects of the kind {kind}"), async || {
                let count = api::list(client, kind, namespace).await?.len();
                Ok(if count == *expected { Ok(()) } else { Err(count.to_string()) })
            })
            .await
        }
    }
}

async fn wait(client: &Client, namespace: &str, which: &Which, expected: &BTreeMap<String, Value>) -> Result<()> {
    until(&format!("{which} has {expected:?}"), async || {
        let objects = api::list(client, &which.kind, namespace).await?;
        let Some(object) = choose(&objects, which) else { return Ok(Err("there is none".to_owned())) };
        let (generation, seen) = (&object["metadata"]["generation"], &object["status"]["observedGeneration"]);
        if OBSERVED.contains(&which.kind.as_str()) && generation != seen {
            return Ok(Err(format!("its generation {generation} isn't observed yet, but {seen}")));
        }
        let different = expected.iter().find(|(path, value)| at(object, path) != *value);
        Ok(match different {
            None => Ok(()),
            Some((path, _)) => Err(format!("{path} is {}; its status is {}", at(object, path), object["status"])),
        })
    })
    .await
}

/// The name and the UID of an object.
async fn find(client: &Client, namespace: &str, which: &Which) -> Result<(String, String)> {
    let objects = api::list(client, &which.kind, namespace).await?;
    let object = choose(&objects, which).with_context(|| format!("there is no {which}"))?;
    let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
    Ok((text("name"), text("uid")))
}

fn choose<'a>(objects: &'a [Value], which: &Which) -> Option<&'a Value> {
    match &which.name {
        Name::Is(name) => objects.iter().find(|object| object["metadata"]["name"] == name.as_str()),
        Name::Place(place) => objects.get(*place),
    }
}

/// The value at a path such as `status.conditions[Progressing].reason`: a name in brackets is a `type` in a list.
fn at<'a>(object: &'a Value, path: &str) -> &'a Value {
    path.split('.').fold(object, |value, part| match part.strip_suffix(']').and_then(|part| part.split_once('[')) {
        None => &value[part],
        Some((list, kind)) => {
            let items = value[list].as_array().map(Vec::as_slice).unwrap_or_default();
            items.iter().find(|item| item["type"] == kind).unwrap_or(&Value::Null)
        }
    })
}

/// Waits until nothing has changed for a while, and nothing is on its way out.
async fn settle(client: &Client, namespace: &str) -> Result<(Vec<Value>, Vec<Value>)> {
    let begun = Instant::now();
    let (mut seen, mut since) = (Vec::new(), Instant::now());
    loop {
        let mut objects = Vec::new();
        for kind in COMPARED {
            let mut listed = api::list(client, kind, namespace).await?;
            // The items of a list don't say what they are.
            listed.iter_mut().for_each(|object| object["kind"] = kind.into());
            objects.extend(listed);
        }
        let events = api::list(client, "Event", namespace).await?;
        let versions: Vec<String> =
            objects.iter().chain(&events).map(|object| object["metadata"]["resourceVersion"].to_string()).collect();
        let leaving = objects.iter().any(|object| object["metadata"]["deletionTimestamp"].is_string());
        if leaving || versions != seen {
            (seen, since) = (versions, Instant::now());
        }
        if since.elapsed() >= QUIET {
            return Ok((objects, events));
        }
        anyhow::ensure!(begun.elapsed() < 2 * PATIENCE, "the scenario {namespace} doesn't come to rest");
        tokio::time::sleep(LOOK).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_finds_an_item_of_a_list_by_its_type() {
        let object = json!({"status": {"conditions": [{"type": "A", "reason": "x"}, {"type": "B", "reason": "y"}]}});
        assert_eq!(at(&object, "status.conditions[B].reason"), "y");
        assert_eq!(at(&object, "status.conditions[C].reason"), &Value::Null);
    }
}
