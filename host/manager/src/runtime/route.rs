//! From the deltas of one watch to keys in the plugin's queues: `router.rs` applies the declared mappings, and the guest's
//! `route` maps what they cannot express. Calls of `route` take turns (`route_turns.rs`).

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use flyball_cache::{Batch, Delta, Deltas, Informer, Lister, Object};
use flyball_plugin::Plugin;
use flyball_types::Kind;
use flyball_types::description::DeltaType;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::runtime::context::PluginContext;
use crate::runtime::guest_call::GuestCall;
use crate::runtime::router::{Enqueue, Router};

/// How many deltas are routed before other tasks may run.
const BATCH: usize = 256;
/// The first and the longest wait before a delta that `route` failed on is given to it again.
const ROUTE_RETRY: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(30));

/// Routes the deltas of one watch and one informer.
pub(super) struct WatchRoute {
    plugin: Plugin,
    context: Arc<PluginContext>,
    router: Arc<Router>,
    /// The watch's name in the deltas for the guest.
    watch: String,
    kind: Arc<Kind>,
    /// What the plugin sees of the informer's objects.
    lister: Lister,
    /// How many watches have not yet routed the initial objects of their informers.
    left: watch::Sender<usize>,
    finish: CancellationToken,
}

impl WatchRoute {
    /// Routes the objects of an informer and then its changes, until `finish`; then it routes the deltas that are left and
    /// ends.
    pub(super) fn run(
        plugin: &Plugin,
        context: &Arc<PluginContext>,
        watch: usize,
        informer: Informer,
        left: watch::Sender<usize>,
        finish: CancellationToken,
    ) -> impl Future<Output = ()> + Send + use<> {
        let kind = informer.resource().kind.clone();
        let router = Arc::new(Router::new(
            &context.settings.description,
            &context.settings.description.watches[watch],
            &kind,
        ));
        // At once if possible, so that an earlier version may end.
        let subscribed = informer.is_synced().then(|| subscribe(&informer, &router));
        let routing = Self {
            plugin: plugin.clone(),
            context: context.clone(),
            router,
            watch: kind.to_string(),
            lister: context.reads.cached.lister(&informer),
            kind: Arc::new(kind),
            left,
            finish,
        };
        async move {
            let deltas = match subscribed {
                Some(deltas) => deltas,
                None => {
                    tokio::select! {
                        () = informer.synced() => subscribe(&informer, &routing.router),
                        () = routing.finish.cancelled() => return,
                    }
                }
            };
            routing.route_all(deltas).await;
        }
    }

    async fn route_all(self, mut deltas: Deltas) {
        let mut initial = true;
        loop {
            let batch = tokio::select! {
                batch = deltas.next(BATCH) => batch,
                () = self.finish.cancelled() => deltas.try_next(BATCH),
            };
            let Some(mut batch) = batch else { return };
            batch
                .deltas
                .retain(|delta| self.lister.shows(delta.object()));
            self.route(&batch).await;
            if initial && batch.initial_done {
                initial = false;
                self.left.send_modify(|left| *left -= 1);
            }
        }
    }

    async fn route(&self, batch: &Batch) {
        let mut asked = Vec::new();
        // The cache may hold more of an object than the plugin's watch declares, for other plugins.
        let mut projection = self
            .lister
            .projection(None)
            .expect("a view shows its own fields");
        for delta in &batch.deltas {
            if let (Some(old), true) = (&delta.old, delta.delta_type() == DeltaType::Deleted) {
                self.context.memo.object_deleted(&old.uid().to_string());
            }
            // The cheaper test first: most deltas yield no key.
            let (keys, asks_guest) = (
                self.router.route(delta, &*self.context.reads.cached),
                self.router.asks_guest(delta),
            );
            if (keys.is_empty() && !asks_guest) || !self.router.counts(delta) {
                continue;
            }
            for Enqueue { queue, key, delay } in keys {
                self.context.queues[queue].route(key, delay, &self.kind, delta);
            }
            if asks_guest {
                asked.push(guest_delta(&self.watch, delta, |object| {
                    projection.bytes(object)
                }));
            }
        }
        if !asked.is_empty() && !self.ask_guest(&asked).await {
            for delta in &asked {
                self.ask_guest_until_it_succeeds(delta).await;
            }
        }
    }

