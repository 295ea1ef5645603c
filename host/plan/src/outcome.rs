//! What a plan has found: the objects that differ from the base, and what that means for the pods that run.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use serde_json::Value;

use crate::overlay::{Id, Taken};
use crate::server::State;
use crate::writes::is_same;

/// The kinds with a pod template, and the field of their status with the number of their pods.
const WORKLOADS: [(&str, &str); 4] = [
    ("apps/v1/DaemonSet", "currentNumberScheduled"),
    ("apps/v1/Deployment", "replicas"),
    ("apps/v1/ReplicaSet", "replicas"),
    ("apps/v1/StatefulSet", "replicas"),
];
/// Of these, those that replace their pods after a change of the template.
const ROLLED: [&str; 3] = [
    "apps/v1/DaemonSet",
    "apps/v1/Deployment",
    "apps/v1/StatefulSet",
];

/// What becomes of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Action {
    Created,
    Changed,
    /// It is gone, or its deletion has begun.
    Deleted,
    /// It is deleted, and another one has its name.
    Replaced,
}

/// An object that differs from the base.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    pub action: Action,
    /// As in `apps/v1/Deployment`.
    pub kind: String,
    /// Empty if the object is cluster-scoped.
    pub namespace: String,
    pub name: String,
    /// Whether it is a part of the change that the plan was given.
    pub is_given: bool,
    /// The controllers that wrote it.
    pub writers: BTreeSet<String>,
    /// Whether nothing but its status differs.
    pub is_status_only: bool,
    /// What keeps an object whose deletion has begun: its finalizers, or its grace period.
    pub waits_for: Vec<String>,
    /// The object of the base.
    pub before: Option<Value>,
    /// The object at the end.
    pub after: Option<Value>,
}

/// A workload or a pod whose containers are stopped and started again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Restart {
    pub kind: String,
    pub namespace: String,
    pub name: String,
    /// The pods that are replaced.
    pub pods: u64,
}

/// How many objects differ, by how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Summary {
    pub created: usize,
    /// In more than their status.
    pub changed: usize,
    /// In nothing but their status.
    pub status_only: usize,
    pub deleted: usize,
    pub replaced: usize,
    /// Pods that are replaced by others.
    pub restarted_pods: u64,
}

/// The result of a plan.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// By kind, namespace and name.
    pub changes: Vec<Change>,
    pub restarts: Vec<Restart>,
    /// The events that controllers recorded, each with the number of times.
    pub events: BTreeMap<String, usize>,
    /// What the reader should know, each with the number of times.
    pub notes: BTreeMap<String, usize>,
}

impl Outcome {
    pub(crate) fn of(state: &State) -> Self {
        let taken = state.overlay.taken().iter();
        let changes = taken.filter_map(|(id, taken)| change(id, taken, state.overlay.current(id)));
        let changes: Vec<Change> = changes.collect();
        Self {
            restarts: restarts(&changes),
            changes,
            events: state.events.clone(),
            notes: state.notes.clone(),
        }
    }

    /// Whether nothing differs.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    pub fn summary(&self) -> Summary {
        let mut summary = Summary {
            restarted_pods: self.restarts.iter().map(|restart| restart.pods).sum(),
            ..Summary::default()
        };
        for change in &self.changes {
            *match change.action {
                Action::Created => &mut summary.created,
                Action::Changed if change.is_status_only => &mut summary.status_only,
                Action::Changed => &mut summary.changed,
                Action::Deleted => &mut summary.deleted,
                Action::Replaced => &mut summary.replaced,
            } += 1;
        }
        summary
    }
}

