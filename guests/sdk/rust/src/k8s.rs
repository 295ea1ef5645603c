//! The types of the crate `k8s-openapi`, for whole objects instead of views. Needs the feature `k8s-openapi`.
//!
//! Each of these types is a [`View`] with all fields, so that it can be watched, read and listed as any view. A watch
//! of [some fields](watch_fields) saves memory in the host and time in the sandbox: objects are then read with these
//! fields, and the other fields have their defaults. A view with few fields is faster still and makes the component
//! smaller.
//!
//! The plugin chooses the version of Kubernetes by a feature of `k8s-openapi`, such as `v1_37`.
//!
//! ```
//! use flyball_sdk::k8s;
//! use flyball_sdk::prelude::*;
//! use flyball_sdk::testing::Cluster;
//! use k8s_openapi::api::apps::v1::Deployment;
//! use k8s_openapi::api::core::v1::ConfigMap;
//! use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
//!
//! /// Notes the replicas of each Deployment in a ConfigMap.
//! struct Notes;
//!
//! impl Controller for Notes {
//!     fn describe() -> Description {
//!         describe("notes", "1.0.0")
//!             .watch(k8s::watch_fields::<Deployment>(&["spec.replicas"]).enqueue(Mapping::itself()))
//!             .watch(watch::<ConfigMap>().enqueue(Mapping::controller(Deployment::KIND)))
//!             .queue("notes")
//!             .permission(ConfigMap::KIND, ["create", "patch"])
//!     }
//!
//!     fn reconcile(host: &Host, request: &Request) -> Result<Outcome, Error> {
//!         let Some(deployment) = host.get_by_key::<Deployment>(&request.key)? else {
//!             return Ok(Outcome::Done);
//!         };
//!         let replicas = deployment.spec.replicas.unwrap_or(1);
//!         let map = ConfigMap {
//!             metadata: ObjectMeta {
//!                 name: Some(request.key.name.clone()),
//!                 namespace: Some(request.key.namespace.clone()),
//!                 owner_references: Some(vec![k8s::controller_reference(&deployment)]),
//!                 ..ObjectMeta::default()
//!             },
//!             data: Some([("replicas".into(), replicas.to_string())].into()),
//!             ..ConfigMap::default()
//!         };
//!         host.apply(&map, "notes")?;
//!         Ok(Outcome::Done)
//!     }
//! }
//!
//! let cluster = Cluster::with([json!({
//!     "apiVersion": "apps/v1", "kind": "Deployment",
//!     "metadata": {"name": "web", "namespace": "team"}, "spec": {"replicas": 3},
//! })]);
//! cluster.reconcile::<Notes>("team/web").unwrap();
//! assert_eq!(cluster.object("v1/ConfigMap", "team", "web").unwrap()["data"]["replicas"], "3");
//! ```

mod convert;
mod kind;
#[cfg(test)]
mod tests;

use k8s_openapi::Metadata;
use k8s_openapi::apimachinery::pkg::apis::meta::v1 as meta_v1;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::condition;
use crate::describe::{Watch, watch_kind};
use crate::error::{Context, Error};
use crate::host::Host;
use crate::merge;
use crate::meta::Meta;
use crate::reference::ObjectReference;
use crate::time::Time;
use crate::view::View;
use crate::write::{PatchType, Propagation, Write};

/// An object with metadata: each type of `k8s-openapi` that has some, and each that implements the same traits.
pub trait Object: Metadata<Ty = meta_v1::ObjectMeta> + Serialize + DeserializeOwned {}

impl<K: Metadata<Ty = meta_v1::ObjectMeta> + Serialize + DeserializeOwned> Object for K {}

impl<K: k8s_openapi::Resource + DeserializeOwned> View for K {
    const KIND: &'static str = kind::of::<K>();
    const FIELDS: &'static [&'static str] = &["."];
    const READS: &'static [&'static str] = &[];
}

/// The kind of a type, as in `apps/v1/Deployment`: the same as [`View::KIND`], which is ambiguous where
/// `k8s_openapi::Resource` is imported too.
pub const fn kind<K: k8s_openapi::Resource>() -> &'static str {
    kind::of::<K>()
}

/// A watch of some fields of a type. Name, namespace, UID and resource version are always read.
pub fn watch_fields<K: k8s_openapi::Resource>(paths: &[&str]) -> Watch {
    watch_kind(kind::of::<K>()).fields(paths)
}

/// Returns a reference to an object, for events.
pub fn reference<K: Object>(object: &K) -> ObjectReference {
    Meta::from(object.metadata()).reference(kind::of::<K>())
}

