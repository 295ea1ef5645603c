//! Dry runs: the server of the cluster defaults and validates an object that the overlay has written, and stores nothing.
//!
//! The overlay's result is sent as a whole, as a create or as an update of the object that the cluster has. So the server
//! sees all that earlier writes of the plan have changed, too. Of its answer, the overlay takes all but what only a server
//! counts, and but the status, which is written apart.
//!
//! Only the API server's own kinds and custom resources are sent: another API server that it aggregates may not know the
//! parameter `dryRun`, and would store the object.

use flyball_types::ApiError;
use http::Method;
use serde_json::{Map, Value};

use crate::base::{ClusterBase, collection, path};
use crate::definitions;
use crate::kinds::is_built_in;
use crate::overlay::Id;
use crate::server::Shared;

/// The metadata that a server sets.
const SERVERS: [&str; 8] = [
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "managedFields",
    "selfLink",
];

/// A request that has the server check an object.
struct DryRun {
    verb: &'static str,
    method: Method,
    path: String,
    body: Value,
}

impl Shared {
    /// Returns an object as the server would have stored it; `None` if the server can't be asked.
    ///
    /// # Errors
    /// The server would refuse it.
    pub(crate) async fn check(
        &self,
        id: &Id,
        old: Option<&Value>,
        manager: &str,
    ) -> Result<Option<Value>, ApiError> {
        let Some(cluster) = self.base.cluster().filter(|cluster| cluster.has_dry_runs()) else {
            return Ok(None);
        };
        let Some((dry_run, object)) = self.dry_run_of(id) else {
            return Ok(None);
        };
        let verb = format!("{} {}", dry_run.verb, id.kind);
        match send(cluster, &dry_run, manager).await {
            Ok(answer) => Ok(Some(stored(answer, &object, old))),
            Err(error) if is_refusal(&error) => Err(error),
            Err(error) => {
                let is_final = matches!(error.status, 400 | 403 | 405);
                let state = &mut *self.state.borrow_mut();
                if is_final && state.unchecked.insert(verb.clone()) {
                    state.note(format!(
                        "the server does not check writes by dry runs of `{verb}`: {}",
                        error.message
                    ));
                }
                Ok(None)
            }
        }
    }

    /// Returns the dry run of an object that the overlay has, and the object; `None` if the server could not judge it.
    fn dry_run_of(&self, id: &Id) -> Option<(DryRun, Value)> {
        let state = self.state.borrow();
        let object = state.overlay.current(id)?;
        // The server has no such kind, or no such namespace.
        if state.kinds.is_new(&id.kind) || !object["metadata"]["deletionTimestamp"].is_null() {
            return None;
        }
        let namespace = Id::new("v1/Namespace", "", &id.namespace);
        let namespace = state.overlay.taken().get(&namespace);
        if namespace.is_some_and(|namespace| namespace.before.is_none()) {
            return None;
        }
        let served = state.kinds.find(&id.kind)?;
        let definition = Id::new(definitions::KIND, "", &definitions::name(served));
        let definition = state.overlay.taken().get(&definition);
        let is_custom = definition.is_some_and(|definition| definition.before.is_some());
        if !is_built_in(&served.kind.group) && !is_custom {
            return None;
        }
        let before = state.overlay.taken().get(id)?.before.as_ref();
        let mut body = object.clone();
        let metadata = body["metadata"].as_object_mut()?;
        for name in SERVERS {
            metadata.remove(name);
        }
        let dry_run = match before {
            None => DryRun {
                verb: "create",
                method: Method::POST,
                path: collection(served, &id.namespace).ok()?,
                body,
            },
            // An object that the plan has deleted and created again.
            Some(before) if before["metadata"]["uid"] != object["metadata"]["uid"] => return None,
            Some(before) => {
                for name in ["uid", "resourceVersion"] {
                    metadata.insert(name.into(), before["metadata"][name].clone());
                }
                DryRun {
                    verb: "update",
                    method: Method::PUT,
                    path: path(served, &id.namespace, &id.name).ok()?,
                    body,
                }
            }
        };
        let is_unchecked = state
            .unchecked
            .contains(&format!("{} {}", dry_run.verb, id.kind));
        (!is_unchecked).then_some((dry_run, object))
    }
}

