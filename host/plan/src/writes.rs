//! Writes: into the overlay, after the object was taken over from the base.

use bytes::Bytes;
use flyball_sdk::imports::Imports;
use flyball_sdk::write::Batch;
use flyball_testserver::api::request::{self, Call, Target, bad_request};
use flyball_testserver::api::writes::{success, typed, write_of};
use flyball_types::ApiError;
use http::Method;
use serde_json::{Value, json};

use crate::base::Listing;
use crate::overlay::Id;
use crate::server::{Options, Pods, Reply, Shared, State};
use crate::{definitions, events, pods, scale};

const NAMESPACE: &str = "v1/Namespace";

/// Whose write it is.
pub(crate) struct Origin<'a> {
    /// The controller; none for the change that the plan is given.
    writer: Option<&'a str>,
    /// Whether the server may check it, in a dry run.
    is_checked: bool,
}

impl<'a> Origin<'a> {
    /// A write of the controller with this User-Agent.
    pub(crate) fn controller(agent: &'a str) -> Self {
        Self {
            writer: Some(controller(agent)),
            is_checked: true,
        }
    }

    /// A part of the change that the plan is given.
    pub(crate) fn change() -> Self {
        Self {
            writer: None,
            is_checked: true,
        }
    }

    /// A write that another one follows.
    pub(crate) fn unchecked_change() -> Self {
        Self {
            writer: None,
            is_checked: false,
        }
    }

    /// The name for the server.
    pub(crate) fn manager(&self) -> &str {
        self.writer.unwrap_or("kubectl")
    }
}

/// The name of the controller in the User-Agent of its requests: the last word, or for a built-in controller the last part
/// of the name that kube-controller-manager gives its client.
fn controller(agent: &str) -> &str {
    let word = match agent.strip_prefix("kube-controller-manager/") {
        Some(rest) => rest
            .split("/unknown/")
            .nth(1)
            .and_then(|rest| rest.split(' ').next()),
        None => agent.split(' ').next_back(),
    };
    let word = word.unwrap_or(agent);
    word.rsplit(':').next().unwrap_or(word)
}

impl Shared {
    /// Runs a write and everything that follows from it at once.
    pub(crate) async fn write(
        &self,
        call: &Call<'_>,
        target: Target,
        origin: &Origin<'_>,
    ) -> Result<Reply, ApiError> {
        if !call.parameter("dryRun").is_empty() {
            return Err(bad_request("a plan has no dry runs of its own"));
        }
        if events::KINDS.contains(&target.kind.as_str()) {
            return self.record(call);
        }
        let _turn = self.writing.lock().await;
        self.state.borrow_mut().admit(&self.options)?;
        if self.is_outside(&target) {
            let message = format!(
                "the plan is limited to the namespace {}, and this would write to {}",
                self.options.namespace.as_deref().unwrap_or_default(),
                target.namespace
            );
            self.state.borrow_mut().note(message.clone());
            return Err(ApiError::of_server(403, "Forbidden", message));
        }
        let body = without_managed_fields(call)?;
        let call = &Call {
            body: &body,
            ..copy(call)
        };
        match (call.method, target.subresource.as_str()) {
            (&Method::DELETE, "") if target.name.is_empty() => {
                self.delete_collection(call, &target, origin).await
            }
            (_, "scale") => self.scale(call, target, origin).await,
            _ => self.write_one(call, &target, origin).await,
        }
    }

