//! Routes the deltas of one watch to keys in the plugin's queues. `router.rs` selects the deltas that wake the watch, and
//! applies the declared mappings. Deltas of mappings to `route` go to the guest, by way of `guest_route.rs`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use flyball_cache::{Delta, Deltas, Informer, Seen, Select};
use flyball_plugin::{Plugin, Quota};
use flyball_reads::cached::WatchView;
use flyball_types::description::DeltaType;
use flyball_types::{FieldPath, Kind};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::context::PluginContext;
use crate::guest_route::{GuestRoute, RouteSender};
use crate::memo::Memo;
use crate::router::{Enqueue, Router};
use crate::tickers::jittered;
use crate::traces;

/// How many deltas are routed before other tasks may run.
const BATCH: usize = 256;
/// How long a plugin's deltas are routed before the plugin's other work has its turn. A guest computes for the same
/// time in one turn.
const TURN: Duration = Duration::from_millis(2);
/// The maximum size in bytes of old versions of objects that wait for the routing of a dropped-in plugin, and the
/// minimum of one watch.
const BACKLOG: (usize, usize) = (32 << 20, 1 << 20);

/// Routes the deltas of one watch and one informer.
pub(super) struct WatchRouter {
    plugin: Plugin,
    context: Arc<PluginContext>,
    router: Arc<Router>,
    /// None if no mapping of the watch is to the guest's `route`.
    guest: Option<RouteSender>,
    kind: Arc<Kind>,
    /// The informer's objects that the plugin sees.
    view: WatchView,
    /// How many watches have not yet routed the initial objects of their informers.
    left: watch::Sender<usize>,
    finish: CancellationToken,
}

/// The position up to which the deltas of a batch are routed.
#[derive(Default)]
struct Progress {
    delta: usize,
    /// The next mapping of the delta.
    mapping: usize,
    /// Whether the watch selects the change of the delta, once that is known.
    is_selected: Option<bool>,
}