/// Returns how an object differs; `None` if it does not.
fn change(id: &Id, taken: &Taken, after: Option<Value>) -> Option<Change> {
    let before = taken.before.clone();
    if is_same(before.as_ref(), after.as_ref()) {
        return None;
    }
    let is_deleting = |object: &Option<Value>| {
        object
            .as_ref()
            .is_some_and(|object| !object["metadata"]["deletionTimestamp"].is_null())
    };
    let uid = |object: &Value| object["metadata"]["uid"].clone();
    let action = match (&before, &after) {
        (None, None) => return None,
        (None, Some(_)) => Action::Created,
        (Some(_), None) => Action::Deleted,
        (Some(before), Some(after)) if uid(before) != uid(after) => Action::Replaced,
        (Some(_), Some(_)) if is_deleting(&after) && !is_deleting(&before) => Action::Deleted,
        (Some(_), Some(_)) => Action::Changed,
    };
    let without_status = |object: &Option<Value>| {
        let mut object = object.clone();
        if let Some(fields) = object.as_mut().and_then(Value::as_object_mut) {
            fields.remove("status");
        }
        object
    };
    let is_status_only = action == Action::Changed
        && is_same(
            without_status(&before).as_ref(),
            without_status(&after).as_ref(),
        );
    let waits_for = match (action, &after) {
        (Action::Deleted, Some(after)) => waits_for(after),
        _ => Vec::new(),
    };
    Some(Change {
        action,
        kind: id.kind.clone(),
        namespace: id.namespace.clone(),
        name: id.name.clone(),
        is_given: taken.is_given,
        writers: taken.writers.clone(),
        is_status_only,
        waits_for,
        before,
        after,
    })
}

/// What keeps an object whose deletion has begun.
fn waits_for(object: &Value) -> Vec<String> {
    let texts = |pointer: &str| {
        let list = object.pointer(pointer).and_then(Value::as_array);
        let texts = list.into_iter().flatten().filter_map(Value::as_str);
        texts.map(str::to_owned).collect::<Vec<_>>()
    };
    let mut waits = texts("/metadata/finalizers");
    // Those of a namespace.
    waits.extend(texts("/spec/finalizers"));
    if object["metadata"]["deletionGracePeriodSeconds"]
        .as_i64()
        .unwrap_or(0)
        > 0
    {
        waits.push("its grace period".into());
    }
    waits
}

/// The workloads whose pod template changes, and the pods that are replaced otherwise.
fn restarts(changes: &[Change]) -> Vec<Restart> {
    let mut restarts = Vec::new();
    let mut rolled: BTreeSet<(&str, &str, &str)> = BTreeSet::new();
    for change in changes {
        let pods = WORKLOADS.iter().find(|(kind, _)| *kind == change.kind);
        let (Some((_, pods)), Some(before), Some(after)) = (pods, &change.before, &change.after)
        else {
            continue;
        };
        let template = |object: &Value| object["spec"]["template"].clone();
        let pods = before["status"][pods].as_u64().unwrap_or(0);
        let is_rolled = ROLLED.contains(&change.kind.as_str()) && change.action == Action::Changed;
        if is_rolled && template(before) != template(after) {
            rolled.insert((
                kind_name(&change.kind),
                change.namespace.as_str(),
                change.name.as_str(),
            ));
            if pods > 0 {
                restarts.push(Restart {
                    kind: change.kind.clone(),
                    namespace: change.namespace.clone(),
                    name: change.name.clone(),
                    pods,
                });
            }
        }
    }
    let replaced = changes
        .iter()
        .filter(|change| change.action == Action::Replaced && change.kind == "v1/Pod");
    for change in replaced {
        let owners = change
            .before
            .as_ref()
            .and_then(|pod| pod["metadata"]["ownerReferences"].as_array());
        let mut owners = owners.into_iter().flatten();
        let is_rolled = owners.any(|owner| {
            let text = |name: &str| owner[name].as_str().unwrap_or_default();
            rolled.contains(&(text("kind"), change.namespace.as_str(), text("name")))
        });
        if !is_rolled {
            restarts.push(Restart {
                kind: change.kind.clone(),
                namespace: change.namespace.clone(),
                name: change.name.clone(),
                pods: 1,
            });
        }
    }
    restarts
}

