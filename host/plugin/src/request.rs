//! The three calls to a guest, each as a value that carries its arguments to the guest's thread.

use std::future::Future;
use std::time::Duration;

use flyball_types::description::DeltaType;
use flyball_types::printable;
use wasmtime::Store;

use crate::bindings::exports::flyball::controller::guest::{self, Guest};
use crate::plugin::{Delta, Outcome, RoutedKey};
use crate::world::{State, owned};

/// Bytes of a guest's sentence that are kept: it goes to logs and to people.
const SENTENCE: usize = 4096;

/// A call to a guest.
pub(crate) trait Request: Send + Sync + 'static {
    /// What the guest returns.
    type Answer: Send + 'static;

    /// Makes the call.
    fn call(
        &self,
        guest: &Guest,
        store: &mut Store<State>,
    ) -> impl Future<Output = wasmtime::Result<Self::Answer>> + Send;

    /// What is called, for an error's text.
    fn what(&self) -> String;
}

/// `describe`.
pub(crate) struct Describe;

/// `reconcile`.
pub(crate) struct Reconcile {
    pub(crate) queue: String,
    pub(crate) key: String,
    pub(crate) attempt: u32,
}

/// `route`.
pub(crate) struct Route(Vec<guest::Delta>);

impl Route {
    pub(crate) fn new(deltas: Vec<Delta>) -> Self {
        Self(deltas.into_iter().map(guest::Delta::from).collect())
    }
}

impl Request for Describe {
    type Answer = Vec<u8>;

    async fn call(&self, guest: &Guest, store: &mut Store<State>) -> wasmtime::Result<Vec<u8>> {
        guest.call_describe(store).await
    }

    fn what(&self) -> String {
        "describe".into()
    }
}

impl Request for Reconcile {
    type Answer = Outcome;

    async fn call(&self, guest: &Guest, store: &mut Store<State>) -> wasmtime::Result<Outcome> {
        let outcome = guest
            .call_reconcile(store, &self.queue, &self.key, self.attempt)
            .await?;
        Ok(match outcome {
            guest::Outcome::Done => Outcome::Done,
            guest::Outcome::RequeueAfter(ms) => {
                Outcome::RequeueAfter(Duration::from_millis(ms.into()))
            }
            guest::Outcome::Failed(message) => Outcome::Failed(sentence(message)),
            guest::Outcome::Terminal(message) => Outcome::Terminal(sentence(message)),
        })
    }

    fn what(&self) -> String {
        format!(
            "reconcile of `{}` (queue `{}`)",
            printable(&self.key),
            self.queue
        )
    }
}

impl Request for Route {
    type Answer = Result<Vec<RoutedKey>, String>;

    async fn call(
        &self,
        guest: &Guest,
        store: &mut Store<State>,
    ) -> wasmtime::Result<Self::Answer> {
        let routed = guest.call_route(store, &self.0).await?;
        Ok(routed
            .map(|keys| keys.into_iter().map(RoutedKey::from).collect())
            .map_err(sentence))
    }

    fn what(&self) -> String {
        format!("route of {} deltas", self.0.len())
    }
}

/// A guest's sentence on one line, its end cut off where it is too long.
fn sentence(mut text: String) -> String {
    if text.len() > SENTENCE {
        text.truncate(text.floor_char_boundary(SENTENCE));
        text.shrink_to_fit();
        text.push_str(" [and more]");
    }
    printable(&text)
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
            queue,
            key,
            delay_ms,
        }: guest::RoutedKey,
    ) -> Self {
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
    fn a_long_sentence_is_cut_between_two_letters() {
        assert_eq!(sentence("short\n\u{1b}[2Jone".into()), "short  [2Jone");
        let long = sentence("ö".repeat(SENTENCE));
        assert_eq!(long, "ö".repeat(SENTENCE / 2) + " [and more]");
    }
}
