//! Requests that write, as writes to a [`Cluster`](flyball_sdk::testing::Cluster), and answers that need no object.

use flyball_sdk::PatchType;
use flyball_sdk::write::{Action, Target as WriteTarget, Write};
use flyball_types::{ApiError, Kind};
use http::Method;
use serde_json::{Map, Value, json};

use super::request::{self, Call, Target, bad_request, not_found};

/// The fields that whole objects have besides those of the request.
const USUAL_FIELDS: [&str; 6] = ["apiVersion", "kind", "metadata", "spec", "status", "data"];

/// The API version of objects that are reduced to their metadata.
pub(super) const METADATA: &str = "meta.k8s.io/v1";

/// Returns the write of a request, which returns the whole object. `old` is the object before.
///
/// # Errors
/// The request is not a write, or its body is not JSON.
pub fn write_of(call: &Call<'_>, target: &Target, old: Option<&Value>) -> Result<Write, ApiError> {
    let body = call.json()?;
    let (action, mut options) = action(call, target, &body, old)?;
    let is_apply = matches!(action, Action::Patch(PatchType::Apply, _));
    let validation = call.parameter("fieldValidation");
    if !validation.is_empty() {
        options.insert("fieldValidation".into(), validation.into());
    }
    let manager = call.parameter("fieldManager");
    if !manager.is_empty() {
        options.insert("fieldManager".into(), manager.into());
    } else if !is_apply && !call.agent.is_empty() {
        options.insert("fieldManager".into(), call.agent.into());
    }
    if call.parameter("force") == "true" {
        options.insert("force".into(), true.into());
    }
    let fields = [old, Some(&body)].into_iter().flatten();
    let fields = fields.filter_map(Value::as_object).flat_map(Map::keys);
    let mut returns: Vec<String> = fields.cloned().collect();
    returns.extend(USUAL_FIELDS.map(str::to_owned));
    returns.sort();
    returns.dedup();
    Ok(Write {
        target: WriteTarget {
            kind: target.kind.clone(),
            namespace: target.namespace.clone(),
            name: target.name.clone(),
            // `update-status` implies it.
            subresource: match action {
                Action::UpdateStatus { .. } => String::new(),
                _ => target.subresource.clone(),
            },
        },
        action,
        options,
        returns,
    })
}

fn action(
    call: &Call<'_>,
    target: &Target,
    body: &Value,
    old: Option<&Value>,
) -> Result<(Action, Map<String, Value>), ApiError> {
    let bytes = || body.to_string().into_bytes();
    let action = match *call.method {
        Method::POST => Action::Create(bytes()),
        Method::PUT => {
            let old = old.unwrap_or(&Value::Null);
            let version = |object: &Value| {
                let version = &object["metadata"]["resourceVersion"];
                version.as_str().unwrap_or_default().to_owned()
            };
            let sent = version(body);
            let version = if sent.is_empty() { version(old) } else { sent };
            match target.subresource.as_str() {
                "status" => Action::UpdateStatus {
                    resource_version: version,
                    status: body["status"].to_string().into_bytes(),
                    metadata: difference(&old["metadata"], &body["metadata"])
                        .to_string()
                        .into_bytes(),
                },
                _ => Action::Update(version, difference(old, body).to_string().into_bytes()),
            }
        }
        Method::PATCH => Action::Patch(patch_type(call.content_type)?, bytes()),
        Method::DELETE => {
            let options = body.as_object().cloned().unwrap_or_default();
            let action = match target.name.as_str() {
                "" => {
                    let parameter = |name| call.parameter(name);
                    Action::DeleteCollection(parameter("labelSelector"), parameter("fieldSelector"))
                }
                _ => Action::Delete,
            };
            return Ok((action, options));
        }
        _ => return Err(not_found(call.path)),
    };
    Ok((action, Map::new()))
}

