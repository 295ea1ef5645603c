//! Reads: from the overlay, and otherwise from the base.

use std::borrow::Cow;

#[cfg(test)]
use bytes::Bytes;
use flyball_testserver::api::request::{Call, Selection, Target, bad_request, not_found};
use flyball_testserver::api::writes::shown;
use flyball_types::{ApiError, Kind};
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};

use crate::base::Listing;
use crate::overlay::Id;
use crate::scale;
use crate::server::{Reply, Shared};
use crate::watches::Watched;

/// Subresources whose GET does something, or leads elsewhere.
const UNREAD: [&str; 4] = ["attach", "exec", "portforward", "proxy"];

/// The body of a list.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct List {
    api_version: String,
    kind: String,
    metadata: ListMetadata,
    items: Vec<Box<RawValue>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ListMetadata {
    resource_version: String,
    #[serde(rename = "continue", skip_serializing_if = "String::is_empty")]
    next: String,
}

/// The name of an object of a list; the rest of it is skipped.
#[derive(Deserialize)]
struct Named<'a> {
    #[serde(borrow)]
    metadata: NamedMetadata<'a>,
}

#[derive(Deserialize)]
struct NamedMetadata<'a> {
    #[serde(borrow, default)]
    namespace: Cow<'a, str>,
    #[serde(borrow)]
    name: Cow<'a, str>,
}

/// A list's state as of its first page, which the token of the next page carries.
struct Begun<'a> {
    version: u64,
    /// The number of objects that the overlay had.
    order: u64,
    /// The token of the base.
    token: Cow<'a, str>,
}

impl<'a> Begun<'a> {
    fn parse(token: &'a str) -> Option<Self> {
        let mut parts = token.splitn(3, ':');
        Some(Self {
            version: parts.next()?.parse().ok()?,
            order: parts.next()?.parse().ok()?,
            token: parts.next()?.into(),
        })
    }

    fn token(&self, next: &str) -> String {
        match next {
            "" => String::new(),
            next => format!("{}:{}:{next}", self.version, self.order),
        }
    }
}

impl Shared {
    pub(crate) async fn read(&self, call: &Call<'_>, target: &Target) -> Result<Reply, ApiError> {
        match (target.name.as_str(), call.parameter("watch").as_str()) {
            ("", "true") => self.watch(call, target),
            ("", _) => self.list(call, target).await,
            _ => self.get(call, target).await,
        }
    }

    /// Whether the plan leaves out an object, or a list of one namespace.
    pub(crate) fn is_outside(&self, target: &Target) -> bool {
        let only = self.options.namespace.as_deref();
        only.is_some_and(|only| !target.namespace.is_empty() && target.namespace != only)
    }

    async fn get(&self, call: &Call<'_>, target: &Target) -> Result<Reply, ApiError> {
        let missing = || {
            let message = format!("{} {:?} not found", target.kind, target.name);
            ApiError::of_server(404, "NotFound", message)
        };
        if self.is_outside(target) {
            return Err(missing());
        }
        let id = Id::new(&target.kind, &target.namespace, &target.name);
        let is_taken = self.state.borrow().overlay.is_taken(&id);
        let subresource = target.subresource.as_str();
        if let (false, Some(cluster)) = (is_taken, self.base.cluster()) {
            let first = subresource.split('/').next().unwrap_or_default();
            if UNREAD.contains(&first) {
                return Err(not_found(call.path));
            }
            let body = cluster.raw(call.path, call.wants_metadata()).await?;
            return Ok(Reply::Raw(body));
        }
        let object = match is_taken {
            true => self.state.borrow().overlay.object(&id),
            false => self.base_object(&id).await?,
        };
        let object = object.ok_or_else(missing)?;
        match subresource {
            "" | "status" => Ok(Reply::Json(200, shown(object, call.wants_metadata()))),
            "scale" => Ok(Reply::Json(200, scale::of(&object))),
            _ => Err(not_found(call.path)),
        }
    }