    async fn write_one(
        &self,
        call: &Call<'_>,
        target: &Target,
        origin: &Origin<'_>,
    ) -> Result<Reply, ApiError> {
        let named = match target.name.as_str() {
            // The name of a created object is in its body, unless the server generates it.
            "" => name_of(&call.json()?),
            name => name.to_owned(),
        };
        let mut id = Id::new(&target.kind, &target.namespace, &named);
        if !named.is_empty() {
            self.load(&id).await?;
        }
        let is_creation = *call.method == Method::POST && target.subresource.is_empty();
        if is_creation || *call.method == Method::PATCH {
            self.load_namespace(target).await?;
        }
        self.load_definition(&target.kind).await;

        let (saved, old, written) = {
            let state = &mut *self.state.borrow_mut();
            let saved = state.overlay.cluster.save(&id.kind, &id.namespace, &named);
            let old = state.overlay.current(&id);
            let written = run(state, call, target, old.as_ref())?;
            if named.is_empty() {
                id.name = name_of(&written);
                state.overlay.load(id.clone(), None, None);
            }
            (saved, old, written)
        };
        let is_content = target.subresource.is_empty() && *call.method != Method::DELETE;
        if is_content && origin.is_checked {
            self.state.borrow_mut().overlay.unsettle(&id, old.clone());
            let checked = self.check(&id, old.as_ref(), origin.manager()).await;
            let state = &mut *self.state.borrow_mut();
            state.overlay.settle();
            match checked {
                Ok(Some(object)) if is_same(Some(&object), old.as_ref()) => {
                    state.overlay.cluster.restore(saved);
                }
                Ok(Some(object)) => state.overlay.cluster.overwrite(object),
                Ok(None) => {}
                Err(error) => {
                    match named.is_empty() {
                        true => state
                            .overlay
                            .cluster
                            .remove(&id.kind, &id.namespace, &id.name),
                        false => state.overlay.cluster.restore(saved),
                    }
                    return Err(error);
                }
            }
        }
        let state = &mut *self.state.borrow_mut();
        let answer = state.overlay.current(&id);
        self.follow(state, &id, old, origin);
        let is_gone = answer.is_none();
        let answer = answer.unwrap_or(written);
        Ok(match *call.method {
            Method::POST => Reply::Json(201, answer),
            Method::DELETE if is_gone => Reply::Json(200, success()),
            _ => Reply::Json(200, answer),
        })
    }

    /// Notes who wrote, publishes the change, and lets the kubelet and the server act on it.
    fn follow(&self, state: &mut State, id: &Id, old: Option<Value>, origin: &Origin<'_>) {
        let current = state.overlay.current(id);
        if let Some(taken) = state.overlay.taken_mut(id)
            && current != old
        {
            match origin.writer {
                Some(writer) => drop(taken.writers.insert(writer.to_owned())),
                None => taken.is_given = true,
            }
        }
        state.overlay.publish(id, old);
        let Some(object) = current else {
            return;
        };
        if id.kind == definitions::KIND {
            definitions::establish(state, id, object);
        } else if id.kind == pods::KIND && self.options.pods == Pods::Run {
            pods::act(&mut state.overlay, id);
        }
    }

