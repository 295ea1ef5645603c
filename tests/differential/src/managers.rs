//! The managers of the objects' fields (`metadata.managedFields`): who wrote which fields, by which operation and in
//! which version. Server-side apply reports conflicts by them, and tools ignore the changes of certain managers.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::endpoints;
use crate::normalise::{self, Random};

/// The managers that are the same program on both sides, and whose fields depend on timing: the fake kubelet, the fake CSI
/// drivers and the scheduler. A controller that takes a field from them has it among its own.
const OTHERS: &[&str] = &["fake-csi", "fake-kubelet", "kube-scheduler"];
/// The beginning of the name of the volume that the API server adds to pods. The name is part of a field's path.
const TOKEN_VOLUME: &str = "kube-api-access-";
/// The number of random characters after it.
const TOKEN_SUFFIX: usize = 5;

/// The entries of all objects, each as kind, name, manager, operation, version, subresource and fields:
/// `ReplicaSet/web-6b89d9595 kube-controller-manager Update apps/v1 status {"f:status":…}`. Objects with the same name after
/// normalisation, such as the pods of a ReplicaSet, share their entries.
pub fn managers(objects: &[Value]) -> BTreeSet<String> {
    let random = Random::of(objects);
    let mut all = BTreeSet::new();
    for object in objects {
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        let name = format!("{}/{name}", object["kind"].as_str().unwrap_or_default());
        let entries = object["metadata"][normalise::MANAGED_FIELDS].as_array();
        for entry in entries
            .into_iter()
            .flatten()
            .filter(|entry| !is_other(entry))
        {
            let mut fields = entry["fieldsV1"].clone();
            endpoints::clean_managed(object, &mut fields);
            let entry = format!("{name} {} {}", describe(entry), without_suffixes(&fields));
            all.insert(random.replace(&entry));
        }
    }
    all
}

fn is_other(entry: &Value) -> bool {
    OTHERS.iter().any(|other| entry["manager"] == *other)
}

/// An entry without its fields.
fn describe(entry: &Value) -> String {
    let text = |field: &str| entry[field].as_str();
    let parts = ["manager", "operation", "apiVersion", "subresource"];
    let parts: Vec<&str> = parts.into_iter().filter_map(text).collect();
    parts.join(" ")
}

/// The fields as text, with placeholders for the random ends of volumes' names.
fn without_suffixes(fields: &Value) -> String {
    let fields = fields.to_string();
    let mut parts = fields.split(TOKEN_VOLUME);
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let rest = part.get(TOKEN_SUFFIX..).unwrap_or_default();
        text += &format!("{TOKEN_VOLUME}*{rest}");
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(name: &str, volume: &str, uid: &str, manager: &str) -> Value {
        let entry = |manager: &str, subresource: Value, fields: Value| {
            json!({"manager": manager, "operation": "Update", "apiVersion": "v1", "time": "2026-01-01T00:00:00Z",
                   "subresource": subresource, "fieldsType": "FieldsV1", "fieldsV1": fields})
        };
        let owner = format!("k:{{\"uid\":\"{uid}\"}}");
        let volume = format!("k:{{\"name\":\"kube-api-access-{volume}\"}}");
        let spec = json!({"f:metadata": {"f:ownerReferences": {owner: {}}}, "f:spec": {"f:volumes": {volume: {}}}});
        json!({
            "kind": "Pod",
            "metadata": {
                "name": name, "generateName": "web-", "ownerReferences": [{"uid": uid}],
                "managedFields": [
                    entry(manager, Value::Null, spec),
                    entry("fake-kubelet", "status".into(), json!({"f:status": {name: {}}})),
                ],
            },
        })
    }

    #[test]
    fn entries_are_equal_but_for_random_values_and_those_of_the_kubelet() {
        let objects = [
            pod("web-abc", "x1y2z", "u-1", "manager"),
            pod("web-def", "a1b2c", "u-2", "manager"),
        ];
        let fields = "{\"f:metadata\":{\"f:ownerReferences\":{\"k:{\\\"uid\\\":\\\"UID\\\"}\":{}}},\
                      \"f:spec\":{\"f:volumes\":{\"k:{\\\"name\\\":\\\"kube-api-access-*\\\"}\":{}}}}";
        let expected = format!("Pod/web-* manager Update v1 {fields}");
        assert_eq!(managers(&objects), BTreeSet::from([expected]));
    }

    #[test]
    fn trigger_times_make_no_difference() {
        let slice = |annotations: Value| {
            let fields = json!({"f:metadata": {"f:annotations": annotations, "f:labels": {}}});
            let entry = json!({"manager": "m", "operation": "Update", "apiVersion": "v1", "fieldsV1": fields});
            managers(&[
                json!({"kind": "EndpointSlice", "metadata": {"name": "a", "managedFields": [entry]}}),
            ])
        };
        let trigger = "f:endpoints.kubernetes.io/last-change-trigger-time";
        let without = BTreeSet::from([
            "EndpointSlice/a m Update v1 {\"f:metadata\":{\"f:labels\":{}}}".to_owned(),
        ]);
        assert_eq!(slice(json!({".": {}, trigger: {}})), without);
        assert_ne!(slice(json!({".": {}, trigger: {}, "f:a": {}})), without);
        assert_eq!(
            slice(json!({".": {}, trigger: {}, "f:a": {}})),
            slice(json!({".": {}, "f:a": {}}))
        );
    }

    #[test]
    fn another_manager_is_a_difference() {
        let of = |manager: &str| managers(&[pod("web-abc", "x1y2z", "u-1", manager)]);
        assert_ne!(of("kube-controller-manager"), of("flyball"));
    }
}
