//! What is there when a scenario has come to rest: nothing moves any more.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use flyball_cluster_tests::PATIENCE;
use jiff::Timestamp;
use kube::Client;
use serde_json::Value;

use crate::scenario::{Compared, Scenario};
use crate::{api, secrets};

/// How long nothing may have changed before a scenario counts as ended: longer than any retry that is still due.
const QUIET: Duration = Duration::from_secs(4);
/// How often what is there is looked at meanwhile.
const LOOK: Duration = Duration::from_millis(500);
/// The kinds that are compared in each scenario.
const COMPARED: [&str; 7] = [
    "Deployment",
    "ReplicaSet",
    "ReplicationController",
    "Job",
    "Pod",
    "ConfigMap",
    "ServiceAccount",
];
/// Where events are about what lies in no namespace.
const DEFAULT_NAMESPACE: &str = "default";
/// What the finalizers begin with that scenarios give to objects, and no controller takes away.
const OWN_FINALIZERS: &str = "example.com/";

/// What is there in the end.
pub(crate) struct Rest {
    pub(crate) objects: Vec<Value>,
    pub(crate) events: Vec<Value>,
    /// When it was.
    pub(crate) time: Timestamp,
}

/// Waits until nothing has changed for a while, and nothing is on its way out.
pub(crate) async fn settle(client: &Client, scenario: &Scenario) -> Result<Rest> {
    let begun = Instant::now();
    let (mut seen, mut since) = (Vec::new(), Instant::now());
    loop {
        let mut rest = look(client, scenario).await?;
        let all = rest.objects.iter().chain(&rest.events);
        let versions: Vec<String> = all
            .map(|object| object["metadata"]["resourceVersion"].to_string())
            .collect();
        if is_leaving(&rest.objects) || versions != seen {
            (seen, since) = (versions, Instant::now());
        }
        if since.elapsed() >= QUIET {
            secrets::review(client, &mut rest.objects).await?;
            return Ok(rest);
        }
        ensure!(
            begun.elapsed() < 2 * PATIENCE,
            "the scenario {} doesn't come to rest",
            scenario.name
        );
        tokio::time::sleep(LOOK).await;
    }
}

async fn look(client: &Client, scenario: &Scenario) -> Result<Rest> {
    let (mut objects, mut events) = (Vec::new(), Vec::new());
    for namespace in scenario.compared_namespaces() {
        let more = scenario
            .compare
            .iter()
            .filter_map(|compared| match compared {
                Compared::Kind(kind) => Some(kind.as_str()),
                Compared::Object(..) => None,
            });
        for kind in COMPARED.into_iter().chain(more) {
            let mut listed = api::list(client, kind, &namespace).await?;
            // The items of a list don't say what they are.
            listed
                .iter_mut()
                .for_each(|object| object["kind"] = kind.into());
            objects.extend(listed);
        }
        events.extend(api::list(client, "Event", &namespace).await?);
    }
    for compared in &scenario.compare {
        let Compared::Object(kind, name) = compared else {
            continue;
        };
        objects.extend(api::get(client, kind, "", name).await?);
        let elsewhere = api::list(client, "Event", DEFAULT_NAMESPACE)
            .await?
            .into_iter();
        let about = |event: &Value| {
            &event["involvedObject"]["kind"] == kind && &event["involvedObject"]["name"] == name
        };
        events.extend(elsewhere.filter(about));
    }
    Ok(Rest {
        objects,
        events,
        time: Timestamp::now(),
    })
}

/// Whether something will be gone by itself. What a scenario holds with a finalizer stays, and so may what waits for that.
fn is_leaving(objects: &[Value]) -> bool {
    let is_going = |object: &&Value| object["metadata"]["deletionTimestamp"].is_string();
    let is_held = |object: &Value| {
        [
            &object["metadata"]["finalizers"],
            &object["spec"]["finalizers"],
        ]
        .into_iter()
        .any(|finalizers| {
            let finalizers = finalizers.as_array().map(Vec::as_slice).unwrap_or_default();
            finalizers
                .iter()
                .filter_map(Value::as_str)
                .any(|name| name.starts_with(OWN_FINALIZERS))
        })
    };
    let mut going = objects.iter().filter(is_going).peekable();
    going.peek().is_some() && !going.any(is_held)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_deleted_is_waited_for_unless_the_scenario_holds_something() {
        let object = |deleted: bool, finalizers: Value| {
            let time = deleted.then_some("2000-01-01T00:00:00Z");
            json!({"metadata": {"deletionTimestamp": time, "finalizers": finalizers}})
        };
        let (stays, goes) = (
            object(false, json!(["example.com/hold"])),
            object(true, json!(["foregroundDeletion"])),
        );
        let held = object(true, json!(["example.com/hold"]));
        assert!(!is_leaving(std::slice::from_ref(&stays)));
        assert!(is_leaving(&[stays, goes.clone()]));
        assert!(!is_leaving(&[goes, held]));
    }
}