/// Returns an owner reference to an object as the controller. It blocks the owner's deletion.
pub fn controller_reference<K: Object>(owner: &K) -> meta_v1::OwnerReference {
    let meta = Meta::from(owner.metadata());
    (&meta.controller_reference(kind::of::<K>())).into()
}

/// Sets a condition as [`condition::set`] does. Returns whether anything changed.
pub fn set_condition(
    conditions: &mut Option<Vec<meta_v1::Condition>>,
    new: condition::Condition,
    now: Time,
) -> bool {
    let all = conditions.get_or_insert_default();
    let mut own: Vec<condition::Condition> = all.iter().map(Into::into).collect();
    let is_changed = condition::set(&mut own, new, now);
    if is_changed {
        *all = own.iter().map(Into::into).collect();
    }
    is_changed
}

/// Writes of whole objects.
impl Write {
    /// Creates an object in the namespace of its metadata.
    pub fn create_object<K: Object>(object: &K) -> Self {
        Self::create(kind::of::<K>(), namespace(object), object)
    }

    /// Applies an object under this field manager: it is created, or gets the fields that `object` has. The object must
    /// not be one that was read, because the field manager then owns all its fields.
    pub fn apply<K: Object>(object: &K, manager: &str) -> Self {
        let name = object.metadata().name.as_deref().unwrap_or_default();
        Self::patch(
            kind::of::<K>(),
            namespace(object),
            name,
            PatchType::Apply,
            object,
        )
        .field_manager(manager)
    }

    /// Updates an object from the version that was read. Fields that the type does not have are kept. Fails with
    /// `Conflict` if the object has changed since.
    pub fn update_object<K: Object>(read: &K, new: &K) -> Self {
        let change = merge::diff(&value(read), &value(new));
        Self::update(kind::of::<K>(), &Meta::from(read.metadata()), &change)
    }

    /// Replaces the status of an object that was read. Fails with `Conflict` if the object has changed since.
    pub fn update_status_of<K: Object>(object: &K) -> Self {
        let status = value(object)["status"].take();
        Self::update_status(kind::of::<K>(), &Meta::from(object.metadata()), &status)
    }

    /// Deletes an object that was read, with its UID as a precondition.
    pub fn delete_object<K: Object>(object: &K) -> Self {
        Self::delete_exactly(kind::of::<K>(), &Meta::from(object.metadata()))
    }
}

/// Writes of whole objects. Functions that return the object need a policy that lets the plugin read all its fields.
impl Host<'_> {
    /// Runs [`Write::create_object`] and returns the object.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub fn create_object<K: Object>(&self, object: &K) -> Result<K, Error> {
        self.returned(Write::create_object(object))
    }

    /// Runs [`Write::apply`] and returns the object.
    ///
    /// # Errors
    /// As [`write`](Self::write); `Conflict` if another field manager owns one of the fields with another value.
    pub fn apply<K: Object>(&self, object: &K, manager: &str) -> Result<K, Error> {
        self.returned(Write::apply(object, manager))
    }

    /// Runs [`Write::update_object`] and returns the object.
    ///
    /// # Errors
    /// As [`update`](Self::update).
    pub fn update_object<K: Object>(&self, read: &K, new: &K) -> Result<K, Error> {
        self.returned(Write::update_object(read, new))
    }

    /// Runs [`Write::update_status_of`] and returns the object.
    ///
    /// # Errors
    /// As [`update_status`](Self::update_status).
    pub fn update_status_of<K: Object>(&self, object: &K) -> Result<K, Error> {
        self.returned(Write::update_status_of(object))
    }

    /// Runs [`Write::delete_object`]. An object that does not exist is a success.
    ///
    /// # Errors
    /// As [`delete`](Self::delete).
    pub fn delete_object<K: Object>(
        &self,
        object: &K,
        propagation: Propagation,
    ) -> Result<(), Error> {
        match self.write(Write::delete_object(object).propagation(propagation)) {
            Err(error) if !error.is_not_found() => Err(error.into()),
            _ => Ok(()),
        }
    }

    fn returned<K: Object>(&self, write: Write) -> Result<K, Error> {
        let name = write.target.name.clone();
        let answer = self.write(write.returning(&["."]))?;
        answer
            .parse()
            .doing(|| format!("reading the written {} {name}", kind::of::<K>()))
    }
}

fn namespace<K: Object>(object: &K) -> &str {
    object.metadata().namespace.as_deref().unwrap_or_default()
}

fn value<K: Object>(object: &K) -> Value {
    serde_json::to_value(object).expect("an object of the API is valid JSON")
}
