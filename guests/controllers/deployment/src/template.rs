//! Semantic comparison of pod templates.
//!
//! A Deployment finds its ReplicaSet by the template, never by the hash in its name. So it also finds ReplicaSets that another
//! release or another controller named.
//!
//! Upstream: pkg/controller/deployment/util/deployment_util.go: EqualIgnoreHash.

use std::cell::OnceCell;
use std::collections::BTreeMap;

use flyball_sdk::prelude::*;
use serde::Deserialize;

use crate::difference::differ_in_a_string;

/// The label that distinguishes the pods of a Deployment's ReplicaSets. Comparison ignores it.
pub const HASH_LABEL: &str = "pod-template-hash";

/// Maps with arbitrary keys and string values. Empty and absent are equal, and their contents are
/// not API fields.
const MAPS: [&str; 6] = [
    "annotations",
    "labels",
    "matchLabels",
    "nodeSelector",
    "options",
    "volumeAttributes",
];
/// Maps of quantities.
const QUANTITIES: [&str; 3] = ["limits", "overhead", "requests"];
/// Single quantities.
const QUANTITY: [&str; 2] = ["divisor", "sizeLimit"];
/// Structs that the API types hold by value, so that empty and absent are equal. For all others,
/// `{}` has a meaning: `emptyDir: {}` is a volume.
const STRUCTS: [&str; 2] = ["metadata", "resources"];

/// A pod template that compares semantically.
#[derive(Clone, Debug)]
pub struct Template {
    /// In canonical form, without the hash label.
    metadata: Option<Value>,
    spec: Raw,
    /// The spec in canonical form, computed on first use.
    canonical_spec: OnceCell<Option<Value>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Parts {
    metadata: Value,
    spec: Raw,
}

impl Template {
    /// Parses a template.
    pub fn of(template: &Raw) -> Self {
        let Parts { mut metadata, spec } = template.parse().ok().flatten().unwrap_or_default();
        if let Some(labels) = metadata.get_mut("labels").and_then(Value::as_object_mut) {
            labels.remove(HASH_LABEL);
        }
        Self {
            metadata: canonical("metadata", metadata),
            spec,
            canonical_spec: OnceCell::new(),
        }
    }

    /// Compares the specs, as text where that is enough. If a Deployment has many old ReplicaSets, nearly all of them
    /// differ in a string such as the image.
    fn has_spec_of(&self, other: &Self) -> bool {
        if self.spec == other.spec {
            return true;
        }
        let is_quantity =
            |field: &str, parent: &str| QUANTITY.contains(&field) || QUANTITIES.contains(&parent);
        !differ_in_a_string(self.spec.text(), other.spec.text(), is_quantity)
            && self.spec() == other.spec()
    }

