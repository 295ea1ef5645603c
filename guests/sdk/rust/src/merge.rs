//! JSON merge patches (RFC 7396).

use serde_json::{Map, Value};

/// Applies a merge patch.
///
/// ```
/// use flyball_sdk::merge;
/// use serde_json::json;
///
/// let mut object = json!({"a": {"b": 1, "c": 2}});
/// merge::apply(&mut object, &json!({"a": {"b": null, "d": {"e": null, "f": 1}}}));
/// assert_eq!(object, json!({"a": {"c": 2, "d": {"f": 1}}}));
/// ```
pub fn apply(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let fields = target.as_object_mut().expect("set to an object above");
    for (key, value) in patch {
        if value.is_null() {
            fields.remove(key);
        } else {
            apply(fields.entry(key).or_insert(Value::Null), value);
        }
    }
}

/// Returns the merge patch that turns `old` into `new`; an empty object if they are equal. Lists are replaced as a
/// whole.
///
/// A merge patch deletes the fields that it sets to null, so a null in `new` is the same as an absent field.
///
/// ```
/// use flyball_sdk::merge;
/// use serde_json::json;
///
/// let old = json!({"spec": {"replicas": 1, "paused": true, "selector": {"app": "web"}}});
/// let new = json!({"spec": {"replicas": 2, "selector": {"app": "web"}}});
/// assert_eq!(merge::diff(&old, &new), json!({"spec": {"replicas": 2, "paused": null}}));
/// ```
pub fn diff(old: &Value, new: &Value) -> Value {
    let (Value::Object(old), Value::Object(new)) = (old, new) else {
        return new.clone();
    };
    let mut patch = Map::new();
    for (key, new) in new {
        match old.get(key) {
            Some(old) if old == new => {}
            Some(old @ Value::Object(_)) if new.is_object() => {
                let change = diff(old, new);
                if change.as_object().is_some_and(|change| !change.is_empty()) {
                    patch.insert(key.clone(), change);
                }
            }
            None if new.is_null() => {}
            _ => drop(patch.insert(key.clone(), new.clone())),
        }
    }
    for key in old.keys().filter(|key| !new.contains_key(*key)) {
        patch.insert(key.clone(), Value::Null);
    }
    Value::Object(patch)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn equal_objects_have_no_difference() {
        let object = json!({"a": {"b": [1, {"c": null}]}, "d": "e"});
        assert_eq!(diff(&object, &object), json!({}));
        assert_eq!(diff(&json!({"a": {}}), &json!({"a": {}})), json!({}));
    }

    #[test]
    fn a_field_is_added_changed_and_deleted() {
        let old =
            json!({"kept": 1, "changed": {"x": 1, "y": [1, 2]}, "deleted": {"z": 1}, "text": "a"});
        let new =
            json!({"kept": 1, "changed": {"x": 1, "y": [1]}, "added": {"w": 1}, "text": {"b": 1}});
        let expected = json!({
            "changed": {"y": [1]}, "deleted": null, "added": {"w": 1}, "text": {"b": 1},
        });
        assert_eq!(diff(&old, &new), expected);
    }

    #[test]
    fn null_is_the_same_as_absent() {
        assert_eq!(diff(&json!({}), &json!({"a": null})), json!({}));
        assert_eq!(
            diff(&json!({"a": 1}), &json!({"a": null})),
            json!({"a": null})
        );
    }
}
