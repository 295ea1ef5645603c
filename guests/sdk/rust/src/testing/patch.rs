//! The API's patch types, as far as controller tests need them.

use flyball_types::ApiError;
use serde_json::Value;

pub(super) use crate::merge::apply as merge;

/// A strategic merge patch: lists of objects merge by key, `finalizers` as a set. Supports `$patch:
/// delete`, `$patch: replace` and `$deleteFromPrimitiveList`.
pub(super) fn strategic(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object()
        || patch
            .get("$patch")
            .is_some_and(|directive| directive == "replace")
    {
        *target = Value::Object(serde_json::Map::new());
    }
    let fields = target.as_object_mut().expect("set to an object above");
    for (key, value) in patch {
        if let Some(list) = key.strip_prefix("$deleteFromPrimitiveList/") {
            let deleted = value.as_array().map(Vec::as_slice).unwrap_or_default();
            if let Some(Value::Array(items)) = fields.get_mut(list) {
                items.retain(|item| !deleted.contains(item));
            }
        } else if key.starts_with('$') {
            // Directives about order, and those handled elsewhere.
        } else if value.is_null() {
            fields.remove(key);
        } else {
            match (merge_key(key), value) {
                (_, Value::Array(patch)) if patch.iter().any(is_replacing) => {
                    let items = patch.iter().filter(|item| !is_replacing(item));
                    fields.insert(key.clone(), items.cloned().collect());
                }
                (Some(by), Value::Array(patch)) => {
                    let list = fields
                        .entry(key)
                        .or_insert_with(|| Value::Array(Vec::new()));
                    merge_list(list, by, patch);
                }
                _ => strategic(fields.entry(key).or_insert(Value::Null), value),
            }
        }
    }
}

/// Whether this element of a list says that the others replace the whole list.
fn is_replacing(item: &Value) -> bool {
    let directive = item.get("$patch");
    directive.is_some_and(|directive| directive == "replace")
        && item.as_object().map_or(0, |item| item.len()) == 1
}

/// The key by which a list's elements are merged; empty for lists of plain values; `None` if the
/// list is replaced as a whole.
pub(super) fn merge_key(field: &str) -> Option<&'static str> {
    match field {
        "ownerReferences" => Some("uid"),
        "conditions" => Some("type"),
        "containers"
        | "initContainers"
        | "volumes"
        | "env"
        | "imagePullSecrets"
        | "secrets"
        | "resourceClaims"
        | "resourceClaimStatuses"
        | "requesters"
        | "responders"
        | "targetResponders" => Some("name"),
        "volumeMounts" => Some("mountPath"),
        "hostAliases" => Some("ip"),
        "finalizers" => Some(""),
        _ => None,
    }
}

fn merge_list(list: &mut Value, by: &str, patch: &[Value]) {
    let Value::Array(items) = list else {
        *list = Value::Array(patch.to_vec());
        return;
    };
    for change in patch {
        let same = |item: &Value| {
            if by.is_empty() {
                item == change
            } else {
                item[by] == change[by]
            }
        };
        let at = items.iter().position(same);
        match (change.get("$patch").and_then(Value::as_str), at) {
            (Some("delete"), _) => items.retain(|item| !same(item)),
            (_, Some(at)) => strategic(&mut items[at], change),
            (_, None) => items.push(change.clone()),
        }
    }
}

/// A JSON patch (RFC 6902): `add`, `replace`, `remove` and `test`.
pub(super) fn json(target: &mut Value, patch: &Value) -> Result<(), ApiError> {
    let fail = |message: String| ApiError::of_server(422, "Invalid", message);
    for operation in patch
        .as_array()
        .ok_or_else(|| fail("a JSON patch is a list".into()))?
    {
        let [op, path] = ["op", "path"].map(|key| operation[key].as_str().unwrap_or_default());
        let (parent, last) = path
            .rsplit_once('/')
            .ok_or_else(|| fail(format!("`{path}` is not a path")))?;
        let last = last.replace("~1", "/").replace("~0", "~");
        if op == "test" {
            let found = target.pointer(path).unwrap_or(&Value::Null);
            if *found != operation["value"] {
                return Err(fail(format!("the test of {path} failed")));
            }
            continue;
        }
        let missing = || fail(format!("{op} {path}: the path does not exist"));
        let value = operation["value"].clone();
        match (op, target.pointer_mut(parent).ok_or_else(missing)?) {
            ("add", Value::Object(fields)) => drop(fields.insert(last, value)),
            ("replace", Value::Object(fields)) => {
                *fields.get_mut(&last).ok_or_else(missing)? = value;
            }
            ("remove", Value::Object(fields)) => drop(fields.remove(&last).ok_or_else(missing)?),
            ("add", Value::Array(items)) if last == "-" => items.push(value),
            (_, Value::Array(items)) => {
                let at: usize = last.parse().map_err(|_| missing())?;
                match op {
                    "add" if at <= items.len() => items.insert(at, value),
                    "replace" if at < items.len() => items[at] = value,
                    "remove" if at < items.len() => drop(items.remove(at)),
                    _ => return Err(missing()),
                }
            }
            _ => return Err(missing()),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_directive_in_a_list_replaces_the_whole_list() {
        let mut node =
            json!({"status": {"conditions": [{"type": "a"}], "addresses": [{"type": "b"}]}});
        let list = json!([{"type": "c"}, {"$patch": "replace"}]);
        strategic(
            &mut node,
            &json!({"status": {"conditions": list, "addresses": list}}),
        );
        let replaced = json!([{"type": "c"}]);
        assert_eq!(
            node,
            json!({"status": {"conditions": replaced, "addresses": replaced}})
        );
    }

    #[test]
    fn owner_references_merge_by_uid() {
        let mut pod = json!({"metadata": {"ownerReferences": [{"uid": "1", "name": "a"}], "finalizers": ["x"]}});
        strategic(
            &mut pod,
            &json!({"metadata": {"ownerReferences": [{"uid": "2", "name": "b"}], "finalizers": ["x", "y"]}}),
        );
        assert_eq!(
            pod["metadata"]["ownerReferences"],
            json!([{"uid": "1", "name": "a"}, {"uid": "2", "name": "b"}])
        );
        assert_eq!(pod["metadata"]["finalizers"], json!(["x", "y"]));
        strategic(
            &mut pod,
            &json!({"metadata": {"ownerReferences": [{"$patch": "delete", "uid": "1"}],
                                 "$deleteFromPrimitiveList/finalizers": ["x"]}}),
        );
        assert_eq!(
            pod["metadata"],
            json!({"ownerReferences": [{"uid": "2", "name": "b"}], "finalizers": ["y"]})
        );
    }

    #[test]
    fn a_json_patch_adds_replaces_removes_and_tests() {
        let mut object = json!({"list": [1, 2], "labels": {"a/b": "c"}});
        let patch = json!([
            {"op": "test", "path": "/labels/a~1b", "value": "c"},
            {"op": "replace", "path": "/labels/a~1b", "value": "d"},
            {"op": "remove", "path": "/list/0"},
            {"op": "add", "path": "/list/-", "value": 3},
        ]);
        json(&mut object, &patch).unwrap();
        assert_eq!(object, json!({"list": [2, 3], "labels": {"a/b": "d"}}));
        for refused in [
            json!([{"op": "test", "path": "/list/0", "value": 1}]),
            json!([{"op": "replace", "path": "/labels/none", "value": 1}]),
        ] {
            assert!(json(&mut object, &refused).is_err(), "{refused}");
        }
    }
}