    fn spec(&self) -> Option<&Value> {
        self.canonical_spec
            .get_or_init(|| canonical("spec", self.spec.value()))
            .as_ref()
    }
}

/// The API server has usually written both specs as the same text. Then neither is parsed.
impl PartialEq for Template {
    fn eq(&self, other: &Self) -> bool {
        self.metadata == other.metadata && self.has_spec_of(other)
    }
}

/// Returns a field's value in canonical form; `None` if it means the same as an absent field.
fn canonical(field: &str, value: Value) -> Option<Value> {
    match value {
        Value::Null => None,
        Value::Array(items) if items.is_empty() => None,
        Value::Array(items) => {
            let items = items
                .into_iter()
                .map(|item| canonical("", item).unwrap_or(Value::Null));
            Some(Value::Array(items.collect()))
        }
        Value::Object(fields) => {
            let of_quantities = QUANTITIES.contains(&field);
            let free = MAPS.contains(&field);
            let fields = fields.into_iter().filter_map(|(name, value)| {
                let value = match value {
                    value if free => Some(value),
                    value if of_quantities => Some(quantity(value)),
                    value => canonical(&name, value),
                };
                Some((name, value?))
            });
            // Sorted by name, independent of serde_json's map order.
            let fields: BTreeMap<String, Value> = fields.collect();
            let absent = fields.is_empty() && (free || of_quantities || STRUCTS.contains(&field));
            (!absent).then(|| fields.into_iter().collect())
        }
        value if QUANTITY.contains(&field) => Some(quantity(value)),
        value => Some(value),
    }
}

/// Replaces a quantity such as `1Gi`, `0.5` or `500m` by its number of billionths, so that `1000m`
/// equals `1`. Other values are unchanged.
fn quantity(value: Value) -> Value {
    let text = match &value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        _ => return value,
    };
    match text.parse::<Quantity>() {
        Ok(quantity) => quantity.nanos().to_string().into(),
        Err(_) => value,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn template(value: Value) -> Template {
        Template::of(&Raw::from(value))
    }

    #[test]
    fn the_hash_label_and_empty_fields_make_no_difference() {
        let plain = template(
            json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "a"}]}}),
        );
        for same in [
            json!({"spec": {"containers": [{"name": "a"}]}, "metadata": {"labels": {"app": "web", "pod-template-hash": "1"}}}),
            json!({"metadata": {"labels": {"app": "web"}, "creationTimestamp": null, "annotations": {}},
                   "spec": {"containers": [{"name": "a", "resources": {}, "env": []}], "nodeSelector": null}}),
            json!({"metadata": {"labels": {"app": "web"}},
                   "spec": {"containers": [{"name": "a", "resources": {"limits": {}}}]}}),
        ] {
            assert_eq!(template(same), plain);
        }
        assert_eq!(
            template(json!({"metadata": {"labels": {HASH_LABEL: "1"}}})),
            template(json!({}))
        );
    }

    #[test]
    fn templates_with_other_meanings_differ() {
        let plain = template(json!({"spec": {"volumes": [{"name": "a"}]}}));
        for other in [
            json!({"spec": {"volumes": [{"name": "a", "emptyDir": {}}]}}),
            json!({"spec": {"volumes": [{"name": "b"}]}}),
            json!({"spec": {"volumes": [{"name": "a"}], "securityContext": {}}}),
            json!({"spec": {"volumes": [{"name": "a"}]}, "metadata": {"annotations": {"a": ""}}}),
        ] {
            assert_ne!(template(other), plain);
        }
    }

    #[test]
    fn quantities_are_compared_by_value() {
        for (one, other) in [
            ("1", "1000m"),
            ("0.5", "500m"),
            ("1Gi", "1073741824"),
            ("1024Ki", "1Mi"),
            ("1e3", "1k"),
            ("1E", "1000P"),
            ("0", "0Gi"),
            ("+1", "1.0"),
        ] {
            assert_eq!(
                quantity(json!(one)),
                quantity(json!(other)),
                "{one} and {other}"
            );
        }
        assert_ne!(quantity(json!("1G")), quantity(json!("1Gi")));
        for unchanged in [json!("oops"), json!(""), json!("1 Gi"), json!("1.2.3")] {
            assert_eq!(quantity(unchanged.clone()), unchanged);
        }

        let with = |cpu: Value| {
            template(json!({"spec": {"containers": [{"resources": {"limits": {"cpu": cpu}}}]}}))
        };
        assert_eq!(with(json!("2000m")), with(json!("2")));
        assert_eq!(with(json!(2)), with(json!("2")));
        let label = |size: &str| template(json!({"metadata": {"labels": {"sizeLimit": size}}}));
        assert_ne!(label("1k"), label("1000"));
    }

    #[test]
    fn specs_that_differ_in_a_string_are_not_parsed() {
        let of = |image: &str, cpu: &str| {
            let resources = json!({"limits": {"cpu": cpu}});
            template(json!({"spec": {"containers": [{"image": image, "resources": resources}]}}))
        };
        let (new, old) = (of("app:2", "1"), of("app:1", "1000m"));
        assert_ne!(new, old);
        assert!(new.canonical_spec.get().is_none() && old.canonical_spec.get().is_none());
        assert_eq!(new, of("app:2", "1000m"));
    }
}
