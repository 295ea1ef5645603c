//! JSON merge patches (RFC 7386), and the object that a `modify` puts.

use serde_json::{Map, Value};

/// Applies a merge patch: null removes, objects merge, everything else replaces.
pub(crate) fn merge(target: &mut Value, patch: Value) {
    let Value::Object(patch) = patch else {
        *target = patch;
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Value::Object(fields) = target else { return };
    for (name, change) in patch {
        if change.is_null() {
            fields.remove(&name);
        } else {
            merge(fields.entry(name).or_insert(Value::Null), change);
        }
    }
}

/// The object to put: the base with the change applied. Of a status, the whole comes from the change, so that what the
/// guest left out is gone, as after a write by a client that holds the whole object. None if what the change leaves is no
/// object, or one whose metadata is none: the change is the guest's.
pub(crate) fn changed(mut base: Value, mut change: Value, subresource: &str, resource_version: &str) -> Option<Value> {
    if subresource == "status"
        && let Some(base) = base.as_object_mut()
        && let Some(status) = change.as_object_mut().and_then(|change| change.remove("status"))
    {
        base.insert("status".into(), without_nulls(status));
    }
    merge(&mut base, change);
    let metadata = base.as_object_mut()?.entry("metadata").or_insert_with(|| Value::Object(Map::new()));
    metadata.as_object_mut()?.insert("resourceVersion".into(), Value::String(resource_version.into()));
    Some(base)
}

fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let fields = fields.into_iter().filter(|(_, value)| !value.is_null());
            Value::Object(fields.map(|(name, value)| (name, without_nulls(value))).collect())
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_merge_patch_adds_replaces_and_removes() {
        let mut target = json!({"a": {"b": 1, "c": 2}, "d": [1, 2], "e": 1});
        merge(&mut target, json!({"a": {"b": null, "x": {"y": null, "z": 1}}, "d": [3], "f": 2}));
        assert_eq!(target, json!({"a": {"c": 2, "x": {"z": 1}}, "d": [3], "e": 1, "f": 2}));
    }

    #[test]
    fn a_status_is_replaced_whole() {
        let base = json!({"metadata": {"name": "a", "resourceVersion": "1"}, "status": {"old": 1, "replicas": 1}});
        let put = changed(base, json!({"status": {"replicas": 2, "gone": null}}), "status", "7");
        let expected = json!({"metadata": {"name": "a", "resourceVersion": "7"}, "status": {"replicas": 2}});
        assert_eq!(put, Some(expected));
    }

    #[test]
    fn a_change_that_leaves_no_object_is_refused() {
        for change in [json!(1), json!([]), json!(null), json!({"metadata": "x"}), json!({"metadata": []})] {
            let base = json!({"metadata": {"name": "a"}, "spec": {}});
            assert_eq!(changed(base.clone(), change.clone(), "", "7"), None, "{change}");
            assert_eq!(changed(base, change.clone(), "status", "7"), None, "{change}");
        }
        assert_eq!(
            changed(json!({}), json!({"metadata": null}), "", "7"),
            Some(json!({"metadata": {"resourceVersion": "7"}}))
        );
    }
}
