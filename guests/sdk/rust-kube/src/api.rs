//! Typed calls of the API, as kube has them.
//!
//! Reads of a kind come from the host's cache if the plugin watches the kind with its fields: see
//! [`Plugin::fields`](crate::Plugin::fields). The cache shows the plugin's own writes at once. Other reads are requests
//! to the API server.

mod writes;

use std::fmt;
use std::marker::PhantomData;

use flyball_sdk::Host;
use flyball_sdk::describe::Description;
use flyball_sdk::imports::Read;
use flyball_types::description::Watch;
use flyball_types::{ApiError, Projection, Query};
pub use kube_core::dynamic::{ApiResource, DynamicObject};
pub use kube_core::gvk::{GroupVersionKind, GroupVersionResource};
pub use kube_core::metadata::{ListMeta, ObjectMeta, PartialObjectMeta, TypeMeta};
pub use kube_core::object::{NotUsed, Object, ObjectList};
pub use kube_core::params::{
    DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions, PropagationPolicy,
    ValidationDirective,
};
use kube_core::{DynamicResourceScope, NamespaceResourceScope};
pub use kube_core::{Resource, ResourceExt};
use serde::de::DeserializeOwned;

use crate::client::Client;
use crate::current;
use crate::error::{Error, Result};

/// Typed calls about a kind, in all namespaces or in one.
pub struct Api<K> {
    /// The kind, as in `apps/v1/Deployment`.
    kind: String,
    /// Empty for all namespaces, and for cluster-scoped kinds.
    namespace: String,
    object: PhantomData<fn() -> K>,
}

impl<K> Clone for Api<K> {
    fn clone(&self) -> Self {
        Self {
            kind: self.kind.clone(),
            namespace: self.namespace.clone(),
            object: PhantomData,
        }
    }
}

impl<K> fmt::Debug for Api<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Api({} in {:?})", self.kind, self.namespace)
    }
}

/// Returns the kind of a type in the world's form, as in `apps/v1/Deployment`.
pub(crate) fn kind_of<K: Resource>(dyntype: &K::DynamicType) -> String {
    format!("{}/{}", K::api_version(dyntype), K::kind(dyntype))
}

impl<K: Resource> Api<K> {
    fn of(dyntype: &K::DynamicType, namespace: &str) -> Self {
        Self {
            kind: kind_of::<K>(dyntype),
            namespace: namespace.into(),
            object: PhantomData,
        }
    }

    /// Returns an API for all namespaces, or for a cluster-scoped kind.
    pub fn all(_client: Client) -> Self
    where
        K::DynamicType: Default,
    {
        Self::of(&K::DynamicType::default(), "")
    }

    /// Returns an API for one namespace.
    pub fn namespaced(_client: Client, namespace: &str) -> Self
    where
        K: Resource<Scope = NamespaceResourceScope>,
        K::DynamicType: Default,
    {
        Self::of(&K::DynamicType::default(), namespace)
    }

    /// Does the same as [`all`](Self::all), for a type that learns its kind at run time.
    pub fn all_with(_client: Client, dyntype: &K::DynamicType) -> Self {
        Self::of(dyntype, "")
    }

    /// Does the same as [`namespaced`](Self::namespaced), for a type that learns its kind at run time.
    pub fn namespaced_with(_client: Client, namespace: &str, dyntype: &K::DynamicType) -> Self
    where
        K: Resource<Scope = DynamicResourceScope>,
    {
        Self::of(dyntype, namespace)
    }
}

impl<K> Api<K> {
    /// The namespace; `None` for all of them.
    pub fn namespace(&self) -> Option<&str> {
        (!self.namespace.is_empty()).then_some(&*self.namespace)
    }

    /// The kind, as in `apps/v1/Deployment`.
    pub(crate) fn kind(&self) -> &str {
        &self.kind
    }

    /// Returns an API of the same kind in another namespace.
    pub(crate) fn within(&self, namespace: &str) -> Self {
        Self {
            namespace: namespace.into(),
            ..self.clone()
        }
    }

    /// Whether the cache holds all objects that this API reaches.
    fn is_cached(&self, description: &Description) -> bool {
        let holds = |watch: &Watch| {
            let is_own = watch
                .kind
                .as_ref()
                .is_some_and(|kind| kind.to_string() == self.kind);
            is_own
                && !watch.fields.is_empty()
                && watch.label_selector.is_empty()
                && watch.field_selector.is_empty()
                && (watch.namespace.is_empty() || watch.namespace == self.namespace)
        };
        description.watches.iter().any(holds)
    }
}

