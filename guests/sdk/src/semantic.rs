//! Whether two pieces of JSON mean the same to the API: what `apiequality.Semantic.DeepEqual` says of the objects that they
//! are read into.
//!
//! - Null, absent, `{}` and `[]` are equal: a nil slice or map equals an empty one. (A pointer to an empty struct is not
//!   nil in Go; here it is equal to none. Where that matters, as between two sources of a volume, something else differs.)
//! - Quantities are equal by value: `1` and `1000m`. They are looked for as direct children of `limits`, `requests`,
//!   `capacity`, `allocatable`, `overhead`, `hard` and `used`, and under the names `sizeLimit` and `divisor`; a text there
//!   that is no quantity is compared as text.
//! - The order of a list's elements counts; that of an object's fields does not.

use serde::Serialize;
use serde_json::{Map, Value};

use crate::quantity::Quantity;
use crate::raw::Raw;

/// Whether two trees mean the same.
pub fn equal(one: &Value, other: &Value) -> bool {
    equal_at(one, other, Place::Plain)
}

/// Whether two raw values mean the same. The same text is not parsed.
pub fn equal_raw(one: &Raw, other: &Raw) -> bool {
    one == other || equal(&one.value(), &other.value())
}

/// Whether two values, as the JSON that they make, mean the same.
pub fn equal_json<A: Serialize, B: Serialize>(one: &A, other: &B) -> bool {
    equal_raw(&Raw::of(one), &Raw::of(other))
}

/// Where a value lies: whether it, or its children, can be quantities.
#[derive(Clone, Copy, PartialEq)]
enum Place {
    Plain,
    OfQuantities,
    Quantity,
}

impl Place {
    fn below(self, field: &str) -> Self {
        match field {
            _ if self == Self::OfQuantities => Self::Quantity,
            "limits" | "requests" | "capacity" | "allocatable" | "overhead" | "hard" | "used" => {
                Self::OfQuantities
            }
            "sizeLimit" | "divisor" => Self::Quantity,
            _ => Self::Plain,
        }
    }
}

fn equal_at(one: &Value, other: &Value, place: Place) -> bool {
    match (one, other) {
        (Value::Object(one), Value::Object(other)) => equal_fields(one, other, place),
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len()
                && one
                    .iter()
                    .zip(other)
                    .all(|(one, other)| equal_at(one, other, Place::Plain))
        }
        _ if is_empty(one) || is_empty(other) => is_empty(one) && is_empty(other),
        _ => {
            one == other
                || place == Place::Quantity
                    && quantity(one).is_some_and(|own| Some(own) == quantity(other))
        }
    }
}

fn equal_fields(one: &Map<String, Value>, other: &Map<String, Value>, place: Place) -> bool {
    let missing = |(key, value): (&String, &Value)| {
        other.contains_key(key) || equal_at(value, &Value::Null, place)
    };
    one.iter().all(missing)
        && other.iter().all(|(key, value)| {
            equal_at(
                one.get(key).unwrap_or(&Value::Null),
                value,
                place.below(key),
            )
        })
}

/// Whether a value means nothing.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.values().all(is_empty),
        _ => false,
    }
}

fn quantity(value: &Value) -> Option<Quantity> {
    match value {
        Value::String(text) => text.parse().ok(),
        Value::Number(number) => number.to_string().parse().ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_absent_null_or_empty_is_the_same() {
        let nothing = json!({});
        for something in [
            json!(null),
            json!({"a": null}),
            json!({"a": []}),
            json!({"a": {}}),
            json!({"metadata": {"creationTimestamp": null}, "b": {"c": []}}),
        ] {
            assert!(
                equal(&nothing, &something) && equal(&something, &nothing),
                "{something}"
            );
        }
        for something in [
            json!({"a": 0}),
            json!({"a": ""}),
            json!({"a": false}),
            json!({"a": [null]}),
        ] {
            assert!(
                !equal(&nothing, &something) && !equal(&something, &nothing),
                "{something}"
            );
        }
    }

    #[test]
    fn quantities_are_equal_by_value_where_quantities_are() {
        let one = json!({"containers": [{"resources": {"limits": {"cpu": "1", "memory": "1Gi", "x": 2}}}]});
        let other = json!({"containers": [{"resources": {"limits": {"cpu": "1000m", "memory": "1024Mi", "x": "2"}}}]});
        assert!(equal(&one, &other));
        assert!(!equal(
            &json!({"limits": {"cpu": "1"}}),
            &json!({"limits": {"cpu": "2"}})
        ));
        assert!(!equal(
            &json!({"args": {"cpu": "1"}}),
            &json!({"args": {"cpu": "1000m"}})
        ));
        assert!(equal(
            &json!({"emptyDir": {"sizeLimit": "1Gi"}}),
            &json!({"emptyDir": {"sizeLimit": "1024Mi"}})
        ));
    }

    #[test]
    fn order_counts_in_lists_only() {
        assert!(equal_raw(
            &serde_json::from_str(r#"{"a":1,"b":2}"#).unwrap(),
            &Raw::of(&json!({"b": 2, "a": 1}))
        ));
        assert!(!equal(&json!([1, 2]), &json!([2, 1])));
        assert!(!equal(&json!([1]), &json!([1, 2])));
        assert!(!equal(&json!({"a": 1}), &json!({"a": {"b": 1}})));
    }
}
