//! Cleans up before an object is deleted, as kube's function does.

use std::fmt::Debug;
use std::sync::Arc;

use flyball_sdk::PatchType;
use kube_core::params::PatchParams;
use kube_core::{Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::controller::Action;
use crate::api::Api;

/// The task of a reconciler.
pub enum Event<K> {
    /// Bring the cluster to the state that the object asks for.
    Apply(Arc<K>),
    /// Delete the objects that were created for this object. It is being deleted, and must not be applied again.
    Cleanup(Arc<K>),
}

/// The error of [`finalizer`].
#[derive(Debug, thiserror::Error)]
pub enum Error<E: std::error::Error + 'static> {
    /// The reconciler failed to apply the object.
    #[error("failed to apply object: {0}")]
    ApplyFailed(#[source] E),
    /// The reconciler failed to clean up. The finalizer stays.
    #[error("failed to clean up object: {0}")]
    CleanupFailed(#[source] E),
    /// The finalizer could not be added.
    #[error("failed to add finalizer: {0}")]
    AddFinalizer(#[source] crate::Error),
    /// The finalizer could not be removed.
    #[error("failed to remove finalizer: {0}")]
    RemoveFinalizer(#[source] crate::Error),
    /// The object has no name.
    #[error("object has no name")]
    UnnamedObject,
}

/// Reconciles an object with a finalizer, which it adds before the first [`Event::Apply`] and removes after
/// [`Event::Cleanup`]. Needs the verb `patch` on the object's kind.
///
/// # Errors
/// The reconciler failed, or a patch of the finalizers: also if another client has changed them meanwhile.
pub async fn finalizer<K, Reconciled, E>(
    api: &Api<K>,
    finalizer_name: &str,
    object: Arc<K>,
    reconcile: impl FnOnce(Event<K>) -> Reconciled,
) -> Result<Action, Error<E>>
where
    K: Resource + Clone + DeserializeOwned + Serialize + Debug,
    Reconciled: Future<Output = Result<Action, E>>,
    E: std::error::Error + 'static,
{
    let name = object.meta().name.clone().ok_or(Error::UnnamedObject)?;
    let is_deleting = object.meta().deletion_timestamp.is_some();
    let position = object
        .finalizers()
        .iter()
        .position(|own| own == finalizer_name);
    match (position, is_deleting) {
        (Some(_), false) => reconcile(Event::Apply(object))
            .await
            .map_err(Error::ApplyFailed),
        (Some(position), true) => {
            let action = reconcile(Event::Cleanup(object))
                .await
                .map_err(Error::CleanupFailed)?;
            patch(api, &name, &removal(position, finalizer_name))
                .map_err(Error::RemoveFinalizer)?;
            Ok(action)
        }
        (None, false) => {
            patch(api, &name, &addition(object.finalizers(), finalizer_name))
                .map_err(Error::AddFinalizer)?;
            // The patch enqueues the object.
            Ok(Action::await_change())
        }
        (None, true) => Ok(Action::await_change()),
    }
}

/// Removes the finalizer at its position. Fails if it has moved.
fn removal(position: usize, finalizer: &str) -> Value {
    let path = format!("/metadata/finalizers/{position}");
    json!([
        {"op": "test", "path": path, "value": finalizer},
        {"op": "remove", "path": path},
    ])
}

/// Appends the finalizer. Fails if the finalizers have changed, because the API server does not remove duplicates.
fn addition(present: &[String], finalizer: &str) -> Value {
    if present.is_empty() {
        return json!([
            {"op": "test", "path": "/metadata/finalizers", "value": null},
            {"op": "add", "path": "/metadata/finalizers", "value": [finalizer]},
        ]);
    }
    json!([
        {"op": "test", "path": "/metadata/finalizers", "value": present},
        {"op": "add", "path": "/metadata/finalizers/-", "value": finalizer},
    ])
}

fn patch<K>(api: &Api<K>, name: &str, patch: &Value) -> crate::Result<K>
where
    K: Resource + Clone + DeserializeOwned + Debug,
{
    api.patch_with("", name, &PatchParams::default(), PatchType::Json, patch)
}
