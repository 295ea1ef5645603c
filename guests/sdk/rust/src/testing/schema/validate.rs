//! Checks values against a structural schema. The messages are the server's.
//!
//! Upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apiserver/validation/validation.go: ValidateCustomResource,
//! ValidateCustomResourceUpdate.

use regex_lite::Regex;
use serde_json::Value;

use super::prune::join;
use super::{is_object_meta, values_of};
use crate::time::Time;

/// Returns the errors of an object. Values that are the same in `old` have none.
pub(super) fn errors(object: &Value, old: Option<&Value>, schema: &Value) -> Vec<String> {
    let mut errors = Vec::new();
    check(object, old, schema, "", &mut errors);
    errors
}

fn check(value: &Value, old: Option<&Value>, schema: &Value, path: &str, errors: &mut Vec<String>) {
    if old == Some(value) || value.is_null() && schema["nullable"] == true {
        return;
    }
    let is_int_or_string = schema["x-kubernetes-int-or-string"] == true;
    let expected = schema["type"].as_str().unwrap_or_default();
    let is_of_type = match expected {
        _ if is_int_or_string => value.is_string() || is_integer(value),
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "integer" => is_integer(value),
        "number" => value.is_number(),
        _ => true,
    };
    if !is_of_type {
        let expected = if is_int_or_string {
            "integer,string"
        } else {
            expected
        };
        let found = type_of(value);
        errors.push(format!(
            "{path}: Invalid value: {found:?}: {path} in body must be of type {expected}: {found:?}"
        ));
        return;
    }
    check_bounds(value, schema, path, errors);
    match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                let property = &schema["properties"][name];
                let of_field = Some(property).filter(|property| property.is_object());
                let of_field = of_field.or_else(|| values_of(schema));
                if let Some(of_field) =
                    of_field.filter(|_| !is_object_meta(schema, path.is_empty(), name))
                {
                    let old = old.and_then(|old| old.get(name));
                    check(field, old, of_field, &join(path, name), errors);
                }
            }
        }
        Value::Array(items) if schema["items"].is_object() => {
            for (at, item) in items.iter().enumerate() {
                check(
                    item,
                    None,
                    &schema["items"],
                    &format!("{path}[{at}]"),
                    errors,
                );
            }
        }
        _ => {}
    }
}

/// Checks a value by itself, and by the alternatives of its schema.
fn check_bounds(value: &Value, schema: &Value, path: &str, errors: &mut Vec<String>) {
    let mut invalid = |problem: String| {
        errors.push(format!(
            "{path}: Invalid value: {}: {path} in body {problem}",
            shown(value)
        ));
    };
    let number = |keyword: &str| schema[keyword].as_f64();
    let count = |keyword: &str| schema[keyword].as_u64();
    if let Some(found) = value.as_f64() {
        if let Some(most) = number("maximum") {
            match schema["exclusiveMaximum"] == true {
                true if found >= most => invalid(format!("should be less than {most}")),
                false if found > most => invalid(format!("should be less than or equal to {most}")),
                _ => {}
            }
        }
        if let Some(least) = number("minimum") {
            match schema["exclusiveMinimum"] == true {
                true if found <= least => invalid(format!("should be greater than {least}")),
                false if found < least => {
                    invalid(format!("should be greater than or equal to {least}"));
                }
                _ => {}
            }
        }
        if let Some(factor) = number("multipleOf").filter(|factor| found % factor != 0.0) {
            invalid(format!("should be a multiple of {factor}"));
        }
    }
    if let Some(text) = value.as_str() {
        let length = text.chars().count() as u64;
        if let Some(most) = count("maxLength").filter(|most| length > *most) {
            invalid(format!("should be at most {most} chars long"));
        }
        if let Some(least) = count("minLength").filter(|least| length < *least) {
            invalid(format!("should be at least {least} chars long"));
        }
        let pattern = schema["pattern"].as_str();
        // A pattern in a syntax of Go's alone is not checked.
        let compiled = pattern.and_then(|pattern| Regex::new(pattern).ok());
        if let (Some(pattern), Some(compiled)) = (pattern, compiled)
            && !compiled.is_match(text)
        {
            invalid(format!("should match '{pattern}'"));
        }
    }
    let format = schema["format"].as_str().unwrap_or_default();
    if !has_format(value, format) {
        invalid(format!("must be of type {format}: {}", shown(value)));
    }
    let (size, most, least, what) = match value {
        Value::Array(items) => (items.len(), "maxItems", "minItems", "items"),
        Value::Object(fields) => (fields.len(), "maxProperties", "minProperties", "properties"),
        _ => (0, "", "", ""),
    };
    if let Some(most) = count(most).filter(|most| size as u64 > *most) {
        errors.push(format!(
            "{path}: Too many: {size}: must have at most {most} {what}"
        ));
    }
    if let Some(least) = count(least).filter(|least| (size as u64) < *least) {
        errors.push(format!(
            "{path}: Invalid value: {size}: {path} in body should have at least {least} {what}"
        ));
    }
    if let Some(allowed) = schema["enum"].as_array().filter(|all| !all.contains(value)) {
        let allowed: Vec<String> = allowed.iter().map(Value::to_string).collect();
        errors.push(format!(
            "{path}: Unsupported value: {}: supported values: {}",
            shown(value),
            allowed.join(", ")
        ));
    }
    let required = schema["required"].as_array().into_iter().flatten();
    for name in required.filter_map(Value::as_str) {
        if value.is_object() && value.get(name).is_none() {
            errors.push(format!("{}: Required value", join(path, name)));
        }
    }
    errors.extend(duplicates(value, schema, path));
    check_alternatives(value, schema, path, errors);
}

