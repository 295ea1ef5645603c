//! Rewrites a schema of `schemars` into a structural schema, the only kind that the API server accepts.
//!
//! Its rules:
//! <https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/#specifying-a-structural-schema>

use serde_json::{Map, Value, json};

/// The formats that the API server knows.
const FORMATS: [&str; 8] = [
    "byte",
    "date",
    "date-time",
    "double",
    "duration",
    "float",
    "int32",
    "int64",
];
/// The keywords that are kept, in addition to keywords that begin with `x-kubernetes-`.
const KEYWORDS: [&str; 21] = [
    "additionalProperties",
    "default",
    "description",
    "enum",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "format",
    "items",
    "maxItems",
    "maxLength",
    "maxProperties",
    "maximum",
    "minItems",
    "minLength",
    "minProperties",
    "minimum",
    "multipleOf",
    "pattern",
    "properties",
    "required",
    "type",
];

/// Rewrites a schema. The error names the part that has no structural schema; `path` is the schema's place.
pub(super) fn rewrite(schema: &mut Value, path: &str) -> Result<(), String> {
    let Some(object) = schema.as_object_mut() else {
        // `true`: any value.
        *schema = json!({"x-kubernetes-preserve-unknown-fields": true});
        return Ok(());
    };
    if object.contains_key("$ref") {
        return Err(format!(
            "the type of {path} contains itself; read the field as `flyball_sdk::Raw`"
        ));
    }
    for keyword in ["allOf", "anyOf", "oneOf"] {
        merge(object, keyword, path)?;
    }
    if object.remove("uniqueItems") == Some(true.into()) {
        object
            .entry("x-kubernetes-list-type")
            .or_insert_with(|| "set".into());
    }
    object.retain(|key, _| KEYWORDS.contains(&&**key) || key.starts_with("x-kubernetes-"));
    simplify(object);
    if let Some(properties) = object.get_mut("properties").and_then(Value::as_object_mut) {
        for (name, property) in properties {
            rewrite(property, &format!("{path}.{name}"))?;
        }
    }
    for (keyword, place) in [("items", "[*]"), ("additionalProperties", ".*")] {
        if let Some(inner) = object.get_mut(keyword) {
            rewrite(inner, &format!("{path}{place}"))?;
        }
    }
    let is_typed = ["type", "x-kubernetes-int-or-string"]
        .iter()
        .any(|keyword| object.contains_key(*keyword));
    if !is_typed {
        object
            .entry("x-kubernetes-preserve-unknown-fields")
            .or_insert_with(|| true.into());
    }
    Ok(())
}

/// Merges alternatives that a structural schema doesn't need: a single alternative, an alternative to null, and the
/// variants of an enum without values.
fn merge(object: &mut Map<String, Value>, keyword: &str, path: &str) -> Result<(), String> {
    let Some(Value::Array(mut parts)) = object.remove(keyword) else {
        return Ok(());
    };
    parts.retain(|part| part["type"] != "null" && part["enum"] != json!([null]));
    let is_variant = |part: &Value| part["type"] == "string" && part["enum"].is_array();
    if parts.len() > 1 && parts.iter().all(is_variant) {
        let texts = parts
            .iter()
            .filter_map(|part| part["enum"].as_array())
            .flatten();
        let texts: Vec<Value> = texts.cloned().collect();
        object.insert("type".into(), "string".into());
        object.insert("enum".into(), texts.into());
        return Ok(());
    }
    match <[Value; 1]>::try_from(parts) {
        Ok([Value::Object(only)]) => {
            for (key, value) in only {
                object.entry(key).or_insert(value);
            }
            // The alternative may have alternatives of its own.
            ["allOf", "anyOf", "oneOf"]
                .into_iter()
                .try_for_each(|keyword| merge(object, keyword, path))
        }
        _ => Err(format!(
            "{path} is one of several types; use a struct with optional fields, or read the field as `flyball_sdk::Raw`"
        )),
    }
}

