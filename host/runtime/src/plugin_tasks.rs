//! The tasks of one running version of a plugin: they route the deltas of its watches, work on its queues, tick and
//! tidy. They start together, and end together when another version takes over or the plugin is removed.

use std::sync::Arc;
use std::time::Duration;

use flyball_cache::Informer;
use flyball_plugin::Plugin;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::context::PluginContext;
use crate::discovered_informers::DiscoveredInformers;
use crate::guest_route::GuestRoute;
use crate::idle;
use crate::tickers::{jittered, tick};
use crate::watch_router::WatchRouter;
use crate::worker::{Worker, work};

/// The interval at which entries that nobody uses are dropped, and at which the trend is sampled.
pub(crate) const TIDY: Duration = Duration::from_secs(10);

/// How long the calls of a removed plugin may go on.
const REMOVAL: Duration = Duration::from_secs(1);

/// The tasks of a running version of a plugin.
pub struct PluginTasks {
    plugin: Plugin,
    context: Arc<PluginContext>,
    workers: JoinSet<()>,
    routes: JoinSet<()>,
    others: JoinSet<()>,
    /// How many watches have not yet routed the initial objects of their informers.
    unrouted: watch::Receiver<usize>,
    /// Cancelled when the workers take no more keys.
    stop: CancellationToken,
    /// Cancelled to end the routes, after they have routed the deltas that they received.
    finish: CancellationToken,
}

