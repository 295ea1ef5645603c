//! One running plugin: routes the deltas of its watches to its queues, and its workers call the guest for each key.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use flyball_cache::{Batch, Deltas, Informer};
use flyball_plugin::{CallError, Outcome, Plugin};
use flyball_types::Kind;
use flyball_types::description::DeltaType;
use flyball_workqueue::{Item, Priority};
use serde_json::value::RawValue;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior};
use tokio_util::sync::CancellationToken;

use crate::limits::quarantine::{Admission, Pass};
use crate::policy::parse_duration;
use crate::runtime::call::Call;
use crate::runtime::discovered::Following;
use crate::runtime::history::Entry;
use crate::runtime::queue::{Queue, Reason};
use crate::runtime::router::Router;
use crate::runtime::services::Services;

/// How many deltas are routed between two looks at other tasks.
const ROUTED_AT_ONCE: usize = 256;
/// How long to wait before a delta is given to a guest's `route` again, at first and at most.
const ROUTE_RETRY: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(30));
/// How often memory of acknowledged writes is given back, and instances that nobody uses.
const TIDY: Duration = Duration::from_secs(10);
/// An instance that was not used for so long is given back.
const IDLE: Duration = Duration::from_secs(60);

/// A running version of a plugin.
pub(crate) struct Controller {
    plugin: Plugin,
    services: Arc<Services>,
    workers: JoinSet<()>,
    routers: JoinSet<()>,
    others: JoinSet<()>,
    /// How many watches have not routed what their informers held at first.
    unrouted: watch::Receiver<usize>,
    /// The workers take no more keys.
    stop: CancellationToken,
    /// The routers route what is there, and end.
    finish: CancellationToken,
}

