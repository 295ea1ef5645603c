//! From the deltas of one watch to keys in the plugin's queues: `router.rs` applies the declared mappings. What they cannot
//! express goes to the guest's `route`, by way of `guest_route.rs`.

use std::sync::Arc;

use flyball_cache::{Delta, Deltas, Informer, Lister};
use flyball_plugin::Plugin;
use flyball_types::Kind;
use flyball_types::description::DeltaType;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::runtime::context::PluginContext;
use crate::runtime::guest_route::{GuestRoute, RouteSender};
use crate::runtime::router::{Enqueue, Router};

/// How many deltas are routed before other tasks may run.
const BATCH: usize = 256;

/// Routes the deltas of one watch and one informer.
pub(super) struct WatchRoute {
    plugin: Plugin,
    context: Arc<PluginContext>,
    router: Arc<Router>,
    /// None if no mapping of the watch is to the guest's `route`.
    guest: Option<RouteSender>,
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
        guest: &Arc<GuestRoute>,
        watch: usize,
        informer: Informer,
        left: watch::Sender<usize>,
        finish: CancellationToken,
    ) -> impl Future<Output = ()> + Send + use<> {
        let kind = Arc::new(informer.resource().kind.clone());
        let router = Arc::new(Router::new(
            &context.settings.description,
            &context.settings.description.watches[watch],
            &kind,
        ));
        // At once if possible, so that an earlier version may end.
        let subscribed = informer.is_synced().then(|| subscribe(&informer, &router));
        let lister = context.reads.cached.lister(&informer);
        let routing = Self {
            plugin: plugin.clone(),
            context: context.clone(),
            guest: router
                .has_guest_route()
                .then(|| guest.sender(&kind, &lister, &left)),
            router,
            lister,
            kind,
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
            let Some(batch) = batch else { return };
            let deltas = batch.deltas.iter();
            for delta in deltas.filter(|delta| self.lister.shows(delta.object())) {
                self.plugin.work(|| self.route(delta)).await;
            }
            if initial && batch.initial_done {
                initial = false;
                match &self.guest {
                    Some(guest) => guest.end_initial(),
                    None => self.left.send_modify(|left| *left -= 1),
                }
            }
        }
    }

    fn route(&self, delta: &Delta) {
        if let (Some(old), true) = (&delta.old, delta.delta_type() == DeltaType::Deleted) {
            self.context.memo.object_deleted(&old.uid().to_string());
        }
        // The cheaper test first: most deltas yield no key.
        let (keys, asks_guest) = (
            self.router.route(delta, &*self.context.reads.cached),
            self.router.asks_guest(delta),
        );
        if (keys.is_empty() && !asks_guest) || !self.router.counts(delta) {
            return;
        }
        for Enqueue { queue, key, delay } in keys {
            self.context.queues[queue].route(key, delay, &self.kind, delta);
        }
        if let Some(guest) = self.guest.as_ref().filter(|_| asks_guest) {
            guest.push(delta);
        }
    }
}

/// Subscribes to the deltas that may concern a watch. All deletions do, because they remove entries of the memo.
fn subscribe(informer: &Informer, router: &Arc<Router>) -> Deltas {
    let router = router.clone();
    informer.subscribe_to(move |delta| {
        delta.delta_type() == DeltaType::Deleted || router.may_concern(delta)
    })
}
