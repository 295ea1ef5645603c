//! The state of a cluster that a takeover must not change.

use std::collections::BTreeMap;

use anyhow::{Result, ensure};
use flyball_differential::api;
use kube::Client;
use serde_json::{Value, json};

use crate::workloads::NAMESPACE;

/// The kinds that the controllers write.
const KINDS: [&str; 15] = [
    "ConfigMap",
    "ControllerRevision",
    "CronJob",
    "DaemonSet",
    "Deployment",
    "Job",
    "PersistentVolumeClaim",
    "Pod",
    "PodDisruptionBudget",
    "ReplicaSet",
    "ReplicationController",
    "ResourceQuota",
    "Secret",
    "ServiceAccount",
    "StatefulSet",
];

/// All objects of the workloads' namespace, by kind and name. An entry holds the object's UID and generation, the
/// revision of a ControllerRevision, the restarts of a pod, and the resource version, which shows that the object was
/// not written at all.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct State(BTreeMap<String, Value>);

impl State {
    pub(crate) async fn read(client: &Client) -> Result<Self> {
        let mut state = BTreeMap::new();
        for kind in KINDS {
            for object in api::list(client, kind, NAMESPACE).await? {
                let meta = &object["metadata"];
                let name = format!("{kind}/{}", meta["name"].as_str().unwrap_or_default());
                let statuses = object["status"]["containerStatuses"].as_array();
                let restarts: Vec<_> = statuses
                    .into_iter()
                    .flatten()
                    .map(|status| &status["restartCount"])
                    .collect();
                let kept = json!({
                    "uid": meta["uid"], "generation": meta["generation"], "deleted": meta["deletionTimestamp"],
                    "revision": object["revision"], "restarts": restarts, "version": meta["resourceVersion"],
                });
                state.insert(name, kept);
            }
        }
        Ok(Self(state))
    }

    /// The differences to a later state.
    pub(crate) fn changes(&self, later: &Self) -> Vec<String> {
        let names = self.0.keys().chain(later.0.keys());
        let mut names: Vec<&String> = names.collect();
        names.sort_unstable();
        names.dedup();
        let (before, after) = (&self.0, &later.0);
        let changed = names
            .into_iter()
            .filter(|name| before.get(*name) != after.get(*name));
        changed
            .map(|name| {
                format!(
                    "{name}: {:?} became {:?}",
                    before.get(name),
                    after.get(name)
                )
            })
            .collect()
    }

    /// Fails if an object differs in a later state.
    pub(crate) fn unchanged(&self, later: &Self, when: &str) -> Result<()> {
        let changes = self.changes(later);
        ensure!(changes.is_empty(), "{when}:\n{}", changes.join("\n"));
        Ok(())
    }

    /// Fails unless all objects of these kinds still exist in a later state, with the same UIDs,
    /// revisions and restarts.
    pub(crate) fn survive(&self, later: &Self, is_one: impl Fn(&str) -> bool) -> Result<()> {
        let of = |state: &Value| {
            [
                state["uid"].clone(),
                state["revision"].clone(),
                state["restarts"].clone(),
            ]
        };
        for (name, state) in self.0.iter().filter(|(name, _)| is_one(name)) {
            let seen = later.0.get(name);
            ensure!(
                seen.is_some_and(|seen| of(seen) == of(state)),
                "{name} was {state} and is {seen:?}"
            );
        }
        Ok(())
    }
}
