//! The exports of a guest, each as a value that carries the arguments of a call to the guest's thread, with their
//! arguments and results.

use std::future::Future;
use std::time::Duration;

use bytes::Bytes;
use flyball_types::description::DeltaType;
use flyball_types::{excerpt, printable};
use wasmtime::Store;

use crate::bindings::cloud::exports::flyball::cloud::provider;
use crate::bindings::exports::flyball::controller::guest;
use crate::cloud::{CloudCall, CloudError};
use crate::exports::Exports;
use crate::world::{InstanceState, owned};

/// Maximum length of a guest's error message, in bytes. It goes to logs and events.
const MAX_MESSAGE: usize = 4096;
/// The part of the name of a queue that is kept, in bytes. No queue has a longer name, and messages quote it.
const MAX_QUEUE_NAME: usize = 1024;
/// Maximum length of the kind of a cloud's error, in bytes.
const MAX_KIND: usize = 64;

/// How a reconcile ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The key needs no further work.
    Done,
    /// Like `Done`, but the key is reconciled again after this time.
    RequeueAfter(Duration),
    /// The reconcile failed with this message; a retry may help.
    Failed(String),
    /// The reconcile failed with this message; no retry can help.
    Terminal(String),
}

/// A change of an object, for `route`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delta {
    /// The object's kind, as in `v1/Pod`.
    pub watch: String,
    pub delta_type: DeltaType,
    /// The object before the change, in JSON, reduced to the declared fields. If the object was created and deleted
    /// since the last call, its last version.
    pub old: Option<Bytes>,
    /// The object after the change, in the same form.
    pub new: Option<Bytes>,
    /// True if the object existed when the watch began.
    pub initial: bool,
}

/// A key that `route` enqueues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoutedKey {
    /// If empty, the plugin's primary queue.
    pub queue: String,
    pub key: String,
    /// The time after which the key is enqueued.
    pub delay: Duration,
}

/// A call to a guest.
pub(crate) trait Request: Send + Sync + 'static {
    /// The guest's result.
    type Output: Send + 'static;

    fn call(
        &self,
        guest: &Exports,
        store: &mut Store<InstanceState>,
    ) -> impl Future<Output = wasmtime::Result<Self::Output>> + Send;

    /// Names the call in error messages.
    fn label(&self) -> String;
}

pub(crate) struct Describe;

pub(crate) struct Reconcile {
    pub(crate) queue: String,
    pub(crate) key: String,
    pub(crate) attempt: u32,
}

pub(crate) struct Route(Vec<guest::Delta>);

impl Route {
    pub(crate) fn new(deltas: Vec<Delta>) -> Self {
        Self(deltas.into_iter().map(guest::Delta::from).collect())
    }
}

/// `provider.capabilities`.
pub(crate) struct CloudCapabilities;

impl Request for Describe {
    type Output = Vec<u8>;

    async fn call(
        &self,
        guest: &Exports,
        store: &mut Store<InstanceState>,
    ) -> wasmtime::Result<Vec<u8>> {
        guest.controller().call_describe(store).await
    }

    fn label(&self) -> String {
        "describe".into()
    }
}

impl Request for Reconcile {
    type Output = Outcome;

    async fn call(
        &self,
        guest: &Exports,
        store: &mut Store<InstanceState>,
    ) -> wasmtime::Result<Outcome> {
        let outcome = guest
            .controller()
            .call_reconcile(store, &self.queue, &self.key, self.attempt)
            .await?;
        Ok(match outcome {
            guest::Outcome::Done => Outcome::Done,
            guest::Outcome::RequeueAfter(ms) => {
                Outcome::RequeueAfter(Duration::from_millis(ms.into()))
            }
            guest::Outcome::Failed(message) => Outcome::Failed(excerpt(&message, MAX_MESSAGE)),
            guest::Outcome::Terminal(message) => Outcome::Terminal(excerpt(&message, MAX_MESSAGE)),
        })
    }

    fn label(&self) -> String {
        format!(
            "reconcile of `{}` (queue `{}`)",
            printable(&self.key),
            self.queue
        )
    }
}

impl Request for Route {
    type Output = Result<Vec<RoutedKey>, String>;

    async fn call(
        &self,
        guest: &Exports,
        store: &mut Store<InstanceState>,
    ) -> wasmtime::Result<Self::Output> {
        let routed = guest.controller().call_route(store, &self.0).await?;
        Ok(routed
            .map(|keys| keys.into_iter().map(RoutedKey::from).collect())
            .map_err(|message| excerpt(&message, MAX_MESSAGE)))
    }

    fn label(&self) -> String {
        format!("route of {} deltas", self.0.len())
    }
}

impl Request for CloudCapabilities {
    type Output = Result<Vec<u8>, CloudError>;

    async fn call(
        &self,
        guest: &Exports,
        store: &mut Store<InstanceState>,
    ) -> wasmtime::Result<Self::Output> {
        let capabilities = guest.cloud()?.call_capabilities(store).await?;
        Ok(capabilities.map_err(CloudError::from))
    }

    fn label(&self) -> String {
        "capabilities of the cloud".into()
    }
}

impl Request for CloudCall {
    type Output = Result<Vec<u8>, CloudError>;

    async fn call(
        &self,
        guest: &Exports,
        store: &mut Store<InstanceState>,
    ) -> wasmtime::Result<Self::Output> {
        let provider = guest.cloud()?;
        let outcome = provider
            .call_call(store, &self.method, &self.arguments, &self.nodes)
            .await?;
        Ok(outcome.map_err(CloudError::from))
    }

    fn label(&self) -> String {
        format!("{} of the cloud", printable(&self.method))
    }
}

impl From<provider::Error> for CloudError {
    fn from(error: provider::Error) -> Self {
        let provider::Error {
            kind,
            message,
            wrapped,
            retry_after_ms,
        } = error;
        Self {
            kind: excerpt(&kind, MAX_KIND),
            message: excerpt(&message, MAX_MESSAGE),
            wrapped,
            retry_after_ms,
        }
    }
}

impl From<Delta> for guest::Delta {
    fn from(delta: Delta) -> Self {
        let Delta {
            watch,
            delta_type,
            old,
            new,
            initial,
        } = delta;
        let delta_type = match delta_type {
            DeltaType::Added => guest::DeltaType::Added,
            DeltaType::Modified => guest::DeltaType::Modified,
            DeltaType::Deleted => guest::DeltaType::Deleted,
        };
        Self {
            watch,
            delta_type,
            old: old.map(owned),
            new: new.map(owned),
            initial,
        }
    }
}

impl From<guest::RoutedKey> for RoutedKey {
    fn from(
        guest::RoutedKey {
            mut queue,
            key,
            delay_ms,
        }: guest::RoutedKey,
    ) -> Self {
        queue.truncate(queue.floor_char_boundary(MAX_QUEUE_NAME));
        Self {
            queue,
            key,
            delay: Duration::from_millis(delay_ms.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_queue_that_a_guest_returns_is_short_in_messages() {
        let routed = |queue: String| {
            let (key, delay_ms) = ("a".to_owned(), 0);
            let routed = guest::RoutedKey {
                queue,
                key,
                delay_ms,
            };
            RoutedKey::from(routed).queue
        };
        assert_eq!(routed("q".into()), "q");
        assert_eq!(routed("ö".repeat(30 << 20)), "ö".repeat(512));
    }
}
