//! The final state of a scenario, once nothing changes any more.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use flyball_cluster_tests::{Cluster, PATIENCE};
use jiff::Timestamp;
use kube::Client;
use serde_json::Value;

use crate::scenario::{Compared, Scenario};
use crate::{api, cloud, secrets};

/// A scenario is at rest when nothing has changed for this long. It is longer than the delay of any
/// pending retry.
const QUIET: Duration = Duration::from_secs(4);
/// The same in the middle of a scenario, where the controllers have only to see the changes.
const SEEN: Duration = Duration::from_secs(1);
/// How often the objects are listed.
const POLL: Duration = Duration::from_millis(500);
/// The kinds that are compared in each scenario.
const COMPARED: [&str; 11] = [
    "ControllerRevision",
    "DaemonSet",
    "Deployment",
    "ReplicaSet",
    "ReplicationController",
    "StatefulSet",
    "PersistentVolumeClaim",
    "Job",
    "Pod",
    "ConfigMap",
    "ServiceAccount",
];
/// The namespace of events about cluster-scoped objects.
const DEFAULT_NAMESPACE: &str = "default";
/// The prefix of the finalizers that scenarios set and no controller removes.
const OWN_FINALIZERS: &str = "example.com/";

/// The objects and events at rest.
pub(crate) struct Rest {
    pub(crate) objects: Vec<Value>,
    pub(crate) events: Vec<Value>,
    /// The calls of the scenario that changed the cloud.
    pub(crate) calls: Vec<String>,
    /// The time of the list.
    pub(crate) time: Timestamp,
}

/// Waits until nothing has changed for [`QUIET`] and no object is being deleted.
pub(crate) async fn settle(cluster: &Cluster, scenario: &Scenario) -> Result<Rest> {
    let mut rest = quiet(cluster, scenario, QUIET).await?;
    secrets::review(&cluster.client, &mut rest.objects).await?;
    Ok(rest)
}

/// Waits until nothing has changed for [`SEEN`], so that the controllers have seen all objects.
pub(crate) async fn pause(cluster: &Cluster, scenario: &Scenario) -> Result<()> {
    quiet(cluster, scenario, SEEN).await.map(drop)
}

/// Waits until nothing has changed for this long, in which no object was being deleted and the host was not restarted.
async fn quiet(cluster: &Cluster, scenario: &Scenario, duration: Duration) -> Result<Rest> {
    let begun = Instant::now();
    let (mut seen, mut since) = (Vec::new(), Instant::now());
    loop {
        let mut rest = look(&cluster.client, scenario).await?;
        let all = rest.objects.iter().chain(&rest.events);
        let mut versions: Vec<String> = all
            .map(|object| object["metadata"]["resourceVersion"].to_string())
            .collect();
        if let Ok(cloud) = cluster.cloud() {
            rest.objects.push(cloud::state(cloud, scenario)?);
            rest.calls = cloud::calls(cloud, scenario)?;
            versions.extend(rest.calls.iter().cloned());
        }
        let was_restarted = cluster.running_since().is_none_or(|start| start > since);
        if was_restarted || is_being_deleted(&rest.objects) || versions != seen {
            (seen, since) = (versions, Instant::now());
        }
        if since.elapsed() >= duration {
            return Ok(rest);
        }
        ensure!(
            begun.elapsed() < 2 * PATIENCE,
            "the objects of the scenario {} still change",
            scenario.name
        );
        tokio::time::sleep(POLL).await;
    }
}

async fn look(client: &Client, scenario: &Scenario) -> Result<Rest> {
    let (mut objects, mut events) = (Vec::new(), Vec::new());
    let kinds = scenario.compare.iter().filter_map(Compared::kind);
    let (namespaced, cluster_scoped): (Vec<&str>, Vec<&str>) =
        kinds.partition(|kind| api::is_namespaced(kind));
    for namespace in scenario.compared_namespaces() {
        for kind in COMPARED.iter().chain(&namespaced) {
            objects.extend(all(client, kind, &namespace).await?);
        }
        events.extend(api::list(client, "Event", &namespace).await?);
    }
    for kind in cluster_scoped {
        objects.extend(all(client, kind, "").await?);
    }
    for compared in &scenario.compare {
        let Compared::Object {
            kind,
            namespace,
            name,
        } = compared
        else {
            continue;
        };
        let namespace = namespace.as_deref();
        objects.extend(api::get(client, kind, namespace.unwrap_or_default(), name).await?);
        let elsewhere = api::list(client, "Event", namespace.unwrap_or(DEFAULT_NAMESPACE))
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
        calls: Vec::new(),
        time: Timestamp::now(),
    })
}

/// All objects of a kind. The items of a list have no kind, so they get it here.
async fn all(client: &Client, kind: &str, namespace: &str) -> Result<Vec<Value>> {
    let mut listed = api::list(client, kind, namespace).await?;
    listed
        .iter_mut()
        .for_each(|object| object["kind"] = kind.into());
    Ok(listed)
}

/// Whether an object is being deleted. False if a finalizer of the scenario delays one of the
/// deletions, since the others may wait for that one.
fn is_being_deleted(objects: &[Value]) -> bool {
    let is_deleting = |object: &&Value| object["metadata"]["deletionTimestamp"].is_string();
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
    let mut deleting = objects.iter().filter(is_deleting).peekable();
    deleting.peek().is_some() && !deleting.any(is_held)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn deletions_are_awaited_unless_a_finalizer_of_the_scenario_delays_one() {
        let object = |deleted: bool, finalizers: Value| {
            let time = deleted.then_some("2000-01-01T00:00:00Z");
            json!({"metadata": {"deletionTimestamp": time, "finalizers": finalizers}})
        };
        let (remaining, deleting) = (
            object(false, json!(["example.com/hold"])),
            object(true, json!(["foregroundDeletion"])),
        );
        let held = object(true, json!(["example.com/hold"]));
        assert!(!is_being_deleted(std::slice::from_ref(&remaining)));
        assert!(is_being_deleted(&[remaining, deleting.clone()]));
        assert!(!is_being_deleted(&[deleting, held]));
    }
}
