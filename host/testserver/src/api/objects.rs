//! Reads and writes of objects.

use flyball_sdk::imports::Imports;
use flyball_sdk::write::{Action, Batch, Target as WriteTarget, Write};
use flyball_sdk::{Kind, PatchType};
use flyball_types::ApiError;
use http::Method;
use serde_json::{Map, Value, json};

use super::request::{self, Call, Target, bad_request, not_found};
use super::{Reply, State, discovery};

/// The fields that whole objects have besides those of the request.
const USUAL_FIELDS: [&str; 6] = ["apiVersion", "kind", "metadata", "spec", "status", "data"];

impl State {
    pub(super) fn put(&mut self, mut object: Value) -> Result<(), String> {
        let text = |pointer: &str| {
            let text = object.pointer(pointer).and_then(Value::as_str);
            text.filter(|text| !text.is_empty())
        };
        let (Some(api_version), Some(kind)) = (text("/apiVersion"), text("/kind")) else {
            return Err("an object has no apiVersion or kind".into());
        };
        let kind = Kind::of_object(api_version, kind);
        if text("/metadata/name").is_none() {
            return Err(format!("a {} has no metadata.name", kind.kind));
        }
        let served = self.kinds.iter().find(|served| served.kind == kind);
        let Some(served) = served else {
            return Err(format!("the kind {kind} is not served"));
        };
        let metadata = object["metadata"].as_object_mut().expect("it has a name");
        if served.namespaced {
            metadata.entry("namespace").or_insert("default".into());
        } else if metadata.contains_key("namespace") {
            return Err(format!(
                "the kind {kind} is cluster-scoped, and an object of it has a namespace"
            ));
        }
        metadata.remove("resourceVersion");
        metadata.remove("managedFields");
        if object.get("spec").is_some() && object["metadata"].get("generation").is_none() {
            object["metadata"]["generation"] = 1.into();
        }
        self.cluster.try_put(object)?;
        self.publish(&kind.to_string());
        Ok(())
    }

    pub(super) fn reply(&mut self, call: &Call<'_>) -> Result<Reply, ApiError> {
        self.cluster.set_now(request::now());
        let ok = |value| Ok(Reply::Json(200, value));
        match call.path {
            "/api" => return ok(discovery::groups(&self.kinds, true)),
            "/apis" => return ok(discovery::groups(&self.kinds, false)),
            "/version" => {
                return ok(json!({"major": "1", "minor": "37", "gitVersion": "v1.37.0"}));
            }
            _ => {}
        }
        if *call.method == Method::POST {
            if call.path.starts_with("/apis/authorization.k8s.io/") {
                let mut review = call.json()?;
                review["status"] = json!({"allowed": true});
                return Ok(Reply::Json(201, review));
            }
            if call.path.contains("/serviceaccounts/") && call.path.ends_with("/token") {
                return Ok(Reply::Json(201, token(call.json()?)));
            }
        }
        let target = request::target(call.path, &self.kinds);
        let target = target.ok_or_else(|| not_found(call.path))?;
        match (call.method, target.name.as_str()) {
            (&Method::GET, "") if call.parameter("watch") == "true" => self.watch(call, &target),
            (&Method::GET, "") => self.list(call, &target).map(|list| Reply::Json(200, list)),
            (&Method::GET, _) => self
                .get(call, &target)
                .map(|object| Reply::Json(200, object)),
            _ => self.write(call, target),
        }
    }

    fn get(&self, call: &Call<'_>, target: &Target) -> Result<Value, ApiError> {
        if !matches!(target.subresource.as_str(), "" | "status") {
            return Err(not_found(call.path));
        }
        let object = self.object(target).ok_or_else(|| {
            let message = format!("{} {:?} not found", target.kind, target.name);
            ApiError::of_server(404, "NotFound", message)
        })?;
        Ok(shown(object, call.wants_metadata()))
    }

    fn object(&self, target: &Target) -> Option<Value> {
        self.cluster
            .object(&target.kind, &target.namespace, &target.name)
    }

    fn list(&self, call: &Call<'_>, target: &Target) -> Result<Value, ApiError> {
        let selection = call.selection(target)?;
        let objects = self.cluster.objects(&target.kind).into_iter();
        let items = objects
            .filter(|object| selection.matches(object))
            .map(|object| shown(object, call.wants_metadata()));
        let kind: Kind = target.kind.parse().expect("the kind is served");
        let (api_version, kind) = match call.wants_metadata() {
            true => (METADATA.to_owned(), "PartialObjectMetadata"),
            false => (kind.api_version(), &*kind.kind),
        };
        Ok(json!({
            "apiVersion": api_version,
            "kind": format!("{kind}List"),
            "metadata": {"resourceVersion": self.watches.version().to_string()},
            "items": items.collect::<Value>(),
        }))
    }

    fn write(&mut self, call: &Call<'_>, target: Target) -> Result<Reply, ApiError> {
        if !call.parameter("dryRun").is_empty() {
            return Err(bad_request("the API server in memory has no dry runs"));
        }
        let body = call.json()?;
        let old = self.object(&target);
        let (action, mut options) = self.action(call, &target, &body, old.as_ref())?;
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
        let fields = [old.as_ref(), Some(&body)].into_iter().flatten();
        let fields = fields.filter_map(Value::as_object).flat_map(Map::keys);
        let mut returns: Vec<String> = fields.cloned().collect();
        returns.extend(USUAL_FIELDS.map(str::to_owned));
        returns.sort();
        returns.dedup();
        let written = self.cluster.writer_run(Batch {
            writes: vec![Write {
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
            }],
            slow_start: None,
            stop_on_error: false,
        });
        self.warnings = self.cluster.last_warnings();
        self.publish(&target.kind);
        let written = written
            .into_iter()
            .next()
            .expect("a result for the write")?;
        let written: Value = serde_json::from_slice(&written).unwrap_or_default();
        Ok(match *call.method {
            Method::POST => Reply::Json(201, written),
            Method::DELETE if self.object(&target).is_none() => Reply::Json(
                200,
                json!({"apiVersion": "v1", "kind": "Status", "status": "Success"}),
            ),
            _ => Reply::Json(200, written),
        })
    }

    fn action(
        &self,
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
                        Action::DeleteCollection(
                            parameter("labelSelector"),
                            parameter("fieldSelector"),
                        )
                    }
                    _ => Action::Delete,
                };
                return Ok((action, options));
            }
            _ => return Err(not_found(call.path)),
        };
        Ok((action, Map::new()))
    }
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

const METADATA: &str = "meta.k8s.io/v1";

/// An object as a client asks for it: whole, or its metadata.
pub(super) fn shown(object: Value, only_metadata: bool) -> Value {
    match only_metadata {
        false => object,
        true => json!({
            "apiVersion": METADATA,
            "kind": "PartialObjectMetadata",
            "metadata": object["metadata"],
        }),
    }
}

/// The response to a TokenRequest: a token that nobody checks.
fn token(mut request: Value) -> Value {
    let seconds = request["spec"]["expirationSeconds"].as_u64();
    let lifetime = std::time::Duration::from_secs(seconds.unwrap_or(3600));
    let expires = (request::now() + lifetime).to_string();
    request["status"] = json!({"token": "in-memory", "expirationTimestamp": expires});
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