    /// Gives deltas to the guest's `route`, and returns whether it succeeded.
    async fn ask_guest(&self, deltas: &[flyball_plugin::Delta]) -> bool {
        let (plugin, context, count) = (self.plugin.clone(), self.context.clone(), deltas.len());
        let deltas = deltas.to_vec();
        let turn = self.context.route_turns.run(async move {
            let routed = call_route(&plugin, &context, deltas).await;
            if let Err(error) = &routed {
                let controller = context.name();
                tracing::warn!(
                    controller,
                    deltas = count,
                    "`route` failed and is retried: {error}"
                );
            }
            routed.is_ok()
        });
        turn.await.unwrap_or(false)
    }

    async fn ask_guest_until_it_succeeds(&self, delta: &flyball_plugin::Delta) {
        let (mut wait, most) = ROUTE_RETRY;
        while !self.ask_guest(std::slice::from_ref(delta)).await {
            tokio::time::sleep(wait).await;
            wait = (wait * 2).min(most);
        }
    }
}

/// Calls the guest's `route` once and enqueues the keys that it returns. The error is a sentence for the log.
async fn call_route(
    plugin: &Plugin,
    context: &Arc<PluginContext>,
    deltas: Vec<flyball_plugin::Delta>,
) -> Result<(), String> {
    let call = GuestCall::new(context.clone(), "route".into());
    let routed = plugin
        .route(call.clone(), deltas)
        .await
        .map_err(|error| error.to_string())??;
    call.commit();
    for key in routed {
        let checked = context.queue(&key.queue).and_then(|queue| {
            let held = queue.held_keys();
            context.limits.check_key(held, &key.key).map(|()| queue)
        });
        match checked {
            Ok(queue) => queue.add(key.key.into(), key.delay, &"route".into()),
            Err(error) => {
                tracing::warn!(controller = context.name(), %error, "dropped a key that `route` returned");
            }
        }
    }
    Ok(())
}

/// Subscribes to the deltas that may concern a watch. All deletions do, because they remove entries of the memo.
fn subscribe(informer: &Informer, router: &Arc<Router>) -> Deltas {
    let router = router.clone();
    informer.subscribe_to(move |delta| {
        delta.delta_type() == DeltaType::Deleted || router.may_concern(delta)
    })
}

/// A delta as the guest's `route` receives it. `json` returns what the plugin sees of an object.
fn guest_delta(
    watch: &str,
    delta: &Delta,
    mut json: impl FnMut(&Arc<Object>) -> Bytes,
) -> flyball_plugin::Delta {
    // An object that was created and deleted since the last delta has neither: its last version stands for `old`.
    let last = || delta.between.last().filter(|_| delta.new.is_none());
    flyball_plugin::Delta {
        watch: watch.into(),
        delta_type: delta.delta_type(),
        old: delta.old.as_ref().or_else(last).map(&mut json),
        new: delta.new.as_ref().map(&mut json),
        initial: delta.initial,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(version: u32) -> Arc<Object> {
        let json = format!(
            r#"{{"metadata": {{"name": "a", "uid": "u", "resourceVersion": "{version}"}}}}"#
        );
        Object::parse(json.as_bytes()).expect("it is an object")
    }

    fn old_version(delta: &Delta) -> Option<String> {
        let old = guest_delta("v1/Secret", delta, Object::bytes).old?;
        let old: serde_json::Value = serde_json::from_slice(&old).expect("it is JSON");
        old["metadata"]["resourceVersion"]
            .as_str()
            .map(str::to_owned)
    }

    #[test]
    fn a_guest_is_given_the_last_version_of_an_object_that_was_created_and_deleted_in_between() {
        let delta = Delta {
            old: None,
            new: None,
            between: vec![object(1), object(2)],
            initial: false,
        };
        assert_eq!(old_version(&delta).as_deref(), Some("2"));
        let known = Delta {
            old: Some(object(1)),
            ..delta.clone()
        };
        assert_eq!(old_version(&known).as_deref(), Some("1"));
        let there = Delta {
            new: Some(object(3)),
            ..delta
        };
        assert_eq!(old_version(&there), None);
    }
}