/// Reads.
impl<K: Clone + DeserializeOwned> Api<K> {
    /// Reads an object.
    ///
    /// # Errors
    /// The object does not exist, or the read failed.
    pub async fn get(&self, name: &str) -> Result<K> {
        let missing = || {
            let message = format!("{} {name:?} not found", self.kind);
            Error::local(404, "NotFound", &message)
        };
        self.get_opt(name).await?.ok_or_else(missing)
    }

    /// Reads an object; `None` if it does not exist.
    ///
    /// # Errors
    /// The read failed.
    pub async fn get_opt(&self, name: &str) -> Result<Option<K>> {
        current::with(|host, description| {
            if self.is_cached(description) {
                self.cached(host, name)
            } else {
                self.live(host, name)
            }
        })
    }

    /// Lists objects. Selectors of fields, limits and versions are requests to the API server.
    ///
    /// # Errors
    /// The list failed.
    pub async fn list(&self, parameters: &ListParams) -> Result<ObjectList<K>> {
        let ListParams {
            label_selector,
            field_selector,
            limit,
            continue_token,
            version_match,
            resource_version,
            ..
        } = parameters;
        let is_plain = field_selector.is_none()
            && limit.is_none()
            && continue_token.is_none()
            && version_match.is_none()
            && resource_version.is_none();
        current::with(|host, description| {
            if is_plain && self.is_cached(description) {
                self.list_cached(host, label_selector.as_deref().unwrap_or_default())
            } else {
                self.list_live(host, parameters)
            }
        })
    }

    /// Reads an object from the cache.
    pub(crate) fn cached(&self, host: &Host<'_>, name: &str) -> Result<Option<K>> {
        let found = host
            .imports()
            .lister_get(&self.kind, &self.namespace, name, &[])?;
        found.as_deref().map(parse).transpose()
    }

    fn live(&self, host: &Host<'_>, name: &str) -> Result<Option<K>> {
        let read = Read::Get {
            kind: self.kind.clone(),
            namespace: self.namespace.clone(),
            name: name.into(),
            fields: vec![".".into()],
        };
        match run(host, read) {
            Ok(bytes) => parse(&bytes).map(Some),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn list_cached(&self, host: &Host<'_>, labels: &str) -> Result<ObjectList<K>> {
        let query = Query {
            kind: self.kind.clone(),
            namespace: self.namespace.clone(),
            labels: labels.into(),
            ..Query::default()
        };
        let mut items = Vec::new();
        let mut page = host.imports().lister_list(query, Projection::All, 0)?;
        loop {
            items.append(&mut parse(&page.items)?);
            match page.rest {
                Some(rest) => page = rest.next(0)?,
                None => break,
            }
        }
        Ok(ObjectList {
            types: self.types_of_list(),
            metadata: ListMeta::default(),
            items,
        })
    }

    fn list_live(&self, host: &Host<'_>, parameters: &ListParams) -> Result<ObjectList<K>> {
        let limit = parameters.limit.map(|limit| limit.to_string());
        let matching = parameters
            .version_match
            .as_ref()
            .map(|version| match version {
                kube_core::params::VersionMatch::Exact => "Exact".to_owned(),
                kube_core::params::VersionMatch::NotOlderThan => "NotOlderThan".to_owned(),
            });
        let named = [
            ("labelSelector", &parameters.label_selector),
            ("fieldSelector", &parameters.field_selector),
            ("limit", &limit),
            ("continue", &parameters.continue_token),
            ("resourceVersion", &parameters.resource_version),
            ("resourceVersionMatch", &matching),
        ];
        let given = |(name, value): (&str, &Option<String>)| {
            let value = value.as_ref().filter(|value| !value.is_empty())?;
            Some((name.to_owned(), value.clone()))
        };
        let read = Read::List {
            kind: self.kind.clone(),
            namespace: self.namespace.clone(),
            parameters: named.into_iter().filter_map(given).collect(),
            fields: vec![".".into()],
        };
        parse(&run(host, read)?)
    }

    fn types_of_list(&self) -> TypeMeta {
        let (api_version, kind) = self.kind.rsplit_once('/').unwrap_or_default();
        TypeMeta {
            api_version: api_version.into(),
            kind: format!("{kind}List"),
        }
    }
}

/// Runs one live read.
fn run(host: &Host<'_>, read: Read) -> std::result::Result<Vec<u8>, ApiError> {
    let result = host.imports().reader_run(vec![read]).pop();
    result.unwrap_or_else(|| Err(ApiError::timeout("the host returned no result")))
}

fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T> {
    serde_json::from_slice(bytes).map_err(Error::SerdeError)
}