    async fn delete_collection(
        &self,
        call: &Call<'_>,
        target: &Target,
        origin: &Origin<'_>,
    ) -> Result<Reply, ApiError> {
        let resource = self.state.borrow().kinds.find(&target.kind).cloned();
        let resource = resource.ok_or_else(|| request::not_found(call.path))?;
        let selection = call.selection(target)?;
        let (labels, fields) = (
            call.parameter("labelSelector"),
            call.parameter("fieldSelector"),
        );
        let mut names = Vec::new();
        let mut token = String::new();
        let is_new = self.state.borrow().kinds.is_new(&target.kind);
        while !is_new && names.len() <= self.options.max_writes {
            let listing = Listing {
                resource: &resource,
                namespace: &target.namespace,
                labels: &labels,
                fields: &fields,
                selection: &selection,
                limit: "500",
                token: &token,
                only_metadata: true,
            };
            let page = self.base.list(&listing).await?;
            let parsed = page.items.iter().filter_map(|object| {
                let object: Value = serde_json::from_str(object.get()).ok()?;
                Some(name_of(&object))
            });
            names.extend(parsed);
            token = page.next;
            if token.is_empty() {
                break;
            }
        }
        {
            let state = self.state.borrow();
            let taken = state.overlay.selected(&target.kind, &selection, u64::MAX);
            names.extend(taken.iter().map(name_of));
        }
        names.sort();
        names.dedup();
        for name in names {
            let one = Target {
                name,
                ..target.clone()
            };
            self.state.borrow_mut().admit(&self.options)?;
            match self.write_one(call, &one, origin).await {
                Ok(_) => {}
                // It was deleted in the overlay.
                Err(error) if error.status == 404 => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Reply::Json(200, success()))
    }

    /// Writes the replicas of an object through its scale.
    async fn scale(
        &self,
        call: &Call<'_>,
        target: Target,
        origin: &Origin<'_>,
    ) -> Result<Reply, ApiError> {
        let target = Target {
            subresource: String::new(),
            ..target
        };
        let id = Id::new(&target.kind, &target.namespace, &target.name);
        self.load(&id).await?;
        let object = self.state.borrow().overlay.current(&id);
        let object = object.ok_or_else(|| request::not_found(call.path))?;
        let change = scale::change(&object, &call.json()?)?.to_string().into();
        let call = Call {
            method: &Method::PATCH,
            content_type: "application/merge-patch+json",
            body: &change,
            ..copy(call)
        };
        self.write_one(&call, &target, origin).await?;
        let object = self.state.borrow().overlay.current(&id).unwrap_or(object);
        Ok(Reply::Json(200, scale::of(&object)))
    }

    /// Takes over the namespace of an object that may be created, which must exist.
    async fn load_namespace(&self, target: &Target) -> Result<(), ApiError> {
        if target.namespace.is_empty() {
            return Ok(());
        }
        let id = Id::new(NAMESPACE, "", &target.namespace);
        self.load(&id).await?;
        let state = &mut *self.state.borrow_mut();
        if state.overlay.current(&id).is_some() {
            return Ok(());
        }
        let Some(taken) = state.overlay.taken_mut(&id) else {
            return Ok(());
        };
        // Files rarely have their namespaces.
        if self.base.cluster().is_none() && taken.before.is_none() {
            let namespace = namespace(&id.name);
            taken.before = Some(namespace.clone());
            state.overlay.cluster.adopt(namespace);
            return Ok(());
        }
        let message = format!("namespaces {:?} not found", id.name);
        Err(ApiError::of_server(404, "NotFound", message))
    }
}

impl State {
    /// Counts a write, or refuses it.
    fn admit(&mut self, options: &Options) -> Result<(), ApiError> {
        if self.writes >= options.max_writes {
            self.is_full = true;
            let message = format!(
                "the plan has reached its limit of {} writes",
                options.max_writes
            );
            return Err(ApiError::of_server(429, "TooManyRequests", message));
        }
        self.writes += 1;
        Ok(())
    }
}

/// Runs a write in the overlay. Returns the object.
fn run(
    state: &mut State,
    call: &Call<'_>,
    target: &Target,
    old: Option<&Value>,
) -> Result<Value, ApiError> {
    let write = write_of(call, target, old)?;
    let cluster = &state.overlay.cluster;
    cluster.set_now(request::now());
    let written = cluster.writer_run(Batch {
        writes: vec![write],
        slow_start: None,
        stop_on_error: false,
    });
    // The overlay keeps what was written, and not how.
    cluster.writes();
    cluster.recorded_logs();
    let written = written
        .into_iter()
        .next()
        .expect("a result for the write")?;
    let written = serde_json::from_slice(&written).unwrap_or_default();
    Ok(typed(&target.kind, written))
}

/// The body without `metadata.managedFields`, which an update may send back and an overlay does not keep.
fn without_managed_fields(call: &Call<'_>) -> Result<Bytes, ApiError> {
    let is_object = matches!(*call.method, Method::POST | Method::PUT);
    if !is_object {
        return Ok(call.body.clone());
    }
    let mut body = call.json()?;
    let metadata = body.get_mut("metadata").and_then(Value::as_object_mut);
    match metadata.and_then(|metadata| metadata.remove("managedFields")) {
        Some(_) => Ok(body.to_string().into()),
        None => Ok(call.body.clone()),
    }
}

fn copy<'a>(call: &Call<'a>) -> Call<'a> {
    Call {
        method: call.method,
        path: call.path,
        query: call.query,
        agent: call.agent,
        accept: call.accept,
        content_type: call.content_type,
        body: call.body,
    }
}

fn name_of(object: &Value) -> String {
    let name = object["metadata"]["name"].as_str();
    name.unwrap_or_default().to_owned()
}

/// Whether two versions of an object differ in nothing but what a server counts.
pub(crate) fn is_same(one: Option<&Value>, other: Option<&Value>) -> bool {
    let content = |object: Option<&Value>| {
        let mut object = object?.clone();
        if let Some(metadata) = object["metadata"].as_object_mut() {
            for counted in ["resourceVersion", "generation", "managedFields"] {
                metadata.remove(counted);
            }
        }
        Some(object)
    };
    content(one) == content(other)
}

/// A namespace that no cluster lacks, though a folder of files may.
fn namespace(name: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": name, "uid": format!("namespace-{name}"), "resourceVersion": "1"},
        "spec": {"finalizers": ["kubernetes"]},
        "status": {"phase": "Active"},
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_controller_has_its_name_in_its_user_agent() {
        assert_eq!(controller("flyball/0.2.0 (host_1) greeter"), "greeter");
        let built_in = "kube-controller-manager/v1.37.2 (linux/amd64) kubernetes/unknown/deployment-controller flyball/0.2.0 (h)";
        assert_eq!(controller(built_in), "deployment-controller");
        let account = "kube-controller-manager/v1.37.2 (linux/amd64) kubernetes/unknown/system:serviceaccount:kube-system:job-controller flyball/0.2.0 (h)";
        assert_eq!(controller(account), "job-controller");
    }
}
