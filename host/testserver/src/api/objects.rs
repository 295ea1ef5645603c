//! Reads and writes of objects.

use flyball_sdk::Kind;
use flyball_sdk::imports::Imports;
use flyball_sdk::write::Batch;
use flyball_types::ApiError;
use http::Method;
use serde_json::{Value, json};

use super::request::{self, Call, Target, bad_request, not_found};
use super::writes::{self, METADATA, shown};
use super::{Reply, State, discovery};

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
        if let Some(answer) = writes::answer(call, "in-memory")? {
            return Ok(Reply::Json(201, answer));
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
        let old = self.object(&target);
        let write = writes::write_of(call, &target, old.as_ref())?;
        let written = self.cluster.writer_run(Batch {
            writes: vec![write],
            slow_start: None,
            stop_on_error: false,
        });
        self.warnings = self.cluster.last_warnings();
        self.publish(&target.kind);
        let written = written
            .into_iter()
            .next()
            .expect("a result for the write")?;
        let written = serde_json::from_slice(&written).unwrap_or_default();
        let written = writes::typed(&target.kind, written);
        Ok(match *call.method {
            Method::POST => Reply::Json(201, written),
            Method::DELETE if self.object(&target).is_none() => Reply::Json(200, writes::success()),
            _ => Reply::Json(200, written),
        })
    }
}