/// When the workers may begin.
pub enum Begin<'a> {
    /// Once all initial objects are routed, and this process leads.
    Leading(&'a watch::Receiver<bool>),
    /// Once this process leads. Another version of the plugin is at work, and its keys are taken over.
    TakingOver(&'a watch::Receiver<bool>),
}

impl PluginTasks {
    /// Starts the plugin on its informers, each with the number of its watch in the description, and on the informers
    /// of the kinds that it discovers. From here on, no change of a synced informer is missed.
    pub fn start(
        plugin: Plugin,
        context: Arc<PluginContext>,
        informers: &[(usize, Informer)],
        discovered: Option<DiscoveredInformers>,
        concurrency: u32,
        begin: &Begin<'_>,
    ) -> Self {
        let watches = informers.len() + usize::from(discovered.is_some());
        let (left, unrouted) = watch::channel(watches);
        let mut tasks = Self {
            plugin,
            context,
            workers: JoinSet::new(),
            routes: JoinSet::new(),
            others: JoinSet::new(),
            unrouted,
            stop: CancellationToken::new(),
            finish: CancellationToken::new(),
        };
        let guest = Arc::new(GuestRoute::default());
        let producer = guest.producer();
        for (watch, informer) in informers {
            tasks.route(&guest, *watch, informer.clone(), left.clone());
        }
        if let Some(discovered) = discovered {
            tasks.route_discovered(&guest, discovered, left);
        }
        let route = guest.run(tasks.plugin.clone(), tasks.context.clone());
        tasks.routes.spawn_on(route, &tasks.plugin.threads());
        drop(producer);
        let (leading, takes_over) = match *begin {
            Begin::Leading(leading) => (leading, false),
            Begin::TakingOver(leading) => (leading, true),
        };
        tasks.tick(leading);
        tasks.clear_memo_when_leading(leading);
        tasks.tidy();
        tasks.work(concurrency, leading, takes_over);
        tasks
    }

    fn route(
        &mut self,
        guest: &Arc<GuestRoute>,
        watch: usize,
        informer: Informer,
        left: watch::Sender<usize>,
    ) {
        let (plugin, context, finish) = (&self.plugin, &self.context, self.finish.clone());
        let route = WatchRouter::run(plugin, context, guest, watch, informer, left, finish);
        self.routes.spawn_on(route, &self.plugin.threads());
    }

    fn route_discovered(
        &mut self,
        guest: &Arc<GuestRoute>,
        discovered: DiscoveredInformers,
        left: watch::Sender<usize>,
    ) {
        let (plugin, context, guest) = (self.plugin.clone(), self.context.clone(), guest.clone());
        let (watch, finish) = (discovered.watch(), self.finish.clone());
        let producer = guest.producer();
        self.routes.spawn(async move {
            let _producer = producer;
            let each = finish.clone();
            let route = |informer, left| {
                WatchRouter::run(
                    &plugin,
                    &context,
                    &guest,
                    watch,
                    informer,
                    left,
                    each.clone(),
                )
            };
            let ready = || left.send_modify(|left| *left -= 1);
            let threads = plugin.threads();
            discovered
                .run(context.clone(), &threads, route, ready, finish)
                .await;
        });
    }

    fn tick(&mut self, leading: &watch::Receiver<bool>) {
        for ticker in self.context.settings.description.tickers.clone() {
            let (context, mut leading) = (self.context.clone(), leading.clone());
            self.spawn_until_stop(async move {
                if leading.wait_for(|leading| *leading).await.is_ok() {
                    tick(&context, &ticker).await;
                }
            });
        }
    }

    /// Clears the memo when this process becomes the leader, because values that were derived while another process led
    /// may be out of date.
    fn clear_memo_when_leading(&mut self, leading: &watch::Receiver<bool>) {
        if *leading.borrow() {
            return;
        }
        let (context, mut leading) = (self.context.clone(), leading.clone());
        self.spawn_until_stop(async move {
            if leading.wait_for(|leading| *leading).await.is_ok() {
                context.memo.clear();
            }
        });
    }

    fn tidy(&mut self) {
        let (context, plugin) = (self.context.clone(), self.plugin.clone());
        self.spawn_until_stop(async move {
            loop {
                tokio::time::sleep(TIDY).await;
                context.tidy(&plugin.stats());
            }
        });
        self.spawn_until_stop(idle::give_back(self.plugin.clone()));
    }

    fn work(&mut self, concurrency: u32, leading: &watch::Receiver<bool>, takes_over: bool) {
        for queue in 0..self.context.queues.len() {
            let worker = Worker::new(self.plugin.clone(), self.context.clone(), queue);
            let (mut unrouted, mut leading) = (self.unrouted.clone(), leading.clone());
            let (context, stop) = (self.context.clone(), self.stop.clone());
            let pause = match takes_over {
                true => Duration::ZERO,
                false => jittered(self.context.settings.pace.start_interval),
            };
            self.workers.spawn(async move {
                let ready = async {
                    let ready = (takes_over || unrouted.wait_for(|left| *left == 0).await.is_ok())
                        && leading.wait_for(|leading| *leading).await.is_ok();
                    context.queues[queue].end_standby();
                    if !pause.is_zero() {
                        tokio::time::sleep(pause).await;
                    }
                    ready
                };
                tokio::select! {
                    // Not ready if the senders are dropped, which happens only when the host ends.
                    ready = ready => if !ready { return },
                    () = stop.cancelled() => return,
                }
                work(worker, concurrency.max(1), stop).await;
            });
        }
    }

    fn spawn_until_stop(&mut self, task: impl Future<Output = ()> + Send + 'static) {
        let stop = self.stop.clone();
        self.others.spawn(async move {
            tokio::select! {
                () = task => {}
                () = stop.cancelled() => {}
            }
        });
    }

    pub fn context(&self) -> &Arc<PluginContext> {
        &self.context
    }

    pub fn plugin(&self) -> &Plugin {
        &self.plugin
    }

    /// Returns how many watches have not yet routed the initial objects of their informers.
    pub fn unrouted(&self) -> watch::Receiver<usize> {
        self.unrouted.clone()
    }

    /// Takes no more keys, because another version does.
    pub fn hand_over(&self) {
        self.stop.cancel();
        self.context.limits.quarantine.close();
    }

    /// The plugin's name.
    pub fn name(&self) -> &str {
        self.context.name()
    }

    /// Ends a version whose queues another version takes over. Waits for the running calls, and routes the deltas that
    /// this version received until the other one has `routed` its initial objects.
    pub async fn retire(mut self, mut routed: watch::Receiver<usize>, at_most: Duration) {
        self.hand_over();
        // Fails if the other version has ended too.
        let _ = routed.wait_for(|left| *left == 0).await;
        self.finish.cancel();
        while self.routes.join_next().await.is_some() {}
        self.end(Instant::now() + at_most).await;
    }

    /// Takes no more keys, drops the writes that have not started yet, and ends, because the plugin was removed or
    /// lost a grant.
    pub async fn remove(self) {
        self.context.limits.stop.end();
        self.context.split.end();
        self.drain(REMOVAL).await;
    }

    /// Takes no more keys, lets the running calls end, sends the last events, and ends.
    pub async fn drain(mut self, at_most: Duration) {
        self.hand_over();
        for queue in &self.context.queues {
            queue.keys.shutdown();
        }
        self.routes.shutdown().await;
        self.end(Instant::now() + at_most).await;
    }

    async fn end(mut self, deadline: Instant) {
        let ended = tokio::time::timeout_at(deadline, async {
            while self.workers.join_next().await.is_some() {}
        })
        .await;
        if ended.is_err() {
            tracing::warn!(
                plugin = self.name(),
                "stopped reconciles that did not end in time"
            );
            // A host function that does not return would go on.
            self.plugin.stop();
            self.context.split.stop();
            self.workers.shutdown().await;
        }
        self.others.shutdown().await;
        match Arc::try_unwrap(self.context) {
            Ok(context) => {
                let left = deadline.saturating_duration_since(Instant::now());
                context.telemetry.recorder.drain(left).await;
            }
            Err(context) => {
                tracing::debug!(plugin = context.name(), "writes are still in flight");
            }
        }
    }
}
