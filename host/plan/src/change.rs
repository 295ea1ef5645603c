//! The change that a plan is given: objects that are applied or deleted before the controllers start.

use bytes::Bytes;
use flyball_testserver::api::request::{Call, Target, not_found};
use flyball_types::{ApiError, Kind};
use http::Method;
use serde_json::Value;

use crate::base::path;
use crate::overlay::Id;
use crate::server::Shared;
use crate::writes::Origin;

/// The field manager of the change that a plan is given, as of `kubectl apply --server-side`.
const CHANGE_MANAGER: &str = "kubectl";
/// The annotation with what a `kubectl apply` on the client's side applied last.
pub(crate) const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

impl Shared {
    /// The target that the metadata of an object names. Namespaced objects without a namespace are in `default`.
    pub(crate) fn target_of(&self, object: &Value) -> Result<Target, ApiError> {
        let text = |pointer: &str| {
            let text = object.pointer(pointer).and_then(Value::as_str);
            text.unwrap_or_default().to_owned()
        };
        let kind = Kind::of_object(&text("/apiVersion"), &text("/kind")).to_string();
        let state = self.state.borrow();
        let served = state.kinds.find(&kind).ok_or_else(|| {
            let message = format!(
                "the kind {kind} is not served: give its CustomResourceDefinition as a change before it"
            );
            ApiError::of_server(404, "NotFound", message)
        })?;
        let (namespace, name) = (text("/metadata/namespace"), text("/metadata/name"));
        if name.is_empty() {
            let message = format!("an object of the kind {kind} has no metadata.name: add it");
            return Err(ApiError::of_server(422, "Invalid", message));
        }
        let namespace = match (served.namespaced, namespace.is_empty()) {
            (true, true) => self.options.namespace.clone().unwrap_or("default".into()),
            (true, false) => namespace,
            (false, _) => String::new(),
        };
        Ok(Target {
            kind,
            namespace,
            name,
            subresource: String::new(),
        })
    }

    pub(crate) async fn apply(&self, object: &Value) -> Result<(), ApiError> {
        let target = self.target_of(object)?;
        let id = Id::new(&target.kind, &target.namespace, &target.name);
        self.load(&id).await?;
        let current = self.state.borrow().overlay.current(&id);
        let applied = current.as_ref().and_then(|object| {
            let text = object["metadata"]["annotations"][LAST_APPLIED].as_str()?;
            serde_json::from_str::<Value>(text).ok()
        });
        if let Some(applied) = applied {
            // The fields that it has are this manager's from now on: those that the change lacks are removed.
            self.apply_as(&target, &applied, &Origin::unchecked_change())
                .await?;
        }
        self.apply_as(&target, object, &Origin::change()).await
    }

    async fn apply_as(
        &self,
        target: &Target,
        object: &Value,
        origin: &Origin<'_>,
    ) -> Result<(), ApiError> {
        let path = self.path_of(target)?;
        let body = object.to_string().into();
        let query = format!("fieldManager={CHANGE_MANAGER}&force=true");
        let call = Call {
            method: &Method::PATCH,
            path: &path,
            query: &query,
            agent: CHANGE_MANAGER,
            accept: "",
            content_type: "application/apply-patch+yaml",
            body: &body,
        };
        self.write(&call, target.clone(), origin).await.map(drop)
    }

    pub(crate) async fn delete(&self, object: &Value) -> Result<(), ApiError> {
        let target = self.target_of(object)?;
        let path = self.path_of(&target)?;
        let call = Call {
            method: &Method::DELETE,
            path: &path,
            query: "",
            agent: CHANGE_MANAGER,
            accept: "",
            content_type: "",
            body: &Bytes::new(),
        };
        self.write(&call, target, &Origin::change()).await.map(drop)
    }

    fn path_of(&self, target: &Target) -> Result<String, ApiError> {
        let state = self.state.borrow();
        let served = state.kinds.find(&target.kind);
        let served = served.ok_or_else(|| not_found(&target.kind))?;
        path(served, &target.namespace, &target.name)
    }
}
