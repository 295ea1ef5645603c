//! The owners of fields as the API server stores them: `metadata.managedFields`.
//!
//! A field set (`fieldsV1`) is a tree: `f:spec` is a field, `k:{"name":"web"}` an element of a list by its key,
//! `v:"a/b"` an element of a set, and `.` stands for the part itself.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{Manager, Owners, Path, Step};
use crate::testing::patch::merge_key;

impl Owners {
    /// Reads `metadata.managedFields`. Elements whose keys have several fields are not modelled: their manager owns the
    /// whole list.
    pub(in crate::testing) fn of_managed_fields(managed: &Value) -> Self {
        let entries = managed.as_array().into_iter().flatten();
        let managers = entries.map(|entry| {
            let text = |name: &str| entry[name].as_str().unwrap_or_default().to_owned();
            let mut fields = BTreeSet::new();
            collect(&Path::new(), "", &entry["fieldsV1"], &mut fields);
            Manager {
                name: text("manager"),
                applies: entry["operation"] == "Apply",
                subresource: text("subresource"),
                fields,
            }
        });
        Self(managers.filter(|one| !one.fields.is_empty()).collect())
    }
}

/// Collects the parts that a field set names. `field` is the name of the last field of `path`.
fn collect(path: &Path, field: &str, set: &Value, fields: &mut BTreeSet<Path>) {
    let children = set.as_object().into_iter().flatten();
    let mut children = children.filter(|(name, _)| *name != ".").peekable();
    if children.peek().is_none() {
        // An entry may have no fields at all.
        if !path.is_empty() {
            fields.insert(path.clone());
        }
        return;
    }
    for (name, below) in children {
        if let Some(name) = name.strip_prefix("f:") {
            collect(
                &with(path, Step::Field(name.to_owned())),
                name,
                below,
                fields,
            );
        } else if let Some(step) = element(field, name) {
            let path = with(path, step);
            // The existence of the element is a part too, besides its fields.
            fields.insert(path.clone());
            collect(&path, "", below, fields);
        } else {
            fields.insert(path.clone());
        }
    }
}

fn with(path: &Path, step: Step) -> Path {
    path.iter().cloned().chain([step]).collect()
}

/// Reads `k:{…}` or `v:…`; `None` if the list is atomic here.
fn element(field: &str, name: &str) -> Option<Step> {
    let key = merge_key(field)?;
    let value: Value = match name.split_once(':')? {
        ("k", keys) => serde_json::from_str::<Value>(keys).ok()?.get(key)?.clone(),
        ("v", value) => serde_json::from_str(value).ok()?,
        _ => return None,
    };
    let value = value.to_string();
    Some(Step::Element { key, value })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_field_set_has_the_same_parts_as_the_object_that_it_describes() {
        let containers = json!({
            "k:{\"name\":\"web\"}": {".": {}, "f:name": {}, "f:image": {}, "f:ports": {".": {}, "k:{\"containerPort\":80,\"protocol\":\"TCP\"}": {".": {}}}},
        });
        let set = json!({
            "f:metadata": {"f:finalizers": {".": {}, "v:\"a/b\"": {}}},
            "f:spec": {"f:replicas": {}, "f:template": {"f:spec": {"f:containers": containers}}},
        });
        let managed = json!([
            {"manager": "a", "operation": "Apply", "fieldsV1": set},
            {"manager": "b", "operation": "Update", "subresource": "status"},
        ]);
        let owners = Owners::of_managed_fields(&managed);
        let ports = json!([{"containerPort": 80, "protocol": "TCP"}]);
        let container = json!({"name": "web", "image": "x", "ports": ports});
        let object = json!({
            "metadata": {"finalizers": ["a/b"]},
            "spec": {"replicas": 1, "template": {"spec": {"containers": [container]}}},
        });
        let mut expected = Owners::default();
        let writer = crate::testing::apply::Writer {
            manager: "a",
            force: false,
        };
        expected
            .apply(writer, "", &json!({}), &object)
            .expect("nobody else owns a field");
        let parts = |owners: &Owners| owners.0.first().map(|one| one.fields.clone());
        assert_eq!(parts(&owners), parts(&expected));
        assert!(owners.0[0].applies);
    }
}