/// Checks `allOf`, `anyOf`, `oneOf` and `not`, which only restrict values in a structural schema.
fn check_alternatives(value: &Value, schema: &Value, path: &str, errors: &mut Vec<String>) {
    let parts = |keyword: &str| schema[keyword].as_array().map_or(&[][..], Vec::as_slice);
    let fits = |part: &&Value| {
        let mut own = Vec::new();
        check(value, None, part, path, &mut own);
        own.is_empty()
    };
    for part in parts("allOf") {
        check(value, None, part, path, errors);
    }
    let mut invalid = |problem: &str| {
        errors.push(format!(
            "{path}: Invalid value: {}: {path} in body {problem}",
            shown(value)
        ));
    };
    if !parts("anyOf").is_empty() && !parts("anyOf").iter().any(|part| fits(&part)) {
        invalid("must validate at least one schema (anyOf)");
    }
    let one_of = parts("oneOf");
    if !one_of.is_empty() && one_of.iter().filter(fits).count() != 1 {
        invalid("must validate one and only one schema (oneOf)");
    }
    if schema["not"].is_object() && fits(&&schema["not"]) {
        invalid("must not validate the schema (not)");
    }
}

/// Returns the errors of elements that occur twice in a set, or of which two have the same keys in a map.
fn duplicates(value: &Value, schema: &Value, path: &str) -> Vec<String> {
    let Some(items) = value.as_array() else {
        return Vec::new();
    };
    let keys = schema["x-kubernetes-list-map-keys"].as_array();
    let keys: Vec<&str> = keys
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let identity = |item: &Value| -> Value {
        match schema["x-kubernetes-list-type"].as_str() {
            Some("map") => keys.iter().map(|key| (*key, item[*key].clone())).collect(),
            _ => item.clone(),
        }
    };
    let is_unique = matches!(
        schema["x-kubernetes-list-type"].as_str(),
        Some("map" | "set")
    ) || schema["uniqueItems"] == true;
    let identities: Vec<Value> = match is_unique {
        true => items.iter().map(identity).collect(),
        false => return Vec::new(),
    };
    let repeated = |(at, own): (usize, &Value)| {
        let is_repeated = identities[..at].contains(own);
        is_repeated.then(|| format!("{path}[{at}]: Duplicate value: {}", shown(own)))
    };
    identities.iter().enumerate().filter_map(repeated).collect()
}

fn is_integer(value: &Value) -> bool {
    value.is_i64() || value.is_u64() || value.as_f64().is_some_and(|number| number.fract() == 0.0)
}

/// Whether a value has a format that the server checks; other formats are not checked.
fn has_format(value: &Value, format: &str) -> bool {
    match (format, value) {
        ("int32", Value::Number(number)) => number
            .as_f64()
            .is_none_or(|number| (-2147483648.0..=2147483647.0).contains(&number)),
        ("date-time", Value::String(text)) => text.parse::<Time>().is_ok(),
        ("byte", Value::String(text)) => crate::base64::decode(text).is_some(),
        _ => true,
    }
}

/// A value in a message: objects and lists are long, and their places are named anyway.
fn shown(value: &Value) -> String {
    match value {
        Value::Object(_) | Value::Array(_) => format!("{:?}", type_of(value)),
        value => value.to_string(),
    }
}

fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) if is_integer(value) => "integer",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}
