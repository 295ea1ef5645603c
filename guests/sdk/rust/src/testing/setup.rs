//! Sets up a fake cluster: its objects, clock, failures and configuration.

use std::any::TypeId;
use std::rc::Rc;
use std::time::Duration;

use flyball_types::{
    ApiError, Catalogue, DiscoveryFailure, Projection, Query, ServedKind, Subresource,
};
use serde_json::Value;

use super::rate::RateLimit;
use super::store::{DeleteOptions, Id};
use super::{Cluster, Fault, kind_of};
use crate::imports::Page;
use crate::reference::ObjectReference;
use crate::time::Time;

/// The verbs that a test can make fail.
const VERBS: [&str; 12] = [
    "create",
    "update",
    "patch",
    "delete",
    "deletecollection",
    "get",
    "list",
    "count",
    "discover",
    "raw",
    "authority",
    "sign",
];

impl Cluster {
    /// An empty cluster. Its clock starts at 2026-01-01T00:00:00Z.
    pub fn new() -> Self {
        Self::default()
    }

    /// A cluster with these objects.
    pub fn with(objects: impl IntoIterator<Item = Value>) -> Self {
        let cluster = Self::default();
        objects.into_iter().for_each(|object| cluster.put(object));
        cluster
    }

    /// Stores an object with `apiVersion` and `kind` verbatim, replacing an older one. Absent fields that a server sets
    /// (UID, resource version, creation time, and for a custom resource the generation) are filled in. A
    /// CustomResourceDefinition applies to all later writes of its kind.
    ///
    /// # Panics
    /// If the object has no name, or does not fit the CustomResourceDefinition of its kind.
    pub fn put(&self, object: Value) {
        self.try_put(object)
            .unwrap_or_else(|mistake| panic!("{mistake}"));
    }

    /// Does the same as [`put`](Self::put).
    ///
    /// # Errors
    /// The object has no name, does not fit the CustomResourceDefinition of its kind, or is a definition that lacks a
    /// field which the current description declares.
    pub fn try_put(&self, object: Value) -> Result<(), String> {
        let state = &mut *self.state.borrow_mut();
        state.store.put(object)?;
        match &state.description {
            Some(description) => state.store.definitions().check(description),
            None => Ok(()),
        }
    }

    /// Keeps the server's warnings from being written to standard error.
    pub fn hide_warnings(&self) {
        self.state.borrow_mut().shows_warnings = false;
    }

    /// Returns a resource version that is later than those of all objects, and that no object will have.
    pub fn next_version(&self) -> u64 {
        self.state.borrow_mut().store.next_version()
    }

    /// Changes an object like another client. Its resource version changes and, with its spec, its generation.
    ///
    /// # Panics
    /// If there is no such object.
    pub fn edit(&self, kind: &str, namespace: &str, name: &str, change: impl FnOnce(&mut Value)) {
        let state = &mut *self.state.borrow_mut();
        state.store.edit(&Id::new(kind, namespace, name), change);
    }

    /// Deletes an object like another client: with finalizers or a grace period, it only gets a deletion timestamp.
    ///
    /// # Panics
    /// If there is no such object.
    pub fn delete(&self, kind: &str, namespace: &str, name: &str) {
        let store = &mut self.state.borrow_mut().store;
        let deleted = store.delete(&Id::new(kind, namespace, name), &DeleteOptions::default());
        deleted.unwrap_or_else(|error| panic!("{error}"));
    }

    /// Removes an object immediately.
    pub fn remove(&self, kind: &str, namespace: &str, name: &str) {
        self.state
            .borrow_mut()
            .store
            .remove(&Id::new(kind, namespace, name));
    }

    /// Makes live reads return this object while the cache has another one or none.
    pub fn put_live(&self, object: Value) {
        self.state
            .borrow_mut()
            .live
            .insert(Id::of_object(&object), Some(object));
    }

    /// Makes live reads not find this object while the cache still has it.
    pub fn remove_live(&self, kind: &str, namespace: &str, name: &str) {
        self.state
            .borrow_mut()
            .live
            .insert(Id::new(kind, namespace, name), None);
    }

    /// Makes the host report the deletion of this object as observed.
    pub fn observe_deletion(&self, kind: &str, namespace: &str, name: &str, uid: &str) {
        let [kind, namespace, name, uid] = [kind, namespace, name, uid].map(str::to_owned);
        self.state.borrow_mut().deleted.push(ObjectReference {
            kind,
            namespace,
            name,
            uid,
            resource_version: String::new(),
        });
    }

    /// Sets the response to a raw GET of this path.
    pub fn put_raw(&self, path: &str, answer: Value) {
        self.state.borrow_mut().raw.insert(path.into(), answer);
    }

    /// Sets the result of `discovery.kinds`.
    pub fn set_catalogue(&self, catalogue: Catalogue) {
        self.state.borrow_mut().catalogue = catalogue;
    }