/// `Deployment` of `apps/v1/Deployment`.
fn kind_name(kind: &str) -> &str {
    kind.rsplit('/').next().unwrap_or(kind)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn taken(before: Option<Value>) -> Taken {
        Taken {
            order: 0,
            before,
            is_given: false,
            writers: BTreeSet::new(),
        }
    }

    fn object(uid: &str, version: &str, rest: Value) -> Option<Value> {
        let mut object = json!({"metadata": {"name": "a", "uid": uid, "resourceVersion": version}});
        for (name, value) in rest.as_object().into_iter().flatten() {
            object[name] = value.clone();
        }
        Some(object)
    }

    fn changed(kind: &str, before: Option<Value>, after: Option<Value>) -> Option<Change> {
        change(&Id::new(kind, "n", "a"), &taken(before), after)
    }

    #[test]
    fn an_object_is_created_changed_deleted_or_replaced() {
        let action =
            |before, after| changed("v1/ConfigMap", before, after).map(|change| change.action);
        let old = || object("u", "1", json!({"data": {"a": "1"}}));
        assert_eq!(
            action(old(), object("u", "2", json!({"data": {"a": "1"}}))),
            None
        );
        assert_eq!(action(None, None), None);
        assert_eq!(action(None, old()), Some(Action::Created));
        assert_eq!(
            action(old(), object("u", "2", json!({"data": {}}))),
            Some(Action::Changed)
        );
        assert_eq!(action(old(), None), Some(Action::Deleted));
        assert_eq!(
            action(old(), object("v", "2", json!({}))),
            Some(Action::Replaced)
        );
    }

    #[test]
    fn a_deletion_that_has_begun_is_one_and_says_what_it_waits_for() {
        let mut deleting = object("u", "2", json!({})).expect("an object");
        deleting["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        deleting["metadata"]["finalizers"] = json!(["a/b"]);
        let change = changed("v1/ConfigMap", object("u", "1", json!({})), Some(deleting));
        let change = change.expect("it differs");
        assert_eq!(
            (change.action, change.waits_for),
            (Action::Deleted, vec!["a/b".to_owned()])
        );
    }

    #[test]
    fn a_change_of_the_status_alone_is_counted_apart() {
        let with =
            |spec: u64, status: u64| object("u", "1", json!({"spec": spec, "status": status}));
        let changes = [
            changed("a/v1/B", with(1, 1), with(1, 2)),
            changed("a/v1/B", with(1, 1), with(2, 2)),
        ];
        let outcome = Outcome {
            changes: changes.into_iter().flatten().collect(),
            ..Outcome::default()
        };
        let summary = outcome.summary();
        assert_eq!((summary.status_only, summary.changed), (1, 1));
    }

    #[test]
    fn a_changed_template_restarts_all_pods_and_other_pods_count_one_by_one() {
        let set = |image: &str| {
            object(
                "u",
                "1",
                json!({"spec": {"template": {"image": image}}, "status": {"replicas": 3}}),
            )
        };
        let pod = |uid: &str, owner: &str| {
            let mut pod = object(uid, "1", json!({})).expect("an object");
            pod["metadata"]["ownerReferences"] = json!([{"kind": "StatefulSet", "name": owner}]);
            Some(pod)
        };
        let changes = [
            changed("apps/v1/StatefulSet", set("1"), set("2")),
            changed("v1/Pod", pod("1", "a"), pod("2", "a")),
            changed("v1/Pod", pod("1", "other"), pod("2", "other")),
        ];
        let changes: Vec<Change> = changes.into_iter().flatten().collect();
        let restarts = restarts(&changes);
        let shown: Vec<_> = restarts
            .iter()
            .map(|one| (one.kind.as_str(), one.pods))
            .collect();
        assert_eq!(shown, [("apps/v1/StatefulSet", 3), ("v1/Pod", 1)]);
    }
}
