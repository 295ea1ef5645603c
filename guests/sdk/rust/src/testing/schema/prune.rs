//! Drops the fields that a schema lacks, and fills in defaults.
//!
//! Upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apiserver/schema: pruning/algorithm.go, defaulting/algorithm.go.

use serde_json::Value;

use super::{is_object_meta, is_open, values_of};

/// The fields of metadata. The server drops others, without a schema.
const METADATA: [&str; 15] = [
    "annotations",
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "finalizers",
    "generateName",
    "generation",
    "labels",
    "managedFields",
    "name",
    "namespace",
    "ownerReferences",
    "resourceVersion",
    "selfLink",
    "uid",
];

/// Drops unknown fields of an object. Returns their paths.
pub(super) fn prune(object: &mut Value, schema: &Value) -> Vec<String> {
    let mut dropped = Vec::new();
    walk(object, schema, true, "", &mut dropped);
    dropped
}

fn walk(value: &mut Value, schema: &Value, is_root: bool, path: &str, dropped: &mut Vec<String>) {
    match value {
        Value::Object(fields) => fields.retain(|name, field| {
            let path = join(path, name);
            if is_object_meta(schema, is_root, name) {
                if name == "metadata" {
                    drop_metadata(field, &path, dropped);
                }
                return true;
            }
            let property = &schema["properties"][name];
            if property.is_object() {
                walk(field, property, false, &path, dropped);
            } else if let Some(values) = values_of(schema) {
                walk(field, values, false, &path, dropped);
            } else if !is_open(schema) {
                dropped.push(path);
                return false;
            }
            true
        }),
        Value::Array(items) if schema["items"].is_object() => {
            for (at, item) in items.iter_mut().enumerate() {
                let path = format!("{path}[{at}]");
                walk(item, &schema["items"], false, &path, dropped);
            }
        }
        _ => {}
    }
}

fn drop_metadata(metadata: &mut Value, path: &str, dropped: &mut Vec<String>) {
    if let Some(fields) = metadata.as_object_mut() {
        fields.retain(|name, _| {
            let is_known = METADATA.contains(&&**name);
            if !is_known {
                dropped.push(join(path, name));
            }
            is_known
        });
    }
}

/// Sets absent fields to their defaults, and null ones that may not be null.
pub(super) fn fill_defaults(value: &mut Value, schema: &Value) {
    match value {
        Value::Object(fields) => {
            let properties = schema["properties"].as_object();
            for (name, property) in properties.into_iter().flatten() {
                let is_absent = match fields.get(name) {
                    None => true,
                    Some(value) => value.is_null() && property["nullable"] != true,
                };
                if let (true, Some(default)) = (is_absent, property.get("default")) {
                    fields.insert(name.clone(), default.clone());
                }
                if let Some(field) = fields.get_mut(name) {
                    fill_defaults(field, property);
                }
            }
            if let Some(values) = values_of(schema) {
                let others = fields
                    .iter_mut()
                    .filter(|(name, _)| schema["properties"].get(name).is_none());
                others.for_each(|(_, field)| fill_defaults(field, values));
            }
        }
        Value::Array(items) if schema["items"].is_object() => {
            let items = items.iter_mut();
            items.for_each(|item| fill_defaults(item, &schema["items"]));
        }
        _ => {}
    }
}

pub(super) fn join(path: &str, name: &str) -> String {
    match path {
        "" => name.to_owned(),
        path => format!("{path}.{name}"),
    }
}
