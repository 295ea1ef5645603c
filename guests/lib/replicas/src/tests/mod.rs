//! Tests, and builders for their objects: a ReplicaSet `web` and its pods.

mod describe;
mod ownership;
mod rank;
mod reconcile;
mod scale;
mod status;

use flyball_sdk::prelude::*;
use flyball_sdk::serde_json;
use flyball_sdk::testing::set_at;

use crate::views::{Candidate, Pod, Set};

/// The tests' current time: noon of a day.
const NOON: Time = Time {
    seconds: 1_767_268_800,
    nanoseconds: 0,
};

/// The time this many seconds before noon.
fn ago(seconds: u32) -> String {
    Time::of_seconds(NOON.seconds - i64::from(seconds)).to_string()
}

/// A builder for an object.
#[derive(Clone, Debug)]
struct Object(Value);

/// The ReplicaSet `web`, which wants this many pods with `app=web`.
fn web(replicas: i32) -> Object {
    Object(json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet",
        "metadata": {
            "name": "web", "namespace": "default", "uid": "uid-web", "resourceVersion": "10", "generation": 2,
            "creationTimestamp": ago(9000),
        },
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web", "tier": "front"}, "annotations": {"note": "hi"}},
                "spec": {"containers": [{"name": "c", "image": "web:1", "resources": {"limits": {"cpu": "1.50"}}}]},
            },
        },
        "status": {"replicas": 0},
    }))
}

/// A running pod of `web`, with all labels of its template.
fn pod(name: &str) -> Object {
    orphan(name).with(
        "/metadata/ownerReferences",
        json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "uid-web", "controller": true,
                "blockOwnerDeletion": true}]),
    )
}

/// A running orphan pod.
fn orphan(name: &str) -> Object {
    Object(json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": name, "namespace": "default", "uid": format!("uid-{name}"), "resourceVersion": "20",
            "creationTimestamp": ago(1000), "labels": {"app": "web", "tier": "front"},
        },
        "spec": {"nodeName": "node-1", "containers": [{"name": "c", "image": "web:1"}]},
        "status": {"phase": "Running"},
    }))
}

impl Object {
    /// Sets the field at a JSON pointer and creates missing parents.
    fn with(mut self, pointer: &str, value: impl Into<Value>) -> Self {
        set_at(&mut self.0, pointer, value);
        self
    }

    /// The pod has been ready for this many seconds.
    fn ready(self, seconds: u32) -> Self {
        self.with(
            "/status/conditions",
            json!([{"type": "Ready", "status": "True", "lastTransitionTime": ago(seconds)}]),
        )
    }

    fn phase(self, phase: &str) -> Self {
        self.with("/status/phase", phase)
    }

    fn node(self, node: &str) -> Self {
        self.with("/spec/nodeName", node)
    }

    /// The object is being deleted.
    fn deleting(self) -> Self {
        self.with("/metadata/deletionTimestamp", ago(1))
            .with("/metadata/finalizers", json!(["example.com/stay"]))
    }

    fn labels(self, labels: Value) -> Self {
        self.with("/metadata/labels", labels)
    }

    fn set(&self) -> Set {
        serde_json::from_value(self.0.clone()).unwrap()
    }

    fn pod(&self) -> Pod {
        serde_json::from_value(self.0.clone()).unwrap()
    }
}

fn candidates(objects: &[Object]) -> Vec<Candidate> {
    objects
        .iter()
        .map(|object| serde_json::from_value(object.0.clone()).unwrap())
        .collect()
}

fn pods(objects: &[Object]) -> Vec<Pod> {
    objects.iter().map(Object::pod).collect()
}

fn names<'a>(pods: impl IntoIterator<Item = &'a Pod>) -> Vec<&'a str> {
    pods.into_iter().map(|pod| pod.name.as_str()).collect()
}

fn selector(text: &str) -> LabelSelector {
    text.parse().unwrap()
}

/// An API error.
fn refusal(status: u16, reason: &str, message: &str) -> ApiError {
    ApiError::of_server(status, reason, message)
}