/// Drops the parts that the API server refuses, ignores or adds by itself: null as a value, defaults that say nothing,
/// unknown formats, and the line breaks of doc comments.
fn simplify(object: &mut Map<String, Value>) {
    let is_empty = |value: &Value| match value {
        Value::Null => true,
        Value::Bool(is_true) => !is_true,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(_) => true,
    };
    if object.get("default").is_some_and(is_empty) {
        object.remove("default");
    }
    if object.get("additionalProperties") == Some(&false.into()) {
        object.remove("additionalProperties");
    }
    let is_unknown = |format: &Value| {
        format
            .as_str()
            .is_none_or(|format| !FORMATS.contains(&format))
    };
    if object.get("format").is_some_and(is_unknown) {
        object.remove("format");
    }
    if let Some(Value::Array(values)) = object.get_mut("enum") {
        values.retain(|value| !value.is_null());
    }
    if let Some(Value::String(text)) = object.get_mut("description") {
        let paragraphs: Vec<String> = text
            .split("\n\n")
            .map(|paragraph| paragraph.split_whitespace().collect::<Vec<_>>().join(" "))
            .collect();
        *text = paragraphs.join("\n\n");
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use schemars::JsonSchema;

    use super::*;
    use crate::crd::{conditions, schema_of};
    use crate::{Condition, IntOrPercent, Quantity, Raw, Time};

    fn rewritten(mut schema: Value) -> Result<Value, String> {
        rewrite(&mut schema, "spec").map(|()| schema)
    }

    #[test]
    fn fields_of_all_kinds_have_structural_schemas() {
        /// How fast.
        #[derive(JsonSchema)]
        #[expect(dead_code, reason = "only its schema is used")]
        enum Speed {
            /// Not fast.
            Slow,
            Fast,
        }
        #[derive(JsonSchema)]
        #[serde(deny_unknown_fields)]
        #[expect(dead_code, reason = "only its schema is used")]
        struct Inner {
            count: u32,
        }
        #[derive(JsonSchema)]
        #[serde(rename_all = "camelCase")]
        #[expect(dead_code, reason = "only its schema is used")]
        struct Spec {
            /// A text
            /// of two lines.
            text: String,
            max_count: Option<i64>,
            #[serde(default)]
            is_on: bool,
            #[serde(default = "three")]
            tries: i32,
            speed: Option<Speed>,
            inner: Option<Inner>,
            labels: BTreeMap<String, String>,
            names: BTreeSet<String>,
            list: Vec<Inner>,
            raw: Raw,
            any: Value,
            size: Quantity,
            surge: IntOrPercent,
            since: Option<Time>,
            #[schemars(schema_with = "conditions")]
            conditions: Vec<Condition>,
        }
        fn three() -> i32 {
            3
        }
        let inner = json!({
            "type": "object", "required": ["count"],
            "properties": {"count": {"type": "integer", "minimum": 0}},
        });
        let mut schema = schema_of::<Spec>("spec");
        let condition = schema["properties"]["conditions"]["items"].take();
        assert_eq!(condition["required"], json!(["type", "status"]));
        // schemars puts variants with docs last.
        let properties = json!({
            "text": {"type": "string", "description": "A text of two lines."},
            "maxCount": {"type": "integer", "format": "int64"},
            "isOn": {"type": "boolean"},
            "tries": {"type": "integer", "format": "int32", "default": 3},
            "speed": {"type": "string", "enum": ["Fast", "Slow"], "description": "How fast."},
            "inner": inner,
            "labels": {"type": "object", "additionalProperties": {"type": "string"}},
            "names": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
            "list": {"type": "array", "items": inner},
            "raw": {"x-kubernetes-preserve-unknown-fields": true},
            "any": {"x-kubernetes-preserve-unknown-fields": true},
            "size": {"x-kubernetes-int-or-string": true},
            "surge": {"x-kubernetes-int-or-string": true},
            "since": {"type": "string", "format": "date-time"},
            "conditions": {
                "type": "array", "items": null,
                "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"],
            },
        });
        assert_eq!(schema["properties"], properties, "{schema:#}");
        let required = [
            "text",
            "labels",
            "names",
            "list",
            "raw",
            "any",
            "size",
            "surge",
            "conditions",
        ];
        assert_eq!(schema["required"], json!(required), "{schema:#}");
    }

    #[test]
    fn a_type_without_a_structural_schema_is_an_error_with_its_place() {
        let error = rewritten(json!({"type": "object", "properties": {
            "to": {"type": "array", "items": {"oneOf": [{"type": "string"}, {"type": "object"}]}},
        }}))
        .unwrap_err();
        assert!(
            error.starts_with("spec.to[*] is one of several types"),
            "{error}"
        );
        let error = rewritten(json!({"$ref": "#"})).unwrap_err();
        assert!(error.contains("spec contains itself"), "{error}");
    }
}
