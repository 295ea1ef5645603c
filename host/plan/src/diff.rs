//! The difference of an object as text, as `kubectl diff` shows it.

use std::time::Duration;

use serde_json::{Map, Value};
use similar::TextDiff;

use crate::change::LAST_APPLIED;
use crate::outcome::Change;

/// What nobody has decided, and the server counts.
const COUNTED: [&str; 6] = [
    "creationTimestamp",
    "generation",
    "managedFields",
    "resourceVersion",
    "selfLink",
    "uid",
];
/// How long the search for the smallest difference of an object may take.
const DEADLINE: Duration = Duration::from_secs(1);

/// Returns an object before and after the plan, as people and programs may see them: without `metadata.managedFields`,
/// and with the values of Secrets replaced. `null` stands for no object.
pub fn shown_change(change: &Change) -> (Value, Value) {
    let (mut before, mut after) = (shown(&change.before), shown(&change.after));
    if change.kind == "v1/Secret" {
        hide(&mut before, &mut after);
    }
    (before, after)
}

/// Returns the unified difference of an object in YAML, without what the server counts and, unless `with_status`, without
/// the status. Empty if nothing else differs.
///
/// # Errors
/// The object can't be written as YAML.
pub fn diff(change: &Change, with_status: bool) -> Result<String, serde_saphyr::ser::Error> {
    let (before, after) = shown_change(change);
    let text = |object: Value| match object {
        Value::Object(mut fields) => {
            if !with_status {
                fields.remove("status");
            }
            if let Some(metadata) = fields.get_mut("metadata").and_then(Value::as_object_mut) {
                metadata.retain(|name, _| !COUNTED.contains(&name.as_str()));
            }
            serde_saphyr::to_string(&fields)
        }
        _ => Ok(String::new()),
    };
    let (before, after) = (text(before)?, text(after)?);
    if before == after {
        return Ok(String::new());
    }
    let name = match change.namespace.as_str() {
        "" => format!("{} {}", change.kind, change.name),
        namespace => format!("{} {namespace}/{}", change.kind, change.name),
    };
    let side = |text: &str| match text {
        "" => "/dev/null".to_owned(),
        _ => name.clone(),
    };
    let diff = TextDiff::configure()
        .timeout(DEADLINE)
        .diff_lines(before.as_str(), after.as_str());
    let mut unified = diff.unified_diff();
    unified
        .context_radius(3)
        .header(&side(&before), &side(&after));
    Ok(unified.to_string())
}

fn shown(object: &Option<Value>) -> Value {
    let mut object = object.clone().unwrap_or_default();
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
    object
}

/// Replaces the values of a Secret. Those that differ stay distinguishable.
fn hide(before: &mut Value, after: &mut Value) {
    for field in ["data", "stringData"] {
        let values = |object: &Value| object[field].as_object().cloned().unwrap_or_default();
        let (old, new) = (values(before), values(after));
        mask(before, field, &new, "before");
        mask(after, field, &old, "after");
    }
    for object in [before, after] {
        let annotation = object.pointer_mut("/metadata/annotations");
        if let Some(value) = annotation.and_then(|annotations| annotations.get_mut(LAST_APPLIED)) {
            *value = "***".into();
        }
    }
}

fn mask(object: &mut Value, field: &str, other: &Map<String, Value>, side: &str) {
    let values = object.get_mut(field).and_then(Value::as_object_mut);
    for (name, value) in values.into_iter().flatten() {
        let is_other = other.get(name).is_some_and(|other| other != value);
        *value = match is_other {
            true => format!("*** ({side})").into(),
            false => "***".into(),
        };
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::json;

    use super::*;
    use crate::Action;

    fn change(kind: &str, before: Value, after: Value) -> Change {
        let some = |value: Value| Some(value).filter(|value| !value.is_null());
        Change {
            action: Action::Changed,
            kind: kind.into(),
            namespace: "n".into(),
            name: "a".into(),
            is_given: false,
            writers: BTreeSet::new(),
            is_status_only: false,
            waits_for: Vec::new(),
            before: some(before),
            after: some(after),
        }
    }

    fn object(version: u64, fields: Value) -> Value {
        let metadata = json!({"name": "a", "resourceVersion": version.to_string(), "generation": version, "managedFields": [version]});
        let mut object = json!({"apiVersion": "v1", "metadata": metadata});
        for (name, value) in fields.as_object().into_iter().flatten() {
            object[name] = value.clone();
        }
        object
    }

    #[test]
    fn a_difference_is_unified_and_leaves_out_what_the_server_counts() {
        let (old, new) = (
            object(1, json!({"data": {"first": "a", "second": "b"}})),
            object(2, json!({"data": {"first": "a", "second": "c"}})),
        );
        let text = diff(&change("v1/ConfigMap", old, new), false).expect("it is written");
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            &lines[..2],
            ["--- v1/ConfigMap n/a", "+++ v1/ConfigMap n/a"]
        );
        let changed: Vec<&&str> = lines[3..]
            .iter()
            .filter(|line| line.starts_with(['+', '-']))
            .collect();
        assert_eq!(changed.len(), 2, "{text}");
        assert!(
            *changed[0] == "-  second: b" && *changed[1] == "+  second: c",
            "{text}"
        );
    }

    #[test]
    fn a_status_is_shown_only_if_it_is_asked_for() {
        let change = change(
            "a.b/v1/C",
            object(1, json!({"status": {"count": 1}})),
            object(2, json!({"status": {"count": 2}})),
        );
        assert_eq!(diff(&change, false).expect("it is written"), "");
        assert!(
            diff(&change, true)
                .expect("it is written")
                .contains("+  count: 2")
        );
    }

    #[test]
    fn a_created_object_has_no_side_before() {
        let change = change("v1/ConfigMap", Value::Null, object(1, json!({})));
        assert!(
            diff(&change, false)
                .expect("it is written")
                .starts_with("--- /dev/null\n+++ v1/ConfigMap n/a\n")
        );
    }

    #[test]
    fn no_value_of_a_secret_is_shown() {
        let annotated = |value: &str| json!({"data": {"same": "c2FtZQ==", "other": value}});
        let mut old = object(1, annotated("b2xk"));
        old["metadata"]["annotations"] = json!({LAST_APPLIED: "{\"data\":{\"other\":\"b2xk\"}}"});
        let change = change("v1/Secret", old, object(2, annotated("bmV3")));
        let (before, after) = shown_change(&change);
        assert_eq!(
            before["data"],
            json!({"same": "***", "other": "*** (before)"})
        );
        assert_eq!(
            after["data"],
            json!({"same": "***", "other": "*** (after)"})
        );
        let text = diff(&change, true).expect("it is written");
        assert!(
            !text.contains("b2xk") && !text.contains("bmV3") && !text.contains("c2FtZQ"),
            "{text}"
        );
    }
}