/// When a controller's workers may begin.
pub(crate) enum Begin<'a> {
    /// When all that its informers held was routed, and this process leads.
    Leading(&'a watch::Receiver<bool>),
    /// As soon as this process leads: another version of the plugin is at work, whose keys go on.
    TakingOver(&'a watch::Receiver<bool>),
}

impl Controller {
    /// Starts the plugin on its informers, each with the number of its watch in the description, and on those of the kinds
    /// that it follows. From here on no change of an informer that is synced is missed.
    pub(crate) fn start(
        plugin: Plugin,
        services: Arc<Services>,
        informers: &[(usize, Informer)],
        following: Option<Following>,
        concurrency: u32,
        begin: &Begin<'_>,
    ) -> Self {
        let (stop, finish) = (CancellationToken::new(), CancellationToken::new());
        let (mut workers, mut routers, mut others) =
            (JoinSet::new(), JoinSet::new(), JoinSet::new());
        let (left, unrouted) = watch::channel(informers.len() + usize::from(following.is_some()));
        for (watch, informer) in informers {
            let left = left.clone();
            routers.spawn(Routing::of(
                &plugin,
                &services,
                *watch,
                informer.clone(),
                left,
                finish.clone(),
            ));
        }
        if let Some(following) = following {
            let (plugin, services, finish, watch) = (
                plugin.clone(),
                services.clone(),
                finish.clone(),
                following.watch(),
            );
            routers.spawn(async move {
                let each = finish.clone();
                let route = |informer, left| {
                    Routing::of(&plugin, &services, watch, informer, left, each.clone())
                };
                following
                    .run(
                        services.clone(),
                        route,
                        || left.send_modify(|left| *left -= 1),
                        finish,
                    )
                    .await;
            });
        }
        let (leading, takes_over) = match begin {
            Begin::Leading(leading) => (leading, false),
            Begin::TakingOver(leading) => (leading, true),
        };
        for ticker in &services.description.tickers {
            let (services, ticker, mut leading) =
                (services.clone(), ticker.clone(), (*leading).clone());
            others.spawn(until(stop.clone(), async move {
                if leading.wait_for(|leading| *leading).await.is_ok() {
                    tick(&services, &ticker).await;
                }
            }));
        }
        if !*leading.borrow() {
            // What was derived while another process led may be out of date.
            let (services, mut leading) = (services.clone(), (*leading).clone());
            others.spawn(until(stop.clone(), async move {
                if leading.wait_for(|leading| *leading).await.is_ok() {
                    services.memo.clear();
                }
            }));
        }
        let (tidied, trimmed) = (services.clone(), plugin.clone());
        others.spawn(until(stop.clone(), async move {
            loop {
                tokio::time::sleep(TIDY).await;
                tidied.tidy();
                trimmed.trim_idle(IDLE);
            }
        }));
        for number in 0..services.queues.len() {
            for _ in 0..concurrency.max(1) {
                let worker = Worker {
                    plugin: plugin.clone(),
                    services: services.clone(),
                    queue: number,
                };
                let (mut unrouted, mut leading) = (unrouted.clone(), (*leading).clone());
                let stop = stop.clone();
                workers.spawn(async move {
                    let ready = async {
                        (takes_over || unrouted.wait_for(|left| *left == 0).await.is_ok())
                            && leading.wait_for(|leading| *leading).await.is_ok()
                    };
                    tokio::select! {
                        // Without anybody left to say so, which happens at the end alone.
                        ready = ready => if !ready { return },
                        () = stop.cancelled() => return,
                    }
                    worker.run(&stop).await;
                });
            }
        }
        Self {
            plugin,
            services,
            workers,
            routers,
            others,
            unrouted,
            stop,
            finish,
        }
    }

    /// What it works with.
    pub(crate) fn services(&self) -> &Arc<Services> {
        &self.services
    }

    /// What runs its guest.
    pub(crate) fn plugin(&self) -> &Plugin {
        &self.plugin
    }

    /// Tells when all that the informers held at first was routed: at zero.
    pub(crate) fn unrouted(&self) -> watch::Receiver<usize> {
        self.unrouted.clone()
    }

    /// Takes no more keys: another version does.
    pub(crate) fn hand_over(&self) {
        self.stop.cancel();
        self.services.guard.quarantine.close();
    }

    /// The plugin's name.
    pub(crate) fn name(&self) -> &str {
        self.services.name()
    }

    /// Ends a version whose queues go on with another: lets the calls that run end, and routes what it was told of, once
    /// `routed` by the other is all that was there when it came.
    pub(crate) async fn retire(mut self, mut routed: watch::Receiver<usize>, at_most: Duration) {
        self.hand_over();
        // Without anybody left to say so, the other has ended too.
        let _ = routed.wait_for(|left| *left == 0).await;
        self.finish.cancel();
        while self.routers.join_next().await.is_some() {}
        self.end(Instant::now() + at_most).await;
    }

    /// Takes no more keys, lets the calls that run end, sends the last events, and stops.
    pub(crate) async fn drain(mut self, at_most: Duration) {
        self.stop.cancel();
        self.services.guard.quarantine.close();
        for queue in &self.services.queues {
            queue.keys.shutdown();
        }
        self.routers.shutdown().await;
        self.end(Instant::now() + at_most).await;
    }

    async fn end(mut self, deadline: Instant) {
        let ended = tokio::time::timeout_at(deadline, async {
            while self.workers.join_next().await.is_some() {}
        })
        .await;
        if ended.is_err() {
            tracing::warn!(
                controller = self.name(),
                "stopped reconciles that did not end in time"
            );
            self.workers.shutdown().await;
        }
        self.others.shutdown().await;
        match Arc::try_unwrap(self.services) {
            Ok(services) => {
                services
                    .recorder
                    .drain(deadline.saturating_duration_since(Instant::now()))
                    .await
            }
            Err(services) => {
                tracing::debug!(controller = services.name(), "writes are still under way")
            }
        }
    }
}

async fn until(stop: CancellationToken, task: impl Future<Output = ()>) {
    tokio::select! {
        () = task => {}
        () = stop.cancelled() => {}
    }
}

async fn tick(services: &Services, ticker: &flyball_types::description::Ticker) {
    let configured = services
        .config(&ticker.config)
        .and_then(|text| parse_duration(&text));
    let period = configured
        .unwrap_or(Duration::from_millis(ticker.period_ms.into()))
        .max(Duration::from_millis(1));
    let Ok(queue) = services.queue(&ticker.queue) else {
        return;
    };
    let mut interval = tokio::time::interval(period);
    interval.set_missed_tick_behavior(MissedTickBehavior::Skip);
    loop {
        interval.tick().await;
        queue
            .keys
            .add(ticker.key.as_str().into(), Priority::Normal, Reason::Tick);
    }
}

/// Turns the deltas of one watch into keys.
struct Routing {
    plugin: Plugin,
    services: Arc<Services>,
    router: Arc<Router>,
    /// The watch's name in what `route` gets.
    watch: String,
    kind: Arc<Kind>,
    /// The namespaces that the policy shows the plugin; all if none.
    namespaces: Option<BTreeSet<String>>,
    /// How many watches have not routed what their informers held at first.
    left: watch::Sender<usize>,
    finish: CancellationToken,
}

impl Routing {
    /// Routes what an informer holds and its changes from then on, until `finish`, when it routes what is there and ends.
    fn of(
        plugin: &Plugin,
        services: &Arc<Services>,
        watch: usize,
        informer: Informer,
        left: watch::Sender<usize>,
        finish: CancellationToken,
    ) -> impl Future<Output = ()> + Send + use<> {
        let kind = informer.resource().kind.clone();
        let router = Arc::new(Router::new(
            &services.description,
            &services.description.watches[watch],
            &kind,
        ));
        // At once where it can be, so that an earlier version may end.
        let subscribed = informer.is_synced().then(|| subscribe(&informer, &router));
        let routing = Self {
            plugin: plugin.clone(),
            services: services.clone(),
            router,
            watch: kind.to_string(),
            namespaces: services.policy.watched_namespaces(&kind),
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
            routing.run(deltas).await;
        }
    }

    async fn run(self, mut deltas: Deltas) {
        let mut initial = true;
        loop {
            let batch = tokio::select! {
                batch = deltas.next(ROUTED_AT_ONCE) => batch,
                () = self.finish.cancelled() => deltas.try_next(ROUTED_AT_ONCE),
            };
            let Some(mut batch) = batch else { return };
            if let Some(namespaces) = &self.namespaces {
                batch
                    .deltas
                    .retain(|delta| namespaces.contains(delta.object().namespace()));
            }
            self.route(&batch).await;
            if initial && batch.initial_done {
                initial = false;
                self.left.send_modify(|left| *left -= 1);
            }
        }
    }

    async fn route(&self, batch: &Batch) {
        let mut asked = Vec::new();
        for delta in &batch.deltas {
            if let (Some(old), true) = (&delta.old, delta.delta_type() == DeltaType::Deleted) {
                self.services.memo.object_deleted(&old.uid().to_string());
            }
            // First what mostly costs less: for most deltas a plugin has no key.
            let (keys, asks_guest) = (
                self.router.route(delta, &*self.services.views),
                self.router.asks_guest(delta),
            );
            if (keys.is_empty() && !asks_guest) || !self.router.counts(delta) {
                continue;
            }
            for routed in keys {
                self.services.queues[routed.queue].route(
                    routed.key,
                    routed.delay,
                    &self.kind,
                    delta,
                );
            }
            asked.extend(
                asks_guest
                    .then(|| GuestDelta::new(&self.watch, delta))
                    .flatten(),
            );
        }
        if !asked.is_empty() && !self.ask_guest(&asked).await {
            for delta in &asked {
                self.ask_until_it_works(delta).await;
            }
        }
    }

    /// Gives deltas to the guest's `route`; whether it worked.
    async fn ask_guest(&self, deltas: &[GuestDelta<'_>]) -> bool {
        let batch = match serde_json::to_vec(deltas) {
            Ok(batch) => batch,
            Err(error) => {
                tracing::error!(controller = self.services.name(), %error, "can't write deltas for `route`");
                return true;
            }
        };
        let _one_at_a_time = self.services.routing.lock().await;
        let call = Call::new(self.services.clone(), "route".into());
        match self.plugin.route(call.clone(), batch.into()).await {
            Ok(Err(message)) => {
                tracing::warn!(
                    controller = self.services.name(),
                    deltas = deltas.len(),
                    "`route` failed: {message}"
                );
                false
            }
            Ok(Ok(routed)) => {
                call.commit();
                for routed in routed {
                    let queue = self.services.queue(&routed.queue).and_then(|queue| {
                        self.services
                            .guard
                            .check_key(queue.held_keys(), &routed.key)
                            .map(|()| queue)
                    });
                    match queue {
                        Ok(queue) => queue.add(routed.key.into(), routed.delay, &"route".into()),
                        Err(error) => {
                            tracing::warn!(controller = self.services.name(), %error, "`route` is wrong")
                        }
                    }
                }
                true
            }
            Err(error) => {
                tracing::warn!(controller = self.services.name(), %error, deltas = deltas.len(), "`route` failed");
                false
            }
        }
    }

    async fn ask_until_it_works(&self, delta: &GuestDelta<'_>) {
        let (mut wait, most) = ROUTE_RETRY;
        while !self.ask_guest(std::slice::from_ref(delta)).await {
            tokio::time::sleep(wait).await;
            wait = (wait * 2).min(most);
        }
    }
}

/// Subscribes to what may concern a watch. All that goes does: with it goes what is remembered of it.
fn subscribe(informer: &Informer, router: &Arc<Router>) -> Deltas {
    let router = router.clone();
    informer.subscribe_to(move |delta| {
        delta.delta_type() == DeltaType::Deleted || router.may_concern(delta)
    })
}

/// A delta as `route` gets it.
#[derive(serde::Serialize)]
struct GuestDelta<'a> {
    watch: &'a str,
    #[serde(rename = "type")]
    delta_type: DeltaType,
    old: Option<&'a RawValue>,
    new: Option<&'a RawValue>,
    initial: bool,
}

impl<'a> GuestDelta<'a> {
    fn new(watch: &'a str, delta: &'a flyball_cache::Delta) -> Option<Self> {
        let raw =
            |object: &'a Arc<flyball_cache::Object>| serde_json::from_slice(object.json()).ok();
        // What came and went before anybody asked has neither: its last version tells what it was.
        let last = || delta.between.last().filter(|_| delta.new.is_none());
        let old = delta.old.as_ref().or_else(last).and_then(raw);
        let new = delta.new.as_ref().and_then(raw);
        Some(Self {
            watch,
            delta_type: delta.delta_type(),
            old,
            new,
            initial: delta.initial,
        })
    }
}

/// Reconciles keys of one queue, one at a time.
struct Worker {
    plugin: Plugin,
    services: Arc<Services>,
    queue: usize,
}

impl Worker {
    async fn run(self, stop: &CancellationToken) {
        let queue = &self.services.queues[self.queue];
        loop {
            let item = tokio::select! {
                biased;
                () = stop.cancelled() => return,
                item = queue.keys.get() => item,
            };
            let Some(item) = item else { return };
            self.reconcile(queue, item).await;
        }
    }

    async fn reconcile(&self, queue: &Queue, item: Item<Arc<str>, Reason>) {
        let key = item.key().clone();
        let pass = match self.services.guard.quarantine.admit(self.queue, &key).await {
            Admission::Go(pass) => pass,
            Admission::Later(delay) => {
                return queue
                    .keys
                    .add_after(key, delay, Priority::Normal, Reason::HeldBack);
            }
            // Another version may take it.
            Admission::Closed => return queue.keys.add(key, Priority::Normal, Reason::HeldBack),
        };
        let attempt = queue.keys.num_requeues(&key);
        let started = Instant::now();
        let call = Call::new(self.services.clone(), key.clone());
        let result = self
            .plugin
            .reconcile(call.clone(), &queue.name, &key, attempt)
            .await;
        if result.is_ok() {
            call.commit();
        }
        call.settle().await;
        self.log(&item, attempt, started, &call, &result);
        self.note(pass, &result);
        self.services.history.add(Entry {
            at: SystemTime::now(),
            queue: queue.name.clone(),
            key: key.clone(),
            why: item.causes().first.clone(),
            coalesced: item.causes().coalesced,
            attempt,
            queued: item.queued(),
            took: started.elapsed(),
            failed: match &result {
                Ok(Outcome::Done | Outcome::RequeueAfter(_)) => None,
                Ok(Outcome::Failed(message) | Outcome::Terminal(message)) => Some(message.clone()),
                Err(error) => Some(error.to_string()),
            },
            wrote: call.take_touched(),
        });
        match result {
            Ok(Outcome::Done) => queue.keys.forget(&key),
            Ok(Outcome::RequeueAfter(delay)) => {
                queue.keys.forget(&key);
                queue.add(key.clone(), delay, &key);
            }
            Ok(Outcome::Terminal(_)) => queue.keys.forget(&key),
            Ok(Outcome::Failed(_)) | Err(_) => self.retry(queue, key),
        }
    }

    /// Tells the quarantine how a call ended.
    fn note(&self, pass: Pass<'_>, result: &Result<Outcome, CallError>) {
        let controller = self.services.name();
        match result {
            Ok(_) => {
                if pass.returned() {
                    tracing::info!(controller, "the quarantine is over: a call returned");
                }
            }
            Err(error) if error.is_of_guest() => {
                if let Some(pause) = pass.failed(&error.to_string()) {
                    tracing::error!(
                        controller,
                        ?pause,
                        "quarantined: it fails on every key, of late with: {error}"
                    );
                }
            }
            // No fault of the guest.
            Err(_) => {}
        }
    }

    fn retry(&self, queue: &Queue, key: Arc<str>) {
        if queue
            .max_retries
            .is_some_and(|most| queue.keys.num_requeues(&key) >= most)
        {
            tracing::warn!(
                controller = self.services.name(),
                key = &*key,
                "gave up until something changes"
            );
            queue.keys.forget(&key);
        } else {
            queue
                .keys
                .add_rate_limited(key, Priority::Normal, Reason::Retry);
        }
    }

    fn log(
        &self,
        item: &Item<Arc<str>, Reason>,
        attempt: u32,
        started: Instant,
        call: &Call,
        result: &Result<Outcome, CallError>,
    ) {
        let is_well = matches!(result, Ok(Outcome::Done | Outcome::RequeueAfter(_)));
        if is_well && !tracing::enabled!(target: "flyball::reconcile", tracing::Level::DEBUG) {
            return;
        }
        let (controller, key) = (self.services.name(), &**item.key());
        let causes = item.causes();
        let why = causes.first.to_string();
        let (coalesced, wrote) = (causes.coalesced, call.summary());
        let took_ms = (started.elapsed().as_secs_f64() * 1e5).round() / 1e2;
        let queued_ms = (item.queued().as_secs_f64() * 1e5).round() / 1e2;
        match result {
            Ok(Outcome::Done | Outcome::RequeueAfter(_)) => {
                tracing::debug!(
                    target: "flyball::reconcile",
                    controller, key, why, coalesced, wrote, took_ms, queued_ms, "reconciled"
                );
            }
            Ok(Outcome::Failed(message)) => {
                tracing::warn!(
                    target: "flyball::reconcile",
                    controller, key, why, coalesced, wrote, took_ms, queued_ms, attempt, "failed: {message}"
                );
            }
            Ok(Outcome::Terminal(message)) => {
                tracing::error!(
                    target: "flyball::reconcile",
                    controller, key, why, coalesced, wrote, took_ms, queued_ms, attempt, "failed for good: {message}"
                );
            }
            Err(error) => {
                let backtrace = error.backtrace().unwrap_or_default();
                tracing::error!(
                    target: "flyball::reconcile",
                    controller, key, why, coalesced, wrote, took_ms, queued_ms, attempt, backtrace, "{error}"
                );
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use flyball_cache::{Delta, Object};

    use super::*;

    fn object(version: u32) -> Arc<Object> {
        let json = format!(
            r#"{{"metadata": {{"name": "a", "uid": "u", "resourceVersion": "{version}"}}}}"#
        );
        Object::parse(json.as_bytes()).expect("it is an object")
    }

    fn old_version(delta: &Delta) -> Option<String> {
        let json = serde_json::to_value(GuestDelta::new("v1/Secret", delta)).expect("it is JSON");
        json["old"]["metadata"]["resourceVersion"]
            .as_str()
            .map(str::to_owned)
    }

    #[test]
    fn a_guest_is_told_what_came_and_went_before_it_was_asked() {
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