    async fn list(&self, call: &Call<'_>, target: &Target) -> Result<Reply, ApiError> {
        let token = call.parameter("continue");
        let begun = match token.as_str() {
            "" => {
                let state = self.state.borrow();
                Begun {
                    version: state.overlay.watches.version(),
                    order: state.overlay.order(),
                    token: Cow::default(),
                }
            }
            token => Begun::parse(token)
                .ok_or_else(|| bad_request("the token of the list is not valid"))?,
        };
        let resource = self.state.borrow().kinds.find(&target.kind).cloned();
        let resource = resource.ok_or_else(|| not_found(call.path))?;
        let selection = self.selection(call, target)?;
        let only_metadata = call.wants_metadata();
        let mut items = Vec::new();
        let mut next = String::new();
        // The base does not serve the kinds that the plan has defined.
        if !self.is_new(&target.kind) && !self.is_outside(target) {
            let listing = Listing {
                resource: &resource,
                namespace: &selection.namespace,
                labels: &call.parameter("labelSelector"),
                fields: &call.parameter("fieldSelector"),
                selection: &selection,
                limit: &call.parameter("limit"),
                token: &begun.token,
                only_metadata,
            };
            let page = self.base.list(&listing).await.inspect_err(|error| {
                let state = &mut *self.state.borrow_mut();
                state.has_refused_lists |= matches!(error.status, 401 | 403);
                state.note(format!("can't list {}: {}", target.kind, error.message));
            })?;
            let state = &mut *self.state.borrow_mut();
            if begun.token.is_empty() {
                state
                    .listed
                    .entry(target.kind.clone())
                    .or_insert(page.version);
            }
            let is_taken = |object: &RawValue| {
                let named: Named<'_> = serde_json::from_str(object.get()).ok()?;
                let Named { metadata } = named;
                let id = Id::new(&target.kind, &metadata.namespace, &metadata.name);
                let taken = state.overlay.taken().get(&id)?;
                Some(taken.order < begun.order)
            };
            items.extend(
                page.items
                    .into_iter()
                    .filter(|object| is_taken(object) != Some(true)),
            );
            next = page.next;
        }
        if next.is_empty() {
            let state = self.state.borrow();
            let taken = state
                .overlay
                .selected(&target.kind, &selection, begun.order);
            let taken = taken.into_iter().map(|object| shown(object, only_metadata));
            items.extend(taken.map(|object| to_raw_value(&object).expect("JSON is written")));
        }
        let Kind { kind, .. } = &resource.kind;
        let (api_version, kind) = match only_metadata {
            true => ("meta.k8s.io/v1".to_owned(), "PartialObjectMetadata"),
            false => (resource.kind.api_version(), kind.as_str()),
        };
        let list = List {
            api_version,
            kind: format!("{kind}List"),
            metadata: ListMetadata {
                resource_version: begun.version.to_string(),
                next: begun.token(&next),
            },
            items,
        };
        let body = serde_json::to_vec(&list).expect("JSON is written");
        Ok(Reply::Raw(body.into()))
    }

    fn watch(&self, call: &Call<'_>, target: &Target) -> Result<Reply, ApiError> {
        if call.parameter("sendInitialEvents") == "true" {
            // The client lists in pages, which pass through here one by one.
            let message = "sendInitialEvents is not supported by a plan";
            return Err(ApiError::of_server(422, "Invalid", message));
        }
        let watched = Watched {
            kind: target.kind.clone(),
            selection: self.selection(call, target)?,
            only_metadata: call.wants_metadata(),
            bookmarks: call.parameter("allowWatchBookmarks") == "true",
        };
        let since = call.parameter("resourceVersion").parse().unwrap_or(0);
        let watches = &mut self.state.borrow_mut().overlay.watches;
        Ok(Reply::Events(watches.watch(watched, since)))
    }

    /// A GET of something else than objects, such as metrics.
    pub(crate) async fn raw(&self, call: &Call<'_>) -> Result<Reply, ApiError> {
        let Some(cluster) = self.base.cluster() else {
            return match call.path {
                "/version" => Ok(Reply::Json(200, version())),
                path => Err(not_found(path)),
            };
        };
        let path = match call.query {
            "" => call.path.to_owned(),
            query => format!("{}?{query}", call.path),
        };
        cluster.raw(&path, false).await.map(Reply::Raw)
    }

    fn selection(&self, call: &Call<'_>, target: &Target) -> Result<Selection, ApiError> {
        let mut selection = call.selection(target)?;
        let is_namespaced = {
            let state = self.state.borrow();
            let served = state.kinds.find(&target.kind);
            served.is_some_and(|served| served.namespaced)
        };
        if let (true, "", Some(only)) = (
            is_namespaced,
            selection.namespace.as_str(),
            &self.options.namespace,
        ) {
            selection.namespace.clone_from(only);
        }
        Ok(selection)
    }

    /// Whether the plan has defined a kind that the base lacks.
    fn is_new(&self, kind: &str) -> bool {
        self.state.borrow().kinds.is_new(kind)
    }

    /// Reads an object of the base.
    pub(crate) async fn base_object(&self, id: &Id) -> Result<Option<Value>, ApiError> {
        let resource = {
            let state = self.state.borrow();
            if state.kinds.is_new(&id.kind) {
                return Ok(None);
            }
            state.kinds.find(&id.kind).cloned()
        };
        let Some(resource) = resource else {
            return Ok(None);
        };
        self.base.get(&resource, &id.namespace, &id.name).await
    }

    /// Takes over an object of the base, unless it is taken already.
    pub(crate) async fn load(&self, id: &Id) -> Result<(), ApiError> {
        if self.state.borrow().overlay.is_taken(id) {
            return Ok(());
        }
        let before = self.base_object(id).await?;
        let state = &mut *self.state.borrow_mut();
        let listed = state.listed.get(&id.kind).copied();
        state.overlay.load(id.clone(), before, listed);
        Ok(())
    }
}

/// The version of a server that has only files.
fn version() -> Value {
    json!({"major": "1", "minor": "37", "gitVersion": "v1.37.0"})
}

/// The body of an answer as bytes, for tests.
#[cfg(test)]
pub(crate) fn bytes(reply: Reply) -> Option<Bytes> {
    match reply {
        Reply::Json(_, value) => Some(value.to_string().into()),
        Reply::Raw(body) => Some(body),
        Reply::Events(_) => None,
    }
}