    /// Appends this kind to the result of `discovery.kinds`. The first version served of a group is the preferred one.
    pub fn serve(&self, kind: &str, plural: &str, namespaced: bool, verbs: &[&str]) {
        let kinds = &mut self.state.borrow_mut().catalogue.kinds;
        let own = kind_of(kind);
        let first = kinds
            .iter()
            .map(|known| kind_of(&known.kind))
            .find(|known| known.group == own.group);
        kinds.push(ServedKind {
            kind: kind.into(),
            plural: plural.into(),
            namespaced,
            preferred: first.is_none_or(|first| first.version == own.version),
            verbs: verbs.iter().map(|&verb| verb.to_owned()).collect(),
            subresources: Vec::new(),
        });
    }

    /// Adds a subresource to a kind in the result of `discovery.kinds`.
    ///
    /// # Panics
    /// If the kind is not served.
    pub fn serve_subresource(&self, kind: &str, name: &str, verbs: &[&str]) {
        let kinds = &mut self.state.borrow_mut().catalogue.kinds;
        let served = kinds.iter_mut().find(|served| served.kind == kind);
        let subresources = &mut served.expect("the kind is served").subresources;
        subresources.push(Subresource {
            name: name.into(),
            verbs: verbs.iter().map(|&verb| verb.to_owned()).collect(),
        });
    }

    /// Adds this group version to the discovery failures.
    pub fn fail_discovery(&self, group_version: &str, message: &str) {
        let failures = &mut self.state.borrow_mut().catalogue.failures;
        failures.push(DiscoveryFailure {
            group_version: group_version.into(),
            message: message.into(),
        });
    }

    /// Fails the next write (or live `get` or `list`) with this verb and kind. The verbs of writes are `create`, `update`,
    /// `patch` (also of a server-side apply), `delete` and `deletecollection`. The verb `count` fails a cached count,
    /// `discover` with an empty kind fails discovery itself, and `raw` with a path instead of the kind fails a raw GET.
    ///
    /// # Panics
    /// If there is no such verb: nothing would ever fail.
    pub fn fail(&self, verb: &str, kind: &str, error: ApiError) {
        self.fail_nth(verb, kind, 1, error);
    }

    /// Fails the `nth` write with this verb and kind from now; 1 is the next one. The kind can include a subresource:
    /// `apps/v1/ReplicaSet/status`.
    ///
    /// # Panics
    /// If there is no such verb.
    pub fn fail_nth(&self, verb: &str, kind: &str, nth: usize, error: ApiError) {
        if !VERBS.contains(&verb) {
            let hint = match verb {
                "apply" => ": a server-side apply is a `patch`",
                _ => "",
            };
            panic!(
                "nothing has the verb `{verb}`{hint}; the verbs are {}",
                VERBS.join(", ")
            );
        }
        let fault = Fault {
            verb: verb.into(),
            kind: kind.into(),
            skip: nth.saturating_sub(1),
            error,
        };
        self.state.borrow_mut().faults.push(fault);
    }

    /// Returns this object to the next create of its kind, which stores nothing: a SubjectAccessReview with its status.
    /// Several answers are returned in order.
    pub fn answer(&self, kind: &str, answer: Value) {
        let answers = &mut self.state.borrow_mut().answers;
        answers.push((kind.into(), answer));
    }

    /// Limits writes and live reads to `calls` per window of the cluster's clock. Further calls fail with 429 and the
    /// time until the next window.
    pub fn limit_rate(&self, calls: usize, window: Duration) {
        let state = &mut *self.state.borrow_mut();
        state.rate_limit = Some(RateLimit::new(calls, window, state.store.now));
    }

    /// Sets the clock.
    pub fn set_now(&self, now: Time) {
        self.state.borrow_mut().store.now = now;
    }

    /// Advances the clock.
    pub fn advance(&self, time: Duration) {
        let store = &mut self.state.borrow_mut().store;
        store.now = store.now + time;
    }

    /// Sets the operator's value of a configuration key.
    pub fn set_config(&self, key: &str, value: &str) {
        self.state
            .borrow_mut()
            .config
            .insert(key.into(), value.into());
    }

    /// Runs cached queries with this function instead of on the cluster's objects.
    pub fn set_lister(&self, lister: impl Fn(&Query, &Projection) -> Page + 'static) {
        self.state.borrow_mut().lister = Some(Box::new(lister));
    }

    /// Sets the stand-in for imports of another package, which the crate of that package finds by its type. Replaces one
    /// of the same type.
    pub fn extend<T: 'static>(&self, extension: Rc<T>) {
        let extensions = &mut self.state.borrow_mut().extensions;
        extensions.insert(TypeId::of::<T>(), extension);
    }

    /// Adds an authority for this signer. The authority and its certificates are placeholders, such as `certificate 0`.
    /// The verbs `authority` and `sign` of [`fail`](Self::fail), with the signer as the kind, fail its calls.
    pub fn add_authority(&self, signer: &str) {
        self.state.borrow_mut().authorities.push(signer.into());
    }

    /// Adds a signing key with this name. Its tokens are unique placeholders, not real JWTs.
    pub fn add_key(&self, name: &str) {
        self.state.borrow_mut().keys.push(name.into());
    }
}
