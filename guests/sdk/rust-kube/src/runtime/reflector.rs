//! References to objects, and reads of a controller's own objects.

use std::fmt;
use std::sync::Arc;

use flyball_sdk::Key;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube_core::Resource;
use kube_core::params::ListParams;
use serde::de::DeserializeOwned;

use crate::api::Api;
use crate::{current, executor};

/// A reference to an object of a type.
#[non_exhaustive]
pub struct ObjectRef<K: Resource> {
    /// The kind, for types that learn it at run time.
    pub dyntype: K::DynamicType,
    pub name: String,
    /// `None` if the object is cluster-scoped.
    pub namespace: Option<String>,
}

impl<K: Resource> ObjectRef<K> {
    /// A reference to an object without a namespace.
    #[must_use]
    pub fn new(name: &str) -> Self
    where
        K::DynamicType: Default,
    {
        Self::new_with(name, K::DynamicType::default())
    }

    /// Does the same as [`new`](Self::new), for a type that learns its kind at run time.
    #[must_use]
    pub fn new_with(name: &str, dyntype: K::DynamicType) -> Self {
        Self {
            dyntype,
            name: name.into(),
            namespace: None,
        }
    }

    /// Sets the namespace.
    #[must_use]
    pub fn within(mut self, namespace: &str) -> Self {
        self.namespace = Some(namespace.into());
        self
    }

    /// A reference to an object that was read.
    #[must_use]
    pub fn from_obj(object: &K) -> Self
    where
        K::DynamicType: Default,
    {
        let meta = object.meta();
        Self {
            namespace: meta.namespace.clone(),
            ..Self::new(meta.name.as_deref().unwrap_or_default())
        }
    }

    /// A reference to an owner; `None` if the owner is of another kind.
    #[must_use]
    pub fn from_owner_ref(
        namespace: Option<&str>,
        owner: &OwnerReference,
        dyntype: K::DynamicType,
    ) -> Option<Self> {
        let is_own =
            owner.api_version == K::api_version(&dyntype) && owner.kind == K::kind(&dyntype);
        is_own.then(|| Self {
            namespace: namespace.map(str::to_owned),
            ..Self::new_with(&owner.name, dyntype)
        })
    }
}

/// `team/web`
impl<K: Resource> fmt::Debug for ObjectRef<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let namespace = self.namespace.as_deref().unwrap_or_default();
        fmt::Display::fmt(&Key::new(namespace, &self.name), f)
    }
}

/// The cached objects of a controller's kind.
#[derive(Clone, Debug)]
pub struct Store<K>(Api<K>);

impl<K: Resource + Clone + DeserializeOwned> Store<K> {
    pub(crate) fn new(api: Api<K>) -> Self {
        Self(api)
    }

    /// Returns an object; `None` if it does not exist or does not fit the type.
    pub fn get(&self, key: &ObjectRef<K>) -> Option<Arc<K>> {
        let api = self.0.within(key.namespace.as_deref().unwrap_or_default());
        let found = current::with(|host, _| api.cached(host, &key.name));
        found.ok().flatten().map(Arc::new)
    }

    /// Returns all objects; an empty list if one of them does not fit the type.
    pub fn state(&self) -> Vec<Arc<K>> {
        let listed = executor::run(self.0.list(&ListParams::default()));
        let objects = listed.and_then(Result::ok).map(|list| list.items);
        objects.into_iter().flatten().map(Arc::new).collect()
    }

    /// Returns the first object that satisfies a predicate.
    pub fn find(&self, predicate: impl Fn(&K) -> bool) -> Option<Arc<K>> {
        self.state().into_iter().find(|object| predicate(object))
    }
}