async fn send(cluster: &ClusterBase, dry_run: &DryRun, manager: &str) -> Result<Value, ApiError> {
    let DryRun {
        method, path, body, ..
    } = dry_run;
    cluster.dry_run(method.clone(), path, body, manager).await
}

/// Whether the server judges the object. Otherwise it judges the user, or it can't know what the plan has changed around
/// the object.
fn is_refusal(error: &ApiError) -> bool {
    match error.status {
        // Of a webhook with side effects.
        400 if error.message.contains("does not support dry run") => false,
        400 | 422 => true,
        // Of admission: of a user without the right, the server says `User "x" cannot create resource "pods"`.
        403 => {
            let is_right = error.message.contains(" cannot ") && error.message.contains("resource");
            !is_right && !error.message.contains("not found")
        }
        _ => false,
    }
}

/// The object as it is stored: the server's answer, with what the overlay counts, and its status.
fn stored(mut answer: Value, object: &Value, old: Option<&Value>) -> Value {
    let own = &object["metadata"];
    if !answer["metadata"].is_object() {
        answer["metadata"] = Value::Object(Map::new());
    }
    if let Some(metadata) = answer["metadata"].as_object_mut() {
        // A generated name is the overlay's.
        for name in SERVERS.into_iter().chain(["name"]) {
            match own.get(name) {
                Some(value) => metadata.insert(name.into(), value.clone()),
                None => metadata.remove(name),
            };
        }
    }
    let spec = |object: Option<&Value>| object.and_then(|object| object.get("spec")).cloned();
    if let Some(old) = old
        && let Some(generation) = old["metadata"]["generation"].as_i64()
    {
        let has_changed = spec(Some(&answer)) != spec(Some(old));
        answer["metadata"]["generation"] = (generation + i64::from(has_changed)).into();
    }
    if let Some(fields) = answer.as_object_mut() {
        match object.get("status") {
            Some(status) => fields.insert("status".into(), status.clone()),
            None => fields.remove("status"),
        };
    }
    for name in ["apiVersion", "kind"] {
        answer[name] = object[name].clone();
    }
    answer
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_refusal_of_admission_counts_and_a_missing_right_does_not() {
        let refused = |status, message: &str| is_refusal(&ApiError::of_server(status, "", message));
        assert!(refused(422, "spec.replicas: Invalid value: -1"));
        assert!(refused(
            403,
            "pods \"a\" is forbidden: violates PodSecurity \"restricted:latest\""
        ));
        assert!(!refused(
            403,
            "pods is forbidden: User \"ann\" cannot create resource \"pods\" in API group \"\""
        ));
        assert!(!refused(
            403,
            "error looking up service account a/b: serviceaccount \"b\" not found"
        ));
        assert!(!refused(
            400,
            "admission webhook \"a.b\" does not support dry run"
        ));
        assert!(!refused(409, "the object has been modified"));
        assert!(!refused(404, "namespaces \"a\" not found"));
    }

    #[test]
    fn the_servers_defaults_are_taken_and_the_overlays_versions_and_status_stay() {
        let metadata = json!({"name": "d", "uid": "u", "resourceVersion": "9", "generation": 2});
        let object = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": {"a": 1}, "status": {"b": 2}});
        let answer = json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "d", "uid": "u", "resourceVersion": "5", "generation": 2, "labels": {"x": "y"}, "managedFields": []},
            "spec": {"a": 1, "default": true},
        });
        let old = json!({"metadata": {"generation": 1}, "spec": {"a": 0, "default": true}});
        let merged = stored(answer.clone(), &object, Some(&old));
        let expected = json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "d", "uid": "u", "resourceVersion": "9", "generation": 2, "labels": {"x": "y"}},
            "spec": {"a": 1, "default": true}, "status": {"b": 2},
        });
        assert_eq!(merged, expected);
        // A change that the server undoes is none.
        let old = json!({"metadata": {"generation": 1}, "spec": {"a": 1, "default": true}});
        assert_eq!(
            stored(answer, &object, Some(&old))["metadata"]["generation"],
            1
        );
    }
}
