//! The subresource `scale`: the replicas of an object as a Scale of `autoscaling/v1`.

use flyball_testserver::api::request::bad_request;
use flyball_types::ApiError;
use serde_json::{Map, Value, json};

/// The scale of an object. Custom resources have their replicas where the built-in kinds have them.
pub(crate) fn of(object: &Value) -> Value {
    let metadata = &object["metadata"];
    let mut scale = json!({
        "apiVersion": "autoscaling/v1",
        "kind": "Scale",
        "metadata": {},
        "spec": {"replicas": object["spec"]["replicas"].as_i64().unwrap_or(0)},
        "status": {"replicas": object["status"]["replicas"].as_i64().unwrap_or(0)},
    });
    for name in [
        "name",
        "namespace",
        "uid",
        "resourceVersion",
        "creationTimestamp",
    ] {
        if let Some(value) = metadata.get(name) {
            scale["metadata"][name] = value.clone();
        }
    }
    let selector = object["status"]["selector"].as_str().map(str::to_owned);
    if let Some(selector) = selector.or_else(|| selector_of(&object["spec"]["selector"])) {
        scale["status"]["selector"] = selector.into();
    }
    scale
}

/// The merge patch of an object for a written scale, which is whole or a patch of it.
///
/// # Errors
/// The scale has no number of replicas, or is of another version of the object.
pub(crate) fn change(object: &Value, scale: &Value) -> Result<Value, ApiError> {
    let replicas = scale["spec"]["replicas"].as_i64();
    let replicas = replicas.ok_or_else(|| bad_request("the scale has no spec.replicas"))?;
    let version = &scale["metadata"]["resourceVersion"];
    if version.as_str().is_some_and(|version| !version.is_empty())
        && *version != object["metadata"]["resourceVersion"]
    {
        let message =
            "the object has been modified; please apply your changes to the latest version";
        return Err(ApiError::of_server(409, "Conflict", message));
    }
    Ok(json!({"spec": {"replicas": replicas}}))
}

/// A label selector as a text; `None` if there is none.
fn selector_of(selector: &Value) -> Option<String> {
    let pairs = |labels: &Map<String, Value>| {
        let pair = |(name, value): (&String, &Value)| {
            format!("{name}={}", value.as_str().unwrap_or_default())
        };
        labels.iter().map(pair).collect::<Vec<_>>()
    };
    let fields = selector.as_object()?;
    let is_map = !fields.contains_key("matchLabels") && !fields.contains_key("matchExpressions");
    let mut parts = match is_map {
        true => pairs(fields),
        false => fields
            .get("matchLabels")
            .and_then(Value::as_object)
            .map(pairs)
            .unwrap_or_default(),
    };
    for expression in selector["matchExpressions"]
        .as_array()
        .into_iter()
        .flatten()
    {
        let key = expression["key"].as_str().unwrap_or_default();
        let values = expression["values"].as_array().into_iter().flatten();
        let values: Vec<&str> = values.filter_map(Value::as_str).collect();
        parts.push(match expression["operator"].as_str() {
            Some("In") => format!("{key} in ({})", values.join(",")),
            Some("NotIn") => format!("{key} notin ({})", values.join(",")),
            Some("DoesNotExist") => format!("!{key}"),
            _ => key.to_owned(),
        });
    }
    Some(parts.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scale_has_the_replicas_and_the_selector_as_a_text() {
        let expressions = json!([{"key": "tier", "operator": "In", "values": ["a", "b"]}]);
        let selector = json!({"matchLabels": {"app": "web"}, "matchExpressions": expressions});
        let metadata = json!({"name": "web", "resourceVersion": "7"});
        let object = json!({"metadata": metadata, "spec": {"replicas": 3, "selector": selector}, "status": {"replicas": 2}});
        let scale = of(&object);
        assert_eq!(scale["spec"]["replicas"], 3);
        assert_eq!(
            scale["status"],
            json!({"replicas": 2, "selector": "app=web,tier in (a,b)"})
        );
        assert_eq!(
            selector_of(&json!({"app": "web"})).as_deref(),
            Some("app=web")
        );
        let written = json!({"spec": {"replicas": 5}});
        assert_eq!(change(&object, &written).expect("it is valid"), written);
        let old = json!({"metadata": {"resourceVersion": "6"}, "spec": {"replicas": 5}});
        assert_eq!(
            change(&object, &old).expect_err("it is old").reason,
            "Conflict"
        );
    }
}