fn patch_type(content_type: &str) -> Result<PatchType, ApiError> {
    match content_type.split(';').next().unwrap_or_default() {
        "application/json-patch+json" => Ok(PatchType::Json),
        "application/merge-patch+json" => Ok(PatchType::Merge),
        "application/strategic-merge-patch+json" => Ok(PatchType::Strategic),
        "application/apply-patch+yaml" => Ok(PatchType::Apply),
        other => Err(bad_request(format!("`{other}` is not a type of patches"))),
    }
}

/// The merge patch that turns one object into another.
fn difference(old: &Value, new: &Value) -> Value {
    let (Some(old), Some(new)) = (old.as_object(), new.as_object()) else {
        return new.clone();
    };
    let mut patch = Map::new();
    for (name, value) in new {
        match old.get(name) {
            Some(known) if known == value => {}
            Some(known) if known.is_object() && value.is_object() => {
                patch.insert(name.clone(), difference(known, value));
            }
            _ => drop(patch.insert(name.clone(), value.clone())),
        }
    }
    for name in old.keys().filter(|name| !new.contains_key(*name)) {
        patch.insert(name.clone(), Value::Null);
    }
    Value::Object(patch)
}

/// An object as a client asks for it: whole, or its metadata.
pub fn shown(object: Value, only_metadata: bool) -> Value {
    match only_metadata {
        false => object,
        true => json!({
            "apiVersion": METADATA,
            "kind": "PartialObjectMetadata",
            "metadata": object["metadata"],
        }),
    }
}

/// Returns an object with the `apiVersion` and `kind` that every answer of an API server has. The answers of a
/// [`Cluster`](flyball_sdk::testing::Cluster) have none. An object that names its kind, such as a Scale, keeps it.
pub fn typed(kind: &str, mut object: Value) -> Value {
    let parsed: Result<Kind, _> = kind.parse();
    if let (Ok(kind), Some(fields)) = (parsed, object.as_object_mut())
        && !fields.contains_key("kind")
    {
        fields.insert("apiVersion".into(), kind.api_version().into());
        fields.insert("kind".into(), kind.kind.into());
    }
    object
}

/// Returns the answer to a request that changes nothing: an access review, which is positive, or a TokenRequest, whose
/// answer is `token`. `None` for other requests.
///
/// # Errors
/// The body is not JSON.
pub fn answer(call: &Call<'_>, token: &str) -> Result<Option<Value>, ApiError> {
    if *call.method != Method::POST {
        return Ok(None);
    }
    if call.path.starts_with("/apis/authorization.k8s.io/") {
        let mut review = call.json()?;
        review["status"] = json!({"allowed": true});
        return Ok(Some(review));
    }
    let is_token = call.path.contains("/serviceaccounts/") && call.path.ends_with("/token");
    Ok(match is_token {
        true => Some(with_token(call.json()?, token)),
        false => None,
    })
}

/// The answer to a successful deletion.
pub fn success() -> Value {
    json!({"apiVersion": "v1", "kind": "Status", "status": "Success"})
}

fn with_token(mut request: Value, token: &str) -> Value {
    let seconds = request["spec"]["expirationSeconds"].as_u64();
    let lifetime = std::time::Duration::from_secs(seconds.unwrap_or(3600));
    let expires = (request::now() + lifetime).to_string();
    request["status"] = json!({"token": token, "expirationTimestamp": expires});
    request
}

#[cfg(test)]
mod tests {
    use flyball_sdk::merge;

    use super::*;

    #[test]
    fn the_difference_turns_the_old_object_into_the_new_one() {
        let old = json!({"data": {"a": "1", "b": "2"}, "labels": {"x": "y"}, "list": [1, 2]});
        let new = json!({"data": {"a": "1", "c": {"d": []}}, "list": [2], "spec": {"e": 0}});
        let mut merged = old.clone();
        merge::apply(&mut merged, &difference(&old, &new));
        assert_eq!(merged, new);
        assert_eq!(difference(&new, &new), json!({}));
    }
}
