//! JSON merge patches (RFC 7386), and the whole objects that `update` and `update-status` put. Fields that a patch does
//! not name keep their text.

use std::collections::BTreeMap;

use flyball_types::Kind;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

/// The fields of an object, each with its unchanged text.
type Fields<'a> = BTreeMap<String, &'a RawValue>;

/// Applies a merge patch: null removes, objects merge, everything else replaces.
pub fn merge(
    target: Option<&RawValue>,
    patch: &Value,
    out: &mut Vec<u8>,
) -> Result<(), serde_json::Error> {
    let Value::Object(patch) = patch else {
        return serde_json::to_writer(out, patch);
    };
    let is_object = |target: &&RawValue| target.get().starts_with('{');
    let fields = match target.filter(is_object) {
        Some(target) => serde_json::from_str(target.get())?,
        None => Fields::new(),
    };
    merge_fields(&fields, patch, out)
}

fn merge_fields(
    fields: &Fields,
    patch: &Map<String, Value>,
    out: &mut Vec<u8>,
) -> Result<(), serde_json::Error> {
    let mut separator = b'{';
    let mut begin = |name: &str, out: &mut Vec<u8>| {
        out.push(std::mem::replace(&mut separator, b','));
        serde_json::to_writer(&mut *out, name)?;
        out.push(b':');
        Ok::<_, serde_json::Error>(())
    };
    for (name, value) in fields.iter().filter(|(name, _)| !patch.contains_key(*name)) {
        begin(name, out)?;
        out.extend_from_slice(value.get().as_bytes());
    }
    for (name, change) in patch.iter().filter(|(_, change)| !change.is_null()) {
        begin(name, out)?;
        merge(fields.get(name).copied(), change, out)?;
    }
    if separator == b'{' {
        out.push(b'{');
    }
    out.push(b'}');
    Ok(())
}

/// Returns the object to PUT for an `update`: the base with the change applied. None if the guest's change leaves no
/// object, or no metadata.
///
/// # Errors
/// The base is not a JSON object.
pub fn updated(
    base: &[u8],
    change: Value,
    kind: &Kind,
    resource_version: &str,
) -> Result<Option<Vec<u8>>, serde_json::Error> {
    let mut fields: Fields = serde_json::from_slice(base)?;
    let Value::Object(mut change) = change else {
        return Ok(None);
    };
    let metadata = change
        .entry("metadata")
        .or_insert_with(|| Value::Object(Map::new()));
    if metadata.is_null() {
        fields.remove("metadata");
        *metadata = Value::Object(Map::new());
    }
    let Some(metadata) = metadata.as_object_mut() else {
        return Ok(None);
    };
    identify(metadata, resource_version);
    name_kind(&mut change, kind);
    let mut object = Vec::with_capacity(base.len() + 64);
    merge_fields(&fields, &change, &mut object)?;
    Ok(Some(object))
}

/// Returns the object to PUT for an `update-status`: the base with another status, and a merge patch of its metadata
/// applied.
///
/// # Errors
/// The base is not a JSON object.
pub fn with_status(
    base: &[u8],
    status: &RawValue,
    mut metadata: Map<String, Value>,
    kind: &Kind,
    resource_version: &str,
) -> Result<Vec<u8>, serde_json::Error> {
    let mut fields: Fields = serde_json::from_slice(base)?;
    fields.insert("status".into(), status);
    identify(&mut metadata, resource_version);
    let mut change = Map::from_iter([("metadata".to_owned(), Value::Object(metadata))]);
    name_kind(&mut change, kind);
    let mut object = Vec::with_capacity(base.len() + status.get().len() + 64);
    merge_fields(&fields, &change, &mut object)?;
    Ok(object)
}

/// Completes a change of metadata. The server owns managed fields; it keeps them if a PUT has none.
fn identify(metadata: &mut Map<String, Value>, resource_version: &str) {
    metadata.insert("resourceVersion".into(), resource_version.into());
    metadata.entry("managedFields").or_insert(Value::Null);
}

fn name_kind(change: &mut Map<String, Value>, kind: &Kind) {
    change.insert("apiVersion".into(), kind.api_version().into());
    change.insert("kind".into(), kind.kind.as_str().into());
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn merged(target: &Value, patch: &Value) -> Value {
        let target = serde_json::value::to_raw_value(target).expect("JSON");
        let mut out = Vec::new();
        merge(Some(&target), patch, &mut out).expect("the target is JSON");
        serde_json::from_slice(&out).expect("what is merged is JSON")
    }

    fn put(base: &Value, change: Value) -> Option<Value> {
        let kind = Kind::new("apps", "v1", "Deployment");
        let object = updated(base.to_string().as_bytes(), change, &kind, "7")
            .expect("the base is an object");
        object.map(|object| serde_json::from_slice(&object).expect("what is put is JSON"))
    }

    #[test]
    fn a_merge_patch_adds_replaces_and_removes() {
        let target = json!({"a": {"b": 1, "c": 2}, "d": [1, 2], "e": 1, "\"": "\n"});
        let patch = json!({"a": {"b": null, "x": {"y": null, "z": 1}}, "d": [3], "f": 2});
        assert_eq!(
            merged(&target, &patch),
            json!({"a": {"c": 2, "x": {"z": 1}}, "d": [3], "e": 1, "f": 2, "\"": "\n"})
        );
        assert_eq!(
            merged(&json!([1]), &json!({"a": {"b": null}})),
            json!({"a": {}})
        );
        assert_eq!(merged(&json!({"a": 1}), &json!([null])), json!([null]));
    }

    #[test]
    fn a_status_is_replaced_whole() {
        let base = json!({
            "metadata": {"name": "a", "resourceVersion": "1", "annotations": {"b": "1"}},
            "status": {"old": 1, "replicas": 1},
        });
        let expected = json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "a", "resourceVersion": "7", "annotations": {"b": "1", "c": "2"}},
            "status": {"replicas": 2},
        });
        let metadata = Map::from_iter([("annotations".to_owned(), json!({"c": "2"}))]);
        let status: Box<RawValue> = serde_json::from_str(r#"{"replicas": 2}"#).expect("JSON");
        let kind = Kind::new("apps", "v1", "Deployment");
        let object = with_status(base.to_string().as_bytes(), &status, metadata, &kind, "7")
            .expect("the base is an object");
        let object: Value = serde_json::from_slice(&object).expect("what is put is JSON");
        assert_eq!(object, expected);
    }

    #[test]
    fn managed_fields_stay_the_servers() {
        let base = json!({"metadata": {"name": "a", "managedFields": [{"manager": "m"}]}});
        let metadata = |change: Value| put(&base, change).expect("an object")["metadata"].take();
        assert_eq!(
            metadata(json!({})),
            json!({"name": "a", "resourceVersion": "7"})
        );
        let own = json!({"metadata": {"managedFields": []}});
        assert_eq!(
            metadata(own),
            json!({"name": "a", "resourceVersion": "7", "managedFields": []})
        );
    }

    #[test]
    fn a_change_that_leaves_no_object_is_refused() {
        for change in [
            json!(1),
            json!([]),
            json!(null),
            json!({"metadata": "x"}),
            json!({"metadata": []}),
        ] {
            let base = json!({"metadata": {"name": "a"}, "spec": {}});
            assert_eq!(put(&base, change.clone()), None, "{change}");
        }
        let bare = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"resourceVersion": "7"}});
        assert_eq!(
            put(
                &json!({"metadata": {"name": "a"}}),
                json!({"metadata": null})
            ),
            Some(bare)
        );
    }
}