impl WatchRouter {
    /// Routes the objects of an informer and then its changes, until `finish`; then it routes the deltas that are left
    /// and ends.
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
        let cached = &context.reads.cached;
        let guest_route = router.has_guest_route().then(|| {
            let view = cached.route_view(&informer);
            let view = context.telemetry.incidents.report_denial(view).ok()?;
            Some(guest.sender(&kind, view, &left))
        });
        let view = cached.watch_view(&informer);
        let routing = Self {
            plugin: plugin.clone(),
            context: context.clone(),
            guest: guest_route.flatten(),
            router,
            view,
            kind,
            left,
            finish,
        };
        // At once if possible, so that an earlier version may end.
        let subscribed = informer.is_synced().then(|| routing.subscribe(&informer));
        async move {
            let deltas = match subscribed {
                Some(deltas) => deltas,
                None => {
                    tokio::select! {
                        () = informer.synced() => routing.subscribe(&informer),
                        () = routing.finish.cancelled() => return,
                    }
                }
            };
            let resyncs = routing.resyncs(&informer);
            tokio::pin!(resyncs);
            tokio::select! {
                () = routing.route_all(deltas) => {}
                () = &mut resyncs => {}
            }
        }
    }

    /// Subscribes to the deltas that may concern the watch.
    fn subscribe(&self, informer: &Informer) -> Deltas {
        let concern = Concern {
            router: self.router.clone(),
            memo: self.context.memo.clone(),
            quota: self.plugin.quota(),
        };
        informer.subscribe_with(concern, backlog(&self.plugin, &self.context))
    }

    /// Enqueues the keys of all objects again and again, as client-go's resync does, where the watch enqueues the
    /// objects themselves. Never ends.
    async fn resyncs(&self, informer: &Informer) {
        let mappings: Vec<usize> = (0..self.router.mapping_count())
            .filter(|mapping| self.router.is_to_itself(*mapping))
            .collect();
        let period = self.context.settings.pace.resync;
        let Some(period) = period.filter(|_| !mappings.is_empty()) else {
            return std::future::pending().await;
        };
        loop {
            tokio::time::sleep(jittered(period)).await;
            let mut all = self.subscribe(informer);
            while let Some(batch) = all.next(BATCH).await {
                let mut next = 0;
                while self
                    .plugin
                    .work(|| self.resync(&batch.deltas, &mappings, &mut next))
                    .await
                {}
                if batch.initial_done {
                    break;
                }
            }
        }
    }

    /// Enqueues the keys of these objects until the turn is over. Returns whether some are left.
    fn resync(&self, deltas: &[Delta], mappings: &[usize], next: &mut usize) -> bool {
        let began = Instant::now();
        while let Some(delta) = deltas.get(*next) {
            if delta.new.is_some() && self.view.shows(delta.object()) {
                let seen = self.router.seen(delta);
                for mapping in mappings {
                    self.map(&seen, *mapping, &mut || true);
                }
            }
            *next += 1;
            if began.elapsed() >= TURN {
                break;
            }
        }
        *next < deltas.len()
    }

    async fn route_all(&self, mut deltas: Deltas) {
        let mut initial = true;
        loop {
            let batch = tokio::select! {
                batch = deltas.next(BATCH) => batch,
                () = self.finish.cancelled() => deltas.try_next(BATCH),
            };
            let Some(mut batch) = batch else { return };
            if batch.restarted {
                self.context.limits.note_restart();
            }
            let deltas = &mut batch.deltas;
            self.plugin
                .work(|| {
                    deltas.retain(|delta| self.view.shows(delta.object()));
                    deltas.iter().for_each(|delta| self.forget_deleted(delta));
                })
                .await;
            let mut progress = Progress::default();
            while self
                .plugin
                .work(|| self.route_for_a_turn(&batch.deltas, &mut progress))
                .await
            {}
            if initial && batch.initial_done {
                initial = false;
                match &self.guest {
                    Some(guest) => guest.end_initial(),
                    None => self.left.send_modify(|left| *left -= 1),
                }
            }
        }
    }

    /// Routes deltas until the turn is over. Returns whether some are left.
    fn route_for_a_turn(&self, deltas: &[Delta], progress: &mut Progress) -> bool {
        let began = Instant::now();
        while let Some(delta) = deltas.get(progress.delta) {
            if !self.route_delta(delta, progress, began) {
                return true;
            }
            if began.elapsed() >= TURN {
                break;
            }
        }
        progress.delta < deltas.len()
    }

    /// Routes the rest of a delta. Returns false if the turn, which began then, is over before.
    fn route_delta(&self, delta: &Delta, progress: &mut Progress, began: Instant) -> bool {
        let seen = self.router.seen(delta);
        let is_selected = &mut progress.is_selected;
        let mut is_selected =
            || *is_selected.get_or_insert_with(|| self.router.selects_change(&seen));
        while progress.mapping < self.router.mapping_count() {
            self.map(&seen, progress.mapping, &mut is_selected);
            progress.mapping += 1;
            if began.elapsed() >= TURN {
                return false;
            }
        }
        self.ask_guest(&seen, &mut is_selected);
        *progress = Progress {
            delta: progress.delta + 1,
            ..Progress::default()
        };
        true
    }

    /// Enqueues the keys that a mapping yields, if the watch selects the change.
    fn map(&self, seen: &Seen<'_>, mapping: usize, is_selected: &mut impl FnMut() -> bool) {
        let (delta, cached) = (seen.delta(), &*self.context.reads.cached);
        let keys = self.router.keys(mapping, seen, cached);
        // The cheaper test first: most deltas yield no key.
        if keys.is_empty() || !is_selected() {
            return;
        }
        let trace = traces::of_delta(&self.context.telemetry.tracer, &self.kind, delta);
        for Enqueue { queue, key, delay } in keys {
            let queue = &self.context.queues[queue];
            queue.enqueue(key, delay, &self.kind, delta, trace.clone());
        }
    }

    /// Passes a delta to the guest's `route`, if the watch selects the change and asks for `route`.
    fn ask_guest(&self, seen: &Seen<'_>, is_selected: &mut impl FnMut() -> bool) {
        if let Some(guest) = &self.guest
            && self.router.asks_guest(seen, &*self.context.reads.cached)
            && is_selected()
        {
            guest.push(seen.delta());
        }
    }

    /// Removes the memo's entries that are tagged with a deleted object.
    fn forget_deleted(&self, delta: &Delta) {
        if let (Some(old), true) = (&delta.old, delta.delta_type() == DeltaType::Deleted) {
            self.context.memo.object_deleted(&old.uid().to_string());
        }
    }
}

/// The choice of the deltas that may concern a watch: those that may yield keys, and deletions of objects that entries of
/// the memo are tagged with.
///
/// The values of a plugin with a CPU quota are not found here, where the cache waits for them, but when its deltas are
/// routed, at its own expense. It is charged for the choice, which depends on metadata alone.
struct Concern {
    router: Arc<Router>,
    memo: Arc<Memo>,
    quota: Option<Quota>,
}

impl Concern {
    /// Whether entries of the memo are tagged with an object that was deleted.
    fn is_remembered(&self, delta: &Delta) -> bool {
        delta.delta_type() == DeltaType::Deleted && { delta.old.as_ref() }
            .is_some_and(|old| self.memo.has_entries_of(old.uid()))
    }
}

impl Select for Concern {
    fn shared_paths(&self) -> &[FieldPath] {
        match self.quota {
            Some(_) => &[],
            None => self.router.paths(),
        }
    }

    fn selects(&self, seen: &Seen<'_>) -> bool {
        let delta = seen.delta();
        match &self.quota {
            Some(quota) => quota.charge_brief(|| {
                delta.delta_type() == DeltaType::Deleted || self.router.may_concern(delta)
            }),
            None => self.router.concerns(seen) || self.is_remembered(delta),
        }
    }

    fn may_select(&self, added: &Delta) -> bool {
        let decide = || self.router.may_concern(added);
        match &self.quota {
            Some(quota) => quota.charge_brief(decide),
            None => decide(),
        }
    }
}

/// The most bytes of old versions that wait for one watch; none for built-ins, which must not lose changes.
fn backlog(plugin: &Plugin, context: &PluginContext) -> Option<usize> {
    let watches = context.settings.description.watches.len().max(1);
    let (all, least) = BACKLOG;
    (!plugin.limits().is_reserved).then(|| (all / watches).max(least))
}
